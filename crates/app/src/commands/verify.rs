//! `etalon verify`.

use std::process::ExitCode;

use etalon::error::{Result, Size};
use serde_json::json;

use crate::cli;
use crate::console::Console;

/// Verifies the checksums of every file in a directory.
pub fn run(args: &cli::Verify, console: &Console) -> Result<ExitCode> {
    let checked = etalon::study::verify(&args.directory, console.budget())?;
    console.print(
        format!("verified: {} in {} files ({})", Size(checked.bytes), checked.files, checked.kinds.join(", ")),
        || json!({"files": checked.files, "bytes": checked.bytes, "kinds": checked.kinds}),
    )?;
    Ok(ExitCode::SUCCESS)
}
