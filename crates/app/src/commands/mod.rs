//! One file per command.

pub mod archs;
pub mod cache;
pub mod capture;
pub mod completions;
pub mod convert;
pub mod data;
pub mod demo;
pub mod demo_real;
pub mod encode;
pub mod eval;
pub mod fetch;
mod from_network;
pub mod generate;
pub mod import_results;
pub mod inspect;
pub mod layout;
pub mod metrics;
pub mod models;
pub mod report;
pub mod run;
pub mod samples;
pub mod sanity;
pub mod serve;
pub mod similarity;
mod steps;
pub mod stress;
mod stress_page;
pub mod tasks;
mod tasks_page;
pub mod train;
pub mod unit;
pub mod verify;

use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use etalon::error::{Error, InputError, Result};
use etalon::input::Finite;
use etalon::load::{Given, Opening};
use etalon::metrics::{self as catalogue, METRICS, Metric};
use etalon::report as pages;
use etalon::report::saebench;
use etalon::results::{Archive, Profile, Stored};
use etalon::run::Inputs;
use etalon::store::disk;
use etalon::study::{GridOutcome, Skipped};
use serde_json::json;

use crate::console::{Console, message};

/// Exit code if some cells failed and were listed.
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
        InputError::new(format!("there is no metric `{name}`"))
            .advice("`etalon metrics` describes all")
            .one_of(name, &names)
            .into()
    })
}

/// Reads the inputs; encodes activations if a dictionary is given.
fn load_inputs(given: &Given, finite: Finite, console: &Console) -> Result<Inputs> {
    let opening = Opening { finite, ..Opening::at(Path::new("")) };
    let opened = console.context.install(|| given.open(&opening, &console.context))?;
    opened.messages().iter().for_each(|message| console.status(message));
    Ok(opened.inputs)
}

/// Writes results in SAEBench format, one file per evaluation and dictionary.
fn write_saebench(out: &Path, results: &[Stored], console: &Console) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let _memory = console.budget().reserve(saebench::bytes(results), "results in SAEBench format")?;
    let files = saebench::files(results, now)?;
    if files.is_empty() {
        return Err(InputError::new("none of these results can be written in SAEBench format")
            .expected("core, sparse_probing, sae_probes, scr, tpp, absorption, autointerp, ravel or meta_structure")
            .into());
    }
    for (name, envelope) in &files {
        let text = serde_json::to_string_pretty(envelope).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(&out.join(name), format!("{text}\n").as_bytes())?;
    }
    // SAEBench's reader searches for these words in the whole path, including parent folders.
    let path = std::path::absolute(out).unwrap_or_else(|_| out.to_path_buf()).to_string_lossy().to_lowercase();
    if let Some(word) = ["tpp", "scr", "absorption", "autointerp", "core"].into_iter().find(|word| path.contains(word))
    {
        console.status(format!(
            "note: the path contains `{word}`; SAEBench's graphs will assign every file to that evaluation"
        ));
    }
    console.status(format!("{} files for SAEBench: {}", files.len(), out.display()));
    Ok(())
}

/// Writes the report of a results directory, prints the table, and lists failures.
fn conclude(archive: &Archive, title: &str, outcome: &GridOutcome, console: &Console) -> Result<ExitCode> {
    conclude_with(archive, title, outcome, |_| true, console)
}

/// [`conclude`] with a filter for the printed table; the report contains all results.
fn conclude_with(
    archive: &Archive,
    title: &str,
    outcome: &GridOutcome,
    shown: impl Fn(&Stored) -> bool,
    console: &Console,
) -> Result<ExitCode> {
    if outcome.computed + outcome.kept + outcome.failed.len() == 0 {
        return Err(nothing_evaluated(&outcome.skipped).into());
    }
    let mut results = archive.all(console.budget())?;
    let page = pages::write(archive.directory(), title, &results, console.budget())?;
    results.retain(shown);
    for failure in &outcome.failed {
        console.warn(format!(
            "failed: {} on {}, seed {}: {}",
            failure.metric,
            failure.set,
            failure.seed,
            message(&failure.error)
        ));
    }
    console.status(format!("{} computed, {} reused", outcome.computed, outcome.kept));
    let failed: Vec<_> = outcome
        .failed
        .iter()
        .map(|f| json!({"set": f.set, "metric": f.metric, "seed": f.seed, "error": message(&f.error)}))
        .collect();
    let serve = format!("etalon serve {}", shell_quote(archive.directory()));
    console.print(
        format!("{}\nreport: {}\nexplore: {serve}", pages::text_table(&results), page.display()),
        || json!({"report": page, "serve": serve, "computed": outcome.computed, "kept": outcome.kept, "failed": failed}),
    )?;
    Ok(if outcome.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(SOME_FAILED) })
}

/// The error if no metric could be evaluated on any set.
fn nothing_evaluated(skipped: &[Skipped]) -> InputError {
    let mut missing: Vec<String> =
        skipped.iter().map(|skipped| format!("{}: {}", skipped.metric, keys(skipped))).collect();
    missing.sort();
    missing.dedup();
    InputError::new("no metric can be evaluated: every one lacks an input")
        .found(format!("missing inputs of {}", missing.join("; ")))
        .advice("add the inputs, or choose other metrics")
}

/// The missing inputs of a metric.
fn keys(skipped: &Skipped) -> String {
    skipped.missing.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ")
}

/// A path as a shell argument, quoted if necessary.
fn shell_quote(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/\\._-+:".contains(&byte);
    let quoted = || format!("'{}'", text.replace('\'', r"'\''"));
    if !text.is_empty() && !text.starts_with('-') && text.bytes().all(plain) { text } else { quoted() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_shells() {
        assert_eq!(shell_quote(Path::new("out/etalon-demo")), "out/etalon-demo");
        assert_eq!(shell_quote(Path::new("my results")), "'my results'");
        assert_eq!(shell_quote(Path::new("it's")), r"'it'\''s'");
    }
}
