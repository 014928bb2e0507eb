//! Options of commands that train, convert and apply dictionaries.

use std::path::PathBuf;

use clap::Args;

use etalon::sae::Precision;
use etalon::sae::checkpoint::FORMATS;
use etalon::sae::train::Preset;

use crate::network_args::{CacheArgs, NetworkArgs};
use crate::options::ArchArgs;

/// Options of `train`. Lists define several dictionaries, which are trained in one pass over the activations.
#[derive(Args)]
pub struct Train {
    /// Activations: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(long, value_name = "X", required_unless_present = "model", conflicts_with = "model")]
    pub store: Option<String>,
    /// A network that gives the activations, instead of a store.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Where captures are kept.
    #[command(flatten)]
    pub cache: CacheArgs,
    /// Train while the network runs, and store no activations; --steps is required
    #[arg(
        long,
        requires_all = ["model", "steps"],
        conflicts_with_all = ["split", "held_out", "epochs", "order", "window", "dtype", "like"],
        help_heading = "Network"
    )]
    pub stream: bool,
    /// Rows that wait in the shuffle buffer of --stream
    #[arg(long, value_name = "ROWS", default_value_t = 250_000, requires = "stream", help_heading = "Network")]
    pub buffer: usize,
    /// Split of the store to train on [default: all rows]
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<String>,
    /// Architectures and baselines; `etalon archs` lists them
    #[arg(long, value_name = "A[,A..]", required = true, value_delimiter = ',')]
    pub arch: Vec<String>,
    /// Number of latents; omit for baselines that follow --like or the width of the rows
    #[arg(long, value_name = "L[,L..]", value_delimiter = ',')]
    pub latents: Vec<usize>,
    /// Active latents per row: fixed (topk, batch_topk, matryoshka, ra_topk, mp), or the target of their mean, as
    /// --target-l0 (relu, relu_april, gated, jumprelu, ra_jumprelu)
    #[arg(long, value_name = "K[,K..]", value_delimiter = ',')]
    pub k: Vec<usize>,
    /// Dictionary whose size and sparsity a baseline copies (untrained, random)
    #[arg(long, value_name = "SAE")]
    pub like: Option<PathBuf>,
    /// Random seeds of the weights; the first one also determines the order of rows
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',', default_value = "0")]
    pub seed: Vec<u64>,
    /// Training conventions to follow
    #[arg(long, value_name = "PRESET", default_value = "etalon", value_parser = Preset::NAMES.map(|(name, _)| name))]
    pub preset: String,
    /// Search for active latents: full f32 products (f32), an int8 pre-filter with exact f32 results (int8; uses AMX or
    /// AVX-512 VNNI if available; ETALON_AMX=off switches AMX off), or the faster of the two (auto). Results do not
    /// depend on it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = Precision::NAMES)]
    pub precision: String,
    /// Number of steps
    #[arg(long, value_name = "N", conflicts_with = "epochs")]
    pub steps: Option<u64>,
    /// Number of passes over the rows [default: 10]
    #[arg(long, value_name = "N")]
    pub epochs: Option<f64>,
    /// Stop after this many steps; schedules still use --steps
    #[arg(long, value_name = "N")]
    pub stop_after: Option<u64>,
    /// Rows per step
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub batch: usize,
    /// Learning rate [default: from --preset]
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,
    /// Warm-up steps of the learning rate [default: from --preset]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Step from which the learning rate decays to 0 [default: from --preset]
    #[arg(long, value_name = "N")]
    pub decay_start: Option<u64>,
    /// Clip gradients to this global norm; 0 disables clipping [default: from --preset]
    #[arg(long, value_name = "LENGTH")]
    pub clip: Option<f64>,
    /// Rows without firing after which a latent counts as dead [default: from --preset]
    #[arg(long, value_name = "ROWS")]
    pub dead_after: Option<u64>,
    /// Steps between resamplings of dead latents [default: from --preset]
    #[arg(long, value_name = "N")]
    pub resample: Option<u64>,
    /// Parameters of architectures.
    #[command(flatten)]
    pub params: ArchArgs,
    /// Divide activations by their root mean squared norm; the trained dictionary still takes raw activations
    #[arg(long)]
    pub normalise: bool,
    /// Initial weights, with the tensor names of Etalon or dictionary_learning [default: random]
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Order of rows
    #[arg(long, value_name = "ORDER", default_value = "shuffle", value_parser = ["sequential", "shuffle"])]
    pub order: String,
    /// Rows per shuffle window
    #[arg(long, value_name = "ROWS", default_value_t = 1 << 18)]
    pub window: usize,
    /// Write a JSON line to this file every --log-every steps
    #[arg(long, value_name = "FILE.jsonl")]
    pub log: Option<PathBuf>,
    /// Write TensorBoard event files to this directory every --log-every steps
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Steps between log lines
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub log_every: u64,
    /// Seconds between saved training states, from which a killed training resumes; 0 saves after every step
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub checkpoint_every: f64,
    /// Save snapshots next to the output after these fractions of the training, such as 0.01,0.1
    #[arg(long, value_name = "SHARE[,SHARE..]", value_delimiter = ',', value_parser = share)]
    pub keep: Vec<f64>,
    /// Split for early stopping (stop when its error no longer falls and keep the best weights) and for the threshold of
    /// batch_topk and matryoshka
    #[arg(long, value_name = "SPLIT")]
    pub held_out: Option<String>,
    /// Evaluations of the held-out split without improvement before training stops
    #[arg(long, value_name = "N", default_value_t = 3, requires = "held_out")]
    pub patience: u32,
    /// Steps between evaluations of the held-out split [default: one epoch]
    #[arg(long, value_name = "N", requires = "held_out")]
    pub look_every: Option<u64>,
    /// Output directory; several dictionaries get one subdirectory each
    #[arg(long, value_name = "SAE")]
    pub out: PathBuf,
}

