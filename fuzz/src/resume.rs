//! Files of unfinished work, read by resuming it: finished units of an evaluation, and the state of a training.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use etalon::codes::Codes;
use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::metrics::{self, Evaluated, Evaluation};
use etalon::results::{Profile, Scores};
use etalon::run::{CODES, EMBEDDINGS, Inputs};
use etalon::sae::arch;
use etalon::sae::train::{Line, Log, Preset, TrainJob, TrainOptions, TrainingSettings, train};

use crate::seeds::{Seeds, directory, rows};

fn context() -> Result<Context> {
    Context::silent(1, 1 << 26)
}

/// Scores of a metric with a pass over rows; finished units are kept in a directory and reused.
fn evaluate(units: Option<&Path>) -> Result<Scores> {
    let codes = Codes::from_dense(&[0.0, 1.0, 0.0, 2.0, 0.0, 3.0, 4.0, 0.5], 2)?;
    let inputs = Inputs::default().with(&CODES, codes).with(&EMBEDDINGS, rows()?);
    let metric = metrics::find("monosemanticity").ok_or_else(|| Error::Bug("the metric is gone".into()))?;
    let recipe = metrics::recipe(metric, &inputs, &BTreeMap::new(), Profile::Paper, 0)?;
    match (Evaluation { units, ..Evaluation::default() }).run(metric, &inputs, &recipe, &context()?)? {
        Evaluated::Done(result) => Ok(result.scores),
        other => Err(Error::Bug(format!("the evaluation ended with {other:?}"))),
    }
}

pub fn unit_seeds() -> Seeds {
    let scratch = tempfile::tempdir()?;
    evaluate(Some(scratch.path()))?;
    directory(scratch.path())
}

/// A damaged unit is computed again: the scores do not change.
pub fn read_units(units: &Path) -> Result<()> {
    if evaluate(Some(units))? == evaluate(None)? {
        return Ok(());
    }
    Err(Error::Bug("a damaged unit changed the scores".into()))
}

/// Interrupts a training at a step.
struct Interrupt(Option<u64>);

impl Log for Interrupt {
    fn begin(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        if Some(line.step) == self.0 { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Trains the dictionary `sae` of a directory, or resumes its training.
fn train_in(directory: &Path, save_every: Duration, interrupt: Option<u64>) -> Result<()> {
    let settings = arch::find("topk")?.settings(Preset::Etalon, 3, 4);
    let settings = TrainingSettings { k: 2, batch: 4, steps: 4, ..settings };
    let job = TrainJob { settings, initial: None, out: directory.join("sae") };
    let options = TrainOptions { save_every, log_every: 1, ..TrainOptions::default() };
    let context = context()?;
    context.install(|| train(&rows()?, &[job], &options, &mut Interrupt(interrupt), &context)).map(drop)
}

pub fn training_seeds() -> Seeds {
    let scratch = tempfile::tempdir()?;
    match train_in(scratch.path(), Duration::ZERO, Some(2)) {
        Err(Error::Cancelled) => directory(scratch.path()),
        other => Err(format!("the training was not interrupted: {other:?}").into()),
    }
}

/// Resumes a copy of the training, because finishing it removes its state.
pub fn read_training(unfinished: &Path) -> Result<()> {
    let io = |error: std::io::Error| Error::io("copy a training", unfinished)(error);
    let copy = tempfile::tempdir_in(unfinished.parent().unwrap_or(unfinished)).map_err(io)?;
    let state = "sae.training";
    fs::create_dir(copy.path().join(state)).map_err(io)?;
    for entry in fs::read_dir(unfinished.join(state)).map_err(io)? {
        let entry = entry.map_err(io)?;
        fs::copy(entry.path(), copy.path().join(state).join(entry.file_name())).map_err(io)?;
    }
    train_in(copy.path(), Duration::MAX, None)
}
