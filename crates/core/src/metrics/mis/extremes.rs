//! The most extreme rows of every unit: a state that keeps only rows that can still be among them.

use etalon_kernel::largest_keys::keep_largest;
use etalon_kernel::outliers::{Limits, Outliers, Ties};
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

pub(super) const SIDES: [Side; 2] = [Side::Low, Side::High];

/// Units that a thread sorts at a time.
const SORTED: usize = 64;

/// An integer that is larger for more extreme entries; the place is that of the row in a [`RowOrder`].
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

/// A limit of a side: only rows that are more extreme can be among the `keep` most extreme ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Limit {
    pub value: f32,
    /// Rows that are equal to `value` are more extreme if their place is before (low side) or after it (high side).
    pub place: u32,
}

/// Limits of the two sides that every row is beyond.
pub(super) const NO_LIMITS: [Limit; 2] =
    [Limit { value: f32::INFINITY, place: u32::MAX }, Limit { value: f32::NEG_INFINITY, place: 0 }];

/// Limits of the two sides that no row is beyond.
const CLOSED: [Limit; 2] =
    [Limit { value: f32::NEG_INFINITY, place: 0 }, Limit { value: f32::INFINITY, place: u32::MAX }];

impl Limit {
    /// The limit that the entry of a key is just beyond.
    fn including(side: Side, key: u64) -> Limit {
        let (value, place) = entry(side, key);
        match side {
            Side::Low if place == u32::MAX => Limit { value: value.next_up(), place: 0 },
            Side::Low => Limit { value, place: place + 1 },
            Side::High if place == 0 => Limit { value: value.next_down(), place: u32::MAX },
            Side::High => Limit { value, place: place - 1 },
        }
    }
}

/// The limits of one side, by unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct SideLimits {
    values: Vec<f32>,
    places: Vec<u32>,
}

/// The `keep` most extreme rows of every unit and side.
///
/// A list has room for a few entries more than `keep`. When it is full, the most extreme ones are kept, and the last of
/// them is the new limit of the list: later rows are compared with it, and most are not beyond it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::metrics) struct Extremes {
    keep: usize,
    /// Entries that a list has room for.
    room: usize,
    /// Entries of all lists as [`key`]s; the low list of a unit is before its high list.
    keys: Vec<u64>,
    /// Entries by list.
    counts: Vec<u32>,
    low: SideLimits,
    high: SideLimits,
}

impl Extremes {
    /// No rows yet; rows that are not beyond the limits of a unit are ignored. Lists have room for almost a quarter more entries
    /// than are kept.
    pub fn new(limits: &[[Limit; 2]], keep: usize) -> Extremes {
        Extremes::with_room(limits, keep, Extremes::room(keep))
    }

    fn room(keep: usize) -> usize {
        keep + (keep * 23 / 100).max(8)
    }

    /// [`Extremes::new`] with room for more entries than are kept.
    pub fn with_room(limits: &[[Limit; 2]], keep: usize, room: usize) -> Extremes {
        let side = |side: Side| {
            let limits = || limits.iter().map(|limits| if keep == 0 { CLOSED } else { *limits }[side as usize]);
            SideLimits {
                values: limits().map(|one| one.value).collect(),
                places: limits().map(|one| one.place).collect(),
            }
        };
        let units = limits.len();
        Extremes {
            keep,
            room,
            keys: vec![0; 2 * units * room],
            counts: vec![0; 2 * units],
            low: side(Side::Low),
            high: side(Side::High),
        }
    }

    /// The number of bytes of one unit.
    pub fn bytes_per_unit(keep: usize) -> u64 {
        Extremes::bytes_with_room(Extremes::room(keep))
    }

    /// The number of bytes of one unit with room for some entries.
    pub fn bytes_with_room(room: usize) -> u64 {
        let limits = size_of::<f32>() + size_of::<u32>();
        2 * (room * size_of::<u64>() + size_of::<u32>() + limits) as u64
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        self.counts.len() / 2
    }

