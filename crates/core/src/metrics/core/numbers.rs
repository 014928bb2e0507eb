//! From sums over rows to the headline numbers over rows, with intervals.

use super::sums::{
    COSINE, COSINE_ROWS, ERROR, FIRED, LEAST_SPREAD, LEGACY, LEGACY_ROWS, LENGTH_IN, LENGTH_OUT, PRODUCT, RATIO,
    RATIO_ROWS, ROWS, SIZE, SQUARE_IN, SQUARE_OUT, SUMS, WEIGHT, WEIGHTED_ERROR, WEIGHTED_SQUARE_IN,
};
use crate::kernel::product::rows_by_columns;
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::mean;
use crate::results::{Interval, Profile, RESAMPLES, Scores, bootstrap_mean, percentile_interval};

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

/// Everything that was summed over rows.
pub(super) struct RowSums<'a> {
    /// Blocks of consecutive rows.
    pub blocks: usize,
    /// The width of the embeddings, if there are any.
    pub width: Option<usize>,
    /// Were there reconstructions?
    pub decoded: bool,
    /// Blocks × [`SUMS`].
    pub sums: &'a [f64],
    /// Blocks × width: the sum of the rows.
    pub totals: &'a [f64],
    /// Batches × 2: squared length out, and product with what came in.
    pub quotients: &'a [f64],
    /// Paper or reference.
    pub profile: Profile,
}

fn quotient(above: f64, below: f64) -> Option<f64> {
    (below != 0.0).then(|| above / below).filter(|value| value.is_finite())
}

impl RowSums<'_> {
    /// The numbers of some blocks together: their sums, and the squared length of the sum of their rows.
    fn numbers(&self, sums: &[f64], square_of_total: f64) -> [Option<f64>; KEYS.len()] {
        let over_rows = |what: usize| quotient(sums[what], sums[ROWS]);
        let of_rows = |what: usize| over_rows(what).filter(|_| self.width.is_some());
        let decoded = |value: Option<f64>| value.filter(|_| self.decoded);
        let (error, variance) = match self.profile {
            Profile::Paper => {
                let square = sums[SQUARE_IN] / sums[ROWS];
                let variance = square - square_of_total / (sums[ROWS] * sums[ROWS]);
                (over_rows(ERROR), Some(variance).filter(|&variance| variance > LEAST_SPREAD * square))
            }
            Profile::Reference => {
                let square = sums[WEIGHTED_SQUARE_IN] / sums[WEIGHT];
                let mean = square / self.width.unwrap_or(1) as f64;
                (quotient(sums[WEIGHTED_ERROR], sums[WEIGHT]), Some(square - mean * mean))
            }
        };
        let explained = error.zip(variance).and_then(|(error, variance)| quotient(error, variance));
        [
            decoded(explained.map(|share| 1.0 - share)),
            decoded(quotient(sums[LEGACY], sums[LEGACY_ROWS])),
            over_rows(FIRED),
            over_rows(SIZE),
            decoded(over_rows(if self.profile == Profile::Paper { ERROR } else { WEIGHTED_ERROR })),
            decoded(quotient(sums[COSINE], sums[COSINE_ROWS])),
            of_rows(LENGTH_IN),
            decoded(over_rows(LENGTH_OUT)),
            decoded(quotient(sums[RATIO], sums[RATIO_ROWS])),
            decoded(quotient(sums[SQUARE_OUT], sums[PRODUCT])),
        ]
    }

    /// All numbers over rows.
    pub fn scores(&self, seed: u64) -> Scores {
        let whole = vec![1.0; self.blocks];
        let (sums, totals) = self.weighted(&whole, 1);
        let rows = sums[ROWS] as usize;
        let mut values = self.numbers(&sums, square(&totals));
        let mut intervals = self.intervals(seed);
        if self.profile == Profile::Reference {
            let defined: Vec<f64> =
                self.quotients.as_chunks::<2>().0.iter().filter_map(|pair| quotient(pair[0], pair[1])).collect();
            let last = KEYS.len() - 1;
            values[last] = mean(&defined);
            intervals[last] = bootstrap_mean(&defined, seed, "core/batches");
        }
        let mut scores = Scores::default();
        for ((key, value), interval) in KEYS.iter().zip(values).zip(intervals) {
            scores.headline(key, value, interval.filter(|_| value.is_some()), if value.is_some() { rows } else { 0 });
        }
        self.notes(&sums, &values, &mut scores);
        scores
    }

    fn notes(&self, sums: &[f64], values: &[Option<f64>], scores: &mut Scores) {
        if sums[ROWS] == 0.0 {
            return scores.note("there are no rows: undefined");
        }
        if self.width.is_none() {
            scores.note("without embeddings, lengths and everything about reconstructions are undefined");
        } else if !self.decoded {
            scores.note("without the dictionary that made the codes, everything about reconstructions is undefined");
        } else {
            let left_out = [
                (COSINE_ROWS, "rows without length, in or out, have no cosine and are left out of it"),
                (RATIO_ROWS, "rows of length 0 are left out of the ratio of lengths"),
                (LEGACY_ROWS, "rows at the mean of their batch are left out of the legacy explained variance"),
            ];
            for (counted, what) in left_out {
                let missing = sums[ROWS] - sums[counted];
                if missing > 0.0 {
                    scores.note(format!("{missing} {what}"));
                }
            }
            for (key, _) in KEYS.iter().zip(values).filter(|(_, value)| value.is_none()) {
                scores.note(format!("`{key}` is 0/0 or would be without bound: undefined"));
            }
        }
    }

    /// Sums of blocks, each taken as often as its weight says; one line of `weights` per resample.
    fn weighted(&self, weights: &[f64], resamples: usize) -> (Vec<f64>, Vec<f64>) {
        let width = self.width.unwrap_or(0);
        let (mut sums, mut totals) = (vec![0.0; resamples * SUMS], vec![0.0; resamples * width]);
        if self.blocks > 0 {
            rows_by_columns(weights, self.sums, self.blocks, SUMS, &mut sums);
            rows_by_columns(weights, self.totals, self.blocks, width, &mut totals);
        }
        (sums, totals)
    }

    fn intervals(&self, seed: u64) -> Vec<Option<Interval>> {
        if self.blocks < 2 {
            return vec![None; KEYS.len()];
        }
        let mut random = stream(seed, "core/rows", 0);
        let mut weights = vec![0.0; RESAMPLES * self.blocks];
        for line in weights.chunks_exact_mut(self.blocks) {
            (0..self.blocks).for_each(|_| line[index(self.blocks, &mut random)] += 1.0);
        }
        let (sums, totals) = self.weighted(&weights, RESAMPLES);
        let width = self.width.unwrap_or(0);
        let replicates: Vec<_> = (0..RESAMPLES)
            .map(|place| self.numbers(&sums[place * SUMS..][..SUMS], square(&totals[place * width..][..width])))
            .collect();
        let of = |key: usize| percentile_interval(replicates.iter().filter_map(|numbers| numbers[key]).collect());
        (0..KEYS.len()).map(of).collect()
    }
}

fn square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}
