//! The selection of extreme rows: bounds from a sample of rows, then one pass that looks only at rows outside of them.
//!
//! Bounds are guesses: a unit with too few rows outside of them is selected again without bounds. The result is exact.

use std::ops::Range;

use etalon_kernel::outliers::Outliers;
use etalon_kernel::product::rows_by_rows;

use super::bounds::{BLOCK, BoundLists, Bounds, NO_BOUNDS, find_bounds};
use super::extremes::{Extremes, Ranked, Side};
use super::row_order::RowOrder;
use crate::context::Reserved;
use crate::error::{InputError, Result};
use crate::run::{Job, Over, RowBatch, UNIT_ACTIVATIONS, UnitActivations, UnitBatch, Work};

/// Units that are selected again together.
const AGAIN: usize = 64;

/// Rows that are read before entries are sorted into lists.
const TOGETHER: usize = 16;

/// Bytes of one state. Fixed, because stages must not depend on the memory of a run.
const STATE_BYTES: u64 = 64 << 20;

/// The `keep` lowest and highest rows of every unit; `order` is that of equal activations. Rows must be at least `keep`.
pub(in crate::metrics) fn extreme_rows(
    job: &Job<'_>,
    work: &mut Work<'_>,
    keep: usize,
    order: RowOrder,
) -> Result<Vec<Reserved<Ranked>>> {
    let activations = job.get(&UNIT_ACTIVATIONS)?;
    let (rows, units) = (activations.rows(), activations.units());
    if rows >= u32::MAX as usize {
        return Err(InputError::new("too many rows to rank")
            .expected(format!("fewer than {}", u32::MAX))
            .found(rows)
            .advice("evaluate a sample of the rows")
            .into());
    }
    let step = ranges(units, keep);
    let mut selected = Vec::new();
    for first in (0..units).step_by(step) {
        selected.push(select_range(job, work, first..(first + step).min(units), keep, order)?);
    }
    Ok(selected)
}

/// Units per range: one [`Ranked`] each.
pub(in crate::metrics) fn ranges(units: usize, keep: usize) -> usize {
    ((STATE_BYTES / Extremes::bytes_per_unit(keep)).max(1) as usize).min(units.max(1))
}

fn select_range(
    job: &Job<'_>,
    work: &mut Work<'_>,
    units: Range<usize>,
    keep: usize,
    order: RowOrder,
) -> Result<Reserved<Ranked>> {
    let activations = job.get(&UNIT_ACTIVATIONS)?;
    let blocks = work.blocks("bounds of units", units.len().div_ceil(BLOCK), |block| {
        let first = units.start + block * BLOCK;
        find_bounds(job, activations, first..(first + BLOCK).min(units.end), keep, order)
    })?;
    let bounds: Vec<Bounds> = blocks.iter().flatten().copied().collect();
    let numbers: Vec<usize> = units.clone().collect();
    let selection =
        Selection { activations, lists: BoundLists::new(&bounds), bounds, order, units: Selected::Range(units) };
    let empty = || Extremes::new(selection.bounds.len(), keep);
    let found = work.pass("extreme rows", Over::ROWS, empty, |state, rows| selection.add(state, rows))?;
    let (found, mut memory) = found.into_parts();
    let mut ranked = job.context.install(|| found.finish(order));
    let complete = |unit: usize| [Side::Low, Side::High].iter().all(|&side| ranked.count(unit, side) == keep);
    let missing: Vec<usize> = (0..ranked.units()).filter(|&unit| !complete(unit)).collect();
    for some in missing.chunks(AGAIN) {
        let bounds = vec![NO_BOUNDS; some.len()];
        let again = Selection {
            activations,
            lists: BoundLists::new(&bounds),
            bounds,
            order,
            units: Selected::List(some.iter().map(|&unit| numbers[unit]).collect()),
        };
        let empty = || Extremes::new(some.len(), keep);
        let found = work.pass("extreme rows again", Over::ROWS, empty, |state, rows| again.add(state, rows))?;
        ranked = ranked.replaced(some, &found.into_parts().0.finish(order));
    }
    memory.resize(ranked.bytes(), "the extreme rows of units")?;
    Ok(Reserved::new(ranked, memory))
}

