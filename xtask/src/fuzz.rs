//! Coverage-guided fuzzing of the parsers: libFuzzer over the targets of `fuzz/`.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{output, root, run, step};

/// Default seconds per target.
const SECONDS: u32 = 60;

/// Instruments branches and comparisons. These flags need no nightly compiler.
const COVERAGE: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

/// `[TARGET] [--seconds N]`.
pub fn fuzz(arguments: &[&str]) -> Result<()> {
    let (only, seconds) = match arguments {
        [] => (None, SECONDS),
        ["--seconds", seconds] => (None, seconds.parse()?),
        [target] => (Some(*target), SECONDS),
        [target, "--seconds", seconds] => (Some(*target), seconds.parse()?),
        _ => bail!("cargo xtask fuzz [TARGET] [--seconds N]"),
    };
    let folder = root().join("target/fuzz");
    let (corpus, failures) = (folder.join("corpus"), folder.join("failures"));
    fs::create_dir_all(&failures).with_context(|| format!("cannot create {}", failures.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut seeds = Command::new(&cargo);
    seeds.args(["run", "--quiet", "--package", "etalon-fuzz", "--bin", "write-seeds", "--"]).arg(&corpus);
    let known = output(&mut seeds)?;
    let targets: Vec<&str> = known.lines().filter(|name| only.is_none_or(|only| only == *name)).collect();
    if targets.is_empty() {
        bail!("there is no target `{}`\n  expected: {}", only.unwrap_or_default(), known.replace('\n', " ").trim());
    }
    let program = build(cargo.into())?;
    let mut failed = Vec::new();
    for target in targets {
        let mut command = Command::new(&program);
        command.env("ETALON_FUZZ", target).arg(format!("-max_total_time={seconds}"));
        command.args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=65536", "-verbosity=0", "-print_final_stats=1"]);
        command.arg(format!("-artifact_prefix={}/{target}-", failures.display())).arg(corpus.join(target));
        if let Err(error) = step(target, || run(&mut command)) {
            eprintln!("{error:#}");
            failed.push(target);
        }
    }
    if !failed.is_empty() {
        bail!(
            "failed on some inputs: {}\n  inputs: {}\n  help: fix the reader, and keep the input in fuzz/found/TARGET",
            failed.join(", "),
            failures.display()
        );
    }
    Ok(())
}

/// Builds the targets with coverage. An explicit target triple keeps the flags from build scripts.
fn build(cargo: PathBuf) -> Result<PathBuf> {
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc does not name its host")?;
    let mut command = Command::new(cargo);
    command.args(["build", "--package", "etalon-fuzz", "--bin", "libfuzzer", "--features", "libfuzzer"]);
    command.args(["--target", host, "--target-dir", "target/fuzz"]).env("RUSTFLAGS", COVERAGE);
    run(&mut command).context("fuzzing needs a C++ compiler")?;
    Ok(root().join(format!("target/fuzz/{host}/debug/libfuzzer")))
}
