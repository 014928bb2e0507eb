//! Which values of a column are best, and which differ from the best only within noise.

use crate::metrics::Better;
use crate::results::{Comparison, Difference, Interval};
use etalon_kernel::statistics::median;

/// How a value compares with the best of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Significance {
    /// It is the best.
    Best,
    /// The 95 % interval of its difference to the best (or to the pinned set) contains 0.
    WithinNoise,
    /// It differs; or nothing is marked, because the noise of some difference to the best is unknown.
    Apart,
}

/// The input set with the best value; `None` if neither direction is better.
pub fn best(column: &Comparison, better: Better) -> Option<usize> {
    let sign = match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
        Better::Neither => return None,
    };
    let values = (0..column.len()).filter_map(|set| Some((set, sign * value(column, set)?)));
    values.max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0))).map(|(set, _)| set)
}

/// Compares every value of a column with the best, or with that of the pinned set.
pub fn significances(column: &Comparison, better: Better, pinned: Option<usize>) -> Vec<Significance> {
    let best = best(column, better);
    let values: Vec<f64> = (0..column.len()).filter_map(|set| value(column, set)).collect();
    // A column that is the same for all sets, such as a ceiling that does not depend on the dictionary, has no best.
    let same = |value: &f64| (value - values[0]).abs() <= 1e-12 * values[0].abs();
    let constant = values.len() > 1 && values.iter().all(same);
    let measured = if constant { 0 } else { values.len() };
    let against = reference(column, better, pinned);
    let noise = |set: usize| column.difference(set, against?)?.is_noise();
    // Where the noise of a difference is unknown, it is unknown whether the best is better.
    let known = |set: usize| {
        let difference = best.and_then(|best| column.difference(set, best));
        difference.is_none_or(|difference| difference.value == 0.0 || difference.interval.is_some())
    };
    let measured = if (0..column.len()).all(known) { measured } else { 0 };
    let significance = |set: usize| match () {
        // A single value, one that all sets share, or one whose noise is unknown, is not marked as the best.
        () if measured < 2 || value(column, set).is_none() => Significance::Apart,
        () if best.is_some_and(|best| value(column, best) == value(column, set)) => Significance::Best,
        () if against == Some(set) => Significance::Apart,
        () if noise(set) == Some(true) => Significance::WithinNoise,
        () => Significance::Apart,
    };
    (0..column.len()).map(significance).collect()
}

/// The smallest difference that usually exceeds noise: half the median width of the intervals of the differences to the
/// best, or to the pinned set. For a single input set: the difference to an independent set with the same noise.
pub fn detectable(column: &Comparison, better: Better, pinned: Option<usize>) -> Option<f64> {
    let half = |interval: Interval| (interval.high - interval.low) / 2.0;
    let against =
        reference(column, better, pinned).or_else(|| (0..column.len()).find(|&set| value(column, set).is_some()))?;
    let known = |difference: Difference| difference.interval.map(half);
    let others = (0..column.len()).filter(|&set| set != against);
    let mut halves: Vec<f64> = others.filter_map(|set| column.difference(set, against).and_then(known)).collect();
    let alone = || Some(half(column.aggregate(against)?.interval?) * std::f64::consts::SQRT_2);
    median(&mut halves).or_else(alone)
}

fn value(column: &Comparison, set: usize) -> Option<f64> {
    column.aggregate(set)?.value
}

/// The set that the others are compared with.
fn reference(column: &Comparison, better: Better, pinned: Option<usize>) -> Option<usize> {
    pinned.filter(|&set| value(column, set).is_some()).or_else(|| best(column, better))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Metadata, Profile, Recipe, ResultFile, Scores, Stored};

    /// Values with the half-widths of their intervals (NaN for none), on unknown units.
    fn column(cells: &[Option<(f64, f64)>]) -> Comparison {
        let stored = |(value, half): (f64, f64)| {
            let mut scores = Scores::default();
            let interval = Interval { low: value - half, high: value + half };
            scores.headline("score", Some(value), (!half.is_nan()).then_some(interval), 10);
            let recipe = Recipe {
                metric: "fantasy".into(),
                version: 1,
                profile: Profile::Paper,
                seed: 0,
                params: BTreeMap::new(),
                inputs: BTreeMap::new(),
            };
            let result = ResultFile { etalon: "0".into(), recipe, scores, seconds: 0.0 };
            Stored::new(result, Metadata::new()).unwrap()
        };
        let results: Vec<Vec<Stored>> = cells.iter().map(|cell| cell.map(stored).into_iter().collect()).collect();
        let runs: Vec<Vec<&Stored>> = results.iter().map(|runs| runs.iter().collect()).collect();
        Comparison::of(&runs.iter().map(Vec::as_slice).collect::<Vec<_>>(), "score")
    }

    #[test]
    fn a_difference_whose_interval_contains_zero_is_noise() {
        // 0.9 ± 0.05 minus 0.83 ± 0.06: 0.07 ± 0.0781, which contains 0; minus 0.5 ± 0.05: 0.4 ± 0.0707, which does
        // not.
        use Significance::{Apart, Best, WithinNoise};
        let cells = column(&[Some((0.9, 0.05)), Some((0.83, 0.06)), Some((0.5, 0.05)), None]);
        assert_eq!(significances(&cells, Better::Higher, None), [Best, WithinNoise, Apart, Apart]);
        assert_eq!(significances(&cells, Better::Lower, None), [Apart, Apart, Best, Apart]);
        assert_eq!(significances(&cells, Better::Neither, None), [Apart; 4]);
        // Against the second: the best stays the best, the third is far away.
        assert_eq!(significances(&cells, Better::Higher, Some(1)), [Best, Apart, Apart, Apart]);
        assert_eq!(significances(&cells, Better::Neither, Some(1)), [WithinNoise, Apart, Apart, Apart]);
        // Half-widths 0.0781 and 0.0707 of the differences to the best: the median is 0.0744.
        let found = detectable(&cells, Better::Higher, None).unwrap();
        assert!((found - (0.0061f64.sqrt() + 0.005f64.sqrt()) / 2.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn overlapping_intervals_may_still_differ() {
        // 0.6 ± 0.06 and 0.5 ± 0.06 overlap between 0.54 and 0.56; their difference 0.1 ± 0.085 does not contain 0.
        let cells = column(&[Some((0.6, 0.06)), Some((0.5, 0.06))]);
        assert_eq!(significances(&cells, Better::Higher, None), [Significance::Best, Significance::Apart]);
    }

    #[test]
    fn equal_best_values_are_both_marked_and_a_single_one_is_not() {
        use Significance::{Apart, Best};
        let both = column(&[Some((0.5, 0.1)), Some((0.5, 0.2)), Some((0.1, 0.1))]);
        assert_eq!(significances(&both, Better::Higher, None), [Best, Best, Apart]);
        // A column that is the same for all sets has no best.
        let same = column(&[Some((0.5, 0.1)), Some((0.5, 0.2))]);
        assert_eq!(significances(&same, Better::Higher, None), [Apart; 2]);
        let alone = column(&[Some((0.5, 0.1)), None]);
        assert_eq!(significances(&alone, Better::Higher, None), [Significance::Apart; 2]);
        // Without noise nothing is marked.
        assert_eq!(
            significances(&column(&[Some((0.9, f64::NAN)), Some((0.5, 0.1))]), Better::Higher, None),
            [Apart; 2]
        );
        // 0.1 · √2.
        assert!((detectable(&alone, Better::Higher, None).unwrap() - 0.02f64.sqrt()).abs() < 1e-12);
        assert_eq!(detectable(&column(&[None]), Better::Higher, None), None);
    }
}
