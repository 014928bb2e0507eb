//! The most extreme rows of every unit: a state that merges, and keeps only rows that can still be among them.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::row_order::RowOrder;
use crate::error::{Error, Result};
use crate::run::State;

/// A side of a unit: its least or its most activating rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metrics) enum Side {
    /// The least activating rows.
    Low = 0,
    /// The most activating rows.
    High = 1,
}

/// The `keep` most extreme `(activation, place)` of every unit and side; the place is that of the row in a [`RowOrder`].
///
/// Entries are appended to `pending`, then sorted into *pieces*, which are joined when they have too many entries. So an
/// entry is moved a few times, however many states are merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::metrics) struct Extremes {
    keep: usize,
    units: usize,
    pieces: Vec<Lists>,
    /// Entries that are not in a piece yet: list and key.
    pending: Vec<(u32, u64)>,
}

/// A list per unit and side; entries are keys, see [`key`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lists {
    /// The first entry of every list, and the end.
    starts: Vec<u32>,
    keys: Vec<u64>,
}

impl Lists {
    fn of(&self, list: usize) -> &[u64] {
        &self.keys[self.starts[list] as usize..self.starts[list + 1] as usize]
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.starts[..]) + size_of_val(&self.keys[..])
    }
}

/// Pending entries per list, and entries above `keep` per list, as shares of `keep`, before they are sorted and joined.
const PENDING_SHARE: usize = 32;
const EXCESS_SHARE: usize = 8;

/// Pieces before they are joined.
const PIECES: usize = 16;

/// Lists that a thread joins at a time.
const LISTS: usize = 256;

/// An integer that is larger for more extreme entries.
#[inline]
fn key(side: Side, value: f32, place: u32) -> u64 {
    // −0 and 0 are the same activation.
    let bits = (value + 0.0).to_bits();
    let ascending = bits ^ (((bits as i32 >> 31) as u32) | 1 << 31);
    let key = u64::from(ascending) << 32 | u64::from(place);
    // All bits are flipped on the low side.
    key ^ (side as u64).wrapping_sub(1)
}

/// The inverse of [`key`].
fn entry(side: Side, key: u64) -> (f32, u32) {
    let key = key ^ (side as u64).wrapping_sub(1);
    let ascending = (key >> 32) as u32;
    let bits = if ascending >> 31 == 1 { ascending ^ 1 << 31 } else { !ascending };
    (f32::from_bits(bits), key as u32)
}

impl Extremes {
    /// No rows yet.
    pub fn new(units: usize, keep: usize) -> Extremes {
        Extremes { keep, units, pieces: Vec::new(), pending: Vec::new() }
    }

    /// The largest number of bytes of one unit in a state.
    pub fn bytes_per_unit(keep: usize) -> u64 {
        let pending = Extremes::most_pending(keep) * size_of::<(u32, u64)>();
        2 * (PIECES * size_of::<u32>() + Extremes::most_entries(keep) * size_of::<u64>() + pending) as u64
    }

    fn most_pending(keep: usize) -> usize {
        keep / PENDING_SHARE + 1
    }

    fn most_entries(keep: usize) -> usize {
        keep + keep / EXCESS_SHARE
    }

    /// Adds a row to one side of a unit.
    #[inline]
    pub fn offer(&mut self, unit: usize, side: Side, value: f32, place: u32) {
        self.pending.push(((2 * unit + side as usize) as u32, key(side, value, place)));
    }

    /// Sorts pending entries into lists if there are many. Call it after every few rows.
    pub fn settle_if_many(&mut self) {
        if self.pending.len() > 2 * self.units * Extremes::most_pending(self.keep) {
            self.settle();
        }
    }

    fn settle(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut starts = vec![0u32; 2 * self.units + 1];
        self.pending.iter().for_each(|(list, _)| starts[*list as usize + 1] += 1);
        for list in 0..2 * self.units {
            starts[list + 1] += starts[list];
        }
        let (mut next, mut keys) = (starts.clone(), vec![0; self.pending.len()]);
        for (list, key) in std::mem::take(&mut self.pending) {
            let slot = &mut next[list as usize];
            keys[*slot as usize] = key;
            *slot += 1;
        }
        self.pieces.push(Lists { starts, keys });
        self.join_if_many();
    }

