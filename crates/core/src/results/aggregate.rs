//! Means over seeds and their intervals. All reports take them from here.
//!
//! A headline number varies with the units it is computed from (concepts, latents, pairs) and with the seed. The
//! interval of an aggregate covers both. The interval of a single run is that of its metric, which covers units.
//! Several runs of one recipe with different seeds are a two-level sample:
//!
//! - seeds: Student's t, because resampling two or three seeds would underestimate their spread;
//! - units: a bootstrap of the per-unit values in the tables, which draws the same units in every run, because runs on
//!   the same inputs share them. Without such values, the mean of the runs' own intervals.
//!
//! The two sources are independent, so their variances add (`noise.rs`).

use super::bootstrap::Interval;
use super::noise::{NoiseSource, interval};
use super::scores::Headline;
use etalon_kernel::statistics::{deviation, mean};

/// A headline number over several runs of one measure on one input set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Aggregate {
    /// The mean of the defined values.
    pub value: Option<f64>,
    /// The 95 % interval, over units and seeds.
    pub interval: Option<Interval>,
    /// The 95 % interval by Student's t over seeds alone; `None` below two runs.
    pub over_seeds: Option<Interval>,
    /// The standard deviation (n − 1) over seeds; `None` below two runs.
    pub deviation: Option<f64>,
    /// Number of units that the value of a run is an average of.
    pub n: usize,
    /// Number of runs.
    pub runs: usize,
}

impl Aggregate {
    /// A single run, as its metric reported it.
    pub fn of_run(headline: &Headline) -> Aggregate {
        Aggregate::of_runs(&[headline], None).unwrap_or_default()
    }

    /// Runs that differ only in their seeds; `None` without runs. `units` is the bootstrap interval over units, if
    /// their values are known.
    pub(super) fn of_runs(runs: &[&Headline], units: Option<Interval>) -> Option<Aggregate> {
        let n = runs.iter().find(|run| run.value.is_some()).or(runs.first())?.n;
        Some(Aggregate { n, ..Aggregate::of_values(&defined(runs), units) })
    }

    /// The mean over several input sets, such as dictionaries trained with several seeds. Sets are treated like seeds.
    pub fn of_sets(sets: &[Aggregate]) -> Option<Aggregate> {
        let n = sets.first()?.n;
        let values: Vec<_> = sets.iter().filter_map(|set| Some((set.value?, set.interval))).collect();
        Some(Aggregate { n, runs: sets.iter().map(|set| set.runs).sum(), ..Aggregate::of_values(&values, None) })
    }

    fn of_values(values: &[(f64, Option<Interval>)], units: Option<Interval>) -> Aggregate {
        let points: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        let Some(value) = mean(&points) else { return Aggregate::default() };
        let noise = match values {
            // Bit for bit.
            [(_, own)] => *own,
            _ => interval(value, &sources(values, units)),
        };
        Aggregate {
            value: Some(value),
            interval: noise,
            over_seeds: NoiseSource::between(&points).and_then(|seeds| interval(value, &[seeds])),
            deviation: deviation(&points),
            n: 0,
            runs: points.len(),
        }
    }
}

/// The defined values of runs with their intervals.
pub(super) fn defined(runs: &[&Headline]) -> Vec<(f64, Option<Interval>)> {
    let finite = |interval: &Interval| interval.low.is_finite() && interval.high.is_finite();
    let value = |run: &&Headline| Some((run.value.filter(|value| value.is_finite())?, run.interval.filter(finite)));
    runs.iter().filter_map(value).collect()
}

