//! The bootstrap over rows: how much would the score of the same coalitions move with other rows?
//!
//! Every resample draws as many rows as there are, with replacement. How often each row was drawn is kept side by side
//! for many resamples, so one walk over a set of rows sums all of them.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{index, stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::MatchedConcept;
use super::firing::f1;
use super::prepared::PreparedCodes;
use crate::context::{Context, Reservation};
use crate::error::Result;
use crate::results::{Interval, percentile_interval};
use crate::run::{CODES, Job, Lazy, Sum, Work};
use crate::state;

/// How many times rows are drawn.
const ROW_RESAMPLES: usize = 200;

/// Bytes that the counts of one batch of resamples may take.
const BATCH_BYTES: usize = 64 << 20;

/// The interval of the mean F1 over concepts, by strategy.
pub(super) fn row_intervals<'p, F: Fn() -> Result<PreparedCodes<'p>> + Send + Sync>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    prepared: &Lazy<PreparedCodes<'p>, F>,
    found: &[MatchedConcept],
    strategies: usize,
) -> Result<Vec<Option<Interval>>> {
    let (rows, concepts) = (job.get(&CODES)?.rows(), found.len());
    if rows < 2 || concepts == 0 {
        return Ok(vec![None; strategies]);
    }
    let width = (BATCH_BYTES / rows).clamp(1, ROW_RESAMPLES);
    let mut replicates = vec![Vec::with_capacity(ROW_RESAMPLES); strategies];
    for first in (0..ROW_RESAMPLES).step_by(width) {
        let width = width.min(ROW_RESAMPLES - first);
        let shared = Lazy::new(|| Ok((prepared.get()?, Draws::new(rows, first, width, job.seed, job.context)?)));
        let empty = || Replicates { f1: Sum::new(strategies * width) };
        let sums =
            work.fold_with(&shared, "concepts on resampled rows", concepts, empty, |shared, sums, concept| {
                let (prepared, draws) = shared;
                let of_concept = prepared.rows_of(concept);
                let positives = draws.sums(of_concept.yes.rows());
                for (choice, sums) in found[concept].choices.iter().zip(sums.f1.chunks_exact_mut(width)) {
                    let predicted = prepared.predicted(choice, &of_concept)?;
                    let f1 = draws.f1(&positives, &of_concept.yes, &predicted);
                    sums.iter_mut().zip(f1).for_each(|(sum, f1)| *sum += f1);
                }
                Ok(())
            })?;
        for (replicates, sums) in replicates.iter_mut().zip(sums.f1.chunks_exact(width)) {
            replicates.extend(sums.iter().map(|sum| sum / concepts as f64));
        }
    }
    Ok(replicates.into_iter().map(percentile_interval).collect())
}

/// Sums over concepts.
#[derive(Serialize, Deserialize)]
struct Replicates {
    /// F1 by strategy and resample.
    f1: Sum,
}

state!(Replicates { f1 });

/// How often each row was drawn in each of some resamples.
struct Draws {
    width: usize,
    /// Row-major. A row drawn more than 255 times in one resample would need odds that no generator offers.
    counts: Vec<u8>,
    _memory: Reservation,
}

impl Draws {
    /// Resamples from number `first` on, `width` of them.
    fn new(rows: usize, first: usize, width: usize, seed: u64, context: &Context) -> Result<Draws> {
        let bytes = rows as u64 * width as u64;
        let memory = context.budget().reserve(bytes, "resampled rows")?;
        let _scratch = context.budget().reserve(bytes, "resampled rows")?;
        let resample = |number: usize| {
            context.check()?;
            let mut random = stream(seed, "match/rows", number as u64);
            let mut drawn = vec![0u8; rows];
            for _ in 0..rows {
                let row = index(rows, &mut random);
                drawn[row] = drawn[row].saturating_add(1);
            }
            Ok(drawn)
        };
        let resamples: Vec<Vec<u8>> =
            (first..first + width).into_par_iter().map(resample).collect::<Result<Vec<Vec<u8>>>>()?;
        let mut counts = vec![0u8; rows * width];
        counts.par_chunks_exact_mut(width).enumerate().with_min_len(1024).for_each(|(row, counts)| {
            counts.iter_mut().zip(&resamples).for_each(|(count, resample)| *count = resample[row]);
        });
        Ok(Draws { width, counts, _memory: memory })
    }

    /// How often some rows were drawn together, by resample.
    fn sums(&self, rows: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut sums = vec![0u32; self.width];
        for row in rows {
            let counts = &self.counts[row * self.width..][..self.width];
            sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u32::from(count));
        }
        sums
    }

    /// F1 by resample of a set of rows against those with the concept, which were drawn `positives` times.
    fn f1(&self, positives: &[u32], yes: &Bits, predicted: &Bits) -> Vec<f64> {
        let all = self.sums(predicted.rows());
        let hits = self.sums(predicted.rows().filter(|&row| yes.contains(row)));
        (0..self.width).map(|at| f1(hits[at] as usize, positives[at] as usize, all[at] as usize)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_coalition_does_not_move_and_a_coin_does() {
        let rows = 400;
        let draws = Draws::new(rows, 0, ROW_RESAMPLES, 7, &Context::silent(1, 1 << 20).unwrap()).unwrap();
        let even = Bits::of(rows, (0..rows).filter(|row| row.is_multiple_of(2)));
        let coin = Bits::of(rows, (0..rows).filter(|row| row % 4 < 2));
        let positives = draws.sums(even.rows());
        let interval = |predicted: &Bits| percentile_interval(draws.f1(&positives, &even, predicted)).unwrap();
        assert_eq!(interval(&even), Interval { low: 1.0, high: 1.0 });
        // F1 is 2 · 100 / (200 + 200) = 0.5, and its standard deviation over resamples of 400 rows is about 0.03.
        let coin = interval(&coin);
        assert!(coin.low > 0.40 && coin.low < 0.48 && coin.high > 0.52 && coin.high < 0.60, "{coin:?}");
    }

    #[test]
    fn every_resample_has_as_many_rows_as_there_are() {
        let context = Context::silent(2, 1 << 20).unwrap();
        let drawn = Draws::new(50, 3, 4, 0, &context).unwrap().counts;
        for resample in 0..4 {
            assert_eq!((0..50).map(|row| u32::from(drawn[row * 4 + resample])).sum::<u32>(), 50);
        }
        // The same resample whatever batch it falls into.
        let alone = Draws::new(50, 5, 1, 0, &context).unwrap().counts;
        assert!((0..50).all(|row| alone[row] == drawn[row * 4 + 2]));
        assert_eq!(context.budget().left(), 1 << 20);
    }
}