/// The units of a pass.
enum Selected {
    Range(Range<usize>),
    List(Vec<usize>),
}

/// A pass over all rows.
struct Selection<'a> {
    activations: &'a UnitActivations,
    /// By selected unit.
    bounds: Vec<Bounds>,
    lists: BoundLists,
    order: RowOrder,
    units: Selected,
}

impl Selection<'_> {
    fn add(&self, state: &mut Extremes, rows: &RowBatch<'_>) -> Result<()> {
        let mut outliers = Outliers::default();
        let offer = |state: &mut Extremes, unit: usize, value: f32, place: u32| {
            let bounds = &self.bounds[unit];
            let (is_low, is_high) = (bounds.is_low(value, place), bounds.is_high(value, place));
            // The side is chosen without a branch, which would be mispredicted half of the time.
            if is_low | is_high {
                state.offer(unit, if is_low { Side::Low } else { Side::High }, value, place);
            }
            if is_low & is_high {
                state.offer(unit, Side::High, value, place);
            }
        };
        let mut add_dense = |state: &mut Extremes, values: &[f32], row: usize| {
            let place = self.order.place(row as u32);
            let (low, high) = self.lists.of_case(self.lists.case(place));
            for &unit in outliers.find(values, low, high) {
                offer(state, unit as usize, values[unit as usize], place);
            }
            if row % TOGETHER == TOGETHER - 1 {
                state.settle_if_many();
            }
        };
        let units = match &self.units {
            Selected::Range(units) => units,
            Selected::List(list) => {
                let mut values = vec![0.0; list.len()];
                let batch = rows.get(&UNIT_ACTIVATIONS)?;
                for row in rows.range.clone() {
                    for (&unit, value) in list.iter().zip(&mut values) {
                        match &batch {
                            UnitBatch::Dense(tile) => *value = tile.row(row - tile.first_row)[unit],
                            _ => self.activations.fill(row, unit..unit + 1, std::slice::from_mut(value))?,
                        }
                    }
                    add_dense(state, &values, row);
                }
                return Ok(());
            }
        };
        match rows.get(&UNIT_ACTIVATIONS)? {
            UnitBatch::Dense(tile) => {
                for index in 0..tile.rows() {
                    add_dense(state, &tile.row(index)[units.clone()], tile.first_row + index);
                }
            }
            UnitBatch::Products(tile, directions) => {
                let directions = directions.tile(units.clone())?;
                let mut products = vec![0.0; TOGETHER * units.len()];
                for (block, values) in tile.values.chunks(TOGETHER * tile.width).enumerate() {
                    let products = &mut products[..values.len() / tile.width * units.len()];
                    rows_by_rows(values, &directions.values, tile.width, products);
                    for (index, products) in products.chunks_exact(units.len()).enumerate() {
                        add_dense(state, products, tile.first_row + block * TOGETHER + index);
                    }
                }
            }
            UnitBatch::Sparse(codes) => {
                // Zeros are not stored. They are looked at only where a zero can be extreme, which is in few rows.
                let mut at_zero: [Option<Vec<usize>>; 4] = Default::default();
                for (row, latents, values) in codes.iter() {
                    let place = self.order.place(row as u32);
                    let case = self.lists.case(place);
                    let at_zero = at_zero[case].get_or_insert_with(|| self.lists.at_zero(case));
                    let bound = |end: usize| latents.partition_point(|&latent| (latent as usize) < end);
                    let (from, to) = (bound(units.start), bound(units.end));
                    let latents = &latents[from..to];
                    for (&latent, &value) in latents.iter().zip(&values[from..to]) {
                        offer(state, latent as usize - units.start, value, place);
                    }
                    let mut next = 0;
                    for &unit in &*at_zero {
                        while latents.get(next).is_some_and(|&latent| (latent as usize) < unit + units.start) {
                            next += 1;
                        }
                        if latents.get(next).is_none_or(|&latent| latent as usize != unit + units.start) {
                            offer(state, unit, 0.0, place);
                        }
                    }
                    if row % TOGETHER == TOGETHER - 1 {
                        state.settle_if_many();
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::metrics::testing::{codes, with_work};
    use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Inputs, SIMILARITY};
    use crate::store::ActivationStore;
    use etalon_kernel::random::{stream, unit};

    /// Lists by sorting.
    fn sorted(values: &[f32], units: usize, keep: usize, order: RowOrder) -> Vec<[Vec<u32>; 2]> {
        let rows = values.len() / units;
        let lists = |unit: usize| {
            let mut sorted: Vec<usize> = (0..rows).collect();
            let value = |row: usize| values[row * units + unit] + 0.0;
            let place = |row: usize| order.place(row as u32);
            sorted.sort_by(|&a, &b| value(a).total_cmp(&value(b)).then(place(a).cmp(&place(b))));
            let low = sorted.iter().take(keep).map(|&row| row as u32).collect();
            [low, sorted.iter().rev().take(keep).map(|&row| row as u32).collect()]
        };
        (0..units).map(lists).collect()
    }

    fn selected(inputs: &Inputs, keep: usize, order: RowOrder, threads: usize) -> Vec<[Vec<u32>; 2]> {
        let context = Context::silent(threads, 1 << 30).unwrap();
        let inputs = inputs.completed();
        let found = with_work(&super::super::Mis, &inputs, &context, |job, work| extreme_rows(job, work, keep, order));
        let ranges = found.unwrap();
        let lists = |ranked: &Ranked, unit: usize| {
            [Side::Low, Side::High]
                .map(|side| (0..ranked.count(unit, side)).map(|rank| ranked.row(unit, side, rank)).collect())
        };
        ranges
            .iter()
            .flat_map(|ranked| (0..ranked.units()).map(|unit| lists(ranked, unit)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn selection_equals_sorting_for_dense_sparse_tied_sorted_and_constant_units() {
        let (rows, units) = (9000, 7);
        let mut random = stream(4, "selection", 0);
        let mut values = vec![0.0f32; rows * units];
        for (row, values) in values.chunks_exact_mut(units).enumerate() {
            let value = unit(&mut random) as f32 - 0.3;
            values[0] = value;
            // Mostly 0, rounded, sorted, periodic with the spacing of the sample, constant, rarely on.
            values[1] = (value - 0.6).max(0.0);
            values[2] = (4.0 * value).round().max(0.0);
            values[3] = row as f32;
            values[4] = if row % 4 == 1 { value + 10.0 } else { value };
            values[6] = if row % 1000 == 7 { value } else { 0.0 };
        }
        let store = || ActivationStore::from_rows(values.clone(), units).unwrap();
        let dense = Inputs::default().with(&EMBEDDINGS, store()).with(&SIMILARITY, store());
        let sparse = Inputs::default().with(&CODES, codes(&values, units));
        let same = (0..units * units).map(|i| if i % (units + 1) == 0 { 1.0 } else { 0.0 }).collect();
        let projected = Inputs::default()
            .with(&EMBEDDINGS, store())
            .with(&DIRECTIONS, ActivationStore::from_rows(same, units).unwrap());
        for (keep, order) in
            [1, 30, 200, 600].iter().flat_map(|&keep| [(keep, RowOrder::Row), (keep, RowOrder::Shuffled(5))])
        {
            let expected = sorted(&values, units, keep, order);
            for (name, inputs) in [("dense", &dense), ("sparse", &sparse), ("projected", &projected)] {
                for threads in [1, 2, 7] {
                    let found = selected(inputs, keep, order, threads);
                    for unit in 0..units {
                        assert!(
                            found[unit] == expected[unit],
                            "{name}, keep {keep}, {order:?}, unit {unit}, {threads} threads"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn one_unit_takes_less_than_four_kilobytes() {
        assert!(Extremes::bytes_per_unit(201) <= 4096);
    }
}
