//! Sources of noise, and the interval of several independent ones.

use super::bootstrap::Interval;
use super::distributions::{normal_quantile, student_quantile};
use etalon_kernel::statistics::{deviation, mean};

/// One source of noise of a number: standard errors below and above, and their degrees of freedom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NoiseSource {
    below: f64,
    above: f64,
    /// Degrees of freedom; infinite if the errors are taken as known.
    freedom: f64,
}

impl NoiseSource {
    /// The noise that the interval of a value implies. An end on the wrong side of the value is taken as the value.
    pub fn within(value: f64, interval: Interval) -> NoiseSource {
        let error = |distance: f64| distance.max(0.0) / normal_quantile();
        NoiseSource { below: error(value - interval.low), above: error(interval.high - value), freedom: f64::INFINITY }
    }

    /// The noise of the mean of several random values, such as those of seeds; `None` below two.
    pub fn between(values: &[f64]) -> Option<NoiseSource> {
        let error = deviation(values)? / (values.len() as f64).sqrt();
        Some(NoiseSource { below: error, above: error, freedom: (values.len() - 1) as f64 })
    }

    /// The noise of the mean of several values that share their noise: as large as that of each; `None` without any.
    pub fn shared(list: &[NoiseSource]) -> Option<NoiseSource> {
        let part = |part: fn(&NoiseSource) -> f64| mean(&list.iter().map(part).collect::<Vec<f64>>());
        let (below, above) = (part(|source| source.below)?, part(|source| source.above)?);
        Some(NoiseSource { below, above, freedom: f64::INFINITY })
    }

    /// The noise of the negated value: both sides exchanged.
    pub fn negated(self) -> NoiseSource {
        NoiseSource { below: self.above, above: self.below, freedom: self.freedom }
    }
}

/// The 95 % interval around a value with independent sources of noise; `None` without any. Variances add, below and
/// above separately, and Student's t has the degrees of freedom of Welch and Satterthwaite: `(Σ v)² / Σ (v² /
/// freedom)`. A single source keeps its own interval.
pub fn interval(value: f64, sources: &[NoiseSource]) -> Option<Interval> {
    let half = |error: fn(&NoiseSource) -> f64| {
        let variances = || sources.iter().map(|source| (error(source).powi(2), source.freedom));
        let total: f64 = variances().map(|(variance, _)| variance).sum();
        if total == 0.0 {
            return Some(0.0);
        }
        let freedom = total * total / variances().map(|(variance, freedom)| variance * variance / freedom).sum::<f64>();
        Some(student_quantile(freedom)? * total.sqrt())
    };
    if sources.is_empty() {
        return None;
    }
    Some(Interval { low: value - half(|source| source.below)?, high: value + half(|source| source.above)? })
}

#[cfg(test)]
mod tests {
    use super::super::example::assert_interval;
    use super::*;

    #[test]
    fn one_source_keeps_its_interval() {
        let own = Interval { low: 1.4, high: 3.0 };
        assert_interval(interval(2.0, &[NoiseSource::within(2.0, own)]), 1.4, 3.0);
        // 1, 2, 3: error 1 / √3, two degrees of freedom: 4.302653 / √3 = 2.484138.
        let seeds = NoiseSource::between(&[1.0, 2.0, 3.0]).unwrap();
        assert_interval(interval(2.0, &[seeds]), -0.484138, 4.484138);
        assert_eq!((NoiseSource::between(&[1.0]), interval(2.0, &[])), (None, None));
        // No noise.
        let none = NoiseSource::between(&[1.0, 1.0]).unwrap();
        assert_eq!(interval(1.0, &[none]), Some(Interval { low: 1.0, high: 1.0 }));
    }

    #[test]
    fn two_sources_match_hand_computed_values() {
        // Known errors 3 and 4 make 5: ± 5 · 1.959964.
        let known = |error: f64| {
            let half = error * normal_quantile();
            NoiseSource::within(0.0, Interval { low: -half, high: half })
        };
        assert_interval(interval(0.0, &[known(3.0), known(4.0)]), -9.799820, 9.799820);
        // Seeds of variance 1/3 with 2 degrees and units of variance 1/3: freedom (2/3)² / ((1/3)² / 2) = 8, whose t is
        // 2.306004: times √(2/3) = 0.816497 it is 1.882844.
        let seeds = NoiseSource::between(&[-1.0, 0.0, 1.0]).unwrap();
        assert_interval(interval(0.0, &[seeds, known(1.0 / 3f64.sqrt())]), -1.882844, 1.882844);
        // An end on the wrong side counts as the value; negation exchanges the sides.
        let odd = NoiseSource::within(1.0, Interval { low: 1.2, high: 2.0 });
        assert_interval(interval(1.0, &[odd.negated()]), 0.0, 1.0);
    }
}
