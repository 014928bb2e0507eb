//! Means over pairs and over concepts, and their bootstrap over pairs.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::response::Response;
use crate::error::Result;
use crate::results::{Interval, RESAMPLES, percentile_interval};
use crate::run::Job;

/// One number of a strategy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Estimate {
    /// The value, if it is defined.
    pub value: Option<f64>,
    /// Its interval.
    pub interval: Option<Interval>,
    /// Pairs, or concepts, behind it.
    pub n: usize,
}

/// The numbers of one strategy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Δ_add − Δ_rem.
    pub score: Estimate,
    /// Δ_add.
    pub added: Estimate,
    /// Δ_rem.
    pub removed: Estimate,
    /// The score with every concept counted alike.
    pub macro_score: Estimate,
}

impl Summary {
    /// All numbers with their keys.
    pub fn named(&self) -> [(&'static str, Estimate); 4] {
        [
            ("tapa_score", self.score),
            ("delta_add", self.added),
            ("delta_rem", self.removed),
            ("tapa_score_macro", self.macro_score),
        ]
    }
}

/// A sum and how many terms it has.
#[derive(Clone, Copy, Default)]
struct Total {
    sum: f64,
    terms: usize,
}

impl Total {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.terms += 1;
    }

    fn mean(&self) -> Option<f64> {
        (self.terms > 0).then(|| self.sum / self.terms as f64)
    }
}

/// Sums by role, over all pairs and by concept.
struct Totals {
    all: [Total; 2],
    concepts: Vec<[Total; 2]>,
}

impl Totals {
    fn of<'a>(responses: impl Iterator<Item = &'a Response>, concepts: usize) -> Totals {
        let mut totals = Totals { all: [Total::default(); 2], concepts: vec![[Total::default(); 2]; concepts] };
        for response in responses {
            for (role, change) in [response.added, response.removed].into_iter().enumerate() {
                if let Some(change) = change {
                    totals.all[role].add(change.delta());
                    totals.concepts[change.concept][role].add(change.delta());
                }
            }
        }
        totals
    }

    /// The values in the order of [`Summary`].
    fn values(&self) -> [Option<f64>; 4] {
        let by_concept = |role: usize| {
            let means: Vec<f64> = self.concepts.iter().filter_map(|totals| totals[role].mean()).collect();
            mean(&means)
        };
        let [add, remove] = [0, 1].map(|role| self.all[role].mean());
        [difference(add, remove), add, remove, difference(by_concept(0), by_concept(1))]
    }
}

/// A side that no pair has counts as no change; without both there is no score.
fn difference(add: Option<f64>, remove: Option<f64>) -> Option<f64> {
    (add.is_some() || remove.is_some()).then(|| add.unwrap_or(0.0) - remove.unwrap_or(0.0))
}

/// The summary of the pairs that are not lost.
pub(super) fn summarise(job: &Job<'_>, responses: &[Response], concepts: usize) -> Result<Summary> {
    let kept: Vec<&Response> = responses.iter().filter(|response| !response.is_lost(job.profile)).collect();
    let totals = Totals::of(kept.iter().copied(), concepts);
    let touched = totals.concepts.iter().filter(|roles| roles.iter().any(|role| role.terms > 0)).count();
    let [adding, removing] = totals.all.map(|total| total.terms);
    let mut replicates: [Vec<f64>; 4] = Default::default();
    if kept.len() >= 2 {
        let mut random = stream(job.seed, "tapa/pairs", 0);
        for _ in 0..RESAMPLES {
            job.check()?;
            let draw = (0..kept.len()).map(|_| kept[index(kept.len(), &mut random)]);
            let values = Totals::of(draw, concepts).values();
            replicates.iter_mut().zip(values).for_each(|(list, value)| list.extend(value));
        }
    }
    let [score, added, removed, macro_score] = totals.values();
    let [of_score, of_added, of_removed, of_macro] = replicates.map(percentile_interval);
    Ok(Summary {
        score: Estimate { value: score, interval: of_score, n: kept.len() },
        added: Estimate { value: added, interval: of_added.filter(|_| adding >= 2), n: adding },
        removed: Estimate { value: removed, interval: of_removed.filter(|_| removing >= 2), n: removing },
        macro_score: Estimate { value: macro_score, interval: of_macro, n: touched },
    })
}