    /// Parts of `units` units each, which threads can fill at the same time.
    pub fn parts(&mut self, units: usize) -> Vec<Part<'_>> {
        let (units, room) = (units.max(1), self.room);
        let keys = self.keys.chunks_mut(2 * units * room);
        let lists = keys.zip(self.counts.chunks_mut(2 * units));
        let low = self.low.values.chunks_mut(units).zip(self.low.places.chunks_mut(units));
        let high = self.high.values.chunks_mut(units).zip(self.high.places.chunks_mut(units));
        let parts = lists.zip(low.zip(high)).enumerate();
        parts
            .map(|(number, ((keys, counts), (low, high)))| Part {
                first_unit: number * units,
                outliers: Outliers::default(),
                ties: Ties::All,
                lists: Lists { keep: self.keep, room, keys, counts, low, high },
            })
            .collect()
    }

    fn list(&self, unit: usize, side: Side) -> &[u64] {
        let list = 2 * unit + side as usize;
        &self.keys[list * self.room..][..self.counts[list] as usize]
    }

    /// The limits that the `keep` most extreme rows of every unit are just beyond; those of a unit with fewer rows are open.
    pub fn limits(mut self) -> Vec<[Limit; 2]> {
        for mut part in self.parts(SORTED) {
            (0..part.lists.counts.len()).for_each(|list| part.lists.trim(list, 0));
        }
        let limit = |unit: usize, side: Side| match self.list(unit, side) {
            list if list.len() < self.keep => NO_LIMITS[side as usize],
            list => list.iter().min().map_or(NO_LIMITS[side as usize], |&key| Limit::including(side, key)),
        };
        (0..self.units()).map(|unit| SIDES.map(|side| limit(unit, side))).collect()
    }

    /// Sorts all lists, most extreme row first. `order` gave the places of rows.
    pub fn finish(mut self, order: RowOrder) -> Ranked {
        self.parts(SORTED).into_par_iter().for_each(|mut part| {
            for list in 0..part.lists.counts.len() {
                part.lists.trim(list, 0);
                part.lists.entries(list).sort_unstable_by(|a, b| b.cmp(a));
            }
        });
        Ranked { order, lists: self }
    }
}

impl State for Extremes {
    fn merge(&mut self, later: Extremes) -> Result<()> {
        if (self.keep, self.units()) != (later.keep, later.units()) {
            return Err(Error::Bug("merged extremes of different units".into()));
        }
        for part in &mut self.parts(SORTED) {
            for unit in 0..part.lists.counts.len() / 2 {
                for side in SIDES {
                    for &key in later.list(part.first_unit + unit, side) {
                        let (value, place) = entry(side, key);
                        part.lists.offer(unit, side, value, place);
                    }
                }
            }
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.units() as u64 * Extremes::bytes_with_room(self.room)
    }
}

/// The lists of consecutive units.
pub(super) struct Part<'a> {
    /// The first of the units.
    pub first_unit: usize,
    outliers: Outliers,
    /// How values that are equal to limits are found.
    ties: Ties,
    lists: Lists<'a>,
}

struct Lists<'a> {
    keep: usize,
    room: usize,
    keys: &'a mut [u64],
    counts: &'a mut [u32],
    low: (&'a mut [f32], &'a mut [u32]),
    high: (&'a mut [f32], &'a mut [u32]),
}

impl Part<'_> {
    /// Number of units.
    pub fn units(&self) -> usize {
        self.lists.counts.len() / 2
    }

    /// Adds the values of all units in a row. `later` are those of a row that will be added soon.
    pub fn add_row(&mut self, values: &[f32], place: u32, later: &[f32]) {
        let lists = &mut self.lists;
        let limits = [&lists.low, &lists.high].map(|(values, places)| Limits { values, places });
        for found in self.outliers.find(values, place, limits, self.ties, later) {
            // The side is chosen without a branch, which would be mispredicted half of the time. A value that is equal to a
            // limit is added even if its place is not beyond it: it will be dropped.
            let unit = found.position();
            let side = if found.is_high() { Side::High } else { Side::Low };
            if lists.push(unit, side, values[unit], place) {
                self.ties = Ties::Outside;
            }
            if found.is_both() {
                lists.push(unit, Side::Low, values[unit], place);
            }
        }
    }

    /// Adds the value of one unit in a row.
    pub fn add(&mut self, unit: usize, value: f32, place: u32) {
        self.lists.offer_both(unit, value, place);
    }
}

