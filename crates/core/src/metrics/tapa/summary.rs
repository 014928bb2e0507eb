//! Means over pairs and over concepts, and their bootstrap over pairs.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::response::{Change, Response};
use crate::error::Result;
use crate::metrics::estimate::Estimate;
use crate::metrics::resamples::resamples_in_block;
use crate::results::percentile_interval;
use crate::run::Job;

/// The numbers of one strategy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Δ_add − Δ_rem.
    pub score: Estimate,
    /// Δ_add.
    pub added: Estimate,
    /// Δ_rem.
    pub removed: Estimate,
    /// The score with equal weight for every concept.
    pub macro_score: Estimate,
}

impl Summary {
    /// The estimates with their keys.
    pub fn named(&self) -> [(&'static str, Estimate); 4] {
        [
            ("tapa_score", self.score),
            ("delta_add", self.added),
            ("delta_rem", self.removed),
            ("tapa_score_macro", self.macro_score),
        ]
    }
}

/// How often the latents of a concept stayed on, stayed off, switched on, switched off.
#[derive(Clone, Copy, Default)]
pub(super) struct Outcomes(pub [u32; 4]);

impl Outcomes {
    fn add(&mut self, change: &Change) {
        let outcome = match (change.before, change.after) {
            (true, true) => 0,
            (false, false) => 1,
            (false, true) => 2,
            (true, false) => 3,
        };
        self.0[outcome] += 1;
    }

    pub fn pairs(&self) -> usize {
        self.0.iter().sum::<u32>() as usize
    }

    /// The mean response.
    pub fn delta(&self) -> Option<f64> {
        let [_, _, on, off] = self.0.map(f64::from);
        (self.pairs() > 0).then(|| (on - off) / self.pairs() as f64)
    }
}

/// Outcomes of adding and of removing, over all pairs and by concept.
pub(super) struct Totals {
    all: [Outcomes; 2],
    pub concepts: Vec<[Outcomes; 2]>,
}

impl Totals {
    pub fn of<'a>(responses: impl Iterator<Item = &'a Response>, concepts: usize) -> Totals {
        let mut totals = Totals { all: Default::default(), concepts: vec![Default::default(); concepts] };
        for response in responses {
            for (role, change) in [response.added, response.removed].iter().enumerate() {
                if let Some(change) = change {
                    totals.all[role].add(change);
                    totals.concepts[change.concept][role].add(change);
                }
            }
        }
        totals
    }

    /// The values in the order of [`Summary`].
    fn values(&self) -> [Option<f64>; 4] {
        let [add, remove] = self.all.map(|outcomes| outcomes.delta());
        let by_concept = |role: usize| {
            let deltas: Vec<f64> = self.concepts.iter().filter_map(|outcomes| outcomes[role].delta()).collect();
            mean(&deltas)
        };
        [difference(add, remove), add, remove, difference(by_concept(0), by_concept(1))]
    }
}

/// A side without pairs counts as 0; without both there is no score.
fn difference(add: Option<f64>, remove: Option<f64>) -> Option<f64> {
    (add.is_some() || remove.is_some()).then(|| add.unwrap_or(0.0) - remove.unwrap_or(0.0))
}

/// Summarises the pairs that are not lost.
pub(super) fn summarise(job: &Job<'_>, responses: &[Response], concepts: usize) -> Result<Summary> {
    let kept: Vec<&Response> = responses.iter().filter(|response| !response.lost).collect();
    let totals = Totals::of(kept.iter().copied(), concepts);
    let touched = totals.concepts.iter().filter(|roles| roles.iter().any(|role| role.pairs() > 0)).count();
    let [adding, removing] = totals.all.map(|outcomes| outcomes.pairs());
    let replicates = match kept.len() {
        0 | 1 => Vec::new(),
        pairs => resamples_in_block(job, "tapa/pairs", pairs, |draws| {
            Totals::of(draws.map(|pair| kept[pair]), concepts).values()
        })?,
    };
    let interval = |value: usize| percentile_interval(replicates.iter().filter_map(|values| values[value]).collect());
    let [score, added, removed, macro_score] = totals.values();
    let [of_score, of_added, of_removed, of_macro] = [0, 1, 2, 3].map(interval);
    Ok(Summary {
        score: Estimate { value: score, interval: of_score, n: kept.len() },
        added: Estimate { value: added, interval: of_added.filter(|_| adding >= 2), n: adding },
        removed: Estimate { value: removed, interval: of_removed.filter(|_| removing >= 2), n: removing },
        macro_score: Estimate { value: macro_score, interval: of_macro, n: touched },
    })
}
