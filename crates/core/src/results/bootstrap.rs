//! Intervals: percentile bootstrap over the units that a metric averages over, and the interval of a share.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::quantile;
use serde::{Deserialize, Serialize};

use super::distributions::student_quantile;

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

/// The 95 % interval of a share, or of a mean of values from 0 to 1, with some variance: Wilson's interval for as many
/// independent observations as have this variance, at most `most`, with the quantile of Student's t. Unlike the share
/// ± 2 standard errors it stays within 0 and 1, and a share of 0 or 1 has an interval, too. `None` without a degree of
/// freedom.
pub fn share_interval(share: f64, variance: f64, most: f64, freedom: f64) -> Option<Interval> {
    let square = student_quantile(freedom)?.powi(2);
    let count = if variance > 0.0 { (share * (1.0 - share) / variance).min(most) } else { most };
    let (centre, scale) = (share + square / (2.0 * count), 1.0 + square / count);
    let half = (square * (share * (1.0 - share) / count + square / (4.0 * count * count))).sqrt();
    // Rounding must not separate the interval from the share.
    let low = ((centre - half) / scale).clamp(0.0, share);
    let high = ((centre + half) / scale).clamp(share, 1.0);
    (count > 0.0).then_some(Interval { low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_share_is_wilsons() {
        // 3 of 10 and z = 1.959964: centre (0.3 + 0.192073) / 1.384146 = 0.355507, half 0.247730: [0.107777, 0.603221].
        let close = |found: Option<Interval>, low: f64, high: f64| {
            found.is_some_and(|found| (found.low - low).abs() < 2e-5 && (found.high - high).abs() < 2e-5)
        };
        let tenth = 0.3 * 0.7 / 10.0;
        assert!(close(share_interval(0.3, tenth, 1e9, f64::INFINITY), 0.107789, 0.603222));
        // The number of observations is limited.
        assert_eq!(
            share_interval(0.3, 0.0, 10.0, f64::INFINITY),
            share_interval(0.3, tenth / 5.0, 10.0, f64::INFINITY)
        );
        // 0 of 10: z² / (10 + z²).
        assert!(close(share_interval(0.0, 0.0, 10.0, f64::INFINITY), 0.0, 0.277533));
        assert!(close(share_interval(1.0, 0.0, 10.0, f64::INFINITY), 0.722467, 1.0));
        assert_eq!((share_interval(0.5, 0.1, 9.0, 0.0), share_interval(0.5, 0.0, 0.0, 5.0)), (None, None));
    }

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
