//! The grid: every set × metric × seed is one recipe, one result file, and nothing is computed twice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::metrics::{self, Metric, evaluate, recipe};
use crate::results::{Archive, Profile, Stored};
use crate::run::{Engine, Inputs};
use crate::sae::Dictionary;

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
        if let Some(codes) = &inputs.codes {
            about.insert("latents".into(), json!(codes.latents()));
            if codes.rows() > 0 {
                about.insert("l0".into(), json!(codes.entries() as f64 / codes.rows() as f64));
            }
        }
        if let Some(dictionary) = &inputs.dictionary {
            about.insert("architecture".into(), json!(dictionary.card().arch));
            about.insert("width".into(), json!(dictionary.card().width));
            about.extend(dictionary.card().k.map(|k| ("k".into(), json!(k))));
        }
        Set { name: name.into(), inputs, about }
    }
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
    /// Who does the work.
    pub engine: &'a Engine<'a>,
}

/// What became of a grid.
#[derive(Debug, Default)]
pub struct Outcome {
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

impl Outcome {
    /// Adds what became of another part.
    pub fn add(&mut self, other: Outcome) {
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

    /// Evaluates whatever is not in the archive yet. Only cancelling stops it half-way.
    pub fn run(&self, sets: &[Set]) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        for set in sets {
            for (metric, given) in &self.metrics {
                let name = metric.card().name;
                if metric.card().check_needs(&set.inputs).is_err() {
                    outcome.lacking.push((name.into(), set.name.clone()));
                    continue;
                }
                for &seed in &self.seeds {
                    match self.cell(set, *metric, given, seed) {
                        Ok(true) => outcome.computed += 1,
                        Ok(false) => outcome.kept += 1,
                        Err(Error::Cancelled) => return Err(Error::Cancelled),
                        Err(error) => {
                            outcome.failed.push(Failure { set: set.name.clone(), metric: name.into(), seed, error });
                        }
                    }
                }
            }
        }
        Ok(outcome)
    }

    /// One cell; false when its result was there already.
    fn cell(&self, set: &Set, metric: &dyn Metric, given: &BTreeMap<String, String>, seed: u64) -> Result<bool> {
        let recipe = recipe(metric, &set.inputs, given, self.profile, seed)?;
        let mut about = set.about.clone();
        about.insert("inputs".into(), json!(set.name));
        let id = recipe.id()?;
        if self.archive.get(&Stored::id_of(&recipe, &about)?)?.is_some() {
            // A run that was killed just after it stored the result may have left its units.
            self.engine.forget_units(&id)?;
            return Ok(false);
        }
        if let Some(twin) = self.archive.same_recipe(&recipe)? {
            self.archive.put(&twin.result, &about)?;
            return Ok(true);
        }
        let result = evaluate(metric, &set.inputs, recipe, self.engine)?;
        self.archive.put(&result, &about)?;
        self.engine.forget_units(&id)?;
        Ok(true)
    }
}
