//! The grid of a study: every set × metric × seed is one recipe and one result file. Results in the archive are not
//! computed again.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::metrics::{self, Metric, evaluate_together, recipe};
use crate::results::{Archive, Profile, Recipe, ResultFile, Stored};
use crate::run::{CODES, DICTIONARY, Inputs, Kept, NETWORK};

/// A named set of inputs, such as "trained, 4096 latents, seed 1".
pub struct Set {
    /// The name in tables and figures.
    pub name: String,
    /// The inputs.
    pub inputs: Inputs,
    /// Metadata for reports: dictionary size, sparsity, architecture, seed.
    pub about: BTreeMap<String, Value>,
}

impl Set {
    /// A set whose metadata are the size and architecture of the dictionary, the mean number of active latents, and the
    /// network with its site.
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
        if let Some(run) = inputs.find(&NETWORK) {
            let site = run.network.sites().get(run.site.0 as usize);
            about.extend(site.map(|site| ("site".into(), json!(site.name))));
            about.insert("model".into(), json!(run.network.card().family));
            about.insert("context".into(), json!(run.length));
        }
        Set { name: name.into(), inputs, about }
    }
}

/// The metadata of a result: those of the set, and its name.
pub(super) fn about_cell(set: &Set) -> BTreeMap<String, Value> {
    let mut about = set.about.clone();
    about.insert("inputs".into(), json!(set.name));
    about
}

/// What to evaluate on every set.
pub struct Grid<'a> {
    /// Metrics, each with its given parameters.
    pub metrics: Vec<(&'static dyn Metric, BTreeMap<String, String>)>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// The published definitions, or the numbers of the released programs.
    pub profile: Profile,
    /// Where results are stored.
    pub archive: &'a Archive,
    /// Where finished units are stored, so that an interrupted run can resume.
    pub units: Option<&'a Path>,
    /// Threads, memory, progress, cancellation.
    pub context: &'a Context,
}

/// The outcome of a grid.
#[derive(Debug, Default)]
pub struct GridOutcome {
    /// Number of cells computed by this run, or copied from a result under another name.
    pub computed: usize,
    /// Number of cells whose result was in the archive.
    pub kept: usize,
    /// Metrics left out because a set lacks inputs that they need.
    pub skipped: Vec<Skipped>,
    /// Cells that failed.
    pub failed: Vec<Failure>,
}

/// A metric that cannot be evaluated on a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The set.
    pub set: String,
    /// The metric.
    pub metric: String,
    /// The keys of the inputs that the set lacks.
    pub missing: Vec<&'static str>,
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
    /// Records that a cell failed; returns the error if the user cancelled.
    fn fail(&mut self, set: &Set, metric: &str, seed: u64, error: Error) -> Result<()> {
        if matches!(error, Error::Cancelled) {
            return Err(error);
        }
        self.failed.push(Failure { set: set.name.clone(), metric: metric.into(), seed, error });
        Ok(())
    }

    /// Adds the outcome of another part.
    pub fn add(&mut self, other: GridOutcome) {
        self.computed += other.computed;
        self.kept += other.kept;
        self.skipped.extend(other.skipped);
        self.failed.extend(other.failed);
    }
}

/// Under which name a result is in the archive.
enum StoredResult {
    SameName,
    OtherName,
    Nothing,
}

impl Grid<'_> {
    /// All metrics that take seconds, with default parameters.
    pub fn quick_metrics() -> Vec<(&'static dyn Metric, BTreeMap<String, String>)> {
        let mut metrics = Grid::all_metrics();
        metrics.retain(|(metric, _)| !metrics::SLOW.contains(&metric.card().name));
        metrics
    }

    /// All metrics, with default parameters.
    pub fn all_metrics() -> Vec<(&'static dyn Metric, BTreeMap<String, String>)> {
        metrics::METRICS.iter().map(|metric| (*metric, BTreeMap::new())).collect()
    }

    /// Evaluates all cells that are not in the archive. The metrics of a set share the reading of rows. A failed cell
    /// does not stop the others; cancelling does.
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
            let missing = metric.card().missing(&set.inputs);
            if !missing.is_empty() {
                outcome.skipped.push(Skipped { set: set.name.clone(), metric: name.into(), missing });
                continue;
            }
            for &seed in &self.seeds {
                let prepared = recipe(*metric, &set.inputs, given, self.profile, seed);
                match prepared.and_then(|recipe| Ok((self.stored(&recipe, &about)?, recipe))) {
                    Ok((StoredResult::SameName, _)) => outcome.kept += 1,
                    Ok((StoredResult::OtherName, _)) => outcome.computed += 1,
                    Ok((StoredResult::Nothing, recipe)) => work.push((*metric, recipe)),
                    Err(error) => outcome.fail(set, name, seed, error)?,
                }
            }
        }
        let store = |_: usize, result: ResultFile| {
            self.archive.put(&result, &about, self.context.budget())?;
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

    /// Looks for a result in the archive. One of the same recipe under another name is copied.
    fn stored(&self, recipe: &Recipe, about: &BTreeMap<String, Value>) -> Result<StoredResult> {
        if let Some(stored) = self.archive.get(&Stored::id_of(recipe, about)?, self.context.budget())? {
            // The inputs may have changed and changed back: the result that this run uses becomes the current one.
            self.archive.renew(&stored.id)?;
            // A run that was killed right after it stored the result has left its units.
            self.forget(recipe)?;
            return Ok(StoredResult::SameName);
        }
        let Some(same) = self.archive.same_recipe(recipe, self.context.budget())? else {
            return Ok(StoredResult::Nothing);
        };
        self.archive.put(&same.result, about, self.context.budget())?;
        Ok(StoredResult::OtherName)
    }

    /// Removes the units of a result that is stored.
    fn forget(&self, recipe: &Recipe) -> Result<()> {
        match self.units {
            Some(directory) => Kept::new(directory, &recipe.id()?).forget(),
            None => Ok(()),
        }
    }
}
