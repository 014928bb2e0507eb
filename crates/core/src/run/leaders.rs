//! The best entries of many things at once, in one piece of memory.

use crate::kernel::top::by_value;

/// For each of many things its `keep` largest `(value, row)`, best first, ties to the lower row.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaders {
    keep: usize,
    /// `keep` entries per thing, [`NONE`] behind the last.
    entries: Vec<(f32, u32)>,
    /// By thing, the value below which nothing gets in: most offers need no more than a look at it.
    floors: Vec<f32>,
}

/// Stands where there is no entry: behind every other in the order of entries.
const NONE: (f32, u32) = (f32::NEG_INFINITY, u32::MAX);

impl Leaders {
    /// No entries yet.
    pub fn new(things: usize, keep: usize) -> Leaders {
        // Where nothing is kept, nothing gets in.
        let floor = if keep == 0 { f32::INFINITY } else { NONE.0 };
        Leaders { keep, entries: vec![NONE; things * keep], floors: vec![floor; things] }
    }

    /// How many things there are.
    pub fn things(&self) -> usize {
        self.floors.len()
    }

    /// Bytes that the leaders of so many things take.
    pub fn bytes(things: usize, keep: usize) -> u64 {
        things as u64 * (8 * keep as u64 + 4)
    }

    /// Keeps a finite value if it is among the largest of a thing.
    #[inline]
    pub fn offer(&mut self, thing: usize, value: f32, row: u32) {
        if value < self.floors[thing] || self.keep == 0 {
            return;
        }
        let list = &mut self.entries[thing * self.keep..][..self.keep];
        let place = list.partition_point(|other| by_value(other, &(value, row)).is_lt());
        if place < list.len() {
            list[place..].rotate_right(1);
            list[place] = (value, row);
            self.floors[thing] = list[list.len() - 1].0;
        }
    }

    /// The entries of a thing, best first.
    pub fn of(&self, thing: usize) -> &[(f32, u32)] {
        let list = &self.entries[thing * self.keep..][..self.keep];
        &list[..list.partition_point(|entry| *entry != NONE)]
    }

    /// Offers all entries of another; `false` if the two do not fit together.
    pub(super) fn merge(&mut self, later: &Leaders) -> bool {
        if (self.keep, self.things()) != (later.keep, later.things()) {
            return false;
        }
        for thing in 0..self.things() {
            for &(value, row) in later.of(thing) {
                self.offer(thing, value, row);
            }
        }
        true
    }

    /// How many are kept of each, and all places.
    pub(super) fn parts(&self) -> (usize, &[(f32, u32)]) {
        (self.keep, &self.entries)
    }

    /// From [`Leaders::parts`].
    pub(super) fn from_parts(things: usize, keep: usize, entries: Vec<(f32, u32)>) -> Option<Leaders> {
        if Some(entries.len()) != things.checked_mul(keep) {
            return None;
        }
        let mut leaders = Leaders::new(0, keep);
        leaders.floors = match keep {
            0 => vec![f32::INFINITY; things],
            _ => entries.chunks_exact(keep).map(|list| list[keep - 1].0).collect(),
        };
        Some(Leaders { entries, ..leaders })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_stay_and_the_lower_row_among_equals() {
        let mut leaders = Leaders::new(2, 2);
        for (value, row) in [(1.0, 4), (3.0, 5), (1.0, 2), (3.0, 9), (-1.0, 0)] {
            leaders.offer(1, value, row);
        }
        assert_eq!((leaders.of(0), leaders.of(1)), (&[][..], &[(3.0, 5), (3.0, 9)][..]));
        leaders.offer(1, 3.0, 7);
        assert_eq!(leaders.of(1), [(3.0, 5), (3.0, 7)]);
        leaders.offer(0, -2.0, 1);
        assert_eq!(leaders.of(0), [(-2.0, 1)]);
    }

    #[test]
    fn merging_is_offering_everything_to_one() {
        let entries: Vec<(usize, f32, u32)> = (0..60).map(|i| (i % 3, (i * 7 % 11) as f32, i as u32)).collect();
        for keep in [0, 1, 4, 30] {
            let (mut all, mut first, mut second) =
                (Leaders::new(3, keep), Leaders::new(3, keep), Leaders::new(3, keep));
            for (place, &(thing, value, row)) in entries.iter().enumerate() {
                all.offer(thing, value, row);
                if place < 25 { &mut first } else { &mut second }.offer(thing, value, row);
            }
            assert!(first.merge(&second) && first == all);
            let (kept, places) = all.parts();
            assert_eq!(Leaders::from_parts(3, kept, places.to_vec()).unwrap(), all);
        }
        assert!(!Leaders::new(3, 1).merge(&Leaders::new(3, 2)));
        assert!(Leaders::from_parts(2, 2, vec![NONE; 3]).is_none());
    }
}
