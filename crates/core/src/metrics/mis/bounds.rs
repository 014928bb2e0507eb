//! Bounds of the activations of units, guessed from a sample of rows: only rows outside of them can be extreme.

use std::ops::Range;

use etalon_kernel::outliers::Outliers;
use serde::{Deserialize, Serialize};

use super::row_order::RowOrder;
use crate::error::Result;
use crate::run::{Job, UnitActivations};

/// Units whose bounds are found together.
pub(super) const BLOCK: usize = 256;

/// Rows at both ends that are searched for ties.
const END_ROWS: usize = 512;

/// One of this many rows of the sample gives bounds of the sample.
const STEP: usize = 8;

/// Equal values in the sample from which on a unit has ties at its bound.
const TIES: usize = 4;

/// The bounds of one unit. A row outside of them may be among the extreme ones; a row on a bound only before or after some
/// place in the order of equal activations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Bounds {
    pub low: f32,
    pub high: f32,
    /// Rows with this place or a later one that are equal to `low` are not among the lowest. All count if it is the largest number.
    pub low_until: u32,
    /// Rows with an earlier place that are equal to `high` are not among the highest.
    pub high_from: u32,
}

pub(super) const NO_BOUNDS: Bounds =
    Bounds { low: f32::INFINITY, high: f32::NEG_INFINITY, low_until: u32::MAX, high_from: 0 };

impl Bounds {
    /// Whether a value with a place may be among the lowest.
    #[inline]
    pub fn is_low(&self, value: f32, place: u32) -> bool {
        value < self.low || (value == self.low && (place < self.low_until || self.low_until == u32::MAX))
    }

    /// Whether a value with a place may be among the highest.
    #[inline]
    pub fn is_high(&self, value: f32, place: u32) -> bool {
        value > self.high || (value == self.high && place >= self.high_from)
    }
}

/// The bounds of many units as lists for comparisons, without and with the values on bounds.
pub(super) struct BoundLists {
    low: [Vec<f32>; 2],
    high: [Vec<f32>; 2],
    /// From this place on no value on a low bound counts, and before that place none on a high bound.
    low_until: u32,
    high_from: u32,
}

impl BoundLists {
    pub fn new(bounds: &[Bounds]) -> BoundLists {
        let of = |value: &dyn Fn(&Bounds) -> f32| bounds.iter().map(value).collect::<Vec<_>>();
        let without_low =
            |bounds: &Bounds| if bounds.low_until == u32::MAX { bounds.low } else { bounds.low.next_down() };
        let without_high = |bounds: &Bounds| if bounds.high_from == 0 { bounds.high } else { bounds.high.next_up() };
        let tied = |untied: u32| move |limit: &u32| *limit != untied;
        BoundLists {
            low: [of(&without_low), of(&|bounds| bounds.low)],
            high: [of(&without_high), of(&|bounds| bounds.high)],
            low_until: bounds.iter().map(|bounds| bounds.low_until).filter(tied(u32::MAX)).max().unwrap_or(0),
            high_from: bounds.iter().map(|bounds| bounds.high_from).filter(tied(0)).min().unwrap_or(u32::MAX),
        }
    }

    /// Which values on bounds count for a row with a place: one of four cases.
    #[inline]
    pub fn case(&self, place: u32) -> usize {
        2 * usize::from(place < self.low_until) + usize::from(place >= self.high_from)
    }

    /// The inclusive bounds in a case.
    #[inline]
    pub fn of_case(&self, case: usize) -> (&[f32], &[f32]) {
        (&self.low[case / 2], &self.high[case % 2])
    }

    /// The units for which 0 can be extreme in a case.
    pub fn at_zero(&self, case: usize) -> Vec<usize> {
        let (low, high) = self.of_case(case);
        (0..low.len()).filter(|&unit| low[unit] >= 0.0 || high[unit] <= 0.0).collect()
    }
}

/// The rows of the sample: evenly spaced, so that data sorted by class are sampled well.
fn sample(rows: usize) -> Vec<usize> {
    let count = (2048 + rows / 64).min(rows);
    (0..count).map(|index| (index as u128 * rows as u128 / count as u128) as usize).collect()
}