/// The sources of noise of the mean of some values: within each value, from its interval or from `units`, and between
/// values.
pub(super) fn sources(values: &[(f64, Option<Interval>)], units: Option<Interval>) -> Vec<NoiseSource> {
    let points: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
    let own: Vec<NoiseSource> =
        values.iter().filter_map(|(value, own)| Some(NoiseSource::within(*value, (*own)?))).collect();
    let resampled = || Some(NoiseSource::within(mean(&points)?, units?));
    // A single run keeps the interval of its metric.
    let within = if own.len() == 1 && points.len() == 1 { None } else { resampled() };
    within.or_else(|| NoiseSource::shared(&own)).into_iter().chain(NoiseSource::between(&points)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::distributions::normal_quantile;
    use super::*;
    use etalon_kernel::random::{stream, unit};

    fn headline(value: f64, half: f64) -> Headline {
        let interval = (half >= 0.0).then_some(Interval { low: value - half, high: value + half });
        Headline { key: "score".into(), value: Some(value), interval, n: 9 }
    }

    fn of(runs: &[Headline], units: Option<Interval>) -> Aggregate {
        Aggregate::of_runs(&runs.iter().collect::<Vec<_>>(), units).unwrap()
    }

    fn assert_interval(found: Option<Interval>, low: f64, high: f64) {
        let found = found.unwrap();
        assert!((found.low - low).abs() < 1e-6 && (found.high - high).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn intervals_over_seeds_match_hand_computed_values() {
        // 1, 2, 3: mean 2, deviation 1; two degrees of freedom: 4.302653 / √3 = 2.484138.
        let found = of(&[1.0, 2.0, 3.0].map(|value| headline(value, -1.0)), None);
        assert_eq!((found.value, found.deviation, found.n, found.runs), (Some(2.0), Some(1.0), 9, 3));
        assert_interval(found.over_seeds, -0.484138, 4.484138);
        assert_eq!(found.interval, found.over_seeds);
        // Each ± 1.131586, which is an error of 1/√3: as in `noise.rs`, 8 degrees, 2.306004 · √(2/3) = 1.882844.
        let found = of(&[1.0, 2.0, 3.0].map(|value| headline(value, 1.131586)), None);
        assert_interval(found.interval, 0.117156, 3.882844);
        // Units resampled: 0 below and 1.131586 above, so that the lower end comes from seeds only.
        let units = Some(Interval { low: 2.0, high: 3.131586 });
        let found = of(&[1.0, 2.0, 3.0].map(|value| headline(value, 0.5)), units);
        assert_interval(found.interval, -0.484138, 3.882844);
    }

    #[test]
    fn one_run_keeps_its_interval_and_no_run_has_none() {
        let found = of(&[headline(0.5, 0.1)], None);
        assert_eq!(found.interval, Some(Interval { low: 0.4, high: 0.6 }));
        assert_eq!((found.over_seeds, found.deviation, found.runs), (None, None, 1));
        assert_eq!(Aggregate::of_runs(&[], None), None);
        let undefined = Headline { key: "score".into(), value: None, interval: None, n: 0 };
        let found = Aggregate::of_runs(&[&undefined], None).unwrap();
        assert_eq!((found.value, found.interval, found.runs), (None, None, 0));
        // An undefined run is left out of the mean.
        let both = Aggregate::of_runs(&[&undefined, &headline(0.5, 0.1)], None).unwrap();
        assert_eq!((both.value, both.runs), (Some(0.5), 1));
    }

    #[test]
    fn sets_are_treated_like_seeds() {
        // 0.4 and 0.6: error 0.141421 / √2 = 0.1 with one degree of freedom, and 0.1 within each: freedom
        // 0.02² / 0.01² = 4, whose t is 2.776445: times √0.02 it is 0.392649.
        let sets = [0.4, 0.6].map(|value| of(&[headline(value, 0.1 * normal_quantile())], None));
        let found = Aggregate::of_sets(&sets).unwrap();
        assert_eq!((found.value, found.runs, found.n), (Some(0.5), 2, 9));
        assert_interval(found.interval, 0.107351, 0.892649);
        assert_eq!(Aggregate::of_sets(&[]), None);
    }

    /// Nearly normal: the sum of twelve uniform numbers has the variance 1.
    fn normal(random: &mut etalon_kernel::random::ChaCha8Rng) -> f64 {
        (0..12).map(|_| unit(random)).sum::<f64>() - 6.0
    }

    #[test]
    fn intervals_have_the_nominal_coverage() {
        // 2000 worlds with 2 to 5 seeds, true mean 0. A rate of 95 % misses 100 ± 9.7: five deviations to either side.
        for (seeds, units) in [(2, 0.0), (3, 0.0), (5, 0.0), (3, 1.0), (5, 0.5)] {
            let missed = (0..2000)
                .filter(|&world| {
                    let mut random = stream(world, "aggregate/coverage", seeds);
                    // The noise of units is the same in every run, and the run's interval covers it.
                    let shared = units * normal(&mut random);
                    let half = if units > 0.0 { normal_quantile() * units } else { -1.0 };
                    let runs: Vec<Headline> =
                        (0..seeds).map(|_| headline(shared + normal(&mut random), half)).collect();
                    let interval = of(&runs, None).interval.unwrap();
                    !(interval.low..=interval.high).contains(&0.0)
                })
                .count();
            assert!((52..=148).contains(&missed), "{seeds} seeds, units {units}: missed {missed} of 2000");
        }
    }
}
