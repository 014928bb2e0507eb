//! The bootstrap over rows, with the coalitions held fixed.
//!
//! For every row, the numbers of times it was drawn are stored side by side for many resamples, so that one scan over a
//! set of rows sums all resamples.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{index, stream};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::MatchedConcept;
use super::prepared::PreparedCodes;
use super::target::f1;
use crate::context::{Context, Reservation};
use crate::error::Result;
use crate::results::{Interval, percentile_interval};
use crate::run::{CODES, Job, Lazy, Sum, Work};
use crate::state;

/// The number of resamples.
const ROW_RESAMPLES: usize = 200;

/// Maximum bytes of the counts of one batch of resamples.
const BATCH_BYTES: usize = 64 << 20;

/// The interval of the mean F1 over concepts, by strategy.
pub(super) fn row_intervals<'p, F: Fn() -> Result<PreparedCodes<'p>> + Send + Sync>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    prepared: &Lazy<PreparedCodes<'p>, F>,
    matched: &[MatchedConcept],
    strategies: usize,
) -> Result<Vec<Option<Interval>>> {
    let (rows, concepts) = (job.get(&CODES)?.rows(), matched.len());
    if rows < 2 || concepts == 0 {
        return Ok(vec![None; strategies]);
    }
    let width = (BATCH_BYTES / rows).clamp(1, ROW_RESAMPLES);
    let mut replicates = vec![Vec::with_capacity(ROW_RESAMPLES); strategies];
    for first in (0..ROW_RESAMPLES).step_by(width) {
        let width = width.min(ROW_RESAMPLES - first);
        let shared = Lazy::new(|| Ok((prepared.get()?, RowDraws::new(rows, first, width, job.seed, job.context)?)));
        let empty = || Replicates { f1: Sum::new(strategies * width) };
        let sums =
            work.fold_with(&shared, "concepts on resampled rows", concepts, empty, |shared, sums, concept| {
                let (prepared, draws) = shared;
                let of_concept = prepared.rows_of(concept);
                let positives = draws.sums(of_concept.yes.rows());
                for (choice, sums) in matched[concept].choices.iter().zip(sums.f1.chunks_exact_mut(width)) {
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

/// The number of times each row was drawn, in a range of resamples.
struct RowDraws {
    width: usize,
    /// By row, then by resample. A row is practically never drawn more than 255 times in one resample.
    counts: Vec<u8>,
    _memory: Reservation,
}

impl RowDraws {
    /// Draws `width` resamples, numbered from `first`.
    fn new(rows: usize, first: usize, width: usize, seed: u64, context: &Context) -> Result<RowDraws> {
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
        Ok(RowDraws { width, counts, _memory: memory })
    }

    /// The total number of draws of some rows, by resample.
    fn sums(&self, rows: impl Iterator<Item = usize>) -> Vec<u32> {
        let mut sums = vec![0u32; self.width];
        for row in rows {
            let counts = &self.counts[row * self.width..][..self.width];
            sums.iter_mut().zip(counts).for_each(|(sum, &count)| *sum += u32::from(count));
        }
        sums
    }

    /// F1 of the predicted rows, by resample. `positives` are the draws of the rows with the concept.
    fn f1(&self, positives: &[u32], yes: &Bits, predicted: &Bits) -> Vec<f64> {
        let all = self.sums(predicted.rows());
        let hits = self.sums(predicted.rows().filter(|&row| yes.contains(row)));
        (0..self.width).map(|i| f1(hits[i] as usize, positives[i] as usize, all[i] as usize)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_coalition_has_no_variance_and_a_coin_has() {
        let rows = 400;
        let draws = RowDraws::new(rows, 0, ROW_RESAMPLES, 7, &Context::silent(1, 1 << 20).unwrap()).unwrap();
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
    fn every_resample_draws_as_many_rows_as_the_data_has() {
        let context = Context::silent(2, 1 << 20).unwrap();
        let drawn = RowDraws::new(50, 3, 4, 0, &context).unwrap().counts;
        for resample in 0..4 {
            assert_eq!((0..50).map(|row| u32::from(drawn[row * 4 + resample])).sum::<u32>(), 50);
        }
        // A resample does not depend on its batch.
        let alone = RowDraws::new(50, 5, 1, 0, &context).unwrap().counts;
        assert!((0..50).all(|row| alone[row] == drawn[row * 4 + 2]));
        assert_eq!(context.budget().left(), 1 << 20);
    }
}
