//! `etalon demo`: the files that it writes, and every number of its results against `tests/golden/demo.json`.
//!
//! If numbers change on purpose, `ETALON_BLESS=1 cargo test -p etalon-app --test demo` writes that file anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::collections::BTreeMap;
use std::fs;

use common::Sandbox;
use etalon_kernel::neural::instruction_set;
use serde::Deserialize;
use serde_json::Value;

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/demo.json");

/// The values of results, by metric, name of the inputs, data, latents and k; then by headline or column of a table.
type Results = BTreeMap<String, BTreeMap<String, Vec<Option<f64>>>>;

/// The stored values of a headline.
const HEADLINE: [&str; 4] = ["value", "low", "high", "n"];

/// The stored values of a column. The sum of position times value detects swapped cells.
const COLUMN: [&str; 9] =
    ["cells", "defined", "sum of absolute values", "sum", "sum by position", "smallest", "largest", "first", "last"];

/// With the same vector instructions, numbers are the same bits, of which twelve digits are stored.
const SAME_BITS: f64 = 1e-9;

/// With others, numbers that depend on trained dictionaries agree to about six digits (README, "Reproducible").
const SIX_DIGITS: f64 = 5e-6;

#[test]
fn demo() {
    let sandbox = Sandbox::new();
    let output = sandbox.done("demo --json --out demo");
    let answer = output.json();
    assert!(answer["computed"].as_u64().unwrap() > 20 && answer["failed"].as_array().unwrap().is_empty());
    assert!(sandbox.path("demo/report/index.html").is_file() && output.err.is_empty(), "{}", output.err);
    assert!(sandbox.path("demo/report/results.csv").is_file());
    assert_eq!(answer["serve"], "etalon serve demo");
    for world in ["shapes", "superposition"] {
        assert!(sandbox.path(&format!("demo/report/{world}.html")).is_file());
        assert!(sandbox.files(&format!("demo/report/figures/{world}")).iter().all(|name| name.ends_with(".svg")));
    }
    assert!(sandbox.leftovers().is_empty());
    assert_eq!(sandbox.done("verify demo --json").json()["kinds"], serde_json::json!(["etalon-sae", "results"]));
    compare(&results(&sandbox));
}

/// The stored numbers, and the vector instructions of the processor that they were computed on.
#[derive(Deserialize)]
struct Golden {
    instructions: String,
    #[serde(flatten)]
    results: Results,
}

/// Compares with the stored numbers, or stores these.
fn compare(found: &Results) {
    if std::env::var_os("ETALON_BLESS").is_some() {
        fs::write(GOLDEN, text(found)).unwrap();
    }
    let expected: Golden = serde_json::from_slice(&fs::read(GOLDEN).unwrap()).unwrap();
    let same = expected.instructions == instruction_set();
    let differences = differences(&expected.results, found, if same { SAME_BITS } else { SIX_DIGITS });
    let first: Vec<&str> = differences.iter().map(String::as_str).take(10).collect();
    assert!(
        first.is_empty(),
        "{} numbers of the demo differ from tests/golden/demo.json. The first:\n{}\nIf this is intended: \
         ETALON_BLESS=1 cargo test -p etalon-app --test demo",
        differences.len(),
        first.join("\n")
    );
}

/// Every value that changed by more than a share of its size, with its key.
fn differences(expected: &Results, found: &Results, tolerance: f64) -> Vec<String> {
    let empty = BTreeMap::new();
    let mut differences = Vec::new();
    for (result, name) in names(expected).chain(names(found).filter(|(result, name)| !has(expected, result, name))) {
        let numbers = |results: &Results| results.get(result).unwrap_or(&empty).get(name).cloned().unwrap_or_default();
        let (expected, found) = (numbers(expected), numbers(found));
        let labels: &[&str] = if name.starts_with("headline ") { &HEADLINE } else { &COLUMN };
        for (index, label) in labels.iter().enumerate() {
            let number = |numbers: &[Option<f64>]| numbers.get(index).copied().flatten();
            // Sums may cancel: their error is relative to the size of the terms.
            let scale = if label.starts_with("sum") { expected.get(2).copied().flatten() } else { number(&expected) };
            let same = match (number(&expected), number(&found)) {
                (Some(expected), Some(found)) => {
                    (expected - found).abs() <= 1e-12 + tolerance * scale.unwrap_or_default().abs()
                }
                (expected, found) => expected == found,
            };
            if !same {
                let text = |numbers| number(numbers).map_or("nothing".into(), |number| number.to_string());
                let (expected, found) = (text(&expected), text(&found));
                differences.push(format!("{result}: {name}, {label}: expected {expected}, found {found}"));
            }
        }
    }
    differences
}

