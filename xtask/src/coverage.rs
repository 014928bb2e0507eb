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
- `(reference)` marks the profile `reference`, with one repeat; all other lines are of profile `paper`.

Not in the table are intervals over other units: over concepts (`match`, `fms`, `probe_ceiling`, `blindspots`, `frequency`), latents
(`monosemanticity`, `stability`, shares of latents in `core`), true features (`recovery`), pairs of images (`tapa`, `stay`) and directions (`meta_structure`). They
say how the number would vary with other units of the same kind, not with other rows.

";

/// Runs the simulation, of all metrics or of those named, and writes the page if it ran all.
pub fn run(arguments: &[&str]) -> Result<()> {
    let mut words = vec!["run", "--release", "--quiet", "--package", "etalon-bench", "--bin", "coverage", "--"];
    words.extend(arguments);
    let table = output(&mut cargo_command(&words))?;
    if !arguments.is_empty() {
        eprint!("{table}");
        return Ok(());
    }
    let file = root().join("docs/coverage.md");
    fs::write(&file, format!("{HEAD}{table}"))?;
    eprintln!("wrote docs/coverage.md");
    Ok(())
}
