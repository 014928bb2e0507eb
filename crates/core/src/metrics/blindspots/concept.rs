//! One concept in one model: gap, δ, intervals, classes.

use super::bounds::bernstein;
use super::sums::{Made, Real};
use crate::results::{Interval, normal_quantile};

/// The δ of a gap: 0.5 is aligned, below 0.5 the concept is generated too rarely.
pub(super) fn delta(gap: f64, temperature: f64) -> f64 {
    1.0 / (1.0 + (-gap / temperature).exp())
}

/// A concept that fires somewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Concept {
    /// Rows where it fires in the real row, in the generated one, in either.
    pub real_fires: u64,
    pub generated_fires: u64,
    pub either_fires: u64,
    /// Mean over real rows.
    pub real: f64,
    /// Mean over generated rows.
    pub generated: f64,
    /// The standard deviation (n − 1) of paired differences; unpaired, of the difference of two rows.
    pub deviation: Option<f64>,
    /// The standard error of the gap.
    pub error: Option<f64>,
    /// The half-width of a distribution-free interval of the gap.
    pub bernstein: Option<f64>,
    /// The interval of the gap if the concept fires too rarely for the normal approximation.
    pub rare: Option<Interval>,
}

/// How gaps become classes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub temperature: f64,
    pub suppressed_below: f64,
    pub exaggerated_above: f64,
}

/// The δ of concepts that are certainly aligned.
const ALIGNED: (f64, f64) = (0.4, 0.6);

/// The class of a concept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Suppressed,
    Exaggerated,
    /// By thresholds: neither. By interval: certainly near one half.
    Aligned,
    /// The interval does not decide.
    Undetermined,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Suppressed => "suppressed",
            Class::Exaggerated => "exaggerated",
            Class::Aligned => "aligned",
            Class::Undetermined => "undetermined",
        }
    }
}

impl Concept {
    /// From sums over pairs; values are within `range` of each other.
    pub fn paired(real: &Real, made: &Made, rows: u64, range: f64) -> Concept {
        let count = rows as f64;
        let gap = (made.sum - real.sum) / count;
        let squares = made.squares + real.squares - 2.0 * made.products;
        // Rounding may leave a small negative rest where all differences are equal.
        let rest = squares - count * gap * gap;
        let noise = 1e-12 * (made.squares + real.squares);
        let variance = (rows > 1).then(|| if rest <= noise { 0.0 } else { rest / (count - 1.0) });
        Concept {
            real_fires: real.fires,
            generated_fires: made.fires,
            either_fires: real.fires + made.fires - made.both,
            real: real.sum / count,
            generated: made.sum / count,
            deviation: variance.map(f64::sqrt),
            error: variance.map(|variance| (variance / count).sqrt()),
            // Differences of two values within the range are within twice the range.
            bernstein: variance.and_then(|variance| bernstein(rows, variance, 2.0 * range)),
            rare: None,
        }
    }

    /// From two unpaired sets of rows: real against real.
    pub fn unpaired(first: &Real, first_rows: u64, second: &Real, second_rows: u64) -> Concept {
        let mean = |side: &Real, rows: u64| if rows > 0 { side.sum / rows as f64 } else { 0.0 };
        let variance = |side: &Real, rows: u64| {
            let (count, mean) = (rows as f64, mean(side, rows));
            (rows > 1).then(|| ((side.squares - count * mean * mean) / (count - 1.0)).max(0.0))
        };
        let variances = variance(first, first_rows).zip(variance(second, second_rows));
        Concept {
            real_fires: first.fires,
            generated_fires: second.fires,
            either_fires: first.fires + second.fires,
            real: mean(first, first_rows),
            generated: mean(second, second_rows),
            deviation: variances.map(|(a, b)| (a + b).sqrt()),
            error: variances.map(|(a, b)| (a / first_rows as f64 + b / second_rows as f64).sqrt()),
            bernstein: None,
            rare: None,
        }
    }

    /// Generated minus real.
    pub fn gap(&self) -> f64 {
        self.generated - self.real
    }

    /// The gap as a share of both means, from −1 (never generated) to 1 (never real).
    pub fn relative(&self) -> Option<f64> {
        let both = self.real.abs() + self.generated.abs();
        (both > 0.0).then(|| (self.gap() / both).clamp(-1.0, 1.0))
    }

    /// The 95 % interval of the gap.
    pub fn interval(&self) -> Option<Interval> {
        if self.rare.is_some() {
            return self.rare;
        }
        let reach = normal_quantile() * self.error?;
        Some(Interval { low: self.gap() - reach, high: self.gap() + reach })
    }

