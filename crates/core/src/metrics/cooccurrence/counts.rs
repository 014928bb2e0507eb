//! Counts of entries of two co-occurrence matrices above a grid of thresholds, in both and in only one of them.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::run::Count;
use crate::state;

/// Thresholds: 0, then quarters of a decade from 10⁻⁶ to 10⁶.
pub(super) const THRESHOLDS: usize = 50;

/// Groups of rows. The jackknife leaves each out in turn; the first half of the groups is one half of the rows.
pub(super) const GROUPS: usize = 20;

/// A threshold by index.
pub(super) fn threshold(index: usize) -> f64 {
    match index.checked_sub(1) {
        None => 0.0,
        Some(quarters) => libm::pow(10.0, quarters as f64 / 4.0 - 6.0),
    }
}

/// The index of the largest threshold that is not above a value.
pub(super) fn threshold_index(value: f64) -> usize {
    (0..THRESHOLDS).rev().find(|&index| threshold(index) <= value).unwrap_or(0)
}

/// Finds the rank of a value among the thresholds with one lookup: doubles with the same leading bits have at most one
/// threshold between them.
pub(super) struct ThresholdTable {
    /// All thresholds, then infinity.
    thresholds: [f64; THRESHOLDS + 1],
    /// By leading bits, the number of thresholds below the smallest double that has them.
    first: Vec<u8>,
}

/// Bits of a double after its leading bits, which are sign, exponent and the first two of the fraction.
const TRAILING: u32 = 50;

pub(super) fn threshold_table() -> &'static ThresholdTable {
    static TABLE: OnceLock<ThresholdTable> = OnceLock::new();
    TABLE.get_or_init(|| {
        let thresholds: [f64; THRESHOLDS + 1] =
            std::array::from_fn(|index| if index < THRESHOLDS { threshold(index) } else { f64::INFINITY });
        let first = |leading: u64| {
            let least = f64::from_bits(leading << TRAILING);
            // Negative values exceed no threshold.
            if least.is_sign_negative() { 0 } else { thresholds.partition_point(|&threshold| threshold < least) as u8 }
        };
        ThresholdTable { first: (0..1 << (64 - TRAILING)).map(first).collect(), thresholds }
    })
}

impl ThresholdTable {
    /// The number of thresholds below a value, which must not be NaN.
    #[inline]
    pub fn below(&self, value: f64) -> u8 {
        let first = self.first[(value.to_bits() >> TRAILING) as usize];
        first + u8::from(self.thresholds[usize::from(first)] < value)
    }
}

/// Counts entries of two matrices, A and B, by how many thresholds each exceeds.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct JointCounts {
    /// A row of B for every A.
    counts: Count,
}

state!(JointCounts { counts });

const ROW: usize = THRESHOLDS + 1;

/// Counts of entries above one threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Exceeding {
    pub in_a: u64,
    pub in_b: u64,
    pub only_b: u64,
    pub only_a: u64,
}

impl Exceeding {
    fn add(&mut self, in_a: bool, in_b: bool, count: u64) {
        self.in_a += u64::from(in_a) * count;
        self.in_b += u64::from(in_b) * count;
        self.only_b += u64::from(in_b && !in_a) * count;
        self.only_a += u64::from(in_a && !in_b) * count;
    }
}

impl JointCounts {
    pub fn new() -> JointCounts {
        JointCounts { counts: Count::new(ROW * ROW) }
    }

    /// Adds an entry of both, by the number of thresholds below it in each.
    #[inline]
    pub fn add(&mut self, a: u8, b: u8) {
        self.counts[usize::from(a) * ROW + usize::from(b)] += 1;
    }

    /// The counts above a threshold, by its index.
    pub fn above(&self, threshold: usize) -> Exceeding {
        let mut found = Exceeding::default();
        for (cell, &count) in self.counts.iter().enumerate() {
            found.add(cell / ROW > threshold, cell % ROW > threshold, count);
        }
        found
    }
}

/// All groups of rows, as bits.
pub(super) const ALL: u32 = (1 << GROUPS) - 1;

/// Counts of entries above the threshold without each group of rows.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct WithoutGroup {
    /// Entries by the cases of A and B, a row of B for every A.
    cases: Count,
    /// Other entries: by group, how many are above it in neither, in B, in A, in both.
    others: Count,
}

state!(WithoutGroup { cases, others });

/// Nearly all entries are above the threshold never (case 0), without any group but one (cases 1 to [`GROUPS`]) or without
/// any group (the last case). These are counted by case.
const CASES: usize = GROUPS + 2;

/// The case of all other entries.
const OTHER: u8 = CASES as u8;

/// The case of an entry; `groups` has a bit for every group without which the entry is above the threshold.
#[inline]
pub(super) fn case(groups: u32) -> u8 {
    let missing = ALL & !groups;
    // 32 where none is missing.
    let case = (missing.trailing_zeros() as u8).min(GROUPS as u8) + 1;
    let of_some = if missing & missing.wrapping_sub(1) == 0 { case } else { OTHER };
    if groups == 0 { 0 } else { of_some }
}

/// The inverse of [`case`].
fn groups_of(case: usize) -> u32 {
    match case {
        0 => 0,
        _ if case <= GROUPS => ALL & !(1 << (case - 1)),
        _ => ALL,
    }
}