impl Lists<'_> {
    #[inline]
    fn offer_both(&mut self, unit: usize, value: f32, place: u32) {
        SIDES.into_iter().for_each(|side| self.offer(unit, side, value, place));
    }

    #[inline]
    fn offer(&mut self, unit: usize, side: Side, value: f32, place: u32) {
        let is_beyond = match side {
            Side::Low => value < self.low.0[unit] || (value == self.low.0[unit] && place < self.low.1[unit]),
            Side::High => value > self.high.0[unit] || (value == self.high.0[unit] && place > self.high.1[unit]),
        };
        if is_beyond {
            self.push(unit, side, value, place);
        }
    }

    /// Adds an entry; returns whether the list had to be trimmed and many rows are equal to its limit.
    #[inline]
    fn push(&mut self, unit: usize, side: Side, value: f32, place: u32) -> bool {
        let list = 2 * unit + side as usize;
        let count = self.counts[list] as usize;
        self.keys[list * self.room + count] = key(side, value, place);
        self.counts[list] = count as u32 + 1;
        count + 1 == self.room && self.trim_full(list)
    }

    fn entries(&mut self, list: usize) -> &mut [u64] {
        &mut self.keys[list * self.room..][..self.counts[list] as usize]
    }

    /// Trims a full list; returns whether its limit has the same value as before. A part of the room may stay filled: that is
    /// found faster than exactly the entries to keep.
    #[cold]
    fn trim_full(&mut self, list: usize) -> bool {
        let limit = |lists: &Self| if list.is_multiple_of(2) { lists.low.0[list / 2] } else { lists.high.0[list / 2] };
        let before = limit(self);
        self.trim(list, (self.room - self.keep) / 5);
        limit(self) == before
    }

    /// Drops entries that are not among the `keep` most extreme ones, but up to `more`, and tightens the limit.
    fn trim(&mut self, list: usize, more: usize) {
        let keep = self.keep;
        if (self.counts[list] as usize) <= keep {
            return;
        }
        let Some((count, last)) = keep_largest(self.entries(list), keep, keep + more) else { return };
        self.counts[list] = count as u32;
        let unit = list / 2;
        let (values, places, side) = match list % 2 {
            0 => (&mut *self.low.0, &mut *self.low.1, Side::Low),
            _ => (&mut *self.high.0, &mut *self.high.1, Side::High),
        };
        (values[unit], places[unit]) = entry(side, last);
    }
}

/// The extreme rows of every unit, most extreme first.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::metrics) struct Ranked {
    order: RowOrder,
    lists: Extremes,
}

impl Ranked {
    /// Number of units.
    pub fn units(&self) -> usize {
        self.lists.units()
    }

    /// Number of rows on a side of a unit.
    pub fn count(&self, unit: usize, side: Side) -> usize {
        self.lists.list(unit, side).len()
    }

    /// The row of a rank on a side of a unit; rank 0 is the most extreme one.
    pub fn row(&self, unit: usize, side: Side, rank: usize) -> u32 {
        self.order.row(entry(side, self.lists.list(unit, side)[rank]).1)
    }

    /// Whether all rows of a side have the same activation, so that only the order of rows selected them.
    pub fn is_arbitrary(&self, unit: usize, side: Side) -> bool {
        let list = self.lists.list(unit, side);
        let value = |key: Option<&u64>| key.map(|&key| entry(side, key).0);
        list.len() > 1 && value(list.first()) == value(list.last())
    }

    /// The most extreme activation on a side of a unit; `None` without rows.
    pub fn value(&self, unit: usize, side: Side) -> Option<f32> {
        self.lists.list(unit, side).first().map(|&key| entry(side, key).0)
    }

    /// Largest minus smallest activation of a unit.
    pub fn range(&self, unit: usize) -> Option<f64> {
        let [low, high] = SIDES.map(|side| self.value(unit, side).map(f64::from));
        Some(high? - low?)
    }

