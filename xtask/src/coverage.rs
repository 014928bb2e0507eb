//! The simulation of intervals: runs `benches/src/bin/coverage.rs` and writes docs/coverage.md.

use std::fs;

use anyhow::Result;

use crate::steps::{cargo_command, output, root};

/// The page above the table.
const HEAD: &str = "\
# Coverage of intervals

Written by `cargo xtask coverage`; see `benches/src/coverage`.

A 95 % interval from rows should contain the value that it is about in 95 % of data sets. This table counts how often it does:
every metric is evaluated with its default parameters on several hundred independent data sets of 600 and 2,000 rows, drawn from one distribution with
five classes, two properties, six concepts that no latent represents, 60 latents (24 of them rare) and a generator that loses and adds some. The
metrics of purity (from `ois` on) are evaluated on soft scores of five correlated concepts, each of which leaks the next concept, with a task.

- *expected value*: the mean of the number over all data sets of that size. This is what an interval from rows is about: what the
  same evaluation gives on average for other rows. In brackets, the interval of the coverage itself (Wilson, 95 %).
- *large sample*: the value of one data set of 10,000 to 100,000 rows. Numbers that change with the number of rows, such as the accuracy
  of a probe that improves with more training rows, need not cover it. `mdl_bits_corrected`, `fid_..._corrected`, means and gaps should.
- *none*: how often a number has a value, but no interval.
- *over N units*: units (or latents), not rows, are drawn anew in every data set, on the same 2,000 images; the interval is over them, and N is a tenth of
  the number in the column *rows*.
- `(reference)` marks the profile `reference`, with one repeat; all other lines are of profile `paper`.

Not in the table are intervals over other units: over concepts (`match`, `fms`, `probe_ceiling`, `blindspots`, `frequency`), latents
(`monosemanticity`, `stability`, shares of latents in `core`), true features (`recovery`), pairs of images (`tapa`, `stay`) and directions (`meta_structure`). They
say how the number would vary with other units of the same kind, not with other rows.

";

/// Runs the simulation, of all metrics or of those named, and writes their lines to the page. With options, such as a share of the
/// replications, it only prints them.
pub fn run(arguments: &[&str]) -> Result<()> {
    let table = simulate(arguments)?;
    if arguments.iter().any(|argument| argument.starts_with("--")) {
        eprint!("{table}");
        return Ok(());
    }
    let order = simulate(&["--list"])?;
    let order: Vec<&str> = order.lines().collect();
    let file = root().join("docs/coverage.md");
    let page = if arguments.is_empty() { String::new() } else { fs::read_to_string(&file)? };
    fs::write(&file, format!("{HEAD}{}", merged(&page, &table, arguments, &order)))?;
    eprintln!("wrote docs/coverage.md");
    Ok(())
}

fn simulate(arguments: &[&str]) -> Result<String> {
    let mut words = vec!["run", "--release", "--quiet", "--package", "etalon-bench", "--bin", "coverage", "--"];
    words.extend(arguments);
    output(&mut cargo_command(&words))
}

/// The metric of a line of the table; `None` for other lines.
fn metric(line: &str) -> Option<&str> {
    line.strip_prefix("| `")?.split('`').next()
}

/// A new table with the lines of a page that are of other metrics than those named, in the order of metrics, and the names of metrics
/// without a line.
fn merged(page: &str, table: &str, named: &[&str], order: &[&str]) -> String {
    let is_kept = |line: &&str| metric(line).is_some_and(|metric| order.contains(&metric) && !named.contains(&metric));
    let head = table.lines().filter(|line| metric(line).is_none());
    let new = table.lines().filter(|line| metric(line).is_some());
    let mut lines: Vec<&str> = page.lines().filter(is_kept).chain(new).collect();
    lines.sort_by_key(|line| order.iter().position(|other| metric(line) == Some(*other)));
    let missing = order.iter().filter(|other| lines.iter().all(|line| metric(line) != Some(**other)));
    let missing: Vec<String> = missing.map(|metric| format!("`{metric}`")).collect();
    let table: String = head.chain(lines).map(|line| format!("{line}\n")).collect();
    let note = format!("\nNot simulated yet: {}.\n", missing.join(", "));
    if missing.is_empty() { table } else { table + &note }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_other_metrics_are_kept_in_the_order_of_metrics() {
        let page =
            "# Page\n\n| metric | number |\n|---|---|\n| `a` | old |\n| `c` | 1 |\n| `c` | 2 |\n| `gone` | 1 |\n";
        let table = "| metric | number |\n|---|---|\n| `a` | new |\n| `b` | new |\n";
        let expected = "| metric | number |\n|---|---|\n| `a` | new |\n| `b` | new |\n| `c` | 1 |\n| `c` | 2 |\n";
        assert_eq!(merged(page, table, &["a", "b"], &["a", "b", "c"]), expected);
        assert_eq!(merged("", table, &[], &["a", "b"]), table);
        assert_eq!(merged("", table, &[], &["a", "b", "c"]), format!("{table}\nNot simulated yet: `c`.\n"));
    }
}
