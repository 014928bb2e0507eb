//! `etalon unit`: runs a study in units, for schedulers. Every call is idempotent.
//!
//! A driver calls `etalon unit STUDY` for the cells without a result. Then it repeats for each cell: `--cell C` merges
//! finished units and prints the next stage with its missing units; `--cell C --stage S --unit U` runs one on any machine.

use std::ops::Range;
use std::process::ExitCode;

use etalon::error::{InputError, Result};
use etalon::results::Archive;
use etalon::run::Mode;
use etalon::store::Lock;
use etalon::study::{Cell, CellOutcome, Study};
use serde_json::json;

use super::from_network;
use crate::cli;
use crate::console::Console;

/// Lists cells, merges one, or runs units of one.
pub fn run(args: &cli::Unit, console: &Console) -> Result<ExitCode> {
    let study = from_network::with_networks(Study::read(&args.study)?, &args.cache, console)?;
    let out = args.out.clone().unwrap_or_else(|| study.out.clone());
    let Some(text) = &args.cell else {
        let cells: Vec<String> = study.cells().iter().map(Cell::to_string).collect();
        console.print(cells.join("\n"), || json!({"cells": cells}))?;
        return Ok(ExitCode::SUCCESS);
    };
    let cell = study.cell(text)?;
    let archive = Archive::open(&out)?;
    let (mode, _lock) = match (&args.stage, &args.unit) {
        (None, _) => (Mode::Merge, Some(Lock::take(&out)?)),
        (Some(stage), Some(unit)) => (Mode::Units(stage.clone(), range(unit)?), None),
        (Some(_), None) => return Err(InputError::new("`--unit` is required with `--stage`").into()),
    };
    match study.run_cell(&cell, mode, &archive, &out.join("units"), &console.context)? {
        CellOutcome::Done => console.print(format!("{text}: done"), || json!({"cell": text, "done": true})),
        CellOutcome::Stored => console.print(format!("{text}: stored"), || json!({"cell": text, "stored": true})),
        CellOutcome::Waiting { stage, missing } => console.print(
            format!("{text}: stage {stage} waits for {} units", missing.len()),
            || json!({"cell": text, "stage": stage, "missing": missing}),
        ),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// `7` or `4..8`.
fn range(text: &str) -> Result<Range<usize>> {
    let wrong = || InputError::new("`--unit` is not a unit").expected("a number, or a range such as 4..8").found(text);
    let number = |part: &str| part.trim().parse::<usize>().ok();
    let range = match text.split_once("..") {
        Some((first, end)) => number(first).zip(number(end)).map(|(first, end)| first..end),
        None => number(text).map(|unit| unit..unit.saturating_add(1)),
    };
    range.ok_or_else(|| wrong().into())
}
