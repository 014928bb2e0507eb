//! Trains a dictionary.

use std::collections::BTreeMap;
use std::path::PathBuf;

use etalon::error::{Error, Result};
use etalon::sae::checkpoint;
use etalon::sae::train::{Line, Log, Preset, TrainOptions};
use etalon::study::{Changes, TrainingGrid};
use pyo3::prelude::*;

use crate::arrays::Rows;
use crate::dictionary::Dictionary;
use crate::session::Session;

/// What a dictionary is like and how it is trained; the fields of `etalon train`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct TrainingWish {
    arch: String,
    latents: Vec<usize>,
    k: Vec<usize>,
    seed: u64,
    preset: String,
    batch: usize,
    steps: Option<u64>,
    epochs: Option<f64>,
    lr: Option<f64>,
    warmup: Option<u64>,
    decay_start: Option<u64>,
    clip: Option<f64>,
    normalise: bool,
    params: BTreeMap<String, String>,
    log_every: u64,
    out: PathBuf,
}

/// Trains a dictionary or makes a baseline in a directory and returns it. `callback` is called with every line of the log, as JSON.
#[pyfunction]
pub fn train(
    py: Python<'_>,
    session: &Session,
    rows: &Rows,
    wish: TrainingWish,
    callback: Option<Py<PyAny>>,
) -> PyResult<Dictionary> {
    let mut log = Callback { function: callback, failed: None };
    let outcome = session.run(py, |context| {
        let archs = [wish.arch.clone()];
        let changes = Changes {
            batch: wish.batch,
            steps: wish.steps,
            epochs: wish.epochs,
            rate: wish.lr,
            warmup: wish.warmup,
            decay_start: wish.decay_start,
            clip: wish.clip,
            normalise: wish.normalise,
            params: wish.params.clone(),
            ..Changes::default()
        };
        let grid = TrainingGrid {
            archs: &archs,
            latents: &wish.latents,
            ks: &wish.k,
            seeds: &[wish.seed],
            preset: Preset::named(&wish.preset)?,
            changes,
            initial: None,
            out: &wish.out,
        };
        let plan = grid.plan(&rows.0)?;
        for baseline in &plan.baselines {
            context.install(|| baseline.run(&rows.0, None, context))?;
        }
        if !plan.jobs.is_empty() {
            let options = TrainOptions { seed: wish.seed, log_every: wish.log_every, ..TrainOptions::default() };
            context.install(|| etalon::sae::train::train(&rows.0, &plan.jobs, &options, &mut log, context))?;
        }
        checkpoint::load(&wish.out, context.budget()).map(Dictionary::of)
    });
    match log.failed.take() {
        Some(error) => Err(error),
        None => outcome,
    }
}

/// Hands the log to Python.
struct Callback {
    function: Option<Py<PyAny>>,
    /// What the function raised.
    failed: Option<PyErr>,
}

impl Log for Callback {
    fn begin(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn line(&mut self, line: &Line) -> Result<()> {
        let Some(function) = &self.function else { return Ok(()) };
        let text = serde_json::to_string(line).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        Python::attach(|py| function.call1(py, (text,)).map(drop)).map_err(|error| {
            self.failed = Some(error);
            Error::Cancelled
        })
    }
}
