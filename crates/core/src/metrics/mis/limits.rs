//! Limits of the activations of units, guessed from a sample of rows: only rows beyond them can be extreme.

use std::collections::VecDeque;
use std::ops::Range;

use super::extremes::{Extremes, Limit, NO_LIMITS, Part};
use super::row_order::RowOrder;
use crate::error::Result;
use crate::run::{Job, UnitActivations};
use crate::store::{ActivationStore, Tile};

/// Units whose limits are found together.
pub(super) const BLOCK: usize = 256;

/// Rows of the sample between two checks for cancellation.
const TOGETHER: usize = 256;

/// Rows between one that is compared and one that is prefetched.
const AHEAD: usize = 3;

/// The rows of the sample: evenly spaced, so that data sorted by class are sampled well, and visited in an order in which any
/// first rows are evenly spaced too, so that lists are soon filled with extreme rows.
fn sample(rows: usize) -> impl ExactSizeIterator<Item = usize> {
    let count = (2048 + rows / 64).min(rows);
    let step = golden_step(count);
    (0..count).map(move |number| {
        let index = (number as u128 * step as u128 % count as u128) as usize;
        (index as u128 * rows as u128 / count as u128) as usize
    })
}

/// A number without a common divisor with `count`, near its golden section.
fn golden_step(count: usize) -> usize {
    let common = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut step = (count as f64 * 0.618_034) as usize;
    while common(step, count) > 1 {
        step += 1;
    }
    step
}

/// Ranks of a sample that contain the `keep` highest of all rows, very probably: four standard deviations more than
/// expected.
fn sampled_rank(keep: usize, sampled: usize, rows: usize) -> usize {
    let expected = keep as f64 * sampled as f64 / rows.max(1) as f64;
    if sampled == rows { keep } else { ((expected + 4.0 * expected.sqrt() + 4.0).ceil() as usize).min(keep) }
}

/// The limits of some units: the ranks of a sample that very probably contain the `keep` lowest and highest rows.
pub(super) fn find_limits(
    job: &Job<'_>,
    activations: &UnitActivations,
    units: Range<usize>,
    keep: usize,
    order: RowOrder,
) -> Result<Vec<[Limit; 2]>> {
    let rows = activations.rows();
    let sampled = sample(rows);
    let open = vec![NO_LIMITS; units.len()];
    let rank = sampled_rank(keep, sampled.len(), rows);
    if rank == 0 {
        return Ok(open);
    }
    let bytes = units.len() as u64 * Extremes::bytes_with_room(2 * rank);
    let _memory = job.budget().reserve(bytes, "the extreme rows of a sample")?;
    let mut extremes = Extremes::with_room(&open, rank, 2 * rank);
    if let [all] = &mut extremes.parts(units.len())[..] {
        match activations {
            UnitActivations::Neurons(store) => add_neurons(job, store, &units, sampled, order, all)?,
            _ => {
                let mut values = vec![0.0; units.len()];
                for (number, row) in sampled.enumerate() {
                    check(job, number)?;
                    activations.fill(row, units.clone(), &mut values)?;
                    all.add_row(&values, order.place(row as u32), &[]);
                }
            }
        }
    }
    Ok(extremes.limits())
}

/// Adds rows of the sample as they are stored; later ones are prefetched, because they are far from each other.
fn add_neurons(
    job: &Job<'_>,
    store: &ActivationStore,
    units: &Range<usize>,
    sampled: impl Iterator<Item = usize>,
    order: RowOrder,
    into: &mut Part<'_>,
) -> Result<()> {
    let mut waiting: VecDeque<Tile<'_>> = VecDeque::with_capacity(AHEAD + 1);
    let mut add = |waiting: &mut VecDeque<Tile<'_>>| {
        let Some(tile) = waiting.pop_front() else { return };
        let later = waiting.back().map_or(&[][..], |later| &later.row(0)[units.clone()]);
        into.add_row(&tile.row(0)[units.clone()], order.place(tile.first_row as u32), later);
    };
    for (number, row) in sampled.enumerate() {
        check(job, number)?;
        waiting.push_back(store.tile(row..row + 1)?);
        if waiting.len() > AHEAD {
            add(&mut waiting);
        }
    }
    while !waiting.is_empty() {
        add(&mut waiting);
    }
    Ok(())
}

/// Checks for cancellation from time to time.
fn check(job: &Job<'_>, number: usize) -> Result<()> {
    if number.is_multiple_of(TOGETHER) { job.check() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_sample_is_visited_once() {
        for rows in [0, 1, 2, 3, 100, 2048, 2049, 50_000, 1_281_167] {
            let mut visited: Vec<usize> = sample(rows).collect();
            let first = visited.iter().take(64).copied().collect::<Vec<_>>();
            visited.sort_unstable();
            visited.dedup();
            assert_eq!(visited.len(), (2048 + rows / 64).min(rows), "{rows}");
            assert!(visited.last().is_none_or(|last| *last < rows && *last + 700 > rows), "{rows}");
            // The first rows are spread over all rows: a quarter of them in each quarter.
            if rows > 2000 {
                let lowest = first.iter().filter(|row| **row < rows / 4).count();
                assert!((14..=18).contains(&lowest), "{rows}: {lowest}");
            }
        }
    }

    #[test]
    fn ranks_of_a_sample_have_a_margin() {
        // 200 · 2,829 / 50,000 = 11.3 are expected; 11.3 + 4 · 3.36 + 4 = 28.8.
        assert_eq!(sampled_rank(200, 2829, 50_000), 29);
        assert_eq!((sampled_rank(200, 1000, 1000), sampled_rank(3, 2829, 50_000), sampled_rank(0, 5, 50)), (200, 3, 0));
    }
}
