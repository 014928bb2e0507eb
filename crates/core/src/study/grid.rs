//! The grid: every set × metric × seed is one recipe, one result file, and nothing is computed twice.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{self, Metric, evaluate_together, recipe};
use crate::results::{Archive, Profile, Recipe, ResultFile, Stored};
use crate::run::{CODES, DICTIONARY, Inputs, Kept};

/// Inputs under a name, such as "trained, 4096 latents, seed 1".
pub struct Set {
    /// The name in tables and figures.
    pub name: String,
    /// What is evaluated.
    pub inputs: Inputs,
    /// What else a report may want to know: dictionary size, sparsity, architecture, seed.
    pub about: BTreeMap<String, Value>,
}

impl Set {
    /// A set that knows its dictionary's size and architecture, and the mean number of active latents.
    pub fn new(name: &str, inputs: Inputs) -> Set {
        let mut about = BTreeMap::new();
        if let Some(codes) = inputs.find(&CODES) {
            about.insert("latents".into(), json!(codes.latents()));
            if codes.rows() > 0 {
                about.insert("l0".into(), json!(codes.entries() as f64 / codes.rows() as f64));
            }
        }
        if let Some(dictionary) = inputs.find(&DICTIONARY) {
            about.insert("architecture".into(), json!(dictionary.card().arch));
            about.insert("width".into(), json!(dictionary.card().width));
            about.extend(dictionary.card().k.map(|k| ("k".into(), json!(k))));
        }
        Set { name: name.into(), inputs, about }
    }
}

/// What a result says about its inputs.
pub(super) fn about_cell(set: &Set) -> BTreeMap<String, Value> {
    let mut about = set.about.clone();
    about.insert("inputs".into(), json!(set.name));
    about
}

/// What to do with every set.
pub struct Grid<'a> {
    /// Metrics, each with the parameters that were given for it.
    pub metrics: Vec<(&'static dyn Metric, BTreeMap<String, String>)>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Paper or reference.
    pub profile: Profile,
    /// Where results go.
    pub archive: &'a Archive,
    /// Where finished units are kept, so that a killed run loses little.
    pub units: Option<&'a Path>,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
}

/// What became of a grid.
#[derive(Debug, Default)]
pub struct GridOutcome {
    /// Cells computed now.
    pub computed: usize,
    /// Cells that were there already.
    pub kept: usize,
    /// Cells left out because a set lacks what the metric needs: metric and set.
    pub lacking: Vec<(String, String)>,
    /// Cells that failed.
    pub failed: Vec<Failure>,
}

/// A cell that failed; the others are not affected.
#[derive(Debug)]
pub struct Failure {
    /// The set.
    pub set: String,
    /// The metric.
    pub metric: String,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub error: Error,
}

impl GridOutcome {
    /// Notes that a cell failed; cancelling is passed on.
    fn fail(&mut self, set: &Set, metric: &str, seed: u64, error: Error) -> Result<()> {
        if matches!(error, Error::Cancelled) {
            return Err(error);
        }
        self.failed.push(Failure { set: set.name.clone(), metric: metric.into(), seed, error });
        Ok(())
    }

    /// Adds what became of another part.
    pub fn add(&mut self, other: GridOutcome) {
        self.computed += other.computed;
        self.kept += other.kept;
        self.lacking.extend(other.lacking);
        self.failed.extend(other.failed);
    }
}

impl Grid<'_> {
    /// The metrics that take seconds, with default parameters.
    pub fn quick_metrics() -> Vec<(&'static dyn Metric, BTreeMap<String, String>)> {
        let mut metrics = Grid::all_metrics();
        metrics.retain(|(metric, _)| !metrics::SLOW.contains(&metric.card().name));
        metrics
    }

    /// All metrics, with default parameters.
    pub fn all_metrics() -> Vec<(&'static dyn Metric, BTreeMap<String, String>)> {
        metrics::METRICS.iter().map(|metric| (*metric, BTreeMap::new())).collect()
    }

    /// Evaluates whatever is not in the archive yet; the metrics of a set run in step. Only cancelling stops it half-way.
    pub fn run(&self, sets: &[Set]) -> Result<GridOutcome> {
        let mut outcome = GridOutcome::default();
        for set in sets {
            self.run_set(set, &mut outcome)?;
        }
        Ok(outcome)
    }

    fn run_set(&self, set: &Set, outcome: &mut GridOutcome) -> Result<()> {
        let about = about_cell(set);
        let mut work: Vec<(&'static dyn Metric, Recipe)> = Vec::new();
        for (metric, given) in &self.metrics {
            let name = metric.card().name;
            if metric.card().check_needs(&set.inputs).is_err() {
                outcome.lacking.push((name.into(), set.name.clone()));
                continue;
            }
            for &seed in &self.seeds {
                let prepared = recipe(*metric, &set.inputs, given, self.profile, seed);
                match prepared.and_then(|recipe| Ok((self.is_there(&recipe, &about)?, recipe))) {
                    Ok((Some(true), _)) => outcome.kept += 1,
                    Ok((Some(false), _)) => outcome.computed += 1,
                    Ok((None, recipe)) => work.push((*metric, recipe)),
                    Err(error) => outcome.fail(set, name, seed, error)?,
                }
            }
        }
        let store = |_: usize, result: ResultFile| {
            self.archive.put(&result, &about)?;
            self.forget(&result.recipe)
        };
        let done = evaluate_together(&work, &set.inputs, self.units, self.context, store);
        for ((metric, recipe), done) in work.iter().zip(done) {
            match done {
                Ok(()) => outcome.computed += 1,
                Err(error) => outcome.fail(set, metric.card().name, recipe.seed, error)?,
            }
        }
        Ok(())
    }

    /// Whether a result is in the archive: under this name (true), or under another, from which it is copied (false).
    fn is_there(&self, recipe: &Recipe, about: &BTreeMap<String, Value>) -> Result<Option<bool>> {
        if let Some(stored) = self.archive.get(&Stored::id_of(recipe, about)?)? {
            // The inputs may have changed and changed back: what this run keeps is current.
            self.archive.renew(&stored.id)?;
            // A run that was killed just after it stored the result may have left its units.
            self.forget(recipe)?;
            return Ok(Some(true));
        }
        let Some(twin) = self.archive.same_recipe(recipe)? else { return Ok(None) };
        self.archive.put(&twin.result, about)?;
        Ok(Some(false))
    }

    /// Removes the units of a result that is safely stored.
    fn forget(&self, recipe: &Recipe) -> Result<()> {
        match self.units {
            Some(directory) => Kept::new(directory, &recipe.id()?).forget(),
            None => Ok(()),
        }
    }
}
