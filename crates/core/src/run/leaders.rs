//! The best entries of many things at once, in one piece of memory.

use crate::kernel::ahead::fetch;

/// For each of many things its `keep` largest `(value, row)`, best first, ties to the lower row.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaders {
    keep: usize,
    /// `keep` entries per thing as [`key`]s, descending, [`NONE`] behind the last.
    keys: Vec<u64>,
    /// By thing, the value below which nothing gets in: most offers need no more than a look at it.
    floors: Vec<f32>,
}

/// Stands where there is no entry: below the key of every finite value.
const NONE: u64 = key(f32::NEG_INFINITY, u32::MAX);

/// Lists of up to this many entries are walked from end to end, which is faster than to search them.
const SHORT: usize = 16;

/// A whole number that is larger for larger values, and among equal values for lower rows.
#[inline]
const fn key(value: f32, row: u32) -> u64 {
    let bits = value.to_bits();
    let ascending = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    (ascending as u64) << 32 | !row as u64
}

/// The entry with a key.
#[inline]
fn entry(key: u64) -> (f32, u32) {
    let ascending = (key >> 32) as u32;
    let bits = if ascending >> 31 == 1 { ascending ^ 1 << 31 } else { !ascending };
    (f32::from_bits(bits), !(key as u32))
}

/// The value that offers to a list must reach: that of its last entry, if it is full.
#[inline]
fn floor(list: &[u64]) -> f32 {
    match list.last() {
        // Where nothing is kept, nothing gets in.
        None => f32::INFINITY,
        Some(&NONE) => f32::NEG_INFINITY,
        Some(&last) => entry(last).0,
    }
}

impl Leaders {
    /// No entries yet.
    pub fn new(things: usize, keep: usize) -> Leaders {
        let floor = if keep == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        Leaders { keep, keys: vec![NONE; things * keep], floors: vec![floor; things] }
    }

    /// How many things there are.
    pub fn things(&self) -> usize {
        self.floors.len()
    }

    /// Bytes that the leaders of so many things take.
    pub fn bytes(things: usize, keep: usize) -> u64 {
        things as u64 * (8 * keep as u64 + 4)
    }

    /// Whether a value may be among the largest of a thing.
    #[inline]
    pub fn takes(&self, thing: usize, value: f32) -> bool {
        value >= self.floors[thing]
    }

    /// Says that something will soon be offered for a thing.
    #[inline]
    pub fn expect(&self, thing: usize) {
        // A short list lies on two lines of memory.
        let first = thing * self.keep;
        fetch(&self.keys, first);
        fetch(&self.keys, first + self.keep.saturating_sub(1));
    }

    /// Keeps a finite value if it is among the largest of a thing.
    #[inline]
    pub fn offer(&mut self, thing: usize, value: f32, row: u32) {
        if !self.takes(thing, value) {
            return;
        }
        let list = &mut self.keys[thing * self.keep..][..self.keep];
        let mut key = key(value, row);
        if list.len() <= SHORT {
            // Every entry takes the better of itself and what the one before it left over: nothing to guess.
            for place in list.iter_mut() {
                (*place, key) = ((*place).max(key), (*place).min(key));
            }
        } else {
            let place = list.partition_point(|other| *other > key);
            list[place..].rotate_right(1);
            if let Some(place) = list.get_mut(place) {
                *place = key;
            }
        }
        self.floors[thing] = floor(list);
    }

