//! Python environments under `target`, with pinned packages.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::root;

/// The directory of programs of an environment with these packages; or why it cannot be made, if Python or the packages cannot be
/// had.
pub fn environment(name: &str, packages: &[&str]) -> Result<Result<PathBuf, String>> {
    let directory = root().join("target").join(name);
    let programs = directory.join("bin");
    let (stamp, wanted) = (directory.join("packages.txt"), packages.join("\n"));
    if programs.join("python").exists() && fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(Ok(programs));
    }
    let mut venv = Command::new("python3");
    venv.args(["-m", "venv"]).arg(&directory);
    let mut install = Command::new(programs.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(packages);
    for command in [&mut venv, &mut install] {
        if let Some(why) = failure(command) {
            return Ok(Err(why));
        }
    }
    fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))?;
    Ok(Ok(programs))
}

/// Runs a command; returns the last line that it wrote if it failed or cannot be started.
pub fn failure(command: &mut Command) -> Option<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.current_dir(root()).output() {
        Err(error) => Some(format!("{name} cannot be started: {error}")),
        Ok(done) if done.status.success() => None,
        Ok(done) => {
            let text = String::from_utf8_lossy(&done.stderr);
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            Some(format!("{name} ended with {}: {}", done.status, last.trim()))
        }
    }
}
