//! Parts of the rows: every two parts are compared once, and the nearest rows of both are merged.

use std::ops::Range;

use etalon_kernel::largest_products::Products;
use serde::{Deserialize, Serialize};

use super::nearest::Neighbours;

/// Rows of a part. A part is compared on all threads, and rows find nearly all of their neighbours' floors within it.
const PART: usize = 85 * Products::ALIGNMENT;

/// All pairs of parts.
pub(super) struct Parts {
    rows: usize,
    pairs: Vec<(Range<usize>, Range<usize>)>,
}

/// The nearest rows of two parts in each other.
#[derive(Serialize, Deserialize)]
pub(super) struct PairNeighbours {
    pub mine: Vec<Neighbours>,
    /// Empty for a part with itself.
    pub theirs: Vec<Neighbours>,
}

impl Parts {
    /// The parts of some rows.
    pub fn of(rows: usize) -> Parts {
        Parts::with(rows, PART)
    }

    fn with(rows: usize, size: usize) -> Parts {
        let part = |index: usize| index * size..((index + 1) * size).min(rows);
        let parts = rows.div_ceil(size);
        let pairs = (0..parts).flat_map(|one| (one..parts).map(move |other| (part(one), part(other))));
        Parts { rows, pairs: pairs.collect() }
    }

    /// All pairs, those of a part with itself included.
    pub fn pairs(&self) -> &[(Range<usize>, Range<usize>)] {
        &self.pairs
    }

    /// The `keep` nearest of all rows, from the results of all pairs.
    pub fn merge(&self, found: &[PairNeighbours], keep: usize) -> Vec<Neighbours> {
        let mut merged: Vec<Neighbours> = vec![Vec::new(); self.rows];
        for ((mine, theirs), found) in self.pairs.iter().zip(found) {
            let rows = mine.clone().zip(&found.mine).chain(theirs.clone().zip(&found.theirs));
            for (row, list) in rows {
                let nearest = &mut merged[row];
                let is_first = nearest.is_empty();
                nearest.extend(list);
                if !is_first {
                    nearest.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                    nearest.truncate(keep);
                }
            }
        }
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn parts_have_the_neighbours_of_the_whole() {
        let mut random = stream(1, "cknna/parts", 0);
        let values: Vec<f32> = (0..1000 * 7).map(|_| unit(&mut random) as f32 - 0.4).collect();
        let products = Products::new(values.into(), 7);
        let nearest = |parts: &Parts| {
            let pair = |(mine, theirs): &(Range<usize>, Range<usize>)| {
                let (mine, theirs) = products.largest::<()>(mine.clone(), theirs.clone(), 12, &|| Ok(())).unwrap();
                PairNeighbours { mine, theirs }
            };
            parts.merge(&parts.pairs().iter().map(pair).collect::<Vec<_>>(), 12)
        };
        let (whole, parts) = (Parts::of(1000), Parts::with(1000, Products::ALIGNMENT));
        assert_eq!((whole.pairs().len(), parts.pairs().len()), (1, 6));
        assert_eq!(nearest(&whole), nearest(&parts));
        assert_eq!(nearest(&whole)[0].len(), 12);
        assert!(Parts::of(0).pairs().is_empty());
    }
}
