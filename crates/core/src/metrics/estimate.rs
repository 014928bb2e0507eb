//! A number with its 95 % interval and its sample size.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use crate::results::{Interval, Scores, bootstrap_mean};

/// A number with its interval and its sample size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Estimate {
    /// The value, if it is defined.
    pub value: Option<f64>,
    /// Its interval, if it is defined.
    pub interval: Option<Interval>,
    /// The sample size.
    pub n: usize,
}

impl Estimate {
    /// The mean with its percentile bootstrap interval. `purpose` names the random stream of the resamples.
    pub fn mean(values: &[f64], seed: u64, purpose: &str) -> Estimate {
        Estimate { value: mean(values), interval: bootstrap_mean(values, seed, purpose), n: values.len() }
    }

    /// Adds the estimate to the headline numbers.
    pub fn headline(self, key: &str, scores: &mut Scores) {
        scores.headline(key, self.value, self.interval, self.n);
    }

    /// The lower end of the interval.
    pub fn low(&self) -> Option<f64> {
        self.interval.map(|interval| interval.low)
    }

    /// The upper end of the interval.
    pub fn high(&self) -> Option<f64> {
        self.interval.map(|interval| interval.high)
    }
}
