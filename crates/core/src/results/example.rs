//! Synthetic results for the tests of aggregates and comparisons.

use std::collections::BTreeMap;

use serde_json::json;

use super::{Interval, Metadata, Profile, Recipe, ResultFile, Scores, Stored, Table};

/// A result with one headline number, `score`.
pub struct Example<'a> {
    pub name: &'a str,
    pub codes: &'a str,
    pub labels: &'a str,
    pub seed: u64,
    /// The value; the mean of `units` if there are any.
    pub value: f64,
    /// Half of the interval; none below 0.
    pub half: f64,
    pub axis: &'a str,
    pub units: &'a [Option<f64>],
}

impl Default for Example<'_> {
    fn default() -> Self {
        Example { name: "a", codes: "c", labels: "l", seed: 0, value: 0.5, half: -1.0, axis: "concept", units: &[] }
    }
}

/// The result of an example.
pub fn run(example: Example<'_>) -> Stored {
    let known: Vec<f64> = example.units.iter().flatten().copied().collect();
    let (value, n) = match known.len() {
        0 => (example.value, 10),
        count => (known.iter().sum::<f64>() / count as f64, count),
    };
    let mut scores = Scores::default();
    let interval = Interval { low: value - example.half, high: value + example.half };
    scores.headline("score", Some(value), (example.half >= 0.0).then_some(interval), n);
    if n == known.len() {
        scores.tables.push(
            Table::new(example.axis)
                .words("name", (0..example.units.len()).map(|unit| format!("unit {unit}")))
                .numbers("f1", example.units.iter().copied()),
        );
    }
    let inputs = [("codes", example.codes), ("labels", example.labels)];
    let recipe = Recipe {
        metric: "fantasy".into(),
        version: 1,
        profile: Profile::Paper,
        seed: example.seed,
        params: BTreeMap::new(),
        inputs: inputs.map(|(role, id)| (role.into(), format!("blake3:{id}"))).into(),
    };
    let result = ResultFile { etalon: "0".into(), recipe, scores, seconds: 0.0 };
    Stored::new(result, Metadata::from([("inputs".into(), json!(example.name))])).unwrap()
}

/// Compares the ends of an interval with six decimals.
pub fn assert_interval(found: Option<Interval>, low: f64, high: f64) {
    let found = found.unwrap();
    assert!((found.low - low).abs() < 1e-6 && (found.high - high).abs() < 1e-6, "{found:?}");
}
