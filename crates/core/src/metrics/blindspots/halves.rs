//! Random halves of the rows.

use std::ops::Range;

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{permutation, stream};

/// A half is drawn within every run of this many rows, so that halves are balanced.
const STRATUM: usize = 1024;

/// A random split of the rows into halves. It is drawn where it is needed and takes no memory.
#[derive(Clone, Copy)]
pub(super) struct Halves {
    pub rows: usize,
    pub seed: u64,
    /// The number of the split.
    pub split: usize,
}

impl Halves {
    /// Which rows of a range are in the first half, relative to its start.
    pub fn first(&self, range: Range<usize>) -> Bits {
        let mut bits = Bits::empty(range.len());
        let purpose = format!("blindspots/halves/{}", self.split);
        for first in (range.start / STRATUM * STRATUM..range.end).step_by(STRATUM) {
            let length = STRATUM.min(self.rows - first);
            let mut random = stream(self.seed, &purpose, (first / STRATUM) as u64);
            let drawn = permutation(length, &mut random).into_iter().take(length / 2).map(|index| first + index);
            drawn.filter(|row| range.contains(row)).for_each(|row| bits.insert(row - range.start));
        }
        bits
    }

    /// Number of rows in the first half.
    pub fn first_rows(&self) -> usize {
        self.rows / STRATUM * (STRATUM / 2) + self.rows % STRATUM / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(rows: usize, split: usize) -> Halves {
        Halves { rows, seed: 1, split }
    }

    #[test]
    fn halves_are_balanced_and_depend_on_the_split_only() {
        for rows in [0, 1, 2, 1023, 1024, 1027] {
            let half = halves(rows, 0);
            let first = half.first(0..rows);
            assert_eq!((0..rows).filter(|&row| first.contains(row)).count(), rows / 2, "{rows}");
            assert_eq!(half.first_rows(), rows / 2);
        }
        let (one, other) = (halves(1000, 0).first(0..1000), halves(1000, 1).first(0..1000));
        let same = (0..1000).filter(|&row| one.contains(row) == other.contains(row)).count();
        assert!((420..580).contains(&same), "{same}");
        let (all, part) = (halves(3000, 0).first(0..3000), halves(3000, 0).first(700..2500));
        assert!((700..2500).all(|row| all.contains(row) == part.contains(row - 700)));
    }
}
