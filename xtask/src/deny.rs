//! Checks licences, duplicates and sources of all dependencies with cargo-deny and `deny.toml`.

use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::steps::{cargo, step};

/// Checks that need no network.
const OFFLINE: [&str; 3] = ["licenses", "bans", "sources"];

/// Runs the checks; installs cargo-deny if it is missing. Advisories need a database from the network, so they are
/// checked only on request.
pub fn check(more: &[&str]) -> Result<()> {
    if !is_installed() {
        step("install cargo-deny", || cargo(&["install", "cargo-deny", "--locked"]))
            .context("cargo-deny could not be installed; it is needed for this command only")?;
    }
    let checks: Vec<&str> = OFFLINE.iter().chain(more).copied().collect();
    // Duplicates are warnings, and their long trees would hide an error.
    cargo(&[&["deny", "--log-level", "error", "check"][..], &checks].concat())
}

/// Whether cargo-deny is installed.
pub fn is_installed() -> bool {
    let mut command = Command::new("cargo-deny");
    let silent = command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}
