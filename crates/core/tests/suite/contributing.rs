//! The example metric of CONTRIBUTING.md works.

#[path = "../../examples/firing_rate.rs"]
mod firing_rate;

use etalon::codes::Codes;
use etalon::prelude::*;

#[test]
fn the_example_runs() {
    firing_rate::main().unwrap();
}

#[test]
fn without_rows_the_score_is_undefined_with_a_note() {
    let inputs = Inputs::default().with(&CODES, Codes::from_dense(&[], 2).unwrap());
    let metric = firing_rate::FiringRate;
    let recipe = recipe(&metric, &inputs, &Default::default(), Profile::Paper, 0).unwrap();
    let result = evaluate(&metric, &inputs, &recipe, &Context::silent(1, 1 << 20).unwrap()).unwrap();
    assert!(result.scores.value("firing_rate").is_none() && result.scores.notes.len() == 1);
}
