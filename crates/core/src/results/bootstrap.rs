//! Percentile bootstrap: seeded 95 % intervals by resampling the units that a metric averages over.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::quantile;
use serde::{Deserialize, Serialize};

/// A 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Number of bootstrap resamples.
pub const RESAMPLES: usize = 1000;

/// The interval from the 2.5 % to the 97.5 % quantile of the finite values; `None` without any.
pub fn percentile_interval(mut replicates: Vec<f64>) -> Option<Interval> {
    replicates.retain(|value| value.is_finite());
    replicates.sort_by(f64::total_cmp);
    Some(Interval { low: quantile(&replicates, 0.025)?, high: quantile(&replicates, 0.975)? })
}

/// The 95 % percentile interval of a mean from [`RESAMPLES`] resamples of its values; `None` below two values. `purpose` names
/// the random stream: give every interval of a metric another one.
pub fn bootstrap_mean(values: &[f64], seed: u64, purpose: &str) -> Option<Interval> {
    if values.len() < 2 {
        return None;
    }
    let mut random = stream(seed, purpose, 0);
    let mean =
        |_| (0..values.len()).map(|_| values[index(values.len(), &mut random)]).sum::<f64>() / values.len() as f64;
    percentile_interval((0..RESAMPLES).map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_has_about_the_nominal_coverage() {
        // 200 samples of 60 uniform numbers, true mean 0.5: a 95 % interval must miss between 2 and 24 times.
        let missed = (0..200)
            .filter(|&trial| {
                let mut random = stream(trial, "coverage", 0);
                let values: Vec<f64> = (0..60).map(|_| etalon_kernel::random::unit(&mut random)).collect();
                let interval = bootstrap_mean(&values, trial, "coverage").unwrap();
                !(interval.low..=interval.high).contains(&0.5)
            })
            .count();
        assert!((2..=24).contains(&missed), "missed {missed} of 200");
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(bootstrap_mean(&[1.0], 0, "x"), None);
    }
}
