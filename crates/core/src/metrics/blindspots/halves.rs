//! Random halves of the rows.

use crate::kernel::bits::Bits;
use crate::kernel::random::{permutation, stream};

/// Rows among which a half is drawn; every such stretch gives as many to one half as to the other.
const STRETCH: usize = 1024;

/// A random half of some rows.
pub(super) struct Halves(Bits);

impl Halves {
    /// Another `split` is another pair of halves.
    pub fn new(rows: usize, seed: u64, split: usize) -> Halves {
        let mut bits = Bits::empty(rows);
        for first in (0..rows).step_by(STRETCH) {
            let length = STRETCH.min(rows - first);
            let mut random = stream(seed, &format!("blindspots/halves/{split}"), (first / STRETCH) as u64);
            for place in permutation(length, &mut random).into_iter().take(length / 2) {
                bits.insert(first + place);
            }
        }
        Halves(bits)
    }

    /// Is the row in the first half?
    pub fn first(&self, row: usize) -> bool {
        self.0.contains(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_halves_and_the_split_decides() {
        for rows in [0, 1, 2, 1023, 1024, 1027] {
            let half = Halves::new(rows, 1, 0);
            assert_eq!((0..rows).filter(|&row| half.first(row)).count(), rows / 2, "{rows}");
        }
        let (one, other) = (Halves::new(1000, 1, 0), Halves::new(1000, 1, 1));
        let same = (0..1000).filter(|&row| one.first(row) == other.first(row)).count();
        assert!((420..580).contains(&same), "{same}");
    }
}