    fn join_if_many(&mut self) {
        let entries: usize = self.pieces.iter().map(|piece| piece.keys.len()).sum();
        if self.pieces.len() > PIECES || entries > 2 * self.units * Extremes::most_entries(self.keep) {
            self.pieces = vec![self.joined(false)];
        }
    }

    /// All pieces in one, with the most extreme entries only; sorted from the most extreme on if requested.
    fn joined(&self, sorted: bool) -> Lists {
        let lists = 2 * self.units;
        let mut starts = vec![0u32; lists + 1];
        for list in 0..lists {
            let all: usize = self.pieces.iter().map(|piece| piece.of(list).len()).sum();
            starts[list + 1] = starts[list] + all.min(self.keep) as u32;
        }
        let mut keys = vec![0; starts[lists] as usize];
        // The entries of a range of lists are a part of `keys`.
        let mut parts = Vec::with_capacity(lists.div_ceil(LISTS));
        let mut rest = &mut keys[..];
        for first in (0..lists).step_by(LISTS) {
            let end = (first + LISTS).min(lists);
            let (part, others) = rest.split_at_mut((starts[end] - starts[first]) as usize);
            parts.push((first..end, part));
            rest = others;
        }
        parts.into_par_iter().for_each(|(range, mut part)| {
            let mut all = Vec::new();
            for list in range {
                all.clear();
                self.pieces.iter().for_each(|piece| all.extend_from_slice(piece.of(list)));
                let length = all.len().min(self.keep);
                if length < all.len() && length > 0 {
                    all.select_nth_unstable_by(length - 1, |a, b| b.cmp(a));
                }
                let (into, others) = std::mem::take(&mut part).split_at_mut(length);
                into.copy_from_slice(&all[..length]);
                if sorted {
                    into.sort_unstable_by(|a, b| b.cmp(a));
                }
                part = others;
            }
        });
        Lists { starts, keys }
    }

    /// Sorts all lists, most extreme row first. `order` gave the places of rows.
    pub fn finish(mut self, order: RowOrder) -> Ranked {
        self.settle();
        Ranked { units: self.units, order, lists: self.joined(true) }
    }
}

impl State for Extremes {
    fn merge(&mut self, mut later: Extremes) -> Result<()> {
        if (self.keep, self.units) != (later.keep, later.units) {
            return Err(Error::Bug("merged extremes of different units".into()));
        }
        self.settle();
        later.settle();
        self.pieces.append(&mut later.pieces);
        self.join_if_many();
        Ok(())
    }

    fn bytes(&self) -> u64 {
        if self.pieces.is_empty() && self.pending.is_empty() {
            return self.units as u64 * Extremes::bytes_per_unit(self.keep);
        }
        (self.pieces.iter().map(Lists::bytes).sum::<usize>() + size_of_val(&self.pending[..])) as u64
    }
}

/// The extreme rows of every unit, most extreme first.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::metrics) struct Ranked {
    units: usize,
    order: RowOrder,
    lists: Lists,
}

impl Ranked {
    /// Number of units.
    pub fn units(&self) -> usize {
        self.units
    }

    fn list(&self, unit: usize, side: Side) -> &[u64] {
        self.lists.of(2 * unit + side as usize)
    }

    /// Number of rows on a side of a unit.
    pub fn count(&self, unit: usize, side: Side) -> usize {
        self.list(unit, side).len()
    }

    /// Bytes of all lists.
    pub fn bytes(&self) -> u64 {
        self.lists.bytes() as u64
    }

    /// The row of a rank on a side of a unit; rank 0 is the most extreme one.
    pub fn row(&self, unit: usize, side: Side, rank: usize) -> u32 {
        self.order.row(entry(side, self.list(unit, side)[rank]).1)
    }

    /// Whether all rows of a side have the same activation, so that only the order of rows selected them.
    pub fn is_arbitrary(&self, unit: usize, side: Side) -> bool {
        let list = self.list(unit, side);
        let value = |key: Option<&u64>| key.map(|&key| entry(side, key).0);
        list.len() > 1 && value(list.first()) == value(list.last())
    }

