//! Class counts, splits, and their comparison by Gini impurity.

use std::cmp::Ordering;

use crate::codes::Latent;

/// Impurities with a larger relative difference are compared in floating point.
pub(super) const SURE: f64 = 1e-12;

/// The number of rows of either class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Rows of the positive class.
    pub positives: usize,
    /// Rows of the negative class.
    pub negatives: usize,
}

impl Classes {
    /// All rows.
    pub fn total(self) -> usize {
        self.positives + self.negatives
    }

    /// The majority class; negative where the counts are equal.
    pub fn vote(self) -> bool {
        self.positives > self.negatives
    }

    /// The number of rows of the majority class.
    pub fn correct(self) -> usize {
        self.positives.max(self.negatives)
    }

    pub(super) fn is_pure(self) -> bool {
        self.positives == 0 || self.negatives == 0
    }

    pub(super) fn add(&mut self, positive: bool) {
        if positive {
            self.positives += 1;
        } else {
            self.negatives += 1;
        }
    }

    pub(super) fn plus(self, other: Classes) -> Classes {
        Classes { positives: self.positives + other.positives, negatives: self.negatives + other.negatives }
    }

    pub(super) fn less(self, part: Classes) -> Classes {
        Classes { positives: self.positives - part.positives, negatives: self.negatives - part.negatives }
    }
}

/// A threshold on one latent, and the classes of the rows on either side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The latent.
    pub latent: Latent,
    /// Rows with a value up to this go left.
    pub threshold: f64,
    /// The rows that go left.
    pub left: Classes,
    /// The rows that go right.
    pub right: Classes,
}

impl Split {
    /// The number of rows that belong to the majority of their side.
    pub fn correct(&self) -> usize {
        self.left.correct() + self.right.correct()
    }

    /// Half the Gini impurity of the two sides, weighted by their rows.
    pub(super) fn impurity(left: Classes, right: Classes) -> f64 {
        let mixed = |side: Classes| side.positives as f64 * side.negatives as f64;
        let (rows_left, rows_right) = (left.total() as f64, right.total() as f64);
        (mixed(left) * rows_right + mixed(right) * rows_left) / (rows_left * rows_right)
    }

    /// Orders splits by impurity, purer first; exact where floating point cannot decide.
    pub(super) fn compare(a: (Classes, Classes), b: (Classes, Classes)) -> Ordering {
        let (x, y) = (Split::impurity(a.0, a.1), Split::impurity(b.0, b.1));
        if (x - y).abs() > SURE * x.max(y) {
            return x.total_cmp(&y);
        }
        let product = |side: Classes, other: Classes| {
            (side.positives as u128).checked_mul(side.negatives as u128)?.checked_mul(other.total() as u128)
        };
        let exact = |(left, right): (Classes, Classes)| {
            let numerator = product(left, right)?.checked_add(product(right, left)?)?;
            Some((numerator, left.total() as u128 * right.total() as u128))
        };
        let crossed = || {
            let (a, b) = (exact(a)?, exact(b)?);
            Some((a.0.checked_mul(b.1)?, b.0.checked_mul(a.1)?))
        };
        match crossed() {
            Some((a, b)) => a.cmp(&b),
            // Beyond thirty million rows the fractions overflow.
            None => x.total_cmp(&y),
        }
    }
}
