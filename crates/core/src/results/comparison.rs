//! Comparison of input sets by one headline number: means with intervals, and differences between sets.

use std::collections::BTreeMap;

use super::aggregate::{Aggregate, defined, sources};
use super::bootstrap::{Interval, percentile_interval};
use super::current::seedless_name;
use super::noise::{NoiseSource, interval};
use super::replicates::Replicates;
use super::scores::Headline;
use super::stored::Stored;
use super::units::{UnitValues, resample};

/// One headline number of one measure on several input sets.
pub struct Comparison {
    sets: Vec<Option<Compared>>,
}

/// One input set.
struct Compared {
    aggregate: Aggregate,
    /// The sources of noise of its value.
    sources: Vec<NoiseSource>,
    /// The defined values by seed of the dictionary, if its name has one, and of the run.
    by_seed: BTreeMap<Seeds, f64>,
    /// The identity of the units that the means are over, and the mean of every bootstrap draw.
    units: Option<(blake3::Hash, Vec<f64>)>,
    /// Stored replicates, for numbers that are no means over units.
    replicates: Option<Replicates>,
}

/// The seed of the dictionary, if its name has one, and that of the run.
type Seeds = (Option<u64>, u64);

/// The data of an input set.
struct SetData<'a> {
    /// The headline of every run, by seed.
    headlines: Vec<(Seeds, &'a Headline)>,
    /// The units of the runs whose headline is defined.
    units: Option<UnitValues>,
    /// The stored replicates, without units.
    replicates: Option<Replicates>,
}

/// The difference between two input sets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The first value minus the second.
    pub value: f64,
    /// Its 95 % interval; `None` if the noise of either value is unknown.
    pub interval: Option<Interval>,
    /// Whether it is paired, by unit or by draw of rows, so that the noise that both values share cancels.
    pub paired: bool,
}

impl Difference {
    /// Whether noise alone can explain the difference: true if the interval contains 0, `None` without an interval.
    pub fn is_noise(&self) -> Option<bool> {
        self.interval.map(|interval| interval.low <= 0.0 && 0.0 <= interval.high)
    }
}

impl Comparison {
    /// Compares input sets, each given by its runs, which must differ only in their seeds.
    pub fn of(sets: &[&[&Stored]], key: &str) -> Comparison {
        let data: Vec<SetData<'_>> = sets.iter().map(|runs| read(runs, key)).collect();
        // Input sets with the same units are resampled together, so that differences of their means are paired.
        let mut same: BTreeMap<[u8; 32], Vec<usize>> = BTreeMap::new();
        for (set, data) in data.iter().enumerate() {
            if let Some(units) = &data.units {
                same.entry(*units.identity.as_bytes()).or_default().push(set);
            }
        }
        let mut means: Vec<Option<Vec<f64>>> = vec![None; sets.len()];
        for members in same.values() {
            // A single run has the interval of its metric already.
            if members.len() > 1 || data[members[0]].headlines.len() > 1 {
                let units: Vec<&UnitValues> = members.iter().filter_map(|&set| data[set].units.as_ref()).collect();
                members.iter().zip(resample(&units)).for_each(|(&set, list)| means[set] = Some(list));
            }
        }
        Comparison { sets: data.into_iter().zip(means).map(|(data, means)| compared(data, means)).collect() }
    }

    /// The number of input sets.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// True when there is no input set.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The mean over the runs of an input set; `None` if it was not measured.
    pub fn aggregate(&self, set: usize) -> Option<Aggregate> {
        self.get(set).map(|compared| compared.aggregate)
    }

