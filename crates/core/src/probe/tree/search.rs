//! The search for the best split of a node.

use std::cmp::Ordering;

use super::sample::{Entry, TreeRows};
use super::split::{Classes, SURE, Split};
use crate::codes::Latent;

/// Neighbouring values that differ by at most this are one value.
const CLOSE: f32 = 1e-7;

impl TreeRows {
    /// The best split of every latent on the whole sample, best first, the lower latent first among equals; at most `keep`.
    ///
    /// These are the roots of a series of trees, each grown after the root latents of all trees before were set to zero.
    pub fn best_splits(&self, keep: usize) -> Vec<Split> {
        let mut splits: Vec<Split> = self
            .entries
            .chunk_by(|a, b| a.column == b.column)
            .filter_map(|entries| {
                let mut search = Search::new(self.classes, false);
                let mut seen = Classes::default();
                entries.iter().for_each(|entry| seen.add(entry.positive));
                search.scan(self.latents[entries[0].column as usize], self.classes.less(seen), entries.iter());
                search.best()
            })
            .collect();
        splits.sort_by(|a, b| Split::compare((a.left, a.right), (b.left, b.right)).then(a.latent.cmp(&b.latent)));
        splits.truncate(keep);
        splits
    }
}

/// The state of the search.
pub(super) struct Search {
    all: Classes,
    best: Option<Candidate>,
    /// A split that exists: the best is at least as good.
    bound: Option<(Classes, Classes)>,
    /// Slightly above the impurity of the best split or of the bound; larger impurities need no exact comparison.
    limit: f64,
    /// A side of a better split has at least this many positives or at least this many negatives.
    needed: Classes,
    prunes: bool,
}

/// A split between two neighbouring values.
#[derive(Clone, Copy)]
struct Candidate {
    latent: Latent,
    left: Classes,
    lower: f32,
    upper: f32,
}

impl Search {
    pub fn new(all: Classes, prunes: bool) -> Search {
        Search { all, best: None, bound: None, limit: f64::INFINITY, needed: Classes::default(), prunes }
    }

    /// Whether a split with this side can be better than the best so far.
    pub fn may_gain(&self, side: Classes) -> bool {
        side.positives >= self.needed.positives || side.negatives >= self.needed.negatives
    }

    /// Considers all splits of a latent; `entries` are ascending, and the block of zeros is inserted among them.
    pub fn scan<'a>(&mut self, latent: Latent, zeros: Classes, entries: impl Iterator<Item = &'a Entry>) {
        let mut left = Classes::default();
        let mut previous: Option<f32> = None;
        let mut zeros = Some(zeros).filter(|zeros| zeros.total() > 0);
        for entry in entries {
            if entry.value > 0.0
                && let Some(zeros) = zeros.take()
            {
                self.step(latent, left, previous, 0.0);
                left = left.plus(zeros);
                previous = Some(0.0);
            }
            self.step(latent, left, previous, entry.value);
            left.add(entry.positive);
            previous = Some(entry.value);
        }
        if zeros.is_some() {
            self.step(latent, left, previous, 0.0);
        }
    }

    /// Considers the split between the rows passed so far and the next value.
    #[inline]
    fn step(&mut self, latent: Latent, left: Classes, previous: Option<f32>, value: f32) {
        let Some(lower) = previous else { return };
        let right = self.all.less(left);
        if value <= lower + CLOSE || !self.may_gain(left) || !self.may_gain(right) {
            return;
        }
        let impurity = Split::impurity(left, right);
        if impurity > self.limit {
            return;
        }
        let is_worse = match (self.best, self.bound) {
            (Some(best), _) => Split::compare((left, right), (best.left, self.all.less(best.left))) != Ordering::Less,
            (None, Some(bound)) => Split::compare((left, right), bound) == Ordering::Greater,
            (None, None) => false,
        };
        if is_worse {
            return;
        }
        self.best = Some(Candidate { latent, left, lower, upper: value });
        self.limit = impurity * (1.0 + 2.0 * SURE);
        if self.prunes {
            self.needed = self.needed_against((left, right), |order| order == Ordering::Less);
        }
    }

    /// Keeps the impurity of the best split as a bound but forgets the split, so that the first of equals can be found.
    pub fn restart(&mut self) {
        if let Some(best) = self.best.take() {
            let bound = (best.left, self.all.less(best.left));
            self.bound = Some(bound);
            self.needed = self.needed_against(bound, |order| order != Ordering::Greater);
        }
    }

    /// The smallest numbers of rows of one class whose separation compares well enough with a split.
    fn needed_against(&self, split: (Classes, Classes), is_enough: impl Fn(Ordering) -> bool) -> Classes {
        let fewest = |most: usize, side_of: &dyn Fn(usize) -> Classes| {
            let (mut low, mut high) = (1, most + 1);
            while low < high {
                let middle = (low + high) / 2;
                let side = side_of(middle);
                if is_enough(Split::compare((side, self.all.less(side)), split)) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        };
        Classes {
            positives: fewest(self.all.positives, &|positives| Classes { positives, negatives: 0 }),
            negatives: fewest(self.all.negatives, &|negatives| Classes { positives: 0, negatives }),
        }
    }

    pub fn best(&self) -> Option<Split> {
        let Candidate { latent, left, lower, upper } = self.best?;
        // The halves are added, because a sum could overflow. A threshold that rounds to the upper value would send that
        // value left, too.
        let midway = f64::from(lower) / 2.0 + f64::from(upper) / 2.0;
        let threshold = if midway == f64::from(upper) { f64::from(lower) } else { midway };
        Some(Split { latent, threshold, left, right: self.all.less(left) })
    }
}
