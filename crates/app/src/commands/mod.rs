//! One file per command.

pub mod archs;
mod baselines;
pub mod completions;
pub mod convert;
pub mod data;
pub mod demo;
pub mod encode;
pub mod eval;
pub mod metrics;
pub mod report;
pub mod run;
pub mod sanity;
pub mod train;
pub mod verify;

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{Complaint, Result};
use etalon::input::Finite;
use etalon::metrics::{self as catalogue, METRICS, Metric};
use etalon::report as pages;
use etalon::results::{Archive, Profile};
use etalon::run::{Engine, Inputs};
use etalon::study::{Outcome, Paths, Recognised};
use serde_json::json;

use crate::session::Session;

/// Some units failed and were listed.
const SOME_FAILED: u8 = 3;

fn profile(name: &str) -> Profile {
    if name == "reference" { Profile::Reference } else { Profile::Paper }
}

fn finite(rule: &str) -> Finite {
    if rule == "drop-rows" { Finite::DropRows } else { Finite::Refuse }
}

fn find_metric(name: &str) -> Result<&'static dyn Metric> {
    catalogue::find(name).ok_or_else(|| {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.card().name).collect();
        Complaint::new(format!("there is no metric `{name}`"))
            .expected(names.join(", "))
            .advice("`etalon metrics` describes them")
            .into()
    })
}

/// Reads the inputs that are named, and encodes them if a dictionary is.
fn load_inputs(paths: &Paths, finite: Finite, engine: &Engine<'_>, session: &Session) -> Result<Inputs> {
    let open = || paths.open(Path::new(""), finite, &session.budget, session.progress(), &session.cancel);
    let (inputs, recognised) = engine.install(open)?;
    say_recognised(recognised.as_ref(), session);
    Ok(inputs)
}

/// Says what a checkpoint turned out to be.
fn say_recognised(recognised: Option<&Recognised>, session: &Session) {
    if let Some(Recognised { text, notes }) = recognised {
        session.say(format!("dictionary: {text}"));
        notes.iter().for_each(|note| session.say(format!("note: {note}")));
    }
}

/// Writes the report of a results directory, prints the table, and lists what failed.
fn conclude(archive: &Archive, title: &str, outcome: &Outcome, session: &Session) -> Result<ExitCode> {
    let results = archive.all()?;
    let page = pages::write(archive.directory(), title, &results)?;
    for failure in &outcome.failed {
        session.say(format!("failed: {} on {}, seed {}: {}", failure.metric, failure.set, failure.seed, failure.error));
    }
    session.say(format!("{} computed, {} kept from before", outcome.computed, outcome.kept));
    let failed: Vec<_> = outcome
        .failed
        .iter()
        .map(|f| json!({"set": f.set, "metric": f.metric, "seed": f.seed, "error": f.error.to_string()}))
        .collect();
    session.answer(
        format!("{}\nreport: {}", pages::text_table(&results), page.display()),
        || json!({"report": page, "computed": outcome.computed, "kept": outcome.kept, "failed": failed}),
    );
    Ok(if outcome.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}
