//! What the tests of metrics share.

use std::collections::BTreeMap;

use super::{Metric, evaluate, recipe};
use crate::context::Context;
use crate::error::Result;
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

/// Runs a part of a metric.
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
