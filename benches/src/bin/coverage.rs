//! How often do 95 % intervals from rows contain the value they are about? Prints a table for every metric named as an
//! argument, or for all: `coverage [METRIC..] [--rows N] [--share S]`; `--share 0.1` runs a tenth of the replications. `--list` prints
//! the names of the metrics.

use etalon::error::{Error, Result};
use etalon_bench::coverage::{CASES, Case, markdown, simulate};

/// Rows of a data set.
const ROWS: [usize; 2] = [600, 2000];

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of a simulation")]
fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (mut names, mut sizes, mut share) = (Vec::new(), ROWS.to_vec(), 1.0);
    while let Some(argument) = arguments.next() {
        let bad = || Error::Bug(format!("`{argument}` needs a number"));
        match argument.as_str() {
            "--rows" => sizes = vec![arguments.next().and_then(|text| text.parse().ok()).ok_or_else(bad)?],
            "--share" => share = arguments.next().and_then(|text| text.parse().ok()).ok_or_else(bad)?,
            "--list" => {
                let mut metrics: Vec<&str> = CASES.iter().map(|case| case.metric).collect();
                metrics.dedup();
                metrics.iter().for_each(|metric| println!("{metric}"));
                return Ok(());
            }
            _ => names.push(argument),
        }
    }
    if let Some(name) = names.iter().find(|name| CASES.iter().all(|case| case.metric != **name)) {
        return Err(Error::Bug(format!("`{name}` is not simulated")));
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut lines = Vec::new();
    for case in CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.metric)) {
        for &rows in &sizes {
            eprintln!("{} with {rows} rows", case.metric);
            let replications = (case.replications as f64 * share).ceil() as usize;
            lines.extend(simulate(&Case { replications, ..*case }, rows, threads)?);
        }
    }
    print!("{}", markdown(&lines));
    Ok(())
}