/// Options of `archs`.
#[derive(Args)]
pub struct Archs {
    /// Architecture or baseline to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Options of `encode`.
#[derive(Args)]
pub struct Encode {
    /// Dictionary: a checkpoint of Etalon, SAELens, dictionary_learning, overcomplete, sparsify, Gemma Scope or Llama
    /// Scope, or a baseline of the size given by --latents and --k: `untrained` or `random`
    #[arg(long, value_name = "SAE")]
    pub sae: String,
    /// Activations: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(long, value_name = "X")]
    pub store: String,
    /// Number of latents of a baseline
    #[arg(long, value_name = "L", default_value_t = 4096)]
    pub latents: usize,
    /// Active latents per row of a baseline
    #[arg(long, value_name = "K", default_value_t = 32)]
    pub k: usize,
    /// Random seed of a baseline
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Settings that a checkpoint of overcomplete does not contain, such as arch=mp,k=6,delta=0.5,threshold=0.8
    #[arg(long, value_name = "KEY=VALUE[,..]", value_delimiter = ',')]
    pub settings: Vec<String>,
    /// Output: a directory, a dense array if the name ends in .npy, or a sparse array (scipy CSR) if it ends in .npz
    #[arg(long, value_name = "CODES")]
    pub out: PathBuf,
    /// Also write reconstructions to this .npy file
    #[arg(long, value_name = "R")]
    pub reconstruction: Option<PathBuf>,
    /// Search for active latents: full f32 products (f32), an int8 pre-filter with exact f32 results (int8; uses AMX or
    /// AVX-512 VNNI if available; ETALON_AMX=off switches AMX off), or the faster of the two (auto). Results do not
    /// depend on it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = Precision::NAMES)]
    pub precision: String,
}

/// Options of `convert`.
#[derive(Args)]
pub struct Convert {
    /// Dictionary: a directory, or its file of weights
    #[arg(value_name = "SAE")]
    pub sae: PathBuf,
    /// Settings that a checkpoint of overcomplete does not contain, such as arch=mp,k=6,delta=0.5,threshold=0.8
    #[arg(long, value_name = "KEY=VALUE[,..]", value_delimiter = ',')]
    pub settings: Vec<String>,
    /// Output format
    #[arg(long, value_name = "FORMAT", value_parser = written_formats())]
    pub to: String,
    /// Output directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `layout`.
#[derive(Args)]
pub struct Layout {
    /// Dictionary (embeds its directions), or rows: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(value_name = "DIR_OR_ARRAY")]
    pub rows: PathBuf,
    /// Output file: .npy (x and y per row) or .csv
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Neighbours per point, including itself
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub neighbours: usize,
    /// Minimum distance between points; smaller values give tighter clusters
    #[arg(long, value_name = "D", default_value_t = 0.1)]
    pub min_dist: f64,
    /// Number of epochs [default: 500, or 200 above 10,000 points]
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,
    /// Distance between rows
    #[arg(long, value_name = "METRIC", default_value = "cosine", value_parser = ["cosine", "euclidean"])]
    pub metric: String,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// A fraction of the training.
fn share(text: &str) -> Result<f64, String> {
    let share = text.trim().parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a number above 0, at most 1".into())
}

/// The names of the formats in which dictionaries can be written.
fn written_formats() -> Vec<&'static str> {
    FORMATS.iter().filter(|format| format.is_written()).map(|format| format.name).collect()
}
