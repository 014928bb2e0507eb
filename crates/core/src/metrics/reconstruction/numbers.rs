//! The headline numbers over rows, with intervals.

use etalon_kernel::product::rows_by_rows;
use etalon_kernel::statistics::mean;

use super::sums::{LEAST_SPREAD, RowTotals, Sums};
use crate::error::Result;
use crate::metrics::resamples::{Draws, mean_interval, resamples};
use crate::results::{Interval, Profile, Scores, percentile_interval};
use crate::run::{Job, Work};

/// The numbers over rows, in the order of the card.
const KEYS: [&str; 10] = [
    "explained_variance",
    "explained_variance_legacy",
    "l0",
    "l1",
    "mse",
    "cossim",
    "l2_norm_in",
    "l2_norm_out",
    "l2_ratio",
    "relative_reconstruction_bias",
];

/// The values of [`KEYS`].
type Numbers = [Option<f64>; KEYS.len()];

/// Sums over rows, with the settings that they depend on.
pub(super) struct RowNumbers<'a> {
    /// The sums.
    pub sums: &'a Sums,
    /// The width of the embeddings, if there are any.
    pub width: Option<usize>,
    /// Whether there are reconstructions.
    pub decoded: bool,
    /// The profile.
    pub profile: Profile,
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (below != 0.0).then(|| above / below).filter(|value| value.is_finite())
}

impl RowNumbers<'_> {
    /// The numbers of some blocks, from their sums and the squared length of the sum of their rows.
    fn numbers(&self, sums: &RowTotals, square_of_total: f64) -> Numbers {
        let over_rows = |sum: f64| quotient(sum, sums.rows);
        let of_rows = |sum: f64| over_rows(sum).filter(|_| self.width.is_some());
        let decoded = |value: Option<f64>| value.filter(|_| self.decoded);
        let (error, variance) = match self.profile {
            Profile::Paper => {
                let square = sums.square_in / sums.rows;
                let variance = square - square_of_total / (sums.rows * sums.rows);
                (over_rows(sums.error), Some(variance).filter(|&variance| variance > LEAST_SPREAD * square))
            }
            Profile::Reference => {
                let square = sums.weighted_square_in / sums.weight;
                let mean = square / self.width.unwrap_or(1) as f64;
                (quotient(sums.weighted_error, sums.weight), Some(square - mean * mean))
            }
        };
        let explained = error.zip(variance).and_then(|(error, variance)| quotient(error, variance));
        let squared_error = if self.profile == Profile::Paper { sums.error } else { sums.weighted_error };
        [
            decoded(explained.map(|share| 1.0 - share)),
            decoded(quotient(sums.legacy, sums.legacy_rows)),
            over_rows(sums.active),
            over_rows(sums.size),
            decoded(over_rows(squared_error)),
            decoded(quotient(sums.cosine, sums.cosine_rows)),
            of_rows(sums.length_in),
            decoded(over_rows(sums.length_out)),
            decoded(quotient(sums.ratio, sums.ratio_rows)),
            decoded(quotient(sums.square_out, sums.product)),
        ]
    }

    /// Adds all numbers over rows.
    pub fn put(&self, job: &Job<'_>, work: &mut Work<'_>, scores: &mut Scores) -> Result<()> {
        let blocks = self.sums.rows.rows.len();
        let sums = self.sums.rows.weighted(&vec![1.0; blocks]);
        let mut total = vec![0.0; self.width.unwrap_or(0)];
        for block in self.sums.totals.chunks_exact(total.len().max(1)) {
            total.iter_mut().zip(block).for_each(|(total, value)| *total += value);
        }
        let mut values = self.numbers(&sums, total.iter().map(|value| value * value).sum());
        let replicates = self.replicates(blocks, job, work)?;
        let of_key = |key: usize| replicates.iter().map(move |numbers| numbers[key]);
        let mut intervals: [Option<Interval>; KEYS.len()] =
            std::array::from_fn(|key| percentile_interval(of_key(key).flatten().collect()));
        // The rows of a draw are the same for every dictionary, except for batches, which are drawn separately.
        let paired = if self.profile == Profile::Reference { KEYS.len() - 1 } else { KEYS.len() };
        if self.profile == Profile::Reference {
            let batches = self.sums.batches.iter().flat_map(|sums| sums.square_out.iter().zip(sums.product.iter()));
            let defined: Vec<f64> = batches.filter_map(|(&above, &below)| quotient(above, below)).collect();
            let last = KEYS.len() - 1;
            values[last] = mean(&defined);
            intervals[last] = mean_interval(job, work, "core/batches", &defined)?;
        }
        for ((key, value), interval) in KEYS.iter().zip(values).zip(intervals) {
            let rows = if value.is_some() { sums.rows as usize } else { 0 };
            scores.headline(key, value, interval.filter(|_| value.is_some()), rows);
        }
        scores.put_replicates((0..paired).map(|key| (KEYS[key].to_string(), of_key(key).collect())));
        self.notes(&sums, &values, scores);
        Ok(())
    }

    fn notes(&self, sums: &RowTotals, values: &Numbers, scores: &mut Scores) {
        if sums.rows == 0.0 {
            return scores.note("everything is undefined: there are no rows");
        }
        if self.width.is_none() {
            scores.note("lengths and reconstruction numbers are undefined without embeddings");
        } else if !self.decoded {
            scores.note("reconstruction numbers are undefined without the dictionary of the codes");
        } else {
            let left_out = [
                (
                    sums.cosine_rows,
                    "rows of length 0, or with a reconstruction of length 0, are left out of the cosine",
                ),
                (sums.ratio_rows, "rows of length 0 are left out of the ratio of lengths"),
                (sums.legacy_rows, "rows at the mean of their batch are left out of the legacy explained variance"),
            ];
            for (counted, what) in left_out {
                let missing = sums.rows - counted;
                if missing > 0.0 {
                    scores.note(format!("{missing} {what}"));
                }
            }
            for (key, _) in KEYS.iter().zip(values).filter(|(_, value)| value.is_none()) {
                scores.note(format!("`{key}` is undefined: its denominator is 0 or nearly 0"));
            }
        }
    }

    /// All numbers on resampled blocks of rows; none below two blocks.
    fn replicates(&self, blocks: usize, job: &Job<'_>, work: &mut Work<'_>) -> Result<Vec<Numbers>> {
        if blocks < 2 {
            return Ok(Vec::new());
        }
        // The Gram matrix of the blocks' sums of rows gives the squared length of a resample independently of the width.
        let _memory = job.budget().reserve(8 * (blocks * blocks) as u64, "products of blocks of rows")?;
        let mut products = vec![0.0; blocks * blocks];
        rows_by_rows(&self.sums.totals, &self.sums.totals, self.width.unwrap_or(0), &mut products);
        let replicate = |draws: Draws<'_>| {
            let mut weights = vec![0.0; blocks];
            draws.for_each(|block| weights[block] += 1.0);
            let weighted =
                |values: &[f64]| weights.iter().zip(values).map(|(weight, value)| weight * value).sum::<f64>();
            let drawn = weights.iter().zip(products.chunks_exact(blocks)).filter(|(weight, _)| **weight > 0.0);
            let square_of_total = drawn.map(|(weight, products)| weight * weighted(products)).sum();
            self.numbers(&self.sums.rows.weighted(&weights), square_of_total)
        };
        resamples(job, work, "core/rows", blocks, replicate)
    }
}
