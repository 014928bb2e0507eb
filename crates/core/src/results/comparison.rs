//! Input sets against each other in one number: their means with intervals, and the differences between them.

use std::collections::BTreeMap;

use super::aggregate::{Aggregate, defined, sources};
use super::archive::Stored;
use super::bootstrap::{Interval, percentile_interval};
use super::noise::{Source, interval};
use super::scores::Headline;
use super::units::{Units, resample};

/// One number of one measure on several input sets.
pub struct Comparison {
    sets: Vec<Option<Compared>>,
}

/// One input set.
struct Compared {
    aggregate: Aggregate,
    /// Why its value may be off.
    sources: Vec<Source>,
    /// The defined values by seed.
    by_seed: BTreeMap<u64, f64>,
    /// Which units the means are over, and the mean of every draw of them.
    units: Option<(blake3::Hash, Vec<f64>)>,
}

/// What an input set brings to a comparison.
struct Brought<'a> {
    /// The headline of every run, by seed.
    headlines: Vec<(u64, &'a Headline)>,
    /// The units behind those that are defined.
    units: Option<Units>,
}

/// A number less another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The first value less the second.
    pub value: f64,
    /// Its 95 % interval; `None` when nothing is known about the noise.
    pub interval: Option<Interval>,
    /// Was it taken unit by unit, so that noise that both numbers share cancels?
    pub paired: bool,
}

impl Difference {
    /// Can noise alone explain the difference? So it can if 0 is in the interval; `None` without one.
    pub fn is_noise(&self) -> Option<bool> {
        self.interval.map(|interval| interval.low <= 0.0 && 0.0 <= interval.high)
    }
}

impl Comparison {
    /// Compares input sets, each given by its runs, which must differ in their seeds alone.
    pub fn of(sets: &[&[&Stored]], key: &str) -> Comparison {
        let brought: Vec<Brought<'_>> = sets.iter().map(|runs| look_up(runs, key)).collect();
        // Input sets with the same units are drawn together, which makes differences of their means paired.
        let mut same: BTreeMap<[u8; 32], Vec<usize>> = BTreeMap::new();
        for (set, brought) in brought.iter().enumerate() {
            if let Some(units) = &brought.units {
                same.entry(*units.identity.as_bytes()).or_default().push(set);
            }
        }
        let mut means: Vec<Option<Vec<f64>>> = vec![None; sets.len()];
        for members in same.values() {
            // One run alone has the interval of its metric already.
            if members.len() > 1 || brought[members[0]].headlines.len() > 1 {
                let units: Vec<&Units> = members.iter().filter_map(|&set| brought[set].units.as_ref()).collect();
                members.iter().zip(resample(&units)).for_each(|(&set, list)| means[set] = Some(list));
            }
        }
        Comparison { sets: brought.into_iter().zip(means).map(|(brought, means)| compared(brought, means)).collect() }
    }

    /// How many input sets are compared.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// True when there is no input set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// What the runs of an input set say together; `None` when it was not measured.
    pub fn aggregate(&self, set: usize) -> Option<Aggregate> {
        self.get(set).map(|compared| compared.aggregate)
    }

    /// One input set less another; `None` when one of them has no value.
    ///
    /// On the same units: the bootstrap of the mean difference unit by unit, and Student's t over the differences seed by
    /// seed where both have the same seeds. On other units: the noise of both intervals, as of independent numbers.
    pub fn difference(&self, first: usize, second: usize) -> Option<Difference> {
        let (first, second) = (self.get(first)?, self.get(second)?);
        let value = first.aggregate.value? - second.aggregate.value?;
        if let Some(units) = paired(first, second) {
            let mut sources = seed_sources(first, second);
            sources.push(Source::within(value, units));
            return Some(Difference { value, interval: interval(value, &sources), paired: true });
        }
        let known = !first.sources.is_empty() && !second.sources.is_empty();
        let negated = second.sources.iter().map(|source| source.negated());
        let sources: Vec<Source> = first.sources.iter().copied().chain(negated).collect();
        let interval = interval(value, &sources).filter(|_| known);
        Some(Difference { value, interval, paired: false })
    }

    fn get(&self, set: usize) -> Option<&Compared> {
        self.sets.get(set).and_then(Option::as_ref)
    }
}

