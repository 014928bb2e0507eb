//! Means over pairs and over concepts, and their bootstrap over pairs.

use super::response::Response;
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::mean;
use crate::results::{Interval, Profile, RESAMPLES, percentile_interval};

/// A value of each kind: score, Δ_add, Δ_rem, score with every concept counted alike.
pub(super) const KEYS: [&str; 4] = ["tapa_score", "delta_add", "delta_rem", "tapa_score_macro"];

/// The numbers of one strategy, in the order of [`KEYS`].
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summary {
    /// The values.
    pub values: [Option<f64>; 4],
    /// Their intervals.
    pub intervals: [Option<Interval>; 4],
    /// Pairs (or, for the last, concepts) behind each.
    pub counts: [usize; 4],
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
                    totals.concepts[change.concept.0 as usize][role].add(change.delta());
                }
            }
        }
        totals
    }

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
pub(super) fn summarise(responses: &[Response], concepts: usize, profile: Profile, seed: u64) -> Summary {
    let kept: Vec<&Response> = responses.iter().filter(|response| !response.is_lost(profile)).collect();
    let totals = Totals::of(kept.iter().copied(), concepts);
    let touched = totals.concepts.iter().filter(|roles| roles.iter().any(|role| role.terms > 0)).count();
    let counts = [kept.len(), totals.all[0].terms, totals.all[1].terms, touched];
    let mut replicates: [Vec<f64>; 4] = Default::default();
    if kept.len() >= 2 {
        let mut random = stream(seed, "tapa/pairs", 0);
        for _ in 0..RESAMPLES {
            let draw = (0..kept.len()).map(|_| kept[index(kept.len(), &mut random)]);
            let values = Totals::of(draw, concepts).values();
            replicates.iter_mut().zip(values).for_each(|(list, value)| list.extend(value));
        }
    }
    let mut intervals = replicates.map(percentile_interval);
    for (interval, _) in intervals.iter_mut().zip(counts).skip(1).take(2).filter(|(_, pairs)| *pairs < 2) {
        *interval = None;
    }
    Summary { values: totals.values(), intervals, counts }
}
