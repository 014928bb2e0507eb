//! Table 1 of the purity paper: pure and impure codes of five concepts, 3,000 samples, both covariances, at least ten seeds; mean and
//! standard deviation of every metric in percent, Welch's p-value, and whether the means are within the expected bounds. Argument:
//! number of seeds.

use std::collections::BTreeMap;

use etalon::codes::Codes;
use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::labels::worlds;
use etalon::results::Profile;
use etalon::run::{CODES, Inputs, LABELS};
use etalon_bench::run_seed;
use etalon_kernel::statistics::{deviation, mean};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Bounds of a mean in percent: pure, impure.
type Bounds = [(f64, f64); 2];

/// A line of the table.
struct Line {
    title: &'static str,
    metric: &'static str,
    key: &'static str,
    profile: Profile,
    given: &'static [(&'static str, &'static str)],
    /// As published: pure, impure.
    published: [&'static str; 2],
    /// The bounds for independent concepts, and for a covariance of 0.25.
    bounds: [Option<Bounds>; 2],
}

impl Line {
    const fn new(title: &'static str, metric: &'static str, published: [&'static str; 2]) -> Line {
        Line { title, metric, key: metric, profile: Profile::Reference, given: &[], published, bounds: [None; 2] }
    }
}

const LINES: [Line; 9] = [
    Line {
        bounds: [Some([(3.5, 8.0), (17.0, 29.0)]), None],
        ..Line::new("OIS", "ois", ["4.69 ± 0.43", "22.58 ± 2.34"])
    },
    Line { given: &[("probe_input", "ranks")], ..Line::new("OIS, ranks", "ois", ["", ""]) },
    Line {
        bounds: [Some([(60.0, 80.0), (60.0, 85.0)]), Some([(48.0, 60.0), (50.0, 64.0)])],
        ..Line::new("NIS (program)", "nis", ["66.25 ± 2.31", "72.36 ± 1.26"])
    },
    Line { profile: Profile::Paper, given: &[("repeats", "1")], ..Line::new("NIS (definition)", "nis", ["", ""]) },
    Line {
        bounds: [Some([(48.3, 49.7); 2]), Some([(40.0, 42.0); 2])],
        ..Line::new("SAP", "sap", ["48.74 ± 0.41", "48.83 ± 0.53"])
    },
    Line {
        bounds: [Some([(99.8, 100.0); 2]), Some([(97.5, 98.5); 2])],
        ..Line::new("MIG", "mig", ["99.93 ± 0.03", "99.93 ± 0.04"])
    },
    Line { bounds: [Some([(99.93, 99.97); 2]), None], ..Line::new("R4", "r4", ["99.95 ± 0.00", "99.95 ± 0.00"]) },
    Line {
        key: "disentanglement",
        bounds: [Some([(99.97, 100.0), (99.4, 99.6)]), None],
        ..Line::new("DCI disentanglement", "dci", ["99.99 ± 0.00", "99.50 ± 0.01"])
    },
    Line { key: "icl", profile: Profile::Paper, ..Line::new("ICL", "icl", ["", ""]) },
];

const ROWS: usize = 3000;

fn inputs(mode: &str, covariance: &str, seed: u64) -> Result<Inputs> {
    let given = [("mode", mode), ("covariance", covariance), ("rows", &ROWS.to_string())]
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let world = worlds::make("impure-codes", &BTreeMap::from(given), seed, &Context::silent(2, 1 << 30)?)?;
    let tile = world.activations.tile(0..ROWS)?;
    let dense: Vec<f32> = (0..ROWS).flat_map(|row| tile.row(row).to_vec()).collect();
    Ok(Inputs::default().with(&CODES, Codes::from_dense(&dense, 5)?).with(&LABELS, world.labels))
}

/// Welch's two-sided p-value.
fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    let part = |values: &[f64]| {
        Some((mean(values)?, deviation(values)?.powi(2) / values.len() as f64, values.len() as f64 - 1.0))
    };
    let ((ma, va, fa), (mb, vb, fb)) = (part(a)?, part(b)?);
    let freedom = (va + vb).powi(2) / (va * va / fa + vb * vb / fb);
    let t = (ma - mb).abs() / (va + vb).sqrt();
    // The tail, not 1 minus the rest, which would round to 0.
    StudentsT::new(0.0, 1.0, freedom).ok().map(|student| 2.0 * student.cdf(-t))
}

#[expect(clippy::print_stdout, reason = "the result of a simulation")]
fn main() -> Result<()> {
    let seeds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10);
    let mut missed = Vec::new();
    for (setting, covariance) in ["0", "0.25"].into_iter().enumerate() {
        println!("\nCovariance {covariance}, {seeds} seeds, percent, mean ± standard deviation\n");
        println!("| measure | pure | impure | p | published pure | published impure |\n|---|---|---|---|---|---|");
        for line in &LINES {
            let mut values = [Vec::new(), Vec::new()];
            for (mode, values) in ["pure", "impure"].into_iter().zip(&mut values) {
                for seed in 0..seeds {
                    let inputs = inputs(mode, covariance, seed)?;
                    let result = run_seed(line.metric, &inputs, line.given, line.profile, seed)?;
                    values.extend(result.scores.value(line.key).map(|value| 100.0 * value));
                }
            }
            let [pure, impure] = &values;
            let [a, b] = [pure, impure].map(|values| mean(values).unwrap_or(f64::NAN));
            let cell = |values: &[f64], mean: f64| format!("{mean:.2} ± {:.2}", deviation(values).unwrap_or(f64::NAN));
            let p = welch(pure, impure).unwrap_or(f64::NAN);
            let [one, other] = line.published;
            println!("| {} | {} | {} | {p:.1e} | {one} | {other} |", line.title, cell(pure, a), cell(impure, b));
            for (value, (low, high)) in
                line.bounds[setting].into_iter().flat_map(|bounds| [a, b].into_iter().zip(bounds))
            {
                if !(low..=high).contains(&value) {
                    missed.push(format!(
                        "{}, covariance {covariance}: {value:.3} is not within {low} to {high}",
                        line.title
                    ));
                }
            }
            let told_apart = match line.title {
                "OIS" => p < 1e-3,
                "NIS (program)" => setting > 0 || b > a,
                _ => true,
            };
            if !told_apart {
                missed.push(format!("{}, covariance {covariance}: pure and impure are not told apart", line.title));
            }
        }
    }
    println!("\nbounds: {}", if missed.is_empty() { "all kept".into() } else { missed.join("; ") });
    if missed.is_empty() { Ok(()) } else { Err(Error::Bug("a mean is outside of its bounds".into())) }
}
