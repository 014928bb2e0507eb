//! Runs the test of `etalon fetch hf:org/name` with the real client of the Hugging Face hub and a local server.

use std::ffi::OsString;

use anyhow::Result;

use crate::python::environment;
use crate::steps::{cargo_command, run};

/// The client.
const CLIENT: &str = "huggingface_hub==2.4.0";

/// Returns why the test was skipped, if the client cannot be installed.
pub fn check() -> Result<Option<String>> {
    let programs = match environment("hub-venv", &[CLIENT])? {
        Ok(programs) => programs,
        Err(why) => return Ok(Some(format!("{CLIENT} cannot be installed: {why}"))),
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::iter::once(programs).chain(std::env::split_paths(&path));
    let path: OsString = std::env::join_paths(directories)?;
    // The same features as in `cargo test --workspace`: nothing is built twice.
    let arguments = ["test", "--workspace", "--test", "hub", "--", "--ignored"];
    run(cargo_command(&arguments).env("PATH", path))?;
    Ok(None)
}
