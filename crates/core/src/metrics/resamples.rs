//! The bootstrap: statistics on resamples, computed in a separate stage if there are many values.

use std::ops::Range;

use etalon_kernel::random::{ChaCha8Rng, index, stream};

use crate::error::Result;
use crate::results::{Interval, RESAMPLES, percentile_interval};
use crate::run::{BlockResult, Job, Work};

/// From this many values on, the resamples are a stage. Fewer take less than a tenth of a second.
const STAGE_VALUES: usize = 1 << 13;

/// Resamples per block of the stage.
const BLOCK: usize = 20;

/// One resample: the indices of `count` values, drawn with replacement.
pub(super) struct Draws<'a> {
    random: &'a mut ChaCha8Rng,
    count: usize,
    left: usize,
}

impl Iterator for Draws<'_> {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(index(self.count, self.random))
    }
}

/// Computes a statistic on [`RESAMPLES`] resamples of `count` values, in order. The random stream is that of `purpose`,
/// whether the resamples are a stage or not.
pub(super) fn resamples<T: BlockResult>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    purpose: &str,
    count: usize,
    statistic: impl Fn(Draws<'_>) -> T + Sync,
) -> Result<Vec<T>> {
    if count < STAGE_VALUES {
        return resamples_in_block(job, purpose, count, statistic);
    }
    let block = |block: usize| numbered(job, purpose, count, block * BLOCK..(block + 1) * BLOCK, &statistic);
    let (blocks, _memory) = work.blocks("resamples", RESAMPLES / BLOCK, block)?.into_parts();
    Ok(blocks.into_iter().flatten().collect())
}

/// The same numbers as [`resamples`], without a stage: for use inside of a block, or with few values.
pub(super) fn resamples_in_block<T>(
    job: &Job<'_>,
    purpose: &str,
    count: usize,
    statistic: impl Fn(Draws<'_>) -> T,
) -> Result<Vec<T>> {
    numbered(job, purpose, count, 0..RESAMPLES, &statistic)
}

/// The resamples with some numbers.
fn numbered<T>(
    job: &Job<'_>,
    purpose: &str,
    count: usize,
    numbers: Range<usize>,
    statistic: &impl Fn(Draws<'_>) -> T,
) -> Result<Vec<T>> {
    let mut random = stream(job.seed, purpose, 0);
    let resample = |number: usize| {
        job.check()?;
        // An index takes two words of the stream.
        random.set_word_pos(2 * (number as u128) * (count as u128));
        Ok(statistic(Draws { random: &mut random, count, left: count }))
    };
    numbers.map(resample).collect()
}

/// The bootstrap interval of a mean; `None` below two values.
pub(super) fn mean_interval(
    job: &Job<'_>,
    work: &mut Work<'_>,
    purpose: &str,
    values: &[f64],
) -> Result<Option<Interval>> {
    if values.len() < 2 {
        return Ok(None);
    }
    let mean = |draws: Draws<'_>| draws.map(|index| values[index]).sum::<f64>() / values.len() as f64;
    Ok(percentile_interval(resamples(job, work, purpose, values.len(), mean)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::metrics::monosemanticity::Monosemanticity;
    use crate::metrics::testing::with_work;
    use crate::results::bootstrap_mean;
    use crate::run::Inputs;
    use etalon_kernel::random::unit;

    #[test]
    fn few_and_many_values_have_the_interval_of_one_stream() {
        let context = Context::silent(2, 1 << 20).unwrap();
        for count in [0, 1, 2, 17, STAGE_VALUES + 1] {
            let mut random = stream(9, "resamples/test", 0);
            let values: Vec<f64> = (0..count).map(|_| unit(&mut random)).collect();
            let interval = with_work(&Monosemanticity, &Inputs::default(), &context, |job, work| {
                mean_interval(job, work, "resamples/mean", &values)
            });
            assert_eq!(interval.unwrap(), bootstrap_mean(&values, 3, "resamples/mean"), "{count} values");
        }
    }
}
