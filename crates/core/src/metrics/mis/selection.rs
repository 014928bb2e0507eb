//! The selection of extreme rows: limits from a sample of rows, then one pass that looks only at rows beyond them.
//!
//! Limits are guesses: a unit with too few rows beyond them is selected again without limits. The result is exact.

use std::ops::Range;

use etalon_kernel::product::rows_by_rows;
use rayon::prelude::*;

use super::extremes::{Extremes, Limit, NO_LIMITS, Part, Ranked, SIDES};
use super::limits::{BLOCK, find_limits};
use super::row_order::RowOrder;
use super::zeros::Zeros;
use crate::codes::CodesView;
use crate::context::Reserved;
use crate::error::{InputError, Result};
use crate::run::{Job, Over, RowBatch, UNIT_ACTIVATIONS, UnitActivations, UnitBatch, Work};
use crate::store::{ActivationStore, Tile};

/// Units that are selected again together.
const AGAIN: usize = 64;

/// Rows whose products are computed together.
const TOGETHER: usize = 16;

/// Rows that a thread reads at a time.
const BATCH: usize = 1024;

/// Rows between one that is compared and one that is prefetched.
const AHEAD: usize = 4;

/// Fewest units that a thread compares: 1 kB of a row.
const PART: usize = 256;

/// Bytes of one state. Fixed, because stages must not depend on the memory of a run.
const STATE_BYTES: u64 = 64 << 20;

/// Multiplications, or comparisons, of a unit of work: seconds.
const UNIT_COST: usize = 1 << 32;

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
    let unit_rows = unit_rows(activations, step);
    let mut selected = Vec::new();
    for first in (0..units).step_by(step) {
        selected.push(select_range(job, work, first..(first + step).min(units), keep, order, unit_rows)?);
    }
    Ok(selected)
}

/// Units per range: one [`Ranked`] each.
pub(in crate::metrics) fn ranges(units: usize, keep: usize) -> usize {
    ((STATE_BYTES / Extremes::bytes_per_unit(keep)).max(1) as usize).min(units.max(1))
}

/// Rows of a unit of work.
fn unit_rows(activations: &UnitActivations, units: usize) -> usize {
    let row_cost = match activations {
        UnitActivations::Directions(store, _) => store.width().saturating_mul(units),
        UnitActivations::Latents(_) | UnitActivations::Neurons(_) => units,
    };
    (UNIT_COST / row_cost.max(1)).next_multiple_of(BATCH)
}

fn select_range(
    job: &Job<'_>,
    work: &mut Work<'_>,
    units: Range<usize>,
    keep: usize,
    order: RowOrder,
    unit_rows: usize,
) -> Result<Reserved<Ranked>> {
    let activations = job.get(&UNIT_ACTIVATIONS)?;
    let blocks = work.blocks("limits of units", units.len().div_ceil(BLOCK), |block| {
        let first = units.start + block * BLOCK;
        find_limits(job, activations, first..(first + BLOCK).min(units.end), keep, order)
    })?;
    let limits: Vec<[Limit; 2]> = blocks.iter().flatten().copied().collect();
    let selection = Selection { job, order, zeros: Zeros::new(&limits), units: Selected::Range(units.clone()) };
    let empty = || Extremes::new(&limits, keep);
    let add = |state: &mut Extremes, rows: &RowBatch<'_>| selection.add(state, rows);
    let found = work.pass_in_order("extreme rows", Over::ROWS, unit_rows, empty, add)?;
    let (found, memory) = found.into_parts();
    let mut ranked = job.context.install(|| found.finish(order));
    let complete = |unit: usize| SIDES.iter().all(|&side| ranked.count(unit, side) == keep);
    let missing: Vec<usize> = (0..ranked.units()).filter(|&unit| !complete(unit)).collect();
    for some in missing.chunks(AGAIN) {
        let limits = vec![NO_LIMITS; some.len()];
        let list = some.iter().map(|&unit| units.start + unit).collect();
        let again = Selection { job, order, zeros: Zeros::new(&limits), units: Selected::List(list) };
        let empty = || Extremes::new(&limits, keep);
        let add = |state: &mut Extremes, rows: &RowBatch<'_>| again.add(state, rows);
        let found = work.pass_in_order("extreme rows again", Over::ROWS, unit_rows, empty, add)?;
        ranked.replace(some, &found.into_parts().0.finish(order));
    }
    Ok(Reserved::new(ranked, memory))
}

