//! Helpers of the tests of metrics.

use std::collections::BTreeMap;

use super::{Metric, evaluate, recipe};
use crate::codes::Codes;
use crate::context::Context;
use crate::error::Result;
use crate::labels::{Annotations, Label};
use crate::results::{Profile, Scores};
use crate::run::{Inputs, Job, Mode, Work};

/// The scores of a metric with some parameters, seed 3.
pub fn scores(
    metric: &dyn Metric,
    inputs: &Inputs,
    given: &[(&str, &str)],
    profile: Profile,
    threads: usize,
) -> Result<Scores> {
    let context = Context::silent(threads, 1 << 30)?;
    let given = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = recipe(metric, inputs, &given, profile, 3)?;
    Ok(evaluate(metric, inputs, &recipe, &context)?.scores)
}

/// The scores with one thread, after a check that two and seven threads give the same.
pub fn scores_with_any_threads(
    metric: &dyn Metric,
    inputs: &Inputs,
    given: &[(&str, &str)],
    profile: Profile,
) -> Scores {
    let [one, two, seven] = [1, 2, 7].map(|threads| scores(metric, inputs, given, profile, threads).unwrap());
    assert_eq!(two, one, "two threads change the scores");
    assert_eq!(seven, one, "seven threads change the scores");
    one
}

/// Runs a part of a metric, seed 3.
pub fn with_work<T: Send>(
    metric: &dyn Metric,
    inputs: &Inputs,
    context: &Context,
    part: impl FnOnce(&Job<'_>, &mut Work<'_>) -> Result<T> + Send,
) -> Result<T> {
    let inputs = inputs.completed();
    let params = metric.card().params(Profile::Paper, &BTreeMap::new())?;
    let job = Job { inputs: &inputs, params: &params, profile: Profile::Paper, seed: 3, context };
    context.install(|| part(&job, &mut Work::new("test", &inputs, context, None, Mode::Local, None)))
}

/// Codes from dense values, row by row.
pub fn codes(values: &[f32], latents: usize) -> Codes {
    Codes::from_dense(values, latents).unwrap()
}

/// Labels from one string per concept with `y`, `n` or `?` for every row. Concepts are named c0, c1, …
pub fn labels(concepts: &[&str]) -> Annotations {
    let rows = concepts.first().map_or(0, |cells| cells.len());
    labels_by(concepts.len(), rows, |row, concept| match concepts[concept].as_bytes()[row] {
        b'y' => Label::Yes,
        b'n' => Label::No,
        _ => Label::Unknown,
    })
}

/// Labels from a function of row and concept. Concepts are named c0, c1, …
pub fn labels_by(concepts: usize, rows: usize, label: impl Fn(usize, usize) -> Label) -> Annotations {
    Annotations::new((0..concepts).map(|concept| format!("c{concept}")).collect(), rows, label).unwrap()
}

/// `Yes` or `No`.
pub fn yes_if(is: bool) -> Label {
    if is { Label::Yes } else { Label::No }
}

/// A column of a table as numbers.
pub fn column(scores: &Scores, table: &str, name: &str) -> Vec<Option<f64>> {
    let cells = scores.table(table).unwrap().column(name).unwrap();
    (0..cells.len()).map(|row| cells.number(row)).collect()
}