/// Ranks of a sample that contain the `keep` highest of all rows, very probably: four standard deviations more than
/// expected.
fn sampled_rank(keep: usize, sampled: usize, rows: usize) -> usize {
    let expected = keep as f64 * sampled as f64 / rows.max(1) as f64;
    if sampled == rows { keep } else { ((expected + 4.0 * expected.sqrt() + 4.0).ceil() as usize).min(keep) }
}

/// Rows of the activations of a block of units, row by row.
struct Table {
    values: Vec<f32>,
    units: usize,
}

impl Table {
    fn read(
        activations: &UnitActivations,
        units: &Range<usize>,
        rows: impl ExactSizeIterator<Item = usize>,
    ) -> Result<Table> {
        let mut values = vec![0.0; rows.len() * units.len()];
        for (row, into) in rows.zip(values.chunks_exact_mut(units.len().max(1))) {
            activations.fill(row, units.clone(), into)?;
        }
        Ok(Table { values, units: units.len() })
    }

    fn rows(&self) -> usize {
        self.values.len() / self.units.max(1)
    }

    /// The values of a unit, in every `step`-th row.
    fn column(&self, unit: usize, step: usize) -> impl DoubleEndedIterator<Item = f32> + ExactSizeIterator + '_ {
        (0..self.rows()).step_by(step).map(move |row| self.values[row * self.units + unit])
    }
}

/// The bounds of some units: the ranks of a sample that very probably contain the `keep` lowest and highest rows.
pub(super) fn find_bounds(
    job: &Job<'_>,
    activations: &UnitActivations,
    units: Range<usize>,
    keep: usize,
    order: RowOrder,
) -> Result<Vec<Bounds>> {
    let rows = activations.rows();
    let sampled = sample(rows);
    let rank = sampled_rank(keep, sampled.len(), rows);
    if rank == 0 || sampled.is_empty() {
        return Ok(vec![NO_BOUNDS; units.len()]);
    }
    // The sample, and at most all of it again as candidates.
    let bytes = 4 * units.len() as u64 * (3 * sampled.len() + END_ROWS) as u64;
    let _memory = job.budget().reserve(bytes, "a sample of activations")?;
    let count = sampled.len();
    let ranked = ranked(&Table::read(activations, &units, sampled.into_iter())?, rank);
    job.check()?;
    let mut bounds: Vec<Bounds> =
        ranked.iter().map(|[low, high]| Bounds { low: low.value, high: high.value, ..NO_BOUNDS }).collect();
    if order != RowOrder::Row {
        for (bounds, [low, high]) in bounds.iter_mut().zip(&ranked) {
            let places = |at: &AtRank| first_rows(keep, at.ties as f64, count as f64, rows as f64);
            bounds.low_until = places(low);
            bounds.high_from = u32::MAX - places(high);
        }
        return Ok(bounds);
    }
    let ends = END_ROWS.min(rows);
    if ranked.iter().any(|[low, _]| low.tied()) {
        let first = Table::read(activations, &units, 0..ends)?;
        for (unit, (bounds, _)) in bounds.iter_mut().zip(&ranked).enumerate().filter(|(_, (_, [low, _]))| low.tied()) {
            // The row after the first `keep` rows that are at least as extreme as the bound.
            let enough = first.column(unit, 1).enumerate().filter(|(_, value)| *value <= bounds.low).nth(keep - 1);
            bounds.low_until = enough.map_or(u32::MAX, |(row, _)| row as u32 + 1);
        }
    }
    if ranked.iter().any(|[_, high]| high.tied()) {
        let last = Table::read(activations, &units, rows - ends..rows)?;
        for (unit, (bounds, _)) in bounds.iter_mut().zip(&ranked).enumerate().filter(|(_, (_, [_, high]))| high.tied())
        {
            let enough =
                last.column(unit, 1).enumerate().rev().filter(|(_, value)| *value >= bounds.high).nth(keep - 1);
            bounds.high_from = enough.map_or(0, |(row, _)| (rows - ends + row) as u32);
        }
    }
    Ok(bounds)
}

