//! Tests of the library from outside, in one program because linking is what takes time.

// A test stops at the first surprise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod battery;
mod gate;
mod golden_checkpoints;
mod golden_cknna;
mod golden_matching;
mod golden_monosemanticity;
mod golden_probes;
mod golden_stats;
mod golden_training;
mod layering;
mod saebench;
mod store;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use etalon::budget::Budget;
use etalon::error::Result;
use etalon::input::Finite;
use etalon::metrics::{Metric, evaluate, find, recipe};
use etalon::progress::Silent;
use etalon::results::{Profile, ResultFile, Scores};
use etalon::run::{Engine, Inputs};
use etalon::study::Paths;
use serde_json::Value;

/// A file below `tests/golden`.
fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// A golden JSON file.
fn golden_json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

/// Everything in `tests/golden/matching`, read as the program reads it.
fn matching_inputs() -> Inputs {
    let paths = Paths {
        codes: Some("codes.npy".into()),
        embeddings: Some("embeddings.npy".into()),
        labels: Some("labels.npy".into()),
        ..Paths::default()
    };
    paths.load(&golden("matching"), Finite::Refuse, &Budget::new(1 << 30)).unwrap()
}

/// A metric by itself, with the time it took left out.
fn run(
    metric: &dyn Metric,
    inputs: &Inputs,
    given: &[(&str, &str)],
    profile: Profile,
    seed: u64,
    threads: usize,
) -> Result<ResultFile> {
    let cancel = AtomicBool::new(false);
    let engine = Engine::new(threads, Budget::new(1 << 30), &Silent, &cancel)?;
    let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let recipe = recipe(metric, inputs, &given, profile, seed)?;
    let mut result = evaluate(metric, inputs, recipe, &engine)?;
    result.seconds = 0.0;
    Ok(result)
}

/// The scores of a metric by name.
fn scores(metric: &str, inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    run(find(metric).unwrap(), inputs, given, profile, 0, 2).unwrap().scores
}
