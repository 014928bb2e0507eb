//! Bootstraps that may take long: many resamples of many things are a stage of their own.

use etalon_kernel::random::{ChaCha8Rng, index, stream};

use crate::error::Result;
use crate::results::{Interval, RESAMPLES, percentile_interval};
use crate::run::{Job, Output, Work};

/// Things from which on the resamples are a stage: drawing fewer takes less than a tenth of a second.
const MANY: usize = 1 << 13;

/// Resamples of a block.
const BLOCK: usize = 20;

/// One resample: as many indices as there are things, drawn with replacement.
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

/// A statistic on [`RESAMPLES`] resamples of `count` things, in order. The same numbers as from one stream for `purpose`,
/// whether they are a stage or not.
pub(super) fn resamples<T: Output>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    purpose: &str,
    count: usize,
    statistic: impl Fn(Draws<'_>) -> T + Sync,
) -> Result<Vec<T>> {
    let some = |first: usize, resamples: usize| -> Result<Vec<T>> {
        let mut random = stream(job.seed, purpose, 0);
        let one = |resample: usize| {
            job.check()?;
            // An index takes two words of the stream.
            random.set_word_pos(2 * (resample as u128) * (count as u128));
            Ok(statistic(Draws { random: &mut random, count, left: count }))
        };
        (first..first + resamples).map(one).collect()
    };
    if count < MANY {
        return some(0, RESAMPLES);
    }
    let (blocks, _memory) =
        work.blocks("resamples", RESAMPLES / BLOCK, |block| some(block * BLOCK, BLOCK))?.into_parts();
    Ok(blocks.into_iter().flatten().collect())
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
        for count in [0, 1, 2, 17, MANY + 1] {
            let mut random = stream(9, "resamples/test", 0);
            let values: Vec<f64> = (0..count).map(|_| unit(&mut random)).collect();
            let found = with_work(&Monosemanticity, &Inputs::default(), &context, |job, work| {
                mean_interval(job, work, "resamples/mean", &values)
            });
            assert_eq!(found.unwrap(), bootstrap_mean(&values, 3, "resamples/mean"), "{count} values");
        }
    }
}