/// Every pair of keys.
fn names(results: &Results) -> impl Iterator<Item = (&String, &String)> {
    results.iter().flat_map(|(result, numbers)| numbers.keys().map(move |name| (result, name)))
}

fn has(results: &Results, result: &str, name: &str) -> bool {
    results.get(result).is_some_and(|numbers| numbers.contains_key(name))
}

/// The numbers of all result files.
fn results(sandbox: &Sandbox) -> Results {
    let mut all = Results::new();
    for file in sandbox.files("demo/results") {
        let result = sandbox.json(&format!("demo/results/{file}"));
        let about =
            |name: &str| result["about"].get(name).map_or("-".into(), |value| value.to_string().replace('"', ""));
        let names = ["inputs", "data", "latents", "k"].map(about).join(" ");
        let mut numbers = BTreeMap::new();
        for (key, headline) in object(&result["headline"]) {
            numbers.insert(format!("headline {key}"), HEADLINE.map(|part| headline[part].as_f64()).to_vec());
        }
        for (axis, columns) in object(&result["tables"]) {
            let columns = object(columns).filter_map(|(name, cells)| Some((name, column(cells)?)));
            numbers.extend(columns.map(|(name, column)| (format!("{axis} {name}"), column)));
        }
        let key = format!("{} {names}", result["metric"].as_str().unwrap());
        assert!(all.insert(key.clone(), numbers).is_none(), "two results are called `{key}`");
    }
    all
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().unwrap().iter()
}

/// The stored values of a column; `None` for text.
fn column(cells: &Value) -> Option<Vec<Option<f64>>> {
    let cells = flat(cells)?;
    let defined: Vec<(f64, f64)> =
        cells.iter().enumerate().filter_map(|(index, cell)| Some((index as f64 + 1.0, (*cell)?))).collect();
    let numbers = || defined.iter().map(|(_, number)| *number);
    let count = |count: usize| Some(count as f64);
    if defined.is_empty() {
        return Some(vec![count(cells.len()), count(0)]);
    }
    Some(vec![
        count(cells.len()),
        count(defined.len()),
        Some(numbers().map(f64::abs).sum()),
        Some(numbers().sum()),
        Some(defined.iter().map(|(position, number)| position / cells.len() as f64 * number).sum()),
        numbers().reduce(f64::min),
        numbers().reduce(f64::max),
        *cells.first()?,
        *cells.last()?,
    ])
}

/// The cells of a column, with lists flattened.
fn flat(cells: &Value) -> Option<Vec<Option<f64>>> {
    match cells {
        Value::Array(inner) => inner.iter().map(flat).collect::<Option<Vec<_>>>().map(|cells| cells.concat()),
        Value::Number(number) => Some(vec![number.as_f64()]),
        Value::Null => Some(vec![None]),
        _ => None,
    }
}

/// The stored form: one line per headline and column, twelve digits per value.
fn text(results: &Results) -> String {
    let short = |number: &Option<f64>| number.map(|number| format!("{number:.11e}").parse::<f64>().unwrap());
    let number = |number: Option<f64>| match number {
        Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e12 => format!("{whole:.0}"),
        number => serde_json::to_string(&number).unwrap(),
    };
    let list = |numbers: &[Option<f64>]| numbers.iter().map(|it| number(short(it))).collect::<Vec<_>>().join(",");
    let result = |(key, numbers): (&String, &BTreeMap<String, Vec<Option<f64>>>)| {
        let lines = numbers.iter().map(|(name, numbers)| format!("{name:?}:[{}]", list(numbers)));
        format!("{key:?}:{{\n{}\n}}", lines.collect::<Vec<_>>().join(",\n"))
    };
    let instructions = instruction_set();
    format!(
        "{{\n\"instructions\":{instructions:?},\n{}\n}}\n",
        results.iter().map(result).collect::<Vec<_>>().join(",\n")
    )
}
