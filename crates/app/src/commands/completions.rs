//! `etalon completions`.

use std::process::ExitCode;

use etalon::error::Result;

use crate::cli;

/// Prints shell completions.
pub fn run(args: &cli::Completions) -> Result<ExitCode> {
    clap_complete::generate(args.shell, &mut crate::options::command(&[]), "etalon", &mut std::io::stdout());
    Ok(ExitCode::SUCCESS)
}
