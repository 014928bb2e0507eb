//! `etalon report`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::report;
use etalon::results::Archive;
use serde_json::json;

use super::write_saebench;
use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Writes the report of a results directory.
pub fn run(args: &cli::Report, console: &Console) -> Result<ExitCode> {
    let archive = Archive::open_existing(&args.directory)?;
    let results = args.directory.join("results");
    Paths::default().input("DIR", results).output("--saebench", args.saebench.as_ref()).check()?;
    let (results, damaged) = archive.read_all(console.budget())?;
    for damaged in &damaged {
        console.warn(format!("skipped, damaged: {} ({})", damaged.file.display(), damaged.reason));
    }
    if results.is_empty() {
        return Err(archive.no_results().into());
    }
    let name = args.directory.file_name().map(|name| name.to_string_lossy().into_owned());
    let title = args.title.clone().or(name).unwrap_or_else(|| "Results".into());
    if let Some(out) = &args.saebench {
        write_saebench(out, &results, console)?;
    }
    let page = report::write(&args.directory, &title, &results, console.budget())?;
    console.print(
        format!("{}\nreport: {}", report::text_table(&results), page.display()),
        || json!({"report": page, "results": results.len()}),
    )?;
    Ok(ExitCode::SUCCESS)
}