    /// The first input set minus the second; `None` if one of them has no value.
    ///
    /// On the same units the difference is paired: a bootstrap of the mean difference over units, and Student's t over
    /// the differences by seed if both have the same seeds. So it is for numbers with stored replicates on the same rows.
    /// Otherwise the two values are independent.
    pub fn difference(&self, first: usize, second: usize) -> Option<Difference> {
        let (first, second) = (self.get(first)?, self.get(second)?);
        let value = first.aggregate.value? - second.aggregate.value?;
        if let Some(shared) = paired_by_unit(first, second).or_else(|| paired_by_rows(first, second, value)) {
            let mut sources = seed_sources(first, second);
            sources.push(NoiseSource::within(value, shared));
            return Some(Difference { value, interval: interval(value, &sources), paired: true });
        }
        let known = !first.sources.is_empty() && !second.sources.is_empty();
        let negated = second.sources.iter().map(|source| source.negated());
        let sources: Vec<NoiseSource> = first.sources.iter().copied().chain(negated).collect();
        let interval = interval(value, &sources).filter(|_| known);
        Some(Difference { value, interval, paired: false })
    }

    fn get(&self, set: usize) -> Option<&Compared> {
        self.sets.get(set).and_then(Option::as_ref)
    }
}

fn read<'a>(runs: &[&'a Stored], key: &str) -> SetData<'a> {
    let headline = |stored: &&'a Stored| {
        let headline = stored.result.scores.headline.iter().find(|headline| headline.key == key)?;
        let name = stored.about.get("inputs").and_then(|name| name.as_str());
        Some(((name.and_then(|name| seedless_name(name).1), stored.result.recipe.seed), headline))
    };
    let is_defined = |stored: &&&Stored| stored.result.scores.value(key).is_some_and(f64::is_finite);
    let defined: Vec<&Stored> = runs.iter().filter(is_defined).copied().collect();
    let units = UnitValues::find(&defined, key);
    let replicates = if units.is_none() { Replicates::find(&defined, key) } else { None };
    SetData { headlines: runs.iter().filter_map(headline).collect(), units, replicates }
}

fn compared(data: SetData<'_>, means: Option<Vec<f64>>) -> Option<Compared> {
    let headlines: Vec<&Headline> = data.headlines.iter().map(|(_, headline)| *headline).collect();
    let resampled = means.clone().and_then(percentile_interval);
    Some(Compared {
        aggregate: Aggregate::of_runs(&headlines, resampled)?,
        sources: sources(&defined(&headlines), resampled),
        by_seed: data.headlines.iter().filter_map(|(seed, headline)| Some((*seed, headline.value?))).collect(),
        units: data.units.map(|units| units.identity).zip(means),
        replicates: data.replicates,
    })
}

/// The interval of a difference over the same rows; `None` if rows or draws differ.
fn paired_by_rows(first: &Compared, second: &Compared, value: f64) -> Option<Interval> {
    first.replicates.as_ref()?.difference(second.replicates.as_ref()?, value)
}

/// The bootstrap interval of a paired difference; `None` if the units differ.
fn paired_by_unit(first: &Compared, second: &Compared) -> Option<Interval> {
    let ((identity, a), (other, b)) = (first.units.as_ref()?, second.units.as_ref()?);
    let draws = a.iter().zip(b).map(|(a, b)| a - b).collect();
    (identity == other).then(|| percentile_interval(draws)).flatten()
}