    /// Replaces the lists of some units by those of another selection with the same `keep`, in which they are numbered in
    /// order.
    pub fn replace(&mut self, units: &[usize], other: &Ranked) {
        let room = self.lists.room;
        for (index, &unit) in units.iter().enumerate() {
            let (from, to) = (2 * index, 2 * unit);
            self.lists.keys[to * room..][..2 * room].copy_from_slice(&other.lists.keys[from * room..][..2 * room]);
            self.lists.counts[to..to + 2].copy_from_slice(&other.lists.counts[from..from + 2]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(ranked: &Ranked, unit: usize, side: Side) -> Vec<u32> {
        (0..ranked.count(unit, side)).map(|rank| ranked.row(unit, side, rank)).collect()
    }

    fn open(units: usize, keep: usize) -> Extremes {
        Extremes::new(&vec![NO_LIMITS; units], keep)
    }

    #[test]
    fn ties_are_ordered_by_row() {
        // Activations 1 0 1 −0 2 of rows 0 to 4, ascending by (activation, row): 1 3 0 2 4.
        let mut extremes = open(2, 3);
        for (row, value) in [1.0, 0.0, 1.0, -0.0, 2.0].into_iter().enumerate() {
            extremes.parts(1)[1].add(0, value, row as u32);
        }
        let mut ranked = extremes.finish(RowOrder::Row);
        assert_eq!(rows(&ranked, 1, Side::Low), [1, 3, 0]);
        assert_eq!(rows(&ranked, 1, Side::High), [4, 2, 0]);
        assert_eq!((ranked.range(1), ranked.range(0), ranked.count(0, Side::Low)), (Some(2.0), None, 0));
        let mut again = open(1, 3);
        again.parts(1)[0].add(0, 7.0, 9);
        ranked.replace(&[0], &again.finish(RowOrder::Row));
        assert_eq!((rows(&ranked, 0, Side::High), rows(&ranked, 1, Side::Low)), (vec![9], vec![1, 3, 0]));
    }

    #[test]
    fn limits_include_the_last_row_and_exclude_the_next() {
        // Rows 0 to 3: 1 1 0 1. The second lowest is row 0, the second highest row 1, both with activation 1.
        let mut extremes = open(1, 2);
        for (row, value) in [1.0, 1.0, 0.0, 1.0].into_iter().enumerate() {
            extremes.parts(1)[0].add(0, value, row as u32);
        }
        assert_eq!(extremes.limits(), [[Limit { value: 1.0, place: 1 }, Limit { value: 1.0, place: 0 }]]);
        // The first place is included on the high side, and the last one on the low side, by another value.
        let above = Limit::including(Side::High, key(Side::High, 2.0, 0));
        assert_eq!(above, Limit { value: 2.0f32.next_down(), place: u32::MAX });
        let below = Limit::including(Side::Low, key(Side::Low, 2.0, u32::MAX));
        assert_eq!(below, Limit { value: 2.0f32.next_up(), place: 0 });
        assert_eq!(open(1, 2).limits(), [NO_LIMITS]);
    }

    #[test]
    fn merging_in_any_tree_equals_sorting() {
        let value = |unit: usize, row: usize| ((row * 37 + unit * 11) % 23) as f32 - 11.0;
        for keep in [0, 1, 7, 40, 300] {
            let part = |range: std::ops::Range<usize>| {
                let mut part = open(3, keep);
                for row in range {
                    let values: Vec<f32> = (0..3).map(|unit| value(unit, row)).collect();
                    // Units in parts of two and one.
                    for part in &mut part.parts(2) {
                        part.add_row(&values[part.first_unit..][..part.units()], row as u32, &[]);
                    }
                }
                part
            };
            let mut left = part(0..50);
            let mut right = part(50..120);
            right.merge(part(120..200)).unwrap();
            left.merge(right).unwrap();
            let (merged, whole) = (left.finish(RowOrder::Row), part(0..200).finish(RowOrder::Row));
            for unit in 0..3 {
                let mut order: Vec<usize> = (0..200).collect();
                order.sort_by(|&a, &b| value(unit, a).total_cmp(&value(unit, b)).then(a.cmp(&b)));
                let low: Vec<u32> = order.iter().take(keep).map(|&row| row as u32).collect();
                let high: Vec<u32> = order.iter().rev().take(keep).map(|&row| row as u32).collect();
                for ranked in [&merged, &whole] {
                    assert_eq!(
                        (rows(ranked, unit, Side::Low), rows(ranked, unit, Side::High)),
                        (low.clone(), high.clone())
                    );
                }
            }
        }
        assert!(open(1, 2).merge(open(1, 3)).is_err());
    }

    #[test]
    fn one_unit_takes_less_than_four_kilobytes() {
        assert!(Extremes::bytes_per_unit(201) < 4000);
    }
}
