//! `etalon run`.

use std::process::ExitCode;

use etalon::error::{Error, Result};
use etalon::results::Archive;
use etalon::store::Lock;
use etalon::study::{Failure, Grid, GridOutcome, Study};

use super::{conclude, from_network, keys, steps, write_saebench};
use crate::cli;
use crate::console::Console;

/// Evaluates every cell of a study without a result. Reads one set at a time.
pub fn run(args: &cli::Run, console: &Console) -> Result<ExitCode> {
    if let Some(failed) = steps::run(&args.study, console)? {
        return Ok(failed);
    }
    let study = from_network::with_networks(Study::read(&args.study)?, &args.cache, console)?;
    let out = args.out.clone().unwrap_or_else(|| study.out.clone());
    let archive = Archive::open(&out)?;
    let _lock = Lock::take(&out)?;
    let units = out.join("units");
    let mut grid = Grid {
        metrics: study.metrics.clone(),
        seeds: study.seeds.clone(),
        profile: study.profile,
        archive: &archive,
        units: Some(&units),
        context: &console.context,
    };
    let mut total = GridOutcome::default();
    for (index, name) in study.sets().enumerate() {
        console.status(format!("set {}: {name}", index + 1));
        match console.context.install(|| study.load(index, &console.context)) {
            Ok((set, messages)) => {
                messages.iter().for_each(|message| console.status(message));
                grid.metrics = study.metrics_of(index).map(|metric| study.metrics[metric].clone()).collect();
                total.add(grid.run(&[set])?);
            }
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            Err(error) => {
                total.failed.push(Failure { set: name.into(), metric: "reading the inputs".into(), seed: 0, error });
            }
        }
    }
    for skipped in &total.skipped {
        console.status(format!("skipped: {} on {}: missing {}", skipped.metric, skipped.set, keys(skipped)));
    }
    if let Some(out) = &args.saebench {
        write_saebench(out, &archive.all(console.budget())?, console)?;
    }
    conclude(&archive, &study.title, &total, console)
}