    /// The class by δ.
    pub fn class(&self, rules: &Rules) -> Class {
        match delta(self.gap(), rules.temperature) {
            delta if delta < rules.suppressed_below => Class::Suppressed,
            delta if delta > rules.exaggerated_above => Class::Exaggerated,
            _ => Class::Aligned,
        }
    }

    /// The class by the interval of δ: only if the whole interval agrees.
    pub fn certainty(&self, rules: &Rules) -> Class {
        let Some(interval) = self.interval() else { return Class::Undetermined };
        let (low, high) = (delta(interval.low, rules.temperature), delta(interval.high, rules.temperature));
        match () {
            () if high < rules.suppressed_below => Class::Suppressed,
            () if low > rules.exaggerated_above => Class::Exaggerated,
            () if low >= ALIGNED.0 && high <= ALIGNED.1 => Class::Aligned,
            () => Class::Undetermined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(real: &[f64], generated: &[f64]) -> Concept {
        let fires = |values: &[f64]| values.iter().filter(|value| **value != 0.0).count() as u64;
        let squares = |values: &[f64]| values.iter().map(|value| value * value).sum::<f64>();
        let both = real.iter().zip(generated).filter(|(a, b)| **a != 0.0 && **b != 0.0).count() as u64;
        let products = real.iter().zip(generated).map(|(a, b)| a * b).sum();
        let real_side = Real { fires: fires(real), sum: real.iter().sum(), squares: squares(real) };
        let made =
            Made { fires: fires(generated), both, sum: generated.iter().sum(), squares: squares(generated), products };
        Concept::paired(&real_side, &made, real.len() as u64, 2.0)
    }

    #[test]
    fn a_concept_is_that_of_a_worked_example() {
        // Differences −0.2, −1, 0, −1.6: mean −0.7; squares 0.04 + 1 + 0 + 2.56 = 3.6; variance (3.6 − 4·0.49)/3 = 0.5466667.
        let concept = of(&[0.3, 1.2, 0.0, 2.0], &[0.1, 0.2, 0.0, 0.4]);
        assert!((concept.gap() + 0.7).abs() < 1e-12);
        assert!((delta(concept.gap(), 1.0) - 0.331_812).abs() < 1e-6, "the first line of Definition 2, not its second");
        assert!((concept.deviation.unwrap() - 0.546_666_7f64.sqrt()).abs() < 1e-7);
        // (0.175 − 0.875) / (0.175 + 0.875) = −2/3.
        assert!((concept.relative().unwrap() + 2.0 / 3.0).abs() < 1e-12);
        let interval = concept.interval().unwrap();
        assert!((interval.high - (-0.7 + 1.959_964 * 0.739_369 / 2.0)).abs() < 1e-5);
        assert_eq!((concept.real_fires, concept.generated_fires, concept.either_fires), (3, 3, 3));
    }

    #[test]
    fn swapping_the_sides_mirrors_delta() {
        for (a, b) in [([0.3, 2.0], [0.1, 0.4]), ([0.0, 0.0], [5.0, 1.0]), ([1.0, 1.0], [1.0, 1.0])] {
            let (one, other) = (of(&a, &b), of(&b, &a));
            for temperature in [0.4, 0.8, 1.0] {
                let (one_delta, other_delta) = (delta(one.gap(), temperature), delta(other.gap(), temperature));
                assert!((one_delta + other_delta - 1.0).abs() < 1e-12);
                assert_eq!(one_delta < 0.5, one.generated < one.real);
            }
        }
        assert!(delta(-1e6, 0.1) >= 0.0 && delta(1e6, 0.1) <= 1.0);
    }

    #[test]
    fn only_a_whole_interval_is_certain() {
        // δ < 0.1 at T = 1 means a gap below −ln 9 = −2.197.
        let rules = Rules { temperature: 1.0, suppressed_below: 0.1, exaggerated_above: 0.9 };
        let steady = of(&[3.0, 3.1, 3.0, 2.9], &[0.0; 4]);
        assert_eq!((steady.class(&rules), steady.certainty(&rules)), (Class::Suppressed, Class::Suppressed));
        let wild = of(&[10.0, 0.0, 0.0, 0.0], &[0.0; 4]);
        assert_eq!((wild.class(&rules), wild.certainty(&rules)), (Class::Suppressed, Class::Undetermined));
        let same = of(&[1.0; 4], &[1.0; 4]);
        assert_eq!((same.class(&rules), same.certainty(&rules)), (Class::Aligned, Class::Aligned));
        assert_eq!(of(&[1.0], &[9.0]).certainty(&rules), Class::Undetermined);
        assert_eq!(of(&[0.0; 4], &[3.0, 3.1, 3.0, 2.9]).certainty(&rules), Class::Exaggerated);
    }
}
