//! The bootstrap over concepts or rows, as a stage, and helpers for values that may be undefined.

use crate::context::Reserved;
use crate::error::Result;
use crate::results::{Interval, RESAMPLES, Table, percentile_interval};
use crate::run::{BlockResult, Job, Work};
use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::mean;

/// Resamples per block.
const BLOCK: usize = 10;

/// A statistic on [`RESAMPLES`] resamples of `count` items, in order. The statistic is called with the indices of a
/// resample; indices and statistic together take about `bytes` per item.
///
/// Every resample has its own random stream. `metrics::resamples` draws all resamples from one stream and gives other numbers.
pub(super) fn resampled<T: BlockResult>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    (purpose, count, bytes): (&str, usize, u64),
    statistic: impl Fn(&[usize]) -> T + Sync,
) -> Result<Reserved<Vec<T>>> {
    let blocks = work.blocks("blocks of resamples", RESAMPLES.div_ceil(BLOCK), |block| {
        let _memory = job.budget().reserve(bytes * count as u64, "a resample")?;
        let one = |resample: usize| {
            job.check()?;
            let mut random = stream(job.seed, purpose, resample as u64);
            Ok(statistic(&(0..count).map(|_| index(count, &mut random)).collect::<Vec<_>>()))
        };
        (block * BLOCK..((block + 1) * BLOCK).min(RESAMPLES)).map(one).collect::<Result<Vec<T>>>()
    })?;
    Ok(blocks.map(|blocks| blocks.into_iter().flatten().collect()))
}

/// The percentile interval of the defined values.
pub(super) fn interval_of_defined(replicates: impl Iterator<Item = Option<f64>>) -> Option<Interval> {
    percentile_interval(replicates.flatten().collect())
}

/// The mean of the defined values.
pub(super) fn mean_of_defined(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    mean(&values.flatten().collect::<Vec<_>>())
}

/// Adds the columns `name`, `name_low` and `name_high`.
pub(super) fn with_interval(
    table: Table,
    name: &str,
    cells: impl IntoIterator<Item = (Option<f64>, Option<Interval>)>,
) -> Table {
    let (values, intervals): (Vec<_>, Vec<_>) = cells.into_iter().unzip();
    let end = |end: fn(Interval) -> f64| intervals.iter().map(move |interval| interval.map(end)).collect::<Vec<_>>();
    table
        .numbers(name, values)
        .numbers(&format!("{name}_low"), end(|interval| interval.low))
        .numbers(&format!("{name}_high"), end(|interval| interval.high))
}
