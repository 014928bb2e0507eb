//! Invalid input: the program states what is wrong and where, and leaves no files behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../common/mod.rs"]
mod common;

mod accepted;
mod arrays;
mod data_sets;
mod dictionaries;
mod directories;
mod disagreement;
mod networks;
mod options;
mod purity;
mod studies;
mod tables;
mod tasks;

use std::time::Duration;

use common::Sandbox;

/// A way to be wrong.
struct Case {
    /// What is wrong, in a few words.
    name: &'static str,
    /// Makes the files and gives the command line. What it would write goes to `out`, or `out.json`.
    make: fn(&Sandbox) -> String,
    /// What the message must contain.
    says: &'static [&'static str],
}

fn case(name: &'static str, make: fn(&Sandbox) -> String, says: &'static [&'static str]) -> Case {
    Case { name, make, says }
}

/// All inputs are small, so the error comes at once, also on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// Runs every case in its own directory and lists all failures.
fn check(cases: Vec<Case>) {
    let wrong: Vec<String> = cases.iter().filter_map(|case| check_one(case).err()).collect();
    assert!(wrong.is_empty(), "{} of {} cases\n\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

fn check_one(case: &Case) -> Result<(), String> {
    let sandbox = Sandbox::with_inputs();
    let arguments = (case.make)(&sandbox);
    let said = sandbox.run_for(&arguments, SOON);
    let mut wrong = Vec::new();
    if said.code != Some(2) {
        wrong.push(format!("exit code {:?}", said.code));
    }
    if !said.err.lines().any(|line| line.starts_with("error: ")) {
        wrong.push("no line starts with `error: `".into());
    }
    if said.err.contains("panicked") || said.err.contains("internal error") {
        wrong.push("our bug".into());
    }
    wrong
        .extend(case.says.iter().filter(|text| !said.err.contains(*text)).map(|text| format!("does not say `{text}`")));
    for name in ["out", "out.json"] {
        if sandbox.path(name).symlink_metadata().is_ok() {
            wrong.push(format!("left `{name}` behind: {:?}", sandbox.files(name)));
        }
    }
    wrong.extend(sandbox.leftovers().into_iter().map(|name| format!("left `{name}` behind")));
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("== {}\netalon {arguments}\n{}{}-- {}\n", case.name, said.out, said.err, wrong.join("\n-- ")))
}

#[test]
fn arrays() {
    check(arrays::cases());
}

#[test]
fn archives() {
    check(arrays::archives());
}

#[test]
fn tables() {
    check(tables::cases());
}

#[test]
fn disagreement() {
    check(disagreement::cases());
}

#[test]
fn options() {
    check(options::cases());
}

#[test]
fn studies() {
    check(studies::cases());
}

#[test]
fn directories() {
    check(directories::cases());
}

#[test]
fn data_sets() {
    check(data_sets::cases());
}

#[test]
fn images_of_factors() {
    check(data_sets::factors());
}

#[test]
fn purity() {
    check(tables::purity());
}

#[test]
fn dictionaries() {
    check(dictionaries::cases());
}

#[test]
fn networks() {
    check(networks::cases());
}

#[test]
fn tasks() {
    check(tasks::cases());
}
