//! One metric on one set of inputs: the recipe, then the result.

use std::collections::BTreeMap;
use std::time::Instant;

use super::Metric;
use crate::error::Result;
use crate::results::{Profile, Recipe, ResultFile};
use crate::run::{Engine, Inputs, Job};

/// What an evaluation will be, before it is done: its id names the result.
pub fn recipe(
    metric: &dyn Metric,
    inputs: &Inputs,
    given: &BTreeMap<String, String>,
    profile: Profile,
    seed: u64,
) -> Result<Recipe> {
    let card = metric.card();
    card.check_needs(inputs)?;
    inputs.check()?;
    Ok(Recipe {
        metric: card.name.into(),
        version: card.version,
        profile,
        seed,
        params: card.params(profile, given)?,
        inputs: inputs.ids(|role| card.needs.iter().chain(card.uses).any(|need| need.roles().contains(&role)))?,
    })
}

/// Does what a recipe says.
pub fn evaluate(metric: &dyn Metric, inputs: &Inputs, recipe: Recipe, engine: &Engine<'_>) -> Result<ResultFile> {
    let began = Instant::now();
    let job =
        Job { inputs, params: &recipe.params, profile: recipe.profile, seed: recipe.seed, budget: &engine.budget };
    let id = recipe.id()?;
    let first = engine.install(|| metric.start(&job))?;
    let scores = engine.finish(metric.card().title, &id, first, &job)?;
    let etalon = env!("CARGO_PKG_VERSION").to_string();
    Ok(ResultFile { etalon, recipe, scores, seconds: began.elapsed().as_secs_f64() })
}