/// How many of the first shuffled rows, as a share of `u32::MAX`, contain `keep` rows with one activation, very probably; `ties` of `sampled` rows have
/// it.
fn first_rows(keep: usize, ties: f64, sampled: f64, rows: f64) -> u32 {
    // At least `least` rows have it and `needed` of them are wanted, each with a margin of four standard deviations.
    let least = (ties - 4.0 * ties.sqrt() - 4.0) * rows / sampled;
    let needed = keep as f64 + 4.0 * (keep as f64).sqrt() + 4.0;
    if needed >= least { u32::MAX } else { (needed / least * f64::from(u32::MAX)) as u32 }
}

/// A value of a sample at a rank, and how many values are equal to it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct AtRank {
    value: f32,
    ties: usize,
}

impl AtRank {
    fn tied(&self) -> bool {
        self.ties >= TIES
    }
}

/// The `rank`-th lowest and highest value of every unit. Only values outside of the bounds of a smaller sample are ranked.
fn ranked(table: &Table, rank: usize) -> Vec<[AtRank; 2]> {
    let (rows, units) = (table.rows(), table.units);
    let coarse = rows.div_ceil(STEP);
    let coarse_rank = sampled_rank(rank, coarse, rows);
    let mut column = Vec::with_capacity(rows);
    let (mut low, mut high) = (Vec::with_capacity(units), Vec::with_capacity(units));
    for unit in 0..units {
        column.clear();
        column.extend(table.column(unit, STEP));
        let index = coarse_rank.min(column.len()) - 1;
        low.push(*column.select_nth_unstable_by(index, f32::total_cmp).1 + 0.0);
        high.push(*column.select_nth_unstable_by(coarse - 1 - index, f32::total_cmp).1 + 0.0);
    }
    let expected = 2 * rows * coarse_rank / coarse;
    let candidates = || vec![Vec::with_capacity(expected.min(rows)); units];
    let (mut lowest, mut highest): (Vec<Vec<f32>>, Vec<Vec<f32>>) = (candidates(), candidates());
    let mut outliers = Outliers::default();
    for values in table.values.chunks_exact(units.max(1)) {
        for &unit in outliers.find(values, &low, &high) {
            let unit = unit as usize;
            if values[unit] <= low[unit] {
                lowest[unit].push(values[unit]);
            }
            if values[unit] >= high[unit] {
                highest[unit].push(values[unit]);
            }
        }
    }
    let at_rank = |unit: usize, candidates: &mut Vec<f32>, is_high: bool| {
        if candidates.len() < rank {
            // The smaller sample was not typical.
            candidates.clear();
            candidates.extend(table.column(unit, 1));
        }
        let index = if is_high { candidates.len() - rank } else { rank - 1 };
        let value = *candidates.select_nth_unstable_by(index, f32::total_cmp).1 + 0.0;
        AtRank { value, ties: candidates.iter().filter(|other| **other == value).count() }
    };
    let pairs = lowest.iter_mut().zip(&mut highest).enumerate();
    pairs.map(|(unit, (low, high))| [at_rank(unit, low, false), at_rank(unit, high, true)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn ranks_equal_those_of_sorted_columns() {
        let mut random = stream(2, "bounds", 0);
        for (rows, rank) in [(1, 1), (9, 9), (700, 1), (700, 25), (2829, 29)] {
            // Ordinary, tied, sorted, constant, and untypical in every eighth row.
            let units = 5;
            let row = |row: usize, random: &mut _| {
                let value = unit(random) as f32 - 0.5;
                let often = if row.is_multiple_of(STEP) { 100.0 * value.abs() } else { value };
                [value, (3.0 * value).round(), row as f32, 2.0, often]
            };
            let values: Vec<f32> = (0..rows).flat_map(|index| row(index, &mut random)).collect();
            let table = Table { values, units };
            for (unit, found) in ranked(&table, rank).into_iter().enumerate() {
                let mut sorted: Vec<f32> = table.column(unit, 1).collect();
                sorted.sort_by(f32::total_cmp);
                assert_eq!(found.map(|at| at.value), [sorted[rank - 1] + 0.0, sorted[rows - rank] + 0.0], "{unit}");
                let ties = |value: f32| sorted.iter().filter(|other| **other == value).count();
                assert_eq!(found.map(|at| at.ties), found.map(|at| ties(at.value)), "{unit}");
            }
        }
    }
}
