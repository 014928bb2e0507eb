//! How the numbers of a column stand to each other: the best, those that noise may explain, and the rest.

use super::gather::Cell;
use crate::metrics::Better;
use crate::results::Interval;

/// How a number stands to the best of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is the best.
    Best,
    /// Its interval overlaps that of the best (or of the pinned set), so noise may explain the difference.
    Unclear,
    /// It differs, or nothing is known about its noise.
    Apart,
}

/// The standing of every number of a column. Numbers are compared with the best, or with a pinned one.
pub fn standings(cells: &[Option<Cell>], better: Better, pinned: Option<usize>) -> Vec<Standing> {
    let value = |place: usize| cells.get(place).copied().flatten().and_then(|cell| cell.value);
    let sign = match better {
        Better::Higher => 1.0,
        Better::Lower => -1.0,
        Better::Neither => 0.0,
    };
    let best = (0..cells.len())
        .filter_map(|place| Some((place, sign * value(place)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))
        .filter(|_| sign != 0.0)
        .map(|(place, _)| place);
    let measured = cells.iter().flatten().filter(|cell| cell.value.is_some()).count();
    let against = pinned.filter(|&place| value(place).is_some()).or(best);
    let noise = |place: usize| cells.get(place).copied().flatten().and_then(|cell| cell.interval);
    let standing = |place: usize| match () {
        // One number alone is not the best of anything.
        () if measured < 2 || value(place).is_none() => Standing::Apart,
        () if best.is_some_and(|best| value(best) == value(place)) => Standing::Best,
        () if against == Some(place) => Standing::Apart,
        () if against.and_then(noise).zip(noise(place)).is_some_and(|(a, b)| overlap(a, b)) => Standing::Unclear,
        () => Standing::Apart,
    };
    (0..cells.len()).map(standing).collect()
}

fn overlap(a: Interval, b: Interval) -> bool {
    a.low <= b.high && b.low <= a.high
}

/// The difference that two intervals of the usual width just tell apart: the median width of the column.
pub fn detectable(cells: &[Option<Cell>]) -> Option<f64> {
    let mut widths: Vec<f64> =
        cells.iter().flatten().filter_map(|cell| cell.interval).map(|interval| interval.high - interval.low).collect();
    widths.sort_by(f64::total_cmp);
    crate::kernel::statistics::quantile(&widths, 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(value: f64, half: f64) -> Option<Cell> {
        let interval = Some(Interval { low: value - half, high: value + half });
        Some(Cell { value: Some(value), interval, n: 10, runs: 1 })
    }

    #[test]
    fn overlapping_intervals_are_unclear() {
        // 0.9 ± 0.05 is [0.85, 0.95]; 0.8 ± 0.06 reaches 0.86 and overlaps; 0.5 ± 0.05 does not.
        let column = [cell(0.9, 0.05), cell(0.8, 0.06), cell(0.5, 0.05), None];
        let higher = [Standing::Best, Standing::Unclear, Standing::Apart, Standing::Apart];
        assert_eq!(standings(&column, Better::Higher, None), higher);
        let lower = [Standing::Apart, Standing::Apart, Standing::Best, Standing::Apart];
        assert_eq!(standings(&column, Better::Lower, None), lower);
        assert_eq!(standings(&column, Better::Neither, None), [Standing::Apart; 4]);
        // Against the second: the best stays the best, the third does not overlap.
        assert_eq!(standings(&column, Better::Higher, Some(1))[1..3], [Standing::Apart; 2]);
        // Half-widths 0.05, 0.06, 0.05: the median width is 0.1.
        assert!((detectable(&column).unwrap() - 0.1).abs() < 1e-12);
    }

    #[test]
    fn equal_bests_share_the_mark_and_one_alone_has_none() {
        let both = standings(&[cell(0.5, 0.1), cell(0.5, 0.2)], Better::Higher, None);
        assert_eq!(both, [Standing::Best; 2]);
        assert_eq!(standings(&[cell(0.5, 0.1), None], Better::Higher, None), [Standing::Apart; 2]);
        assert_eq!(detectable(&[None]), None);
    }
}
