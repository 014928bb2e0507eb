//! The engine with small metrics that exist only here.

mod shared_scans;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::erased::AnyState;
use super::tree::Sequence;
use super::*;
use crate::codes::Codes;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{Better, Card, Evaluated, Evaluation, Metric, Output, evaluate, recipe};
use crate::results::{Profile, Recipe, Scores};
use crate::state;

/// Sums a third of every value: the last bits differ unless sums follow the tree.
struct Thirds {
    /// Number of batches and blocks that were run.
    runs: AtomicUsize,
}

static CARD: Card = Card {
    name: "thirds",
    title: "Thirds",
    summary: "A test",
    version: 1,
    measures: "",
    definition: "",
    cost: "",
    source: "",
    interval: "",
    needs: &[&CODES],
    uses: &[],
    headline: &[Output { key: "sum", doc: "", range: (0.0, f64::MAX), better: Better::Neither }],
    params: &[],
};

#[derive(Serialize, Deserialize)]
struct Sums {
    thirds: Sum,
    rows: Count,
}

state!(Sums { thirds, rows });

impl Sums {
    fn new() -> Sums {
        Sums { thirds: Sum::new(1), rows: Count::new(1) }
    }

    fn add(&mut self, codes: crate::codes::CodesView<'_>) {
        for (_, _, values) in codes.iter() {
            values.iter().for_each(|&value| self.thirds[0] += f64::from(value) / 3.0);
            self.rows[0] += 1;
        }
    }
}

impl Metric for Thirds {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let sums = work.pass("thirds", Over::ROWS, Sums::new, |sums, rows| {
            self.runs.fetch_add(1, Ordering::Relaxed);
            sums.add(rows.get(&CODES)?);
            Ok(())
        })?;
        let shared = Lazy::new(|| Ok(sums.rows[0]));
        let squares = work.blocks_with(&shared, "squares", 100, |rows, block| {
            self.runs.fetch_add(1, Ordering::Relaxed);
            Ok((*rows as f64).sqrt() * block as f64)
        })?;
        let counted = work.fold(
            "blocks",
            7,
            || Count::new(1),
            |count, block| {
                count.add(0, block as u64);
                Ok(())
            },
        )?;
        // Five units of rows, the last one shorter.
        let in_order = work.pass_in_order(
            "rows in order",
            Over::ROWS,
            70_000,
            || Count::new(1),
            |count, rows| {
                let batches = rows.split(1000);
                assert!(batches.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
                batches.iter().for_each(|batch| count.add(0, batch.range.len() as u64));
                Ok(())
            },
        )?;
        assert_eq!(in_order[0], sums.rows[0]);
        let root = work.once("root", || Ok(sums.thirds[0].sqrt()))?;
        let mut scores = Scores::default();
        let total = squares.iter().sum::<f64>() + counted[0] as f64 + root + sums.thirds[0];
        scores.headline("sum", Some(total), None, job.get(&CODES)?.rows());
        Ok(scores)
    }
}

fn thirds() -> Thirds {
    Thirds { runs: AtomicUsize::new(0) }
}

fn inputs() -> Inputs {
    let values: Vec<f32> = (0..900_000).map(|i| (i % 1013) as f32 * 0.37).collect();
    Inputs::default().with(&CODES, Codes::from_dense(&values, 3).unwrap())
}

fn recipe_of(metric: &dyn Metric, inputs: &Inputs) -> Recipe {
    recipe(metric, inputs, &BTreeMap::new(), Profile::Paper, 0).unwrap()
}

fn context(threads: usize) -> Context {
    Context::silent(threads, 1 << 26).unwrap()
}

fn sum(scores: &Scores) -> f64 {
    scores.value("sum").unwrap()
}

fn local(inputs: &Inputs, threads: usize) -> f64 {
    let (metric, context) = (thirds(), context(threads));
    let result = evaluate(&metric, inputs, &recipe_of(&metric, inputs), &context).unwrap();
    assert_eq!(context.budget().left(), 1 << 26);
    sum(&result.scores)
}

#[test]
fn neither_threads_nor_units_change_a_bit() {
    let inputs = inputs();
    let one = local(&inputs, 1);
    for threads in [2, 7] {
        assert_eq!(local(&inputs, threads).to_bits(), one.to_bits());
    }
    let metric = thirds();
    let recipe = recipe_of(&metric, &inputs);
    for leaves in [1, 4, 64] {
        let evaluation = Evaluation { unit_leaves: Some(leaves), ..Evaluation::default() };
        let done = evaluation.run(&metric, &inputs, &recipe, &context(2)).unwrap();
        let Evaluated::Done(result) = done else { panic!("{done:?}") };
        assert_eq!(sum(&result.scores).to_bits(), one.to_bits(), "{leaves} leaves");
    }
}

