//! Evaluates a metric on a set of inputs: first the recipe, then the result.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use super::Metric;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::results::{Profile, Recipe, ResultFile};
use crate::run::{Inputs, Job, Kept, Member, Mode, Outcome, Scanner, Work};

/// Checks inputs and parameters and returns the recipe of an evaluation. Its id names the result.
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
        inputs: inputs.ids(&card.roles())?,
    })
}

/// How to run an evaluation.
#[derive(Clone, Default)]
pub struct Evaluation<'a> {
    /// Store finished units in this directory, and reuse those that are stored there.
    pub units: Option<&'a Path>,
    /// Run everything, or only some units of a stage.
    pub mode: Mode,
    /// Leaves per unit of a pass, a power of two; `None` chooses a default.
    pub unit_leaves: Option<usize>,
}

/// The outcome of an evaluation.
#[derive(Debug)]
pub enum Evaluated {
    /// The result.
    Done(Box<ResultFile>),
    /// The requested units are stored.
    Stored,
    /// Some units of a stage must run first.
    Waiting {
        /// The key of the stage, for [`Mode::Units`].
        stage: String,
        /// The units that are not stored yet.
        missing: Vec<usize>,
    },
}

impl Evaluation<'_> {
    /// Runs a recipe, or a part of it, in the thread pool of the context.
    pub fn run(&self, metric: &dyn Metric, inputs: &Inputs, recipe: &Recipe, context: &Context) -> Result<Evaluated> {
        let inputs = inputs.completed();
        // Inside the pool, so that short parallel loops between stages use its threads too.
        context.install(|| self.call(metric, &inputs, recipe, context, None))
    }

    /// Calls the metric's function on this thread.
    fn call(
        &self,
        metric: &dyn Metric,
        inputs: &Inputs,
        recipe: &Recipe,
        context: &Context,
        member: Option<&Member<'_>>,
    ) -> Result<Evaluated> {
        // A metric without stages does not check for cancellation itself.
        context.check()?;
        let began = Instant::now();
        let kept = match self.units {
            Some(directory) => Some(Kept::new(directory, &recipe.id()?)),
            None => None,
        };
        let job = Job { inputs, params: &recipe.params, profile: recipe.profile, seed: recipe.seed, context };
        let title = metric.card().title;
        let work = Work::new(title, inputs, context, kept.as_ref(), self.mode.clone(), self.unit_leaves);
        let mut work = if let Some(member) = member { work.in_step(member) } else { work };
        let scores = metric.run(&job, &mut work);
        Ok(match work.conclude(scores)? {
            Outcome::Stored => Evaluated::Stored,
            Outcome::Waiting { stage, missing } => Evaluated::Waiting { stage, missing },
            Outcome::Done(mut scores) => {
                scores.notes.extend(inputs.notes(&metric.card().roles()));
                scores.check()?;
                let etalon = env!("CARGO_PKG_VERSION").to_string();
                let seconds = began.elapsed().as_secs_f64();
                Evaluated::Done(Box::new(ResultFile { etalon, recipe: recipe.clone(), scores, seconds }))
            }
        })
    }
}

/// Runs a recipe in this process, without storing units.
pub fn evaluate(metric: &dyn Metric, inputs: &Inputs, recipe: &Recipe, context: &Context) -> Result<ResultFile> {
    done(Evaluation::default().run(metric, inputs, recipe, context))
}

fn done(evaluated: Result<Evaluated>) -> Result<ResultFile> {
    match evaluated? {
        Evaluated::Done(result) => Ok(*result),
        other => Err(Error::Bug(format!("a local evaluation ended with {other:?}"))),
    }
}

/// Runs several recipes on the same inputs. Passes over the same rows share one scan.
///
/// Returns the same results, in the same order, as running them one by one. Calls `each` with every result as soon as it
/// is complete.
pub fn evaluate_together<T: Send>(
    work: &[(&'static dyn Metric, Recipe)],
    inputs: &Inputs,
    units: Option<&Path>,
    context: &Context,
    each: impl Fn(usize, ResultFile) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let inputs = inputs.completed();
    let evaluation = Evaluation { units, ..Evaluation::default() };
    if let [(metric, recipe)] = work {
        let result = context.install(|| evaluation.call(*metric, &inputs, recipe, context, None));
        return vec![done(result).and_then(|result| each(0, result))];
    }
    let scanner = Scanner::new(work.len());
    let run = |index: usize, (metric, recipe): &(&'static dyn Metric, Recipe)| {
        let member = scanner.member(index);
        // A pool of one thread: it can block at a pass without blocking the other metrics.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let pool = pool.map_err(|error| Error::Bug(format!("no threads: {error}")))?;
        let result = pool.install(|| evaluation.call(*metric, &inputs, recipe, context, Some(&member)));
        done(result).and_then(|result| each(index, result))
    };
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> =
            work.iter().enumerate().map(|(index, one)| scope.spawn(move || run(index, one))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<T>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}
