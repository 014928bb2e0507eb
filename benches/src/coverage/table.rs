//! Coverage from the numbers of many data sets, and its table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use etalon::results::{Interval, Profile};

use super::{Case, Estimate, population};

/// The coverage of one number.
pub struct Line {
    /// The metric.
    pub metric: &'static str,
    /// The number.
    pub number: String,
    /// Rows of a data set.
    pub rows: usize,
    /// Data sets with an interval (for several items, summed over them).
    pub intervals: usize,
    /// Share of all data sets, or items of them, with a value but without an interval.
    pub without: f64,
    /// Share of the intervals that contain the expected value.
    pub coverage: f64,
    /// Share of the intervals that contain the value of a large data set.
    pub large_coverage: Option<f64>,
    /// The expected value; `None` for several items.
    pub expected: Option<f64>,
    /// The value of a large data set; `None` for several items.
    pub large: Option<f64>,
    /// The mean width of the intervals.
    pub width: f64,
}

/// The 95 % interval of a share by Wilson's method.
pub fn wilson(share: f64, count: usize) -> Interval {
    let (n, z) = (count as f64, 1.959_964);
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z / (1.0 + z * z / n) * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt();
    Interval { low: centre - half, high: centre + half }
}

type DataSet = BTreeMap<(String, usize), Estimate>;

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// One line per number that has an interval in some data set.
pub(super) fn lines(case: &Case, rows: usize, sets: &[DataSet], large: &DataSet) -> Vec<Line> {
    let keys: BTreeSet<&(String, usize)> = sets.iter().flat_map(BTreeMap::keys).collect();
    let mut groups: BTreeMap<String, Vec<&(String, usize)>> = BTreeMap::new();
    for key in keys {
        groups.entry(population::group(&key.0, key.1, rows)).or_default().push(key);
    }
    let line = |(number, keys): (String, Vec<&(String, usize)>)| {
        let (mut contained, mut large_contained, mut defined) = (Vec::new(), Vec::new(), 0);
        let mut widths = Vec::new();
        let mut expected = 0.0;
        for key in &keys {
            let found: Vec<&Estimate> = sets.iter().filter_map(|set| set.get(*key)).collect();
            let values: Vec<f64> = found.iter().filter_map(|one| one.value).collect();
            // A concept that fires nowhere has a gap of 0 and no line.
            let count = if key.0 == "gap" { sets.len() } else { values.len() };
            expected = values.iter().sum::<f64>() / count.max(1) as f64;
            let limit = large.get(*key).and_then(|one| one.value);
            defined += values.len();
            for interval in found.iter().filter_map(|one| one.interval) {
                let has = |value: f64| {
                    let slack = 1e-9 * (1.0 + value.abs());
                    f64::from(u8::from(interval.low - slack <= value && value <= interval.high + slack))
                };
                contained.push(has(expected));
                widths.push(interval.high - interval.low);
                large_contained.extend(limit.map(has));
            }
        }
        let one = keys.len() == 1;
        Line {
            metric: case.metric,
            number: if case.profile == Profile::Reference { format!("{number} (reference)") } else { number },
            rows,
            intervals: contained.len(),
            without: 1.0 - contained.len() as f64 / defined.max(1) as f64,
            coverage: mean(&contained),
            large_coverage: (!large_contained.is_empty()).then(|| mean(&large_contained)),
            expected: one.then_some(expected),
            large: if one { large.get(keys[0]).and_then(|one| one.value) } else { None },
            width: mean(&widths),
        }
    };
    let counts = |number: &str| case.numbers.is_empty() || case.numbers.iter().any(|start| number.starts_with(start));
    groups.into_iter().filter(|(number, _)| counts(number)).map(line).filter(|line| line.intervals > 0).collect()
}

/// The lines as a Markdown table.
pub fn markdown(lines: &[Line]) -> String {
    let mut text = String::from(
        "| metric | number | rows | intervals | none | covers expected value | covers large sample | expected | large sample | mean width |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let number = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.4}"));
    for line in lines {
        let interval = wilson(line.coverage, line.intervals);
        let large = line.large_coverage.map_or_else(|| "–".into(), |share| format!("{share:.2}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {:.0} % | {:.3} [{:.2}, {:.2}] | {large} | {} | {} | {:.4} |",
            line.metric,
            line.number,
            line.rows,
            line.intervals,
            100.0 * line.without,
            line.coverage,
            interval.low,
            interval.high,
            number(line.expected),
            number(line.large),
            line.width,
        );
    }
    text
}