#[test]
fn rows_in_uneven_batches_give_the_bits_of_a_file() {
    let inputs = inputs();
    let codes = inputs.find(&CODES).unwrap();
    // A stream of unknown length: the borders of leaves do not depend on how rows arrive.
    let (mut sequence, mut state, mut leaf, mut row) = (Sequence::default(), Sums::new(), 0, 0);
    for length in [1, 700, 5000, 123].into_iter().cycle() {
        let end = (row + length).min(codes.rows());
        while row < end {
            let range = leaves::rows(leaf, usize::MAX / 4);
            let stop = end.min(range.end);
            state.add(codes.view(row..stop).unwrap());
            row = stop;
            if row == range.end {
                sequence.push(AnyState::new(std::mem::replace(&mut state, Sums::new()))).unwrap();
                leaf += 1;
            }
        }
        if row == codes.rows() {
            break;
        }
    }
    if row > leaves::rows(leaf, usize::MAX / 4).start {
        sequence.push(AnyState::new(state)).unwrap();
    }
    let streamed: Sums = sequence.finish().unwrap().unwrap().into_inner().unwrap();
    let metric = thirds();
    let passed = crate::metrics::testing::with_work(&metric, &inputs, &context(3), |_, work| {
        work.pass("thirds", Over::ROWS, Sums::new, |sums, rows| {
            sums.add(rows.get(&CODES)?);
            Ok(())
        })
    });
    let passed = passed.unwrap();
    assert_eq!(streamed.thirds[0].to_bits(), passed.thirds[0].to_bits());
    assert_eq!((streamed.rows[0], passed.rows[0]), (300_000, 300_000));
}

/// Runs every unit in a separate call, the last first, as a scheduler could. `damage` corrupts one file and deletes
/// another.
fn unit_by_unit(metric: &Thirds, inputs: &Inputs, directory: &Path, damage: bool) -> f64 {
    let recipe = recipe_of(metric, inputs);
    let call = |mode: Mode| {
        let evaluation = Evaluation { units: Some(directory), mode, ..Evaluation::default() };
        evaluation.run(metric, inputs, &recipe, &context(1)).unwrap()
    };
    let mut damaged = !damage;
    loop {
        match call(Mode::Merge) {
            Evaluated::Done(result) => return sum(&result.scores),
            Evaluated::Stored => panic!("a merge stores nothing"),
            Evaluated::Waiting { stage, missing } => {
                for &unit in missing.iter().rev() {
                    let done = call(Mode::Units(stage.clone(), unit..unit + 1));
                    assert!(matches!(done, Evaluated::Stored), "{done:?}");
                }
                if !damaged {
                    damaged = true;
                    let mut files: Vec<_> =
                        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
                    files.sort();
                    std::fs::write(&files[1], b"not a state").unwrap();
                    std::fs::remove_file(&files[2]).unwrap();
                    let Evaluated::Waiting { missing, .. } = call(Mode::Merge) else {
                        panic!("damage was not detected")
                    };
                    assert_eq!(missing.len(), 2);
                }
            }
        }
    }
}

#[test]
fn units_of_other_processes_give_the_same_bits() {
    let (inputs, directory) = (inputs(), tempfile::tempdir().unwrap());
    assert_eq!(unit_by_unit(&thirds(), &inputs, directory.path(), true).to_bits(), local(&inputs, 2).to_bits());
}

#[test]
fn finished_units_and_stages_are_not_run_again() {
    let (inputs, directory, metric) = (inputs(), tempfile::tempdir().unwrap(), thirds());
    let recipe = recipe_of(&metric, &inputs);
    let evaluation = Evaluation { units: Some(directory.path()), ..Evaluation::default() };
    let run = || match evaluation.run(&metric, &inputs, &recipe, &context(2)).unwrap() {
        Evaluated::Done(result) => sum(&result.scores),
        other => panic!("{other:?}"),
    };
    let first = run();
    let before = metric.runs.load(Ordering::Relaxed);
    assert_eq!((run().to_bits(), metric.runs.load(Ordering::Relaxed)), (first.to_bits(), before));
    let kept = Kept::new(directory.path(), &recipe.id().unwrap());
    kept.forget().unwrap();
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    assert_eq!((run().to_bits(), metric.runs.load(Ordering::Relaxed)), (first.to_bits(), 2 * before));
}

