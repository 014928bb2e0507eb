//! Distribution-free bounds on the error of an estimated δ: the published one and the corrected ones.
//!
//! The published bound sums 2n squared steps of L/n to n⁻¹L² instead of 2n⁻¹L²: one factor of 2 in the exponent. Real and
//! generated rows of a pair share a prompt, so only pairs are independent: another factor of 2.

/// A bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// As published (Theorem 4).
    Published,
    /// With the sum corrected, for 2n independent rows.
    Independent,
    /// For n independent pairs, which is what the rows are.
    Paired,
}

impl Bound {
    /// All, the published one first.
    pub const ALL: [Bound; 3] = [Bound::Published, Bound::Independent, Bound::Paired];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Bound::Published => "published",
            Bound::Independent => "independent rows",
            Bound::Paired => "independent pairs",
        }
    }

    /// The factor of n·ε²/L² in the exponent.
    fn factor(self) -> f64 {
        match self {
            Bound::Published => 2.0,
            Bound::Independent => 1.0,
            Bound::Paired => 0.5,
        }
    }

    /// An upper bound of P(|δ̂ − δ| > ε) for `pairs` pairs of values within `range`.
    #[cfg(test)]
    pub fn tail(self, pairs: u64, range: f64, temperature: f64, epsilon: f64) -> f64 {
        let lipschitz = range / (4.0 * temperature);
        2.0 * (-self.factor() * pairs as f64 * (epsilon / lipschitz).powi(2)).exp()
    }

    /// The ε that any of `concepts` concepts exceeds with a probability of at most 5 %.
    pub fn half_width(self, pairs: u64, range: f64, temperature: f64, concepts: usize) -> Option<f64> {
        let lipschitz = range / (4.0 * temperature);
        let log = (2.0 * concepts as f64 / ALPHA).ln();
        (pairs > 0 && concepts > 0).then(|| lipschitz * (log / (self.factor() * pairs as f64)).sqrt())
    }
}

/// The level of tests, and the probability that an interval is wrong.
pub(super) const ALPHA: f64 = 0.05;

/// The empirical Bernstein half-width of the interval of a mean of values within `range`, from their variance (n − 1).
pub(super) fn bernstein(values: u64, variance: f64, range: f64) -> Option<f64> {
    let log = (4.0 / ALPHA).ln();
    let count = values as f64;
    (values > 1).then(|| (2.0 * variance * log / count).sqrt() + 7.0 * range * log / (3.0 * (count - 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::blindspots::concept::delta;

    /// P(|δ̂ − ½| > ε) for `trials` fair coins, where `gap` maps the number of heads to the sum of differences of `pairs`.
    fn exact(trials: u32, pairs: f64, gap: impl Fn(f64) -> f64, epsilon: f64) -> f64 {
        let mut probability = 0.5f64.powi(trials as i32);
        let mut sum = 0.0;
        for heads in 0..=trials {
            if (delta(gap(f64::from(heads)) / pairs, 1.0) - 0.5).abs() > epsilon {
                sum += probability;
            }
            probability *= f64::from(trials - heads) / f64::from(heads + 1);
        }
        sum
    }

    #[test]
    fn fair_coins_exceed_the_published_bound() {
        // 50 pairs of fair coins: the sum of differences is the heads of 100 coins less 50.
        let independent = |epsilon| exact(100, 50.0, |heads| heads - 50.0, epsilon);
        let published = |epsilon| Bound::Published.tail(50, 1.0, 1.0, epsilon);
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-3;
        assert!(near(independent(0.06), 1.203e-2) && near(published(0.06), 6.302e-3));
        assert!(near(independent(0.08), 8.74e-4) && near(published(0.08), 7.14e-5));
        for epsilon in [0.06, 0.08] {
            assert!(independent(epsilon) > published(epsilon));
            assert!(independent(epsilon) <= Bound::Independent.tail(50, 1.0, 1.0, epsilon));
        }
        assert!(near(Bound::Independent.tail(50, 1.0, 1.0, 0.06), 1.123e-1));
        // Each generated coin is the opposite of the real one: differences are ±1, their sum 2·heads − 50.
        let opposite = exact(50, 50.0, |heads| 2.0 * heads - 50.0, 0.08);
        assert!(near(opposite, 1.535e-2) && near(Bound::Independent.tail(50, 1.0, 1.0, 0.08), 1.195e-2));
        assert!(opposite > Bound::Independent.tail(50, 1.0, 1.0, 0.08));
        assert!(near(Bound::Paired.tail(50, 1.0, 1.0, 0.08), 1.546e-1));
        assert!(opposite <= Bound::Paired.tail(50, 1.0, 1.0, 0.08));
    }

    #[test]
    fn half_widths_of_ten_thousand_pairs() {
        // Values within 10: one concept at T = 1, 32,000 at T = 1, 32,000 at T = 0.8.
        let expected = [[0.034, 0.066, 0.083], [0.048, 0.094, 0.117], [0.068, 0.133, 0.166]];
        for (bound, expected) in Bound::ALL.into_iter().zip(expected) {
            let width = |temperature, concepts| bound.half_width(10_000, 10.0, temperature, concepts).unwrap();
            let found = [width(1.0, 1), width(1.0, 32_000), width(0.8, 32_000)];
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 6e-4), "{found:?}");
            // The inverse of the tail.
            assert!((bound.tail(10_000, 10.0, 1.0, width(1.0, 1)) - ALPHA).abs() < 1e-12);
        }
        assert_eq!(Bound::Paired.half_width(0, 1.0, 1.0, 1), None);
    }

    #[test]
    fn bernstein_is_that_of_a_worked_example() {
        // n = 101, V = 0.25, range 2, ln 80 = 4.38203: √(2·0.25·4.38203/101) = 0.147288; 7·2·4.38203/300 = 0.204495.
        assert!((bernstein(101, 0.25, 2.0).unwrap() - 0.351_783).abs() < 1e-5);
        assert_eq!(bernstein(1, 0.0, 1.0), None);
    }
}
