//! The rows with the largest values of many items, such as latents, in one allocation.

use etalon_kernel::prefetch::fetch;
use serde::{Deserialize, Serialize};

use super::state::{State, check_lengths};
use crate::error::Result;

/// The `keep` largest `(value, row)` of every item, in descending order; the lower row first among equal values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopRows {
    keep: usize,
    /// `keep` entries per item as [`key`]s, descending, padded with [`NONE`].
    keys: Vec<u64>,
    /// The smallest value that can still be kept, by item. Most offers are rejected by this comparison alone.
    floors: Vec<f32>,
}

/// Marks an empty slot: below the key of every finite value.
const NONE: u64 = key(f32::NEG_INFINITY, u32::MAX);

/// Lists of up to this length are scanned linearly, which is faster than a binary search.
const SHORT: usize = 16;

/// An integer that orders entries: larger for larger values, and among equal values for lower rows.
#[inline]
const fn key(value: f32, row: u32) -> u64 {
    let bits = value.to_bits();
    let ascending = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    (ascending as u64) << 32 | !row as u64
}

/// The inverse of [`key`].
#[inline]
fn entry(key: u64) -> (f32, u32) {
    let ascending = (key >> 32) as u32;
    let bits = if ascending >> 31 == 1 { ascending ^ 1 << 31 } else { !ascending };
    (f32::from_bits(bits), !(key as u32))
}

/// The smallest value that a list still accepts: that of its last entry, if it is full.
#[inline]
fn floor(list: &[u64]) -> f32 {
    match list.last() {
        // An empty list accepts nothing.
        None => f32::INFINITY,
        Some(&NONE) => f32::NEG_INFINITY,
        Some(&last) => entry(last).0,
    }
}

impl TopRows {
    /// No entries yet.
    pub fn new(items: usize, keep: usize) -> TopRows {
        let floor = if keep == 0 { f32::INFINITY } else { f32::NEG_INFINITY };
        TopRows { keep, keys: vec![NONE; items * keep], floors: vec![floor; items] }
    }

    /// The number of items.
    pub fn items(&self) -> usize {
        self.floors.len()
    }

    /// Bytes of a `TopRows::new(items, keep)`.
    pub fn bytes_of(items: usize, keep: usize) -> u64 {
        items as u64 * (8 * keep as u64 + 4)
    }

    /// Whether a value may be among the largest of an item.
    #[inline]
    pub fn takes(&self, item: usize, value: f32) -> bool {
        value >= self.floors[item]
    }

    /// Prefetches the list of an item that will be offered a value soon.
    #[inline]
    pub fn prefetch(&self, item: usize) {
        // A short list spans at most two cache lines.
        let first = item * self.keep;
        fetch(&self.keys, first);
        fetch(&self.keys, first + self.keep.saturating_sub(1));
    }

    /// Keeps a finite value if it is among the largest of an item.
    #[inline]
    pub fn offer(&mut self, item: usize, value: f32, row: u32) {
        if !self.takes(item, value) {
            return;
        }
        let list = &mut self.keys[item * self.keep..][..self.keep];
        let mut key = key(value, row);
        if list.len() <= SHORT {
            // Branch-free insertion: every slot keeps the larger key and passes the smaller one on.
            for slot in list.iter_mut() {
                (*slot, key) = ((*slot).max(key), (*slot).min(key));
            }
        } else {
            let rank = list.partition_point(|other| *other > key);
            list[rank..].rotate_right(1);
            if let Some(slot) = list.get_mut(rank) {
                *slot = key;
            }
        }
        self.floors[item] = floor(list);
    }

    /// The entries of an item, largest first.
    pub fn of(&self, item: usize) -> impl ExactSizeIterator<Item = (f32, u32)> + use<'_> {
        let list = &self.keys[item * self.keep..][..self.keep];
        list[..list.partition_point(|key| *key != NONE)].iter().map(|&key| entry(key))
    }
}

impl State for TopRows {
    fn merge(&mut self, later: TopRows) -> Result<()> {
        check_lengths("TopRows", self.keys.len(), later.keys.len())?;
        check_lengths("TopRows", self.floors.len(), later.floors.len())?;
        let mut merged = vec![NONE; self.keep];
        for (item, lowest) in self.floors.iter_mut().enumerate() {
            let slots = item * self.keep..(item + 1) * self.keep;
            let (mine, theirs) = (&mut self.keys[slots.clone()], &later.keys[slots]);
            // An empty list has nothing to add, and a full one may beat all of the other.
            if theirs.first() <= mine.last() || theirs.first() == Some(&NONE) {
                continue;
            }
            if mine.first() == Some(&NONE) {
                mine.copy_from_slice(theirs);
            } else {
                let (mut a, mut b) = (0, 0);
                for best in &mut merged {
                    *best = mine[a].max(theirs[b]);
                    let is_mine = usize::from(mine[a] >= theirs[b]);
                    (a, b) = (a + is_mine, b + 1 - is_mine);
                }
                mine.copy_from_slice(&merged);
            }
            *lowest = floor(mine);
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        TopRows::bytes_of(self.items(), self.keep)
    }

    fn inherit(&mut self, earlier: &mut TopRows) {
        std::mem::swap(self, earlier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::top_k::truncate_to_largest;

    fn entries(top: &TopRows, item: usize) -> Vec<(f32, u32)> {
        top.of(item).collect()
    }

    #[test]
    fn keeps_the_largest_values_and_the_lower_row_among_equals() {
        let mut top = TopRows::new(2, 2);
        for (value, row) in [(1.0, 4), (3.0, 5), (1.0, 2), (3.0, 9), (-1.0, 0)] {
            top.offer(1, value, row);
        }
        assert_eq!((top.of(0).len(), entries(&top, 1)), (0, vec![(3.0, 5), (3.0, 9)]));
        top.offer(1, 3.0, 7);
        assert_eq!(entries(&top, 1), [(3.0, 5), (3.0, 7)]);
        top.offer(0, -2.0, 1);
        assert_eq!(entries(&top, 0), [(-2.0, 1)]);
        assert!(TopRows::new(1, 0).of(0).len() == 0 && TopRows::new(1, 0).floors == [f32::INFINITY]);
    }

    #[test]
    fn merging_equals_offering_all_entries_to_one() {
        let entries_of_all: Vec<(usize, f32, u32)> =
            (0..60).map(|i| (i % 3, (i * 7 % 11) as f32 - 4.0, i as u32)).collect();
        for keep in [0, 1, 4, 16, 17, 30] {
            let (mut all, mut first, mut second) =
                (TopRows::new(3, keep), TopRows::new(3, keep), TopRows::new(3, keep));
            for (index, &(item, value, row)) in entries_of_all.iter().enumerate() {
                all.offer(item, value, row);
                if index < 25 { &mut first } else { &mut second }.offer(item, value, row);
            }
            let (mut before, mut after) = (first.clone(), TopRows::new(3, keep));
            first.merge(second).unwrap();
            assert_eq!(first, all);
            // The same with lists that move to the state of the later rows.
            after.inherit(&mut before);
            entries_of_all[25..].iter().for_each(|&(item, value, row)| after.offer(item, value, row));
            before.merge(after).unwrap();
            assert_eq!(before, all);
            let mut expected: Vec<(f32, u32)> =
                entries_of_all.iter().filter(|entry| entry.0 == 1).map(|entry| (entry.1, entry.2)).collect();
            truncate_to_largest(&mut expected, keep);
            assert_eq!(entries(&all, 1), expected);
        }
        assert!(TopRows::new(3, 1).merge(TopRows::new(3, 2)).is_err());
    }
}
