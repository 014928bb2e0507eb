//! How often do intervals from rows contain the value they are about?
//!
//! A metric is evaluated on many independent data sets of the same size. Its 95 % interval should contain the expected
//! value, which is the mean over the data sets, in 95 % of them.

mod population;
mod table;

pub use population::sample;
pub use table::{Line, markdown};

use std::collections::BTreeMap;

use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::metrics::{evaluate, find, recipe};
use etalon::results::{Interval, Profile, Scores};

/// A metric to simulate.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub metric: &'static str,
    /// The numbers whose intervals are from rows, by their first letters; empty for all.
    pub numbers: &'static [&'static str],
    /// The profile.
    pub profile: Profile,
    /// Number of data sets of each size.
    pub replications: usize,
    /// Rows of one large data set, whose value the intervals may also contain; 0 if the value depends on the number of rows
    /// by definition.
    pub large: usize,
}

const fn case(metric: &'static str, numbers: &'static [&'static str], replications: usize, large: usize) -> Case {
    Case { metric, numbers, profile: Profile::Paper, replications, large }
}

/// Numbers of `core` over rows.
const OVER_ROWS: &[&str] = &["explained", "l0", "l1", "l2", "mse", "cossim", "relative"];

/// Every metric with intervals from rows.
pub const CASES: [Case; 14] = [
    case("core", OVER_ROWS, 500, 100_000),
    case("match", &["match_score over rows"], 500, 40_000),
    case("cknna", &[], 200, 0),
    case("sparse_probing", &[], 400, 40_000),
    Case { profile: Profile::Reference, ..case("sparse_probing", &[], 200, 20_000) },
    case("sae_probes", &[], 200, 20_000),
    case("scr", &[], 200, 40_000),
    case("tpp", &[], 200, 40_000),
    case("absorption", &[], 500, 40_000),
    case("mdl", &[], 500, 100_000),
    case("fid", &[], 500, 100_000),
    case("blindspots", &["gap of"], 500, 100_000),
    case("divergence", &[], 200, 10_000),
    case("cooccurrence", &[], 200, 0),
];

/// One number of one data set.
struct Estimate {
    value: Option<f64>,
    interval: Option<Interval>,
}

/// The numbers with intervals: headlines, and some columns of tables. The key is the number and an item of it.
fn estimates(metric: &str, scores: &Scores) -> BTreeMap<(String, usize), Estimate> {
    let mut found = BTreeMap::new();
    for headline in &scores.headline {
        let estimate = Estimate { value: headline.value, interval: headline.interval };
        found.insert((headline.key.clone(), 0), estimate);
    }
    let mut column = |axis: &str, name: &str, names: [&str; 3], item: &dyn Fn(usize) -> Option<(String, usize)>| {
        let Some(table) = scores.table(axis) else { return };
        for row in 0..table.rows() {
            let cell = |name: &str| table.column(name).and_then(|cells| cells.number(row));
            let [value, low, high] = names.map(cell);
            let interval = low.zip(high).map(|(low, high)| Interval { low, high });
            if let Some((suffix, item)) = item(row) {
                found.insert((format!("{name}{suffix}"), item), Estimate { value, interval });
            }
        }
    };
    match metric {
        "match" => {
            let names = ["match_score", "low_rows", "high_rows"];
            column("strategy", "match_score over rows", names, &|row| (row == 0).then(|| (String::new(), 0)));
        }
        "blindspots" => {
            let latents = scores.table("latent_model").and_then(|table| table.column("latent"));
            let item = |row: usize| {
                let latent = latents?.number(row)? as usize;
                Some((String::new(), latent))
            };
            column("latent_model", "gap", ["gap", "gap_low", "gap_high"], &item);
        }
        _ => {}
    }
    found
}

fn run(case: &Case, rows: usize, number: u64, context: &Context) -> Result<Scores> {
    let metric = find(case.metric).ok_or_else(|| Error::Bug(format!("no metric {}", case.metric)))?;
    let inputs = sample(rows, number)?;
    let given = if case.metric == "match" { vec![("row_groups".into(), "10".into())] } else { Vec::new() };
    let recipe = recipe(metric, &inputs, &given.into_iter().collect(), case.profile, number)?;
    Ok(evaluate(metric, &inputs, &recipe, context)?.scores)
}

/// Simulates a case with data sets of `rows` rows on `threads` threads. Same bits for any number of threads.
pub fn simulate(case: &Case, rows: usize, threads: usize) -> Result<Vec<Line>> {
    let large = match case.large {
        0 => BTreeMap::new(),
        large => estimates(case.metric, &run(case, large, u64::MAX, &Context::silent(threads, 8 << 30)?)?),
    };
    let work = |thread: usize| -> Result<Vec<_>> {
        let context = Context::silent(1, 4 << 30)?;
        let numbers = (thread..case.replications).step_by(threads);
        numbers.map(|number| Ok(estimates(case.metric, &run(case, rows, number as u64, &context)?))).collect()
    };
    let mut found: Vec<std::vec::IntoIter<_>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<Vec<_>>>| {
            let result = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result.map(Vec::into_iter)
        };
        workers.into_iter().map(join).collect::<Result<Vec<_>>>()
    })?;
    let sets: Vec<BTreeMap<(String, usize), Estimate>> =
        (0..case.replications).filter_map(|number| found[number % threads].next()).collect();
    Ok(table::lines(case, rows, &sets, &large))
}
