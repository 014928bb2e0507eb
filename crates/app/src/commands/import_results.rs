//! `etalon import-results`.

use std::process::ExitCode;

use etalon::error::{InputError, Result};
use etalon::report::saebench;
use etalon::results::Archive;
use etalon::store::Lock;
use etalon::study::GridOutcome;

use super::conclude;
use crate::cli;
use crate::console::Console;

/// Imports published SAEBench results into a results directory and writes its report.
pub fn run(args: &cli::ImportResults, console: &Console) -> Result<ExitCode> {
    let imported = saebench::read(&args.directory)?;
    for (file, reason) in &imported.refused {
        console.warn(format!("skipped: {} ({reason})", file.display()));
    }
    if imported.results.is_empty() {
        return Err(InputError::new("there are no SAEBench results here")
            .expected("files whose names end in eval_results.json, in any subfolder")
            .found(format!("{} unreadable files", imported.refused.len()))
            .file(&args.directory)
            .into());
    }
    let archive = Archive::open(&args.out)?;
    let _lock = Lock::take(&args.out)?;
    let mut outcome = GridOutcome::default();
    for stored in &imported.results {
        let known = archive.get(&stored.id, console.budget())?.is_some();
        archive.put(&stored.result, &stored.about, console.budget())?;
        *(if known { &mut outcome.kept } else { &mut outcome.computed }) += 1;
    }
    conclude(&archive, "SAEBench results", &outcome, console)
}
