//! Population moments of effects.

use serde::{Deserialize, Serialize};

/// Mean and standardised moments, all divided by the number of values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Moments {
    pub mean: f64,
    /// Standard deviation.
    pub deviation: f64,
    /// m3 / m2^1.5.
    pub skewness: f64,
    /// m4 / m2²: 3 for a normal distribution.
    pub kurtosis: f64,
}

impl Moments {
    /// The moments of some values; `None` if there are none or all are equal.
    pub fn of(values: &[f32]) -> Option<Moments> {
        let count = values.len() as f64;
        let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
        let mut powers = [0.0; 3];
        for value in values {
            let off = f64::from(*value) - mean;
            let square = off * off;
            powers[0] += square;
            powers[1] += square * off;
            powers[2] += square * square;
        }
        let [second, third, fourth] = powers.map(|sum| sum / count);
        // Equal values differ from their mean by rounding only.
        let scale = values.iter().fold(0.0, |largest: f64, value| largest.max(f64::from(value.abs())));
        (second > (1e-12 * scale).powi(2)).then(|| Moments {
            mean,
            deviation: second.sqrt(),
            skewness: third / second.powf(1.5),
            kurtosis: fourth / (second * second),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        // Mean 2; differences −2, −1, 0, 3: m2 = 14/4, m3 = (−8 − 1 + 27)/4 = 4.5, m4 = (16 + 1 + 81)/4 = 24.5.
        let found = Moments::of(&[0.0, 1.0, 2.0, 5.0]).unwrap();
        let expected = [2.0, 3.5f64.sqrt(), 4.5 / 3.5f64.powf(1.5), 24.5 / 12.25];
        let found = [found.mean, found.deviation, found.skewness, found.kurtosis];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12), "{found:?}");
        assert_eq!((Moments::of(&[]), Moments::of(&[0.1; 7]), Moments::of(&[0.0])), (None, None, None));
    }
}