/// The noise of a difference over seeds.
fn seed_sources(first: &Compared, second: &Compared) -> Vec<NoiseSource> {
    let values = |compared: &Compared| compared.by_seed.values().copied().collect::<Vec<f64>>();
    let (a, b) = (values(first), values(second));
    if first.by_seed.keys().eq(second.by_seed.keys()) {
        let differences: Vec<f64> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
        return NoiseSource::between(&differences).into_iter().collect();
    }
    NoiseSource::between(&a).into_iter().chain(NoiseSource::between(&b)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, assert_interval, run};
    use super::*;
    use etalon_kernel::random::{stream, unit};

    #[test]
    fn noise_of_different_units_adds_up() {
        // 1.4 ± 0.3 minus 1 ± 0.4: 0.4 ± 0.5, which contains 0; 2 ± 0.3 minus 1 ± 0.4: 1 ± 0.5, which does not.
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
        // The noise of the last is unknown.
        let unknown = comparison.difference(0, 3).unwrap();
        assert_eq!((unknown.interval, unknown.is_noise()), (None, None));
        assert_eq!(comparison.difference(0, 9), None);
    }

    #[test]
    fn asymmetric_intervals_keep_their_sides() {
        // 5 in [2, 6] minus 1 in [0, 5]: below √(3² + 4²) = 5, above √(1² + 1²) = 1.414214.
        let mut results = [5.0, 1.0].map(|value| run(Example { value, half: 0.0, ..Example::default() }));
        results[0].result.scores.headline[0].interval = Some(Interval { low: 2.0, high: 6.0 });
        results[1].result.scores.headline[0].interval = Some(Interval { low: 0.0, high: 5.0 });
        let comparison = Comparison::of(&[&[&results[0]], &[&results[1]]], "score");
        assert_interval(comparison.difference(0, 1).unwrap().interval, -1.0, 5.414214);
    }

    /// Concepts that are easy or hard for all input sets, with a little noise per set.
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
        // A single run keeps its own interval although its units were resampled.
        assert_interval(comparison.aggregate(0).unwrap().interval, mean(&better) - 0.06, mean(&better) + 0.06);
    }

    fn mean(units: &[Option<f64>]) -> f64 {
        units.iter().flatten().sum::<f64>() / units.len() as f64
    }

    #[test]
    fn numbers_without_units_are_paired_by_stored_replicates() {
        // Draws move both values by the same amount, from −0.1 to 0.1, and the first by up to 0.01 more.
        let of = |codes, labels, value: f64, own: f64| {
            let mut stored = run(Example { codes, labels, value, half: 0.1, ..Example::default() });
            let draw = |draw: usize| Some(value + (draw as f64 / 500.0 - 1.0) * (0.1 + own));
            stored.result.scores.put_replicates([("score".into(), (0..=1000).map(draw).collect())]);
            stored
        };
        let results = [of("a", "l", 0.62, 0.01), of("b", "l", 0.57, 0.0), of("b", "m", 0.57, 0.0)];
        let comparison = Comparison::of(&[&[&results[0]], &[&results[1]], &[&results[2]]], "score");
        let (same, other) = (comparison.difference(0, 1).unwrap(), comparison.difference(0, 2).unwrap());
        // 0.05 ± 0.95 · 0.01.
        assert_interval(same.interval, 0.0405, 0.0595);
        assert_eq!((same.paired, same.is_noise()), (true, Some(false)));
        assert_eq!((other.paired, other.is_noise()), (false, Some(true)));
    }

    #[test]
    fn numbers_with_a_jackknife_are_paired_by_group() {
        let of = |codes, labels, value: f64, deviations: [f64; 4]| {
            let mut stored = run(Example { codes, labels, value, half: 0.1, ..Example::default() });
            // The mean without a group need not be the value, from which a bias is removed.
            let without = deviations.map(|deviation| Some(value - 0.3 + deviation)).to_vec();
            stored.result.scores.put_jackknife([("score".into(), without)]);
            stored
        };
        let (first, second) = ([-0.02, 0.02, 0.0, 0.0], [-0.02, 0.02, 0.01, -0.01]);
        let results = [of("a", "l", 0.62, first), of("b", "l", 0.57, second), of("b", "m", 0.57, second)];
        let comparison = Comparison::of(&[&[&results[0]], &[&results[1]], &[&results[2]]], "score");
        let (same, other) = (comparison.difference(0, 1).unwrap(), comparison.difference(0, 2).unwrap());
        // Differences of deviations 0, 0, −0.01, 0.01: 0.05 ± 3.182446 · √(0.0002 · 3/4).
        assert_interval(same.interval, 0.011023, 0.088977);
        assert_eq!((same.paired, same.is_noise()), (true, Some(false)));
        assert_eq!((other.paired, other.is_noise()), (false, Some(true)));
    }

    #[test]
    fn more_seeds_are_not_more_units() {
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
    fn effects_of_a_seed_on_both_sets_cancel() {
        // Seeds shift both sets by 0, 1 and 2; the difference is 0.5 for every seed and unit.
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