    /// The entries of a thing, best first.
    pub fn of(&self, thing: usize) -> impl ExactSizeIterator<Item = (f32, u32)> + use<'_> {
        let list = &self.keys[thing * self.keep..][..self.keep];
        list[..list.partition_point(|key| *key != NONE)].iter().map(|&key| entry(key))
    }

    /// Offers all entries of another; `false` if the two do not fit together.
    pub(super) fn merge(&mut self, later: &Leaders) -> bool {
        if (self.keep, self.things()) != (later.keep, later.things()) {
            return false;
        }
        let mut merged = vec![NONE; self.keep];
        for (thing, floor_of) in self.floors.iter_mut().enumerate() {
            let here = thing * self.keep..(thing + 1) * self.keep;
            let (mine, theirs) = (&mut self.keys[here.clone()], &later.keys[here]);
            let (mut a, mut b) = (0, 0);
            for best in &mut merged {
                *best = mine[a].max(theirs[b]);
                let is_mine = usize::from(mine[a] >= theirs[b]);
                (a, b) = (a + is_mine, b + 1 - is_mine);
            }
            mine.copy_from_slice(&merged);
            *floor_of = floor(mine);
        }
        true
    }

    /// How many are kept of each.
    pub(super) fn keep(&self) -> usize {
        self.keep
    }

    /// All places, those without an entry too.
    pub(super) fn places(&self) -> impl ExactSizeIterator<Item = (f32, u32)> + use<'_> {
        self.keys.iter().map(|&key| entry(key))
    }

    /// From [`Leaders::places`].
    pub(super) fn from_places(things: usize, keep: usize, places: impl Iterator<Item = (f32, u32)>) -> Option<Leaders> {
        let keys: Vec<u64> = places.map(|(value, row)| key(value, row)).collect();
        if Some(keys.len()) != things.checked_mul(keep) {
            return None;
        }
        let floors = (0..things).map(|thing| floor(&keys[thing * keep..][..keep])).collect();
        Some(Leaders { keep, keys, floors })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::top::truncate_to_largest;

    fn entries(leaders: &Leaders, thing: usize) -> Vec<(f32, u32)> {
        leaders.of(thing).collect()
    }

    #[test]
    fn the_largest_stay_and_the_lower_row_among_equals() {
        let mut leaders = Leaders::new(2, 2);
        for (value, row) in [(1.0, 4), (3.0, 5), (1.0, 2), (3.0, 9), (-1.0, 0)] {
            leaders.offer(1, value, row);
        }
        assert_eq!((leaders.of(0).len(), entries(&leaders, 1)), (0, vec![(3.0, 5), (3.0, 9)]));
        leaders.offer(1, 3.0, 7);
        assert_eq!(entries(&leaders, 1), [(3.0, 5), (3.0, 7)]);
        leaders.offer(0, -2.0, 1);
        assert_eq!(entries(&leaders, 0), [(-2.0, 1)]);
        assert!(Leaders::new(1, 0).of(0).len() == 0 && Leaders::new(1, 0).floors == [f32::INFINITY]);
    }

    #[test]
    fn merging_is_offering_everything_to_one() {
        let entries_of_all: Vec<(usize, f32, u32)> =
            (0..60).map(|i| (i % 3, (i * 7 % 11) as f32 - 4.0, i as u32)).collect();
        for keep in [0, 1, 4, 16, 17, 30] {
            let (mut all, mut first, mut second) =
                (Leaders::new(3, keep), Leaders::new(3, keep), Leaders::new(3, keep));
            for (place, &(thing, value, row)) in entries_of_all.iter().enumerate() {
                all.offer(thing, value, row);
                if place < 25 { &mut first } else { &mut second }.offer(thing, value, row);
            }
            assert!(first.merge(&second) && first == all);
            assert_eq!(Leaders::from_places(3, all.keep(), all.places()).unwrap(), all);
            let mut expected: Vec<(f32, u32)> =
                entries_of_all.iter().filter(|entry| entry.0 == 1).map(|entry| (entry.1, entry.2)).collect();
            truncate_to_largest(&mut expected, keep);
            assert_eq!(entries(&all, 1), expected);
        }
        assert!(!Leaders::new(3, 1).merge(&Leaders::new(3, 2)));
        assert!(Leaders::from_places(2, 2, [(1.0, 2)].into_iter()).is_none());
    }
}