fn look_up<'a>(runs: &[&'a Stored], key: &str) -> Brought<'a> {
    let headline = |stored: &&'a Stored| {
        let headline = stored.result.scores.headline.iter().find(|headline| headline.key == key)?;
        Some((stored.result.recipe.seed, headline))
    };
    let is_defined = |stored: &&&Stored| stored.result.scores.value(key).is_some_and(f64::is_finite);
    let defined: Vec<&Stored> = runs.iter().filter(is_defined).copied().collect();
    Brought { headlines: runs.iter().filter_map(headline).collect(), units: Units::find(&defined, key) }
}

fn compared(brought: Brought<'_>, means: Option<Vec<f64>>) -> Option<Compared> {
    let headlines: Vec<&Headline> = brought.headlines.iter().map(|(_, headline)| *headline).collect();
    let resampled = means.clone().and_then(percentile_interval);
    Some(Compared {
        aggregate: Aggregate::of_runs(&headlines, resampled)?,
        sources: sources(&defined(&headlines), resampled),
        by_seed: brought.headlines.iter().filter_map(|(seed, headline)| Some((*seed, headline.value?))).collect(),
        units: brought.units.map(|units| units.identity).zip(means),
    })
}

/// The interval of a difference over draws of the same units; `None` where they are not the same.
fn paired(first: &Compared, second: &Compared) -> Option<Interval> {
    let ((identity, a), (other, b)) = (first.units.as_ref()?, second.units.as_ref()?);
    let draws = a.iter().zip(b).map(|(a, b)| a - b).collect();
    (identity == other).then(|| percentile_interval(draws)).flatten()
}