/// The units of a pass.
enum Selected {
    Range(Range<usize>),
    List(Vec<usize>),
}

/// A pass over all rows.
struct Selection<'a> {
    job: &'a Job<'a>,
    order: RowOrder,
    zeros: Zeros,
    units: Selected,
}

impl Selection<'_> {
    /// Adds rows, each thread those of other units.
    fn add(&self, state: &mut Extremes, rows: &RowBatch<'_>) -> Result<()> {
        let batches = rows.split(BATCH);
        let batches: Vec<UnitBatch<'_>> =
            batches.par_iter().map(|rows| rows.get(&UNIT_ACTIVATIONS)).collect::<Result<_>>()?;
        let units = state.units().div_ceil(self.job.context.threads()).max(PART);
        state.parts(units).par_iter_mut().try_for_each(|part| {
            batches.iter().try_for_each(|batch| match (&self.units, batch) {
                (Selected::List(list), batch) => self.add_listed(part, list, batch),
                (Selected::Range(units), UnitBatch::Dense(tile)) => {
                    self.add_dense(part, units.start, tile);
                    Ok(())
                }
                (Selected::Range(units), UnitBatch::Products(tile, directions)) => {
                    self.add_products(part, units.start, tile, directions)
                }
                (Selected::Range(units), UnitBatch::Sparse(codes)) => {
                    self.add_sparse(part, units.start, codes);
                    Ok(())
                }
            })
        })
    }

    fn add_dense(&self, part: &mut Part<'_>, first: usize, tile: &Tile<'_>) {
        let (first, units) = (first + part.first_unit, part.units());
        let row = |index: usize| &tile.row(index)[first..first + units];
        for index in 0..tile.rows() {
            let later = if index + AHEAD < tile.rows() { row(index + AHEAD) } else { &[] };
            part.add_row(row(index), self.order.place((tile.first_row + index) as u32), later);
        }
    }

    fn add_products(
        &self,
        part: &mut Part<'_>,
        first: usize,
        tile: &Tile<'_>,
        directions: &ActivationStore,
    ) -> Result<()> {
        let (first, units) = (first + part.first_unit, part.units());
        let directions = directions.tile(first..first + units)?;
        let mut products = vec![0.0; TOGETHER * units];
        for (block, values) in tile.values.chunks(TOGETHER * tile.width).enumerate() {
            let products = &mut products[..values.len() / tile.width * units];
            rows_by_rows(values, &directions.values, tile.width, products);
            for (index, products) in products.chunks_exact(units).enumerate() {
                let row = tile.first_row + block * TOGETHER + index;
                part.add_row(products, self.order.place(row as u32), &[]);
            }
        }
        Ok(())
    }

    /// Zeros are not stored. They are looked at only where a zero can be extreme, which is in few rows.
    fn add_sparse(&self, part: &mut Part<'_>, first: usize, codes: &CodesView<'_>) {
        let (own, first) = (part.first_unit..part.first_unit + part.units(), first + part.first_unit);
        for (row, latents, values) in codes.iter() {
            let place = self.order.place(row as u32);
            let bound = |end: usize| latents.partition_point(|&latent| (latent as usize) < end);
            let (from, to) = (bound(first), bound(first + own.len()));
            let latents = &latents[from..to];
            for (&latent, &value) in latents.iter().zip(&values[from..to]) {
                part.add(latent as usize - first, value, place);
            }
            let mut next = 0;
            for &unit in self.zeros.at(place, &own) {
                let unit = unit as usize - own.start;
                while latents.get(next).is_some_and(|&latent| (latent as usize) < first + unit) {
                    next += 1;
                }
                if latents.get(next).is_none_or(|&latent| latent as usize != first + unit) {
                    part.add(unit, 0.0, place);
                }
            }
        }
    }

    /// Adds rows of units that are not next to each other.
    fn add_listed(&self, part: &mut Part<'_>, list: &[usize], batch: &UnitBatch<'_>) -> Result<()> {
        let list = &list[part.first_unit..][..part.units()];
        let mut values = vec![0.0; list.len()];
        let mut add = |row: usize, value: &dyn Fn(usize) -> Result<f32>| -> Result<()> {
            for (&unit, into) in list.iter().zip(&mut values) {
                *into = value(unit)?;
            }
            part.add_row(&values, self.order.place(row as u32), &[]);
            Ok(())
        };
        match batch {
            UnitBatch::Dense(tile) => {
                (0..tile.rows()).try_for_each(|index| add(tile.first_row + index, &|unit| Ok(tile.row(index)[unit])))
            }
            UnitBatch::Sparse(codes) => codes.iter().try_for_each(|(row, latents, values)| {
                let stored = |unit: usize| latents.binary_search(&(unit as u32)).map_or(0.0, |index| values[index]);
                add(row, &|unit| Ok(stored(unit)))
            }),
            UnitBatch::Products(tile, directions) => (0..tile.rows()).try_for_each(|index| {
                add(tile.first_row + index, &|unit| {
                    let mut product = [0.0];
                    let direction = directions.tile(unit..unit + 1)?;
                    rows_by_rows(tile.row(index), &direction.values, tile.width, &mut product);
                    Ok(product[0])
                })
            }),
        }
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

    /// Lists of all units; units of work have `unit_rows` rows.
    fn selected(
        inputs: &Inputs,
        keep: usize,
        order: RowOrder,
        threads: usize,
        unit_rows: Option<usize>,
    ) -> Vec<[Vec<u32>; 2]> {
        let context = Context::silent(threads, 1 << 30).unwrap();
        let inputs = inputs.completed();
        let found = with_work(&super::super::Mis, &inputs, &context, |job, work| match unit_rows {
            None => extreme_rows(job, work, keep, order),
            Some(rows) => {
                let units = job.get(&UNIT_ACTIVATIONS)?.units();
                Ok(vec![select_range(job, work, 0..units, keep, order, rows)?])
            }
        });
        let ranges = found.unwrap();
        let lists = |ranked: &Ranked, unit: usize| {
            SIDES.map(|side| (0..ranked.count(unit, side)).map(|rank| ranked.row(unit, side, rank)).collect())
        };
        ranges
            .iter()
            .flat_map(|ranked| (0..ranked.units()).map(|unit| lists(ranked, unit)).collect::<Vec<_>>())
            .collect()
    }

    #[test]
    fn threads_select_parts_of_many_units() {
        let (rows, units, width) = (2500, 2 * PART + 30, 4);
        let mut random = stream(6, "parts", 0);
        let embeddings: Vec<f32> = (0..rows * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
        let directions: Vec<f32> = (0..units * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
        let mut values = vec![0.0; rows * units];
        rows_by_rows(&embeddings, &directions, width, &mut values);
        // Latents are off in most rows, some in all but a few.
        let mut latents = values.clone();
        for (index, value) in latents.iter_mut().enumerate() {
            *value = if index % units < 3 * PART / 2 {
                (*value - 0.3).max(0.0)
            } else {
                (*value - 0.005 * (index % units) as f32).max(0.0)
            };
        }
        let store = |values: &[f32], width: usize| ActivationStore::from_rows(values.to_vec(), width).unwrap();
        let dense = Inputs::default().with(&EMBEDDINGS, store(&values, units));
        let projected =
            Inputs::default().with(&EMBEDDINGS, store(&embeddings, width)).with(&DIRECTIONS, store(&directions, width));
        let sparse = Inputs::default().with(&CODES, codes(&latents, units));
        for order in [RowOrder::Row, RowOrder::Shuffled(3)] {
            for (name, inputs, values) in
                [("dense", &dense, &values), ("projected", &projected, &values), ("sparse", &sparse, &latents)]
            {
                let expected = sorted(values, units, 40, order);
                for threads in [1, 3] {
                    assert!(
                        selected(inputs, 40, order, threads, None) == expected,
                        "{name}, {order:?}, {threads} threads"
                    );
                }
            }
        }
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
                for (threads, unit_rows) in [(1, None), (2, Some(4096)), (7, None), (2, Some(1500))] {
                    let found = selected(inputs, keep, order, threads, unit_rows);
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
}
