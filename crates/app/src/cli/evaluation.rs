//! Options of commands that evaluate.

use std::path::PathBuf;

use clap::Args;

use crate::network_args::{CacheArgs, NetworkArgs};
use crate::options::InputArgs;

/// Options of `eval`.
#[derive(Args)]
pub struct Eval {
    /// Metrics to evaluate, separated by commas; `etalon metrics` lists them
    #[arg(value_name = "METRIC[,METRIC..]", required = true, value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// The inputs.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// A network that gives the embeddings, instead of a store.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Where captures are kept.
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Use the published definition (paper) or reproduce the released program (reference)
    #[arg(long, value_name = "PROFILE", default_value = "paper", value_parser = ["paper", "reference"])]
    pub profile: String,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Treatment of rows of embeddings with NaN or infinity
    #[arg(long, value_name = "RULE", default_value = "refuse", value_parser = ["refuse", "drop-rows"])]
    pub nan: String,
    /// Result file; contains an array if there are several metrics
    #[arg(long, value_name = "FILE.json")]
    pub out: Option<PathBuf>,
    /// Also write results in SAEBench format to this directory
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
}

/// Options of `tasks`.
#[derive(Args)]
pub struct Tasks {
    /// The inputs.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Images of the rows, in their order: a folder, a file, or a packaged name
    #[arg(long, value_name = "IMAGES")]
    pub images: String,
    /// Images of the feature visualisations, in the order of --visualisations
    #[arg(long, value_name = "IMAGES")]
    pub visualisation_images: Option<String>,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Units to write, by number [default: all]
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',')]
    pub unit: Vec<usize>,
    /// Tasks per unit
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub tasks: u64,
    /// Explanations on each side of a task
    #[arg(long, value_name = "K", default_value_t = 9)]
    pub explanations: u64,
    /// Similarity of vectors
    #[arg(long, value_name = "MEASURE", default_value = "cosine", value_parser = ["cosine", "squared"])]
    pub measure: String,
    /// Temperature of the simulated person
    #[arg(long, value_name = "T", default_value_t = 0.16)]
    pub alpha: f64,
    /// Take queries from this quantile; 0 takes those next to the explanations
    #[arg(long, value_name = "Q", default_value_t = 0.0)]
    pub query_quantile: f64,
    /// Order of images with equal activations
    #[arg(long, value_name = "ORDER", default_value = "row", value_parser = ["row", "shuffled"])]
    pub ties: String,
    /// Also write this many simulated answers per unit
    #[arg(long, value_name = "N")]
    pub simulate: Option<usize>,
    /// Use the published definition (paper) or reproduce the released program (reference)
    #[arg(long, value_name = "PROFILE", default_value = "paper", value_parser = ["paper", "reference"])]
    pub profile: String,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of `sanity`.
#[derive(Args)]
pub struct SanityArgs {
    /// The inputs.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Metrics to evaluate [default: all quick metrics that the inputs allow]
    #[arg(long, value_name = "METRIC[,METRIC..]", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Name of the tested codes in tables and figures
    #[arg(long, value_name = "NAME", default_value = "trained")]
    pub name: String,
    /// Active latents per row of the baselines [default: the mean of the codes]
    #[arg(long, value_name = "K")]
    pub k: Option<usize>,
    /// Number of untrained dictionaries for the null of ΔMATCHScore
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub nulls: usize,
    /// Use the published definition (paper) or reproduce the released program (reference)
    #[arg(long, value_name = "PROFILE", default_value = "paper", value_parser = ["paper", "reference"])]
    pub profile: String,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Directory for results and the report
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `run`.
#[derive(Args)]
pub struct Run {
    /// Study file; docs/study.md describes the format
    #[arg(value_name = "STUDY.toml")]
    pub study: PathBuf,
    /// Results directory [default: from the study]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Engine that runs the work
    #[arg(long, value_name = "ENGINE", default_value = "local", value_parser = ["local"])]
    pub engine: String,
    /// Also write results in SAEBench format to this directory
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
    /// Where captures are kept.
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Options of `unit`.
#[derive(Args)]
pub struct Unit {
    /// Study file; docs/study.md describes the format
    #[arg(value_name = "STUDY.toml")]
    pub study: PathBuf,
    /// Cell of the study, as SET:METRIC:SEED; without it, list the cells that have no result
    #[arg(long, value_name = "CELL")]
    pub cell: Option<String>,
    /// Stage of the cell; without it, merge finished units and print the next stage and its missing units
    #[arg(long, value_name = "STAGE", requires = "cell")]
    pub stage: Option<String>,
    /// Unit of the stage, or a range such as 4..8
    #[arg(long, value_name = "UNIT", requires = "stage")]
    pub unit: Option<String>,
    /// Results directory [default: from the study]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Where captures are kept.
    #[command(flatten)]
    pub cache: CacheArgs,
}

/// Options of `metrics`.
#[derive(Args)]
pub struct Metrics {
    /// Metric to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}