/// Neither, B, A, both.
const EXCEED: usize = 4;

impl WithoutGroup {
    pub fn new() -> WithoutGroup {
        WithoutGroup { cases: Count::new(CASES * CASES), others: Count::new(GROUPS * EXCEED) }
    }

    /// Adds an entry by its cases in A and B. `groups` returns the bits of both and is called where a case is [`OTHER`].
    #[inline]
    pub fn add(&mut self, a: u8, b: u8, groups: impl FnOnce() -> [u32; 2]) {
        if a.max(b) < OTHER {
            self.cases[usize::from(a) * CASES + usize::from(b)] += 1;
        } else {
            let [in_a, in_b] = groups();
            for (group, counts) in self.others.chunks_exact_mut(EXCEED).enumerate() {
                counts[(2 * (in_a >> group & 1) + (in_b >> group & 1)) as usize] += 1;
            }
        }
    }

    /// The counts without each group.
    pub fn by_group(&self) -> Vec<Exceeding> {
        let of_group = |group: usize| {
            let mut found = Exceeding::default();
            let above = |case: usize| groups_of(case) >> group & 1 == 1;
            for (cell, &count) in self.cases.iter().enumerate() {
                found.add(above(cell / CASES), above(cell % CASES), count);
            }
            for (exceed, &count) in self.others[group * EXCEED..][..EXCEED].iter().enumerate() {
                found.add(exceed / 2 == 1, exceed % 2 == 1, count);
            }
            found
        };
        (0..GROUPS).map(of_group).collect()
    }
}

/// The sum without each part, from the parts before and after it: zeros stay exactly zero.
pub(super) fn sums_without(parts: &[f64]) -> [f64; GROUPS] {
    let mut without = [0.0; GROUPS];
    let mut before = 0.0;
    for (without, part) in without.iter_mut().zip(parts) {
        *without = before;
        before += part;
    }
    let mut after = 0.0;
    for (without, part) in without.iter_mut().zip(parts).rev() {
        *without += after;
        after += part;
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::State;

    #[test]
    fn counts_are_those_of_a_worked_example() {
        // Entries (A, B): (0, 2), (3, 0), (0.5, 2). Above 0: A has 2, B has 2, only B 1, only A 1. Above 1 (index 25):
        // A has 1, B has 2, only B 2, only A 1. Above 10⁶: nothing.
        let mut counts = JointCounts::new();
        for (a, b) in [(0.0, 2.0), (3.0, 0.0), (0.5, 2.0)] {
            counts.add(threshold_table().below(a), threshold_table().below(b));
        }
        assert!((threshold(25) - 1.0).abs() < 1e-12 && threshold(0) == 0.0);
        assert_eq!((threshold_index(0.0), threshold_index(1.1), threshold_index(f64::MAX)), (0, 25, THRESHOLDS - 1));
        assert_eq!(counts.above(0), Exceeding { in_a: 2, in_b: 2, only_b: 1, only_a: 1 });
        assert_eq!(counts.above(25), Exceeding { in_a: 1, in_b: 2, only_b: 2, only_a: 1 });
        assert_eq!(counts.above(THRESHOLDS - 1), Exceeding { in_a: 0, in_b: 0, only_b: 0, only_a: 0 });
        let mut twice = counts.clone();
        twice.merge(counts.clone()).unwrap();
        assert_eq!(twice.above(25), Exceeding { in_a: 2, in_b: 4, only_b: 4, only_a: 2 });
    }

    #[test]
    fn the_table_finds_what_a_search_finds() {
        let near = (0..THRESHOLDS).map(threshold).flat_map(|value| [value, value.next_up(), value.next_down()]);
        let far = [-1.0, f64::MIN_POSITIVE / 2.0, 1e-300, 1e300, f64::INFINITY];
        for value in near.chain(far) {
            let expected = (0..THRESHOLDS).filter(|&index| threshold(index) < value).count();
            assert_eq!(usize::from(threshold_table().below(value)), expected, "{value}");
        }
    }

    #[test]
    fn every_case_is_counted_for_its_groups() {
        // Two entries: A above without any group but 3, B above without 0 and 1 only; A never, B always.
        let mut counts = WithoutGroup::new();
        for [a, b] in [[ALL & !8, 3], [0, ALL]] {
            counts.add(case(a), case(b), || [a, b]);
        }
        assert_eq!([0, ALL & !1, ALL & !8, ALL, 3].map(case), [0, 1, 4, CASES as u8 - 1, OTHER]);
        let counts = counts.by_group();
        let of = |group: usize| [counts[group].in_b, counts[group].only_b, counts[group].in_a, counts[group].only_a];
        assert_eq!((of(0), of(2), of(3)), ([2, 1, 1, 0], [1, 1, 1, 1], [1, 1, 0, 0]));
    }

    #[test]
    fn a_sum_without_its_only_part_is_exactly_zero() {
        let mut parts = [0.0; GROUPS];
        (parts[3], parts[7]) = (0.1, 0.0);
        assert_eq!(sums_without(&parts)[3], 0.0);
        parts[7] = 0.3;
        let without = sums_without(&parts);
        assert_eq!((without[3], without[7], without[0]), (0.3, 0.1, 0.1 + 0.3));
    }
}
