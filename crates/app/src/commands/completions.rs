//! `etalon completions`.

use std::process::ExitCode;

use etalon::error::Result;
use serde_json::json;

use crate::cli;
use crate::console::Console;

/// Prints shell completions.
pub fn run(args: &cli::Completions, console: &Console) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::options::command(&[]), "etalon", &mut script);
    let script = String::from_utf8_lossy(&script);
    console.print(script.trim_end(), || json!({"shell": args.shell.to_string(), "script": script}))?;
    Ok(ExitCode::SUCCESS)
}
