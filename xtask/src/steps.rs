//! Runs named steps, cargo and other commands.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The root of the project, from cargo's environment at run time: the path at build time may be another copy.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    PathBuf::from(here).parent().map(PathBuf::from).unwrap_or_default()
}

/// Runs a step and prints its duration.
pub fn step(name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("── {name}");
    let began = Instant::now();
    work().with_context(|| format!("step `{name}` failed"))?;
    eprintln!("── {name}: {:.0} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// Runs cargo in the root of the project.
pub fn cargo(arguments: &[&str]) -> Result<()> {
    run(&mut cargo_command(arguments))
}

/// A cargo command.
pub fn cargo_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments);
    command
}

/// Runs a command in the root of the project; a non-zero exit code is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.current_dir(root()).status().with_context(|| format!("cannot start {command:?}"))?;
    if !status.success() {
        bail!("{command:?} ended with {status}");
    }
    Ok(())
}

/// Runs a command in the root of the project and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let done = command.current_dir(root()).output().with_context(|| format!("cannot start {command:?}"))?;
    if !done.status.success() {
        bail!("{command:?} ended with {}\n{}", done.status, String::from_utf8_lossy(&done.stderr));
    }
    Ok(String::from_utf8(done.stdout)?)
}

/// Builds the program for development and returns its path.
pub fn program() -> Result<PathBuf> {
    // Beside a test, it is built with the features that the tests have. Otherwise cargo would build everything once more.
    cargo(&["build", "--quiet", "--workspace", "--bin", "etalon", "--test", "crash"])?;
    Ok(target()?.join("debug").join(format!("etalon{}", std::env::consts::EXE_SUFFIX)))
}

/// The directory that cargo builds into.
pub fn target() -> Result<PathBuf> {
    let about = output(&mut cargo_command(&["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let about: serde_json::Value = serde_json::from_str(&about)?;
    let target = about["target_directory"].as_str().context("cargo did not print its target directory")?;
    Ok(PathBuf::from(target))
}
