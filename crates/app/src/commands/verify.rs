//! `etalon verify`.

use std::process::ExitCode;

use etalon::error::{Result, Size};
use serde_json::json;

use crate::cli;
use crate::console::Console;

/// Checks every byte of a directory.
pub fn run(args: &cli::Verify, console: &Console) -> Result<ExitCode> {
    let checked = etalon::study::verify(&args.directory)?;
    console.answer(
        format!("whole: {} in {} files ({})", Size(checked.bytes), checked.files, checked.kinds.join(", ")),
        || json!({"files": checked.files, "bytes": checked.bytes, "kinds": checked.kinds}),
    );
    Ok(ExitCode::SUCCESS)
}