    /// The most extreme activation on a side of a unit; `None` without rows.
    pub fn value(&self, unit: usize, side: Side) -> Option<f32> {
        self.list(unit, side).first().map(|&key| entry(side, key).0)
    }

    /// Largest minus smallest activation of a unit.
    pub fn range(&self, unit: usize) -> Option<f64> {
        let [low, high] = [Side::Low, Side::High].map(|side| self.value(unit, side).map(f64::from));
        Some(high? - low?)
    }

    /// Replaces the lists of some units by those of another selection, in which they are numbered in order.
    pub fn replaced(&self, units: &[usize], other: &Ranked) -> Ranked {
        let mut lists = Lists { starts: vec![0], keys: Vec::with_capacity(self.lists.keys.len()) };
        for unit in 0..self.units {
            for side in [Side::Low, Side::High] {
                let list = match units.binary_search(&unit) {
                    Ok(index) => other.list(index, side),
                    Err(_) => self.list(unit, side),
                };
                lists.keys.extend_from_slice(list);
                lists.starts.push(lists.keys.len() as u32);
            }
        }
        Ranked { units: self.units, order: self.order, lists }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ranked: &Ranked, unit: usize, side: Side) -> Vec<u32> {
        (0..ranked.count(unit, side)).map(|rank| ranked.row(unit, side, rank)).collect()
    }

    #[test]
    fn ties_are_ordered_by_row() {
        // Activations 1 0 1 −0 2 of rows 0 to 4, ascending by (activation, row): 1 3 0 2 4.
        let mut extremes = Extremes::new(2, 3);
        for (row, value) in [1.0, 0.0, 1.0, -0.0, 2.0].into_iter().enumerate() {
            [Side::Low, Side::High].iter().for_each(|&side| extremes.offer(1, side, value, row as u32));
        }
        let ranked = extremes.finish(RowOrder::Row);
        assert_eq!(rows(&ranked, 1, Side::Low), [1, 3, 0]);
        assert_eq!(rows(&ranked, 1, Side::High), [4, 2, 0]);
        assert_eq!((ranked.range(1), ranked.range(0), ranked.count(0, Side::Low)), (Some(2.0), None, 0));
        let mut again = Extremes::new(1, 3);
        again.offer(0, Side::High, 7.0, 9);
        let replaced = ranked.replaced(&[0], &again.finish(RowOrder::Row));
        assert_eq!((rows(&replaced, 0, Side::High), rows(&replaced, 1, Side::Low)), (vec![9], vec![1, 3, 0]));
    }

    #[test]
    fn merging_in_any_tree_equals_sorting() {
        let value = |unit: usize, row: usize| ((row * 37 + unit * 11) % 23) as f32 - 11.0;
        for keep in [0, 1, 7, 40, 300] {
            let part = |range: std::ops::Range<usize>| {
                let mut part = Extremes::new(3, keep);
                for row in range {
                    for unit in 0..3 {
                        let (value, row) = (value(unit, row), row as u32);
                        [Side::Low, Side::High].iter().for_each(|&side| part.offer(unit, side, value, row));
                    }
                    part.settle_if_many();
                }
                part
            };
            let mut left = part(0..50);
            let mut right = part(50..120);
            right.merge(part(120..200)).unwrap();
            left.merge(right).unwrap();
            let (merged, whole) = (left.finish(RowOrder::Row), part(0..200).finish(RowOrder::Row));
            assert_eq!(merged, whole);
            for unit in 0..3 {
                let mut order: Vec<usize> = (0..200).collect();
                order.sort_by(|&a, &b| value(unit, a).total_cmp(&value(unit, b)).then(a.cmp(&b)));
                let low: Vec<u32> = order.iter().take(keep).map(|&row| row as u32).collect();
                let high: Vec<u32> = order.iter().rev().take(keep).map(|&row| row as u32).collect();
                assert_eq!((rows(&merged, unit, Side::Low), rows(&merged, unit, Side::High)), (low, high));
            }
        }
        assert!(Extremes::new(1, 2).merge(Extremes::new(1, 3)).is_err());
    }
}
