//! Options of the stress test of generators.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `stress`.
#[derive(Args)]
pub struct Stress {
    /// The step.
    #[command(subcommand)]
    pub action: StressAction,
}

/// Subcommands of `stress`.
#[derive(Subcommand)]
pub enum StressAction {
    /// Write images under random numbers, with a page and a sheet for every reviewer
    Sheet(StressSheet),
    /// Compare the generators from the filled sheets
    Score(StressScore),
}

/// Options of `stress sheet`.
#[derive(Args)]
pub struct StressSheet {
    /// Images of a generator, in the order of the prompts: a folder, a file, or a packaged name; repeat for every generator
    #[arg(long, value_name = "NAME=IMAGES", required = true, value_parser = name_and_value)]
    pub images: Vec<(String, String)>,
    /// Prompts, one per line
    #[arg(long, value_name = "FILE")]
    pub prompts: PathBuf,
    /// Concept that reviewers look for
    #[arg(long, value_name = "TEXT")]
    pub concept: String,
    /// Images of every prompt
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..10_000))]
    pub per_prompt: usize,
    /// Number of reviewers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..1000))]
    pub reviewers: usize,
    /// Random seed of the numbers and the orders
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `stress score`.
#[derive(Args)]
pub struct StressScore {
    /// Directory that `stress sheet` wrote, with filled sheets
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Output file (JSON)
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// `NAME=VALUE`.
fn name_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() && !value.is_empty() => Ok((name.trim().into(), value.into())),
        _ => Err("expected NAME=IMAGES".into()),
    }
}