#[test]
fn a_worker_with_other_inputs_is_refused() {
    let (inputs, directory, metric) = (inputs(), tempfile::tempdir().unwrap(), thirds());
    let recipe = recipe_of(&metric, &inputs);
    let call = |inputs: &Inputs, mode: Mode| {
        let evaluation = Evaluation { units: Some(directory.path()), mode, ..Evaluation::default() };
        evaluation.run(&metric, inputs, &recipe, &context(1))
    };
    let Evaluated::Waiting { stage, .. } = call(&inputs, Mode::Merge).unwrap() else { panic!("nothing to do") };
    let fewer = Inputs::default().with(&CODES, Codes::from_dense(&[1.0; 3000], 3).unwrap());
    assert!(call(&fewer, Mode::Units(stage.clone(), 0..1)).is_err());
    assert!(call(&inputs, Mode::Units(stage.clone(), 0..100_000)).is_err());
    // A worker of a later stage waits for the earlier ones.
    let later = call(&inputs, Mode::Units("7-0000000000000000".into(), 0..1)).unwrap();
    assert!(matches!(later, Evaluated::Waiting { .. }), "{later:?}");
    assert!(matches!(call(&inputs, Mode::Units(stage, 0..1)), Ok(Evaluated::Stored)));
}

/// Discards the error of a stage, which must not become a result.
struct DiscardsError;

impl Metric for DiscardsError {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, _: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let value = work.once("fails", || Err::<f64, _>(Error::Bug("broken".into()))).ok();
        let mut scores = Scores::default();
        scores.headline("sum", value, None, 0);
        Ok(scores)
    }
}

#[test]
fn a_discarded_error_is_reported() {
    let inputs = inputs();
    let error = evaluate(&DiscardsError, &inputs, &recipe_of(&DiscardsError, &inputs), &context(1)).unwrap_err();
    assert!(error.to_string().contains("broken"), "{error}");
}

#[test]
fn cancelling_stops_every_stage() {
    let (inputs, metric, context) = (inputs(), thirds(), context(2));
    context.cancel();
    let error = evaluate(&metric, &inputs, &recipe_of(&metric, &inputs), &context).unwrap_err();
    assert!(matches!(error, Error::Cancelled));
    assert_eq!(metric.runs.load(Ordering::Relaxed), 0);
}

#[test]
fn a_table_of_units_is_an_input_like_any_other() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(
        directory.path().join("units.csv"),
        "model,layer,type,depth,width\nr50,layer1.0,conv,0.1,64\nr50,fc,,,\n",
    )
    .unwrap();
    let given = crate::load::Given::default().with("units", "units.csv");
    let opening = crate::load::Opening::at(directory.path());
    let opened = given.open(&opening, &context(1)).unwrap().inputs;
    let units = opened.find(&UNITS).unwrap();
    assert_eq!(
        (units.units[0].layer.as_str(), units.units[0].width, units.units[1].depth),
        ("layer1.0", Some(64), None)
    );
    // Three latents do not fit two units.
    let error = opened.with(&CODES, Codes::from_dense(&[1.0; 3], 3).unwrap()).check().unwrap_err().to_string();
    assert!(error.contains("differ in latents") && error.contains("units.csv"), "{error}");
    std::fs::write(directory.path().join("units.csv"), "layer,depth\na,2\n").unwrap();
    let error = given.open(&opening, &context(1)).unwrap_err().to_string();
    assert!(error.contains("line 2") && error.contains("0 to 1"), "{error}");
}

/// Counts the rows that pairs point into.
struct PairRows;

impl Metric for PairRows {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let sums = work.pass("pair rows", Over::PAIR_ROWS, Sums::new, |sums, rows| {
            sums.add(rows.get(&PAIR_CODES)?);
            Ok(())
        })?;
        let mut scores = Scores::default();
        scores.headline("sum", Some(sums.thirds[0]), None, sums.rows[0] as usize);
        assert_eq!(job.inputs.rows(Over::PAIR_ROWS)?, 3);
        Ok(scores)
    }
}

#[test]
fn a_pass_over_pair_rows_visits_the_rows_that_pairs_point_into() {
    let codes = |values: &[f32]| Codes::from_dense(values, 1).unwrap();
    let inputs = Inputs::default().with(&CODES, codes(&[1.0; 5])).with(&PAIR_CODES, codes(&[3.0, 0.0, 6.0]));
    let result = evaluate(&PairRows, &inputs, &recipe_of(&PairRows, &inputs), &context(2)).unwrap();
    assert_eq!((result.scores.value("sum"), result.scores.headline[0].n), (Some(3.0), 3));
}