/// What seeds add to the noise of a difference.
fn seed_sources(first: &Compared, second: &Compared) -> Vec<Source> {
    let values = |compared: &Compared| compared.by_seed.values().copied().collect::<Vec<f64>>();
    let (a, b) = (values(first), values(second));
    if first.by_seed.keys().eq(second.by_seed.keys()) {
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        return Source::between(&differences).into_iter().collect();
    }
    Source::between(&a).into_iter().chain(Source::between(&b)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;
    use etalon_kernel::random::{stream, unit};

    fn assert_interval(found: Option<Interval>, low: f64, high: f64) {
        let found = found.unwrap();
        assert!((found.low - low).abs() < 1e-6 && (found.high - high).abs() < 1e-6, "{found:?}");
    }

    #[test]
    fn other_units_add_their_noise() {
        // 1.4 ± 0.3 less 1 ± 0.4: 0.4 ± 0.5, which holds 0; 2 ± 0.3 less 1 ± 0.4: 1 ± 0.5, which does not.
        let results = [(1.4, 0.3), (1.0, 0.4), (2.0, 0.3), (1.0, -1.0)]
            .map(|(value, half)| run(Example { value, half, ..Example::default() }));
        let runs: Vec<[&Stored; 1]> = results.iter().map(|stored| [stored]).collect();
        let comparison = Comparison::of(&runs.iter().map(|runs| runs.as_slice()).collect::<Vec<_>>(), "score");
        let close = comparison.difference(0, 1).unwrap();
        assert_interval(close.interval, -0.1, 0.9);
        assert_eq!((close.is_noise(), close.paired), (Some(true), false));
        let far = comparison.difference(2, 1).unwrap();
        assert_interval(far.interval, 0.5, 1.5);
        assert_eq!(far.is_noise(), Some(false));
        // Nothing is known about the noise of the last.
        let unknown = comparison.difference(0, 3).unwrap();
        assert_eq!((unknown.interval, unknown.is_noise()), (None, None));
        assert_eq!(comparison.difference(0, 9), None);
    }

    #[test]
    fn ends_that_are_not_equally_far_keep_their_sides() {
        // 5 in [2, 6] less 1 in [0, 5]: below √(3² + 4²) = 5, above √(1² + 1²) = 1.414214.
        let mut results = [5.0, 1.0].map(|value| run(Example { value, half: 0.0, ..Example::default() }));
        results[0].result.scores.headline[0].interval = Some(Interval { low: 2.0, high: 6.0 });
        results[1].result.scores.headline[0].interval = Some(Interval { low: 0.0, high: 5.0 });
        let comparison = Comparison::of(&[&[&results[0]], &[&results[1]]], "score");
        assert_interval(comparison.difference(0, 1).unwrap().interval, -1.0, 5.414214);
    }

    /// Concepts that are easy or hard for everybody, and a little noise of each input set.
    fn shared(set: u64, gain: f64) -> Vec<Option<f64>> {
        let (mut easy, mut own) = (stream(0, "easy", 0), stream(set, "own", 0));
        (0..80).map(|_| Some(unit(&mut easy) + gain + 0.05 * (unit(&mut own) - 0.5))).collect()
    }

    #[test]
    fn shared_units_make_differences_narrower() {
        let (better, worse) = (shared(1, 0.05), shared(2, 0.0));
        let of = |codes, labels, units: &[Option<f64>]| {
            run(Example { codes, labels, units, half: 0.06, ..Example::default() })
        };
        let results = [of("a", "l", &better), of("b", "l", &worse), of("b", "m", &worse)];
        let comparison = Comparison::of(&[&[&results[0]], &[&results[1]], &[&results[2]]], "score");
        let (same, other) = (comparison.difference(0, 1).unwrap(), comparison.difference(0, 2).unwrap());
        assert_eq!((same.value, same.paired, other.paired), (other.value, true, false));
        let width = |difference: Difference| difference.interval.map(|interval| interval.high - interval.low).unwrap();
        assert!(width(same) < 0.2 * width(other), "{same:?} {other:?}");
        assert_eq!((same.is_noise(), other.is_noise()), (Some(false), Some(true)));
        // The other way round it is the mirror image, and a set does not differ from itself.
        let (mirrored, own) = (comparison.difference(1, 0).unwrap(), comparison.difference(0, 0).unwrap());
        assert_interval(mirrored.interval, -same.interval.unwrap().high, -same.interval.unwrap().low);
        assert_eq!((own.interval, own.is_noise()), (Some(Interval { low: 0.0, high: 0.0 }), Some(true)));
        // One run keeps its own interval although its units were drawn.
        assert_interval(comparison.aggregate(0).unwrap().interval, mean(&better) - 0.06, mean(&better) + 0.06);
    }

    fn mean(units: &[Option<f64>]) -> f64 {
        units.iter().flatten().sum::<f64>() / units.len() as f64
    }

    #[test]
    fn seeds_do_not_make_units_more() {
        // Three runs with the same units: the interval is that of one run, and not narrower by √3.
        let units = shared(1, 0.0);
        let runs: Vec<Stored> = (0..3).map(|seed| run(Example { seed, units: &units, ..Example::default() })).collect();
        let runs: Vec<&Stored> = runs.iter().collect();
        let found = Comparison::of(&[&runs], "score").aggregate(0).unwrap();
        let interval = found.interval.unwrap();
        // Uniform units have the deviation √(1/12) = 0.2887: 2 · 1.96 · 0.2887 / √80 = 0.1265.
        assert!((interval.high - interval.low - 0.1265).abs() < 0.02, "{interval:?}");
        assert_eq!((found.deviation, found.over_seeds.map(|seeds| seeds.high - seeds.low)), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn what_a_seed_does_to_both_cancels() {
        // Seeds move both sets by 0, 1 and 2; the difference is 0.5 in every seed, and units say nothing more.
        let flat = |seed: u64, gain: f64| [Some(seed as f64 + gain); 4];
        let of = |codes, seed, gain| run(Example { codes, seed, units: &flat(seed, gain), ..Example::default() });
        let (first, second): (Vec<Stored>, Vec<Stored>) =
            (0..3).map(|seed| (of("a", seed, 0.5), of("b", seed, 0.0))).unzip();
        let (first, second): (Vec<&Stored>, Vec<&Stored>) = (first.iter().collect(), second.iter().collect());
        let comparison = Comparison::of(&[&first, &second, &second[..2]], "score");
        assert_interval(comparison.difference(0, 1).unwrap().interval, 0.5, 0.5);
        // Other seeds: variances 1/3 with 2 degrees and 1/4 with 1: freedom (7/12)² / (1/18 + 1/16) = 2.882353, whose t
        // is 3.258; the difference is 1.5 − 0.5.
        let found = comparison.difference(0, 2).unwrap();
        let half = crate::results::student_quantile(49.0 / 17.0).unwrap() * (7f64 / 12.0).sqrt();
        assert_interval(found.interval, 1.0 - half, 1.0 + half);
    }
}
