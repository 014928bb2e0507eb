//! How often do intervals from rows contain the value they are about?
//!
//! A metric is evaluated on many independent data sets of the same size. Its 95 % interval should contain the expected
//! value, which is the mean over the data sets, in 95 % of them.

mod concept_scores;
mod population;
mod table;
mod units;

pub use concept_scores::concept_scores;
pub use population::sample;
pub use table::{Line, markdown};

use std::collections::BTreeMap;

use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::metrics::{evaluate, find, recipe};
use etalon::results::{Interval, Profile, Scores};
use etalon::run::Inputs;

/// A metric to simulate.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub metric: &'static str,
    /// The numbers whose intervals are from rows, by their first letters; empty for all.
    pub numbers: &'static [&'static str],
    /// The profile.
    pub profile: Profile,
    /// What is drawn anew in every data set.
    pub drawn: Drawn,
    /// Number of data sets of each size.
    pub replications: usize,
    /// Rows of one large data set, whose value the intervals may also contain; 0 if the value depends on the number of rows
    /// by definition.
    pub large: usize,
    /// Draws a data set of some rows, another one for every number.
    pub sample: fn(usize, u64) -> Result<Inputs>,
}

const fn case(metric: &'static str, numbers: &'static [&'static str], replications: usize, large: usize) -> Case {
    Case { metric, numbers, profile: Profile::Paper, drawn: Drawn::Rows, replications, large, sample }
}

/// What varies between data sets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Drawn {
    /// Rows.
    Rows,
    /// Units, or latents: one for ten rows.
    Units,
}

/// A metric with intervals over units.
const fn over_units(
    metric: &'static str,
    numbers: &'static [&'static str],
    sample: fn(usize, u64) -> Result<Inputs>,
) -> Case {
    Case { drawn: Drawn::Units, sample, ..case(metric, numbers, 400, 0) }
}

/// A metric of purity, on scores of concepts.
const fn purity(metric: &'static str, replications: usize, large: usize) -> Case {
    Case { sample: concept_scores, ..case(metric, &[], replications, large) }
}

/// Numbers of `core` over rows.
const OVER_ROWS: &[&str] = &["explained", "l0", "l1", "l2", "mse", "cossim", "relative"];

/// Every metric with intervals from rows, and some with intervals over units.
pub const CASES: [Case; 35] = [
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
    case("mis", &["mis of"], 200, 0),
    Case { sample: units::images, ..case("mis", &["mis of"], 200, 0) },
    over_units("mis", &["mis"], units::directions),
    over_units("intruder", &[], units::windows),
    over_units("example_embedding", &[], units::windows),
    over_units("his", &["his"], units::people),
    Case { profile: Profile::Reference, ..over_units("his", &["his over"], units::people) },
    purity("ois", 300, 20_000),
    purity("nis", 200, 20_000),
    purity("sap", 500, 40_000),
    Case { profile: Profile::Reference, ..purity("sap", 500, 40_000) },
    purity("mig", 500, 40_000),
    purity("modularity", 500, 40_000),
    purity("explicitness", 500, 40_000),
    purity("concept_alignment", 500, 40_000),
    purity("concept_auc", 200, 10_000),
    purity("task_auc", 200, 10_000),
    purity("r4", 300, 20_000),
    purity("dci", 300, 20_000),
    purity("ctl", 500, 40_000),
    // The normaliser depends on the number of rows.
    purity("icl", 500, 0),
];

/// One number of one data set.
struct Estimate {
    value: Option<f64>,
    interval: Option<Interval>,
}

/// The numbers with intervals: headlines, and some columns of tables. The key is the number and an item of it.
fn estimates(case: &Case, rows: usize, scores: &Scores) -> BTreeMap<(String, usize), Estimate> {
    let mut found = BTreeMap::new();
    for headline in &scores.headline {
        let estimate = Estimate { value: headline.value, interval: headline.interval };
        let over = if case.drawn == Drawn::Units { format!(" over {} units", rows / 10) } else { String::new() };
        found.insert((format!("{}{over}", headline.key), 0), estimate);
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
    match case.metric {
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
        "mis" if case.drawn == Drawn::Rows => {
            // Codes are completed by zeros; images have directions as units.
            let zeros = scores.table("latent").and_then(|table| table.column("smallest_activation")?.number(0));
            let name = if zeros == Some(0.0) { "mis of one latent" } else { "mis of one direction" };
            column("latent", name, ["mis", "low", "high"], &|row| Some((String::new(), row)));
        }
        _ => {}
    }
    found
}

fn run(case: &Case, rows: usize, number: u64, context: &Context) -> Result<Scores> {
    let metric = find(case.metric).ok_or_else(|| Error::Bug(format!("no metric {}", case.metric)))?;
    let inputs = (case.sample)(rows, number)?;
    let given = if case.metric == "match" { vec![("row_groups".into(), "10".into())] } else { Vec::new() };
    let recipe = recipe(metric, &inputs, &given.into_iter().collect(), case.profile, number)?;
    Ok(evaluate(metric, &inputs, &recipe, context)?.scores)
}

/// Simulates a case with data sets of `rows` rows on `threads` threads. Same bits for any number of threads.
pub fn simulate(case: &Case, rows: usize, threads: usize) -> Result<Vec<Line>> {
    let large = match case.large {
        0 => BTreeMap::new(),
        large => estimates(case, large, &run(case, large, u64::MAX, &Context::silent(threads, 8 << 30)?)?),
    };
    let work = |thread: usize| -> Result<Vec<_>> {
        let context = Context::silent(1, 4 << 30)?;
        let numbers = (thread..case.replications).step_by(threads);
        numbers.map(|number| Ok(estimates(case, rows, &run(case, rows, number as u64, &context)?))).collect()
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
