//! `etalon sanity`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::input::Finite;
use etalon::results::Archive;
use etalon::store::Lock;
use etalon::study::{Grid, Sanity, sanity_sets};

use super::{conclude, find_metric, load_inputs, profile};
use crate::cli;
use crate::console::Console;

/// Evaluates the tested codes next to untrained and random baselines.
pub fn run(args: &cli::SanityArgs, console: &Console) -> Result<ExitCode> {
    let chosen = args.metrics.iter().map(|name| find_metric(name)).collect::<Result<Vec<_>>>()?;
    let archive = Archive::open(&args.out)?;
    let inputs = load_inputs(&args.inputs.given, Finite::Refuse, console)?;
    let options = Sanity { k: args.k, nulls: args.nulls, seed: args.seed };
    let sets = sanity_sets(&args.name, &inputs, &options, &console.context)?;
    let _lock = Lock::take(&args.out)?;
    let mut metrics = if args.metrics.is_empty() { Grid::quick_metrics() } else { Grid::all_metrics() };
    if !chosen.is_empty() {
        metrics.retain(|(metric, _)| chosen.iter().any(|other| other.card().name == metric.card().name));
    }
    let grid = Grid {
        metrics,
        seeds: vec![args.seed],
        profile: profile(&args.profile),
        archive: &archive,
        units: None,
        context: &console.context,
    };
    let outcome = grid.run(&sets)?;
    conclude(&archive, "Sanity check", &outcome, console)
}
