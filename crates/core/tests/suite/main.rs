//! Tests of the library from outside, in one program because linking is what takes time.

// A test stops at the first surprise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod battery;
mod closures;
mod contributing;
mod gate;
mod golden_checkpoints;
mod golden_cknna;
mod golden_matching;
mod golden_monosemanticity;
mod golden_overcomplete;
mod golden_pickles;
mod golden_probes;
mod golden_stats;
mod golden_training;
mod layering;
mod logit_effects;
mod saebench;
mod steer;
mod store;
mod toy_network;
mod unlearning;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use etalon::context::Context;
use etalon::error::Result;
use etalon::load::{Given, Opening};
use etalon::metrics::{Metric, evaluate, find, recipe};
use etalon::results::{Profile, Recipe, ResultFile, Scores};
use etalon::run::Inputs;
use serde_json::Value;

/// The memory limit of most tests.
const MEMORY: u64 = 1 << 30;

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
    let given =
        Given::default().with("codes", "codes.npy").with("embeddings", "embeddings.npy").with("labels", "labels.npy");
    let context = Context::silent(1, MEMORY).unwrap();
    given.open(&Opening::at(&golden("matching")), &context).unwrap().inputs
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
    let context = Context::silent(threads, MEMORY)?;
    let mut result = evaluate(metric, inputs, &recipe_of(metric, inputs, given, profile, seed)?, &context)?;
    result.seconds = 0.0;
    Ok(result)
}

/// What an evaluation with some parameters will be.
fn recipe_of(
    metric: &dyn Metric,
    inputs: &Inputs,
    given: &[(&str, &str)],
    profile: Profile,
    seed: u64,
) -> Result<Recipe> {
    let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    recipe(metric, inputs, &given, profile, seed)
}

/// The scores of a metric by name.
fn scores(metric: &str, inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    run(find(metric).unwrap(), inputs, given, profile, 0, 2).unwrap().scores
}
