//! Scores of repeated random splits of the same rows.

use super::bootstrap::Interval;
use super::distributions::student_quantile;
use etalon_kernel::statistics::{deviation, mean};

/// The scores of repeated random splits.
///
/// Splits of the same rows overlap, so the variance of their scores underestimates that of the mean. The correction of
/// Nadeau and Bengio (2003) adds the ratio of test to training rows to `1 / repeats`.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeats {
    /// The scores of the repeats in which it is defined.
    pub values: Vec<f64>,
    /// Number of test rows divided by number of training rows.
    pub ratio: f64,
}

impl Repeats {
    /// The mean; `None` without a defined score.
    pub fn mean(&self) -> Option<f64> {
        mean(&self.values)
    }

    /// The standard deviation of a single repeat; `None` below two.
    pub fn noise(&self) -> Option<f64> {
        deviation(&self.values)
    }

    /// The corrected standard error of the mean.
    fn error(&self) -> Option<f64> {
        Some(self.noise()? * (1.0 / self.values.len() as f64 + self.ratio).sqrt())
    }

    /// The 95 % interval by Student's t, clamped to `bounds`; `None` below two repeats.
    pub fn interval(&self, bounds: (f64, f64)) -> Option<Interval> {
        let (centre, error) = (self.mean()?, self.error()?);
        let half = student_quantile((self.values.len() - 1) as f64)? * error;
        Some(Interval {
            low: (centre - half).clamp(bounds.0, bounds.1),
            high: (centre + half).clamp(bounds.0, bounds.1),
        })
    }

    /// The smallest difference between two dictionaries, each measured like this, whose 95 % interval excludes 0.
    pub fn detectable(&self) -> Option<f64> {
        let error = self.error()?;
        Some(student_quantile((2 * (self.values.len() - 1)) as f64)? * std::f64::consts::SQRT_2 * error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_hand_computed_values() {
        // 1, 2, 3: mean 2, deviation 1. Ratio 1/4: error √(1/3 + 1/4) = 0.763763, half 4.302653 times that = 3.286205;
        // detectable with 4 degrees 2.776445 · √2 · 0.763763 = 2.998903.
        let repeats = Repeats { values: vec![1.0, 2.0, 3.0], ratio: 0.25 };
        let interval = repeats.interval((f64::NEG_INFINITY, f64::INFINITY)).unwrap();
        assert!((interval.high - 5.286205).abs() < 1e-5 && (interval.low + 1.286205).abs() < 1e-5, "{interval:?}");
        assert!((repeats.detectable().unwrap() - 2.998903).abs() < 1e-5);
        assert_eq!(repeats.interval((0.0, 2.5)), Some(Interval { low: 0.0, high: 2.5 }));
        let one = Repeats { values: vec![1.0], ratio: 0.25 };
        assert_eq!((one.mean(), one.interval((0.0, 1.0)), one.detectable()), (Some(1.0), None, None));
        let none = Repeats { values: vec![], ratio: 0.25 };
        assert_eq!((none.mean(), none.interval((0.0, 1.0)), none.detectable()), (None, None, None));
    }
}
