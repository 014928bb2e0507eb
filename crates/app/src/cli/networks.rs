//! Options of commands that run networks.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::network_args::NetworkArgs;

/// Options of `models`.
#[derive(Args)]
pub struct Models {
    /// A network: a directory, a file, a packaged name, or org/name in the Hugging Face cache
    #[arg(value_name = "MODEL")]
    pub model: Option<String>,
    /// Show only sites that match a pattern, such as `blocks.*.hook_resid_post`
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
    /// Weights as TransformerLens changes them: none, transformer-lens, or parts of it such as fold_ln+center_unembed
    #[arg(long, value_name = "HOW")]
    pub processing: Option<etalon::network::Processing>,
    /// Number type of the weights of linear maps
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = etalon_models::layer::WeightNumber::NAMES)]
    pub weights: String,
    /// Cache directory of packaged models
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// Options of `capture`.
#[derive(Args)]
pub struct Capture {
    /// The network, what it is run on, and how.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Cache directory of packaged models and data sets
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// Options of `cache`.
#[derive(Args)]
pub struct Cache {
    /// What to do with captures [default: list them]
    #[command(subcommand)]
    pub action: Option<CacheAction>,
    /// Cache directory [default: ETALON_CACHE, XDG_CACHE_HOME/etalon or ~/.cache/etalon]
    #[arg(long, value_name = "DIR", global = true)]
    pub cache: Option<PathBuf>,
}

/// Subcommands of `cache`.
#[derive(Subcommand)]
pub enum CacheAction {
    /// Remove captures that no process uses
    Clear(CacheClear),
}

/// Options of `cache clear`.
#[derive(Args)]
pub struct CacheClear {
    /// Name of a capture, as `etalon cache` lists it
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub name: Option<String>,
    /// Remove all captures
    #[arg(long)]
    pub all: bool,
}

/// Options of `similarity`.
#[derive(Args)]
pub struct Similarity {
    /// Network: a directory, a file, a packaged name, or org/name in the Hugging Face cache. LPIPS needs AlexNet or VGG16, DISTS VGG16, DreamSim the directory of its parts
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Images: a file, a folder, or a packaged name
    #[arg(long, value_name = "IMAGES")]
    pub input: String,
    /// Output directory for a store with a vector per image; with --pairs, output table of distances
    #[arg(long, value_name = "STORE", required_unless_present = "distances")]
    pub out: Option<PathBuf>,
    /// Distance
    #[arg(long, value_name = "MEASURE", default_value = "lpips", value_parser = etalon_models::MeasureKind::NAMES)]
    pub measure: String,
    /// Weights of LPIPS or DISTS [default: in the file of the network]
    #[arg(long, value_name = "FILE")]
    pub heads: Option<PathBuf>,
    /// Site of a cosine: its class token, or the mean over positions
    #[arg(long, value_name = "SITE")]
    pub site: Option<String>,
    /// Resize images to N × N pixels, for LPIPS and DISTS [default: all images have the same size]
    #[arg(long, value_name = "N")]
    pub size: Option<usize>,
    /// Output file for the matrix of all distances
    #[arg(long, value_name = "FILE.npy", conflicts_with = "pairs")]
    pub distances: Option<PathBuf>,
    /// Table of pairs with the columns a and b: ids or row numbers
    #[arg(long, value_name = "TABLE", requires = "out")]
    pub pairs: Option<PathBuf>,
    /// Maximum number of images
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,
    /// Column of the images
    #[arg(long, value_name = "NAME")]
    pub image_column: Option<String>,
    /// Cache directory of packaged models and data sets
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// Options of `generate`.
#[derive(Args)]
pub struct Generate {
    /// Language model: a directory, a file, a packaged name, or org/name in the Hugging Face cache
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// The prompt
    #[arg(value_name = "PROMPT")]
    pub prompt: String,
    /// Treat the prompt as a message in a conversation, with the chat template of the model
    #[arg(long)]
    pub chat: bool,
    /// Tokens to generate at most
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub tokens: usize,
    /// Divisor of the logits; 0 takes the most probable token
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    pub temperature: f32,
    /// Sample from this many most probable tokens; 0 for all
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub top_k: usize,
    /// Sample from the most probable tokens with this probability together
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub top_p: f32,
    /// Site of the patch
    #[arg(long, value_name = "SITE", requires = "sae")]
    pub site: Option<String>,
    /// Dictionary whose latents are steered
    #[arg(long, value_name = "PATH", requires = "latent")]
    pub sae: Option<PathBuf>,
    /// Latent that is steered
    #[arg(long, value_name = "N", requires = "site")]
    pub latent: Option<usize>,
    /// What happens to the latent: a vector of length --strength in its direction is added to every row (add), or its code becomes
    /// --strength (set) or is multiplied by it (scale; 0 ablates the latent)
    #[arg(long, value_name = "EDIT", default_value = "add", value_parser = ["add", "set", "scale"], requires = "latent")]
    pub edit: String,
    /// Weights as TransformerLens changes them: none, transformer-lens, or parts of it such as fold_ln+center_unembed
    /// [default: as the settings of --sae say, else none]
    #[arg(long, value_name = "HOW")]
    pub processing: Option<etalon::network::Processing>,
    /// Number type of the weights of linear maps; bf16 and int8 are faster and less precise
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = etalon_models::layer::WeightNumber::NAMES)]
    pub weights: String,
    /// Strength of the edit
    #[arg(long, value_name = "X", default_value_t = 10.0, allow_negative_numbers = true)]
    pub strength: f32,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Cache directory of packaged models
    #[arg(long, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}
