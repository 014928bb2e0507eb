//! The options. Those of metrics, architectures and worlds are not written here: they follow from their cards.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use etalon::sae::Precision;
use etalon::sae::checkpoint::FORMATS;
use etalon::sae::train::Preset;

use crate::options::{ArchArgs, InputArgs};

/// Measures how well the units of a representation correspond to things that people understand.
#[derive(Parser)]
#[command(name = "etalon", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Try `etalon demo` first: it makes its own data and needs nothing.")]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args)]
pub struct Common {
    /// Print only errors and the result
    #[arg(long, short, global = true, display_order = 900)]
    pub quiet: bool,
    /// Print the result, or the error, as JSON
    #[arg(long, global = true, display_order = 901)]
    pub json: bool,
    /// Threads to use; results do not depend on it [default: one per core]
    #[arg(long, global = true, value_name = "N", display_order = 902)]
    pub threads: Option<usize>,
    /// Memory limit, such as 2GB [default: 70 % of RAM]
    #[arg(long, global = true, value_name = "SIZE", display_order = 903)]
    pub memory: Option<String>,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Train and evaluate dictionaries on built-in data, and write a report
    Demo(Demo),
    /// Make a world, or convert a data set
    Data(Data),
    /// Train dictionaries on activations; resumes if interrupted
    Train(Box<Train>),
    /// List the architectures and baselines, or show the card of one
    Archs(Archs),
    /// Turn activations into codes
    Encode(Encode),
    /// Write a dictionary in another format
    Convert(Convert),
    /// Lay concepts out on a map: the directions of a dictionary, or any rows, in two dimensions
    Layout(Layout),
    /// Evaluate codes with one or more metrics
    Eval(Eval),
    /// Compare codes with untrained and random ones by all metrics
    Sanity(SanityArgs),
    /// Evaluate a grid of inputs, metrics and seeds from a file; resumes if interrupted
    Run(Run),
    /// Run units of work of a study, for schedulers
    Unit(Unit),
    /// Write an HTML page with tables and figures of a results directory
    Report(Report),
    /// Write samples beside results, so that the explorer shows what concepts fire on
    Samples(Box<Samples>),
    /// Explore a results directory in a browser; prints the address to open
    Serve(Serve),
    /// Write the explorer as files: a folder for a web server, or one page that opens by itself
    Export(Export),
    /// Take published results of SAEBench into a results directory
    ImportResults(ImportResults),
    /// Check every byte of a directory
    Verify(Verify),
    /// List the metrics, or show the card of one
    Metrics(Metrics),
    /// Print completions for a shell
    Completions(Completions),
}

/// Options of `demo`.
#[derive(Args)]
pub struct Demo {
    /// Where to write
    #[arg(long, value_name = "DIR", default_value = "etalon-demo")]
    pub out: PathBuf,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of `data`.
#[derive(Args)]
pub struct Data {
    /// A world or a data set; `etalon data --list` names them
    #[arg(value_name = "NAME", required_unless_present = "list")]
    pub name: Option<String>,
    /// List the worlds and data sets with their options
    #[arg(long)]
    pub list: bool,
    /// Where to write
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub out: Option<PathBuf>,
    /// The data set's own directory or file, when converting
    #[arg(long, value_name = "PATH")]
    pub from: Option<PathBuf>,
    /// What to do with rows that hold NaN or infinity, when converting an array
    #[arg(long, value_name = "RULE", default_value = "refuse", value_parser = ["refuse", "drop-rows"])]
    pub nan: String,
    /// The seed of a world
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// Options of `encode`.
#[derive(Args)]
pub struct Encode {
    /// The dictionary: a checkpoint of Etalon, SAELens, dictionary_learning, sparsify, Gemma Scope or Llama Scope; or
    /// `untrained` or `random` (baselines of the size given by --latents and --k)
    #[arg(long, value_name = "SAE")]
    pub sae: String,
    /// Activations: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(long, value_name = "X")]
    pub store: String,
    /// Latents of a baseline
    #[arg(long, value_name = "L", default_value_t = 4096)]
    pub latents: usize,
    /// Active latents per row of a baseline
    #[arg(long, value_name = "K", default_value_t = 32)]
    pub k: usize,
    /// The seed of a baseline
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where to write: a directory, or a dense array if it ends in .npy
    #[arg(long, value_name = "CODES")]
    pub out: PathBuf,
    /// Also write reconstructions to this .npy file
    #[arg(long, value_name = "R")]
    pub reconstruction: Option<PathBuf>,
    /// How active latents are searched: f32 products alone (f32), an int8 pre-filter with exact f32 results (int8; uses AMX
    /// or AVX-512 VNNI where the processor has them), or the faster of both (auto). No result depends on it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = Precision::NAMES)]
    pub precision: String,
}

/// Options of `train`. Lists make several dictionaries, which are trained in one pass over the activations.
#[derive(Args)]
pub struct Train {
    /// Activations: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(long, value_name = "X")]
    pub store: String,
    /// The part of the store to train on
    #[arg(long, value_name = "SPLIT")]
    pub split: Option<String>,
    /// Architectures and baselines; `etalon archs` describes them and their defaults
    #[arg(long, value_name = "A[,A..]", required = true, value_delimiter = ',')]
    pub arch: Vec<String>,
    /// Latents; baselines that follow --like or the width of the rows take none
    #[arg(long, value_name = "L[,L..]", value_delimiter = ',')]
    pub latents: Vec<usize>,
    /// Active latents per row, where the architecture fixes them
    #[arg(long, value_name = "K[,K..]", value_delimiter = ',')]
    pub k: Vec<usize>,
    /// A dictionary whose size and sparsity a baseline takes (untrained, random)
    #[arg(long, value_name = "SAE")]
    pub like: Option<PathBuf>,
    /// Seeds of the weights and of the order of rows (the first)
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',', default_value = "0")]
    pub seed: Vec<u64>,
    /// Whose conventions to follow
    #[arg(long, value_name = "PRESET", default_value = "etalon", value_parser = Preset::NAMES.map(|(name, _)| name))]
    pub preset: String,
    /// How active latents are searched: f32 products alone (f32), an int8 pre-filter with exact f32 results (int8; uses AMX
    /// or AVX-512 VNNI where the processor has them), or the faster of both (auto). No result depends on it
    #[arg(long, value_name = "P", default_value = "auto", value_parser = Precision::NAMES)]
    pub precision: String,
    /// Steps in all
    #[arg(long, value_name = "N", conflicts_with = "epochs")]
    pub steps: Option<u64>,
    /// Passes over the rows [default: 10]
    #[arg(long, value_name = "N")]
    pub epochs: Option<f64>,
    /// Stop after this many steps; schedules still refer to --steps
    #[arg(long, value_name = "N")]
    pub stop_after: Option<u64>,
    /// Rows per step
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub batch: usize,
    /// Learning rate
    #[arg(long, value_name = "RATE")]
    pub lr: Option<f64>,
    /// Steps over which the learning rate rises
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Step from which the learning rate falls to 0
    #[arg(long, value_name = "N")]
    pub decay_start: Option<u64>,
    /// Clip gradients to this global norm; 0 does not clip
    #[arg(long, value_name = "LENGTH")]
    pub clip: Option<f64>,
    /// Rows without firing after which a latent is dead
    #[arg(long, value_name = "ROWS")]
    pub dead_after: Option<u64>,
    /// Steps between two resamplings of silent latents
    #[arg(long, value_name = "N")]
    pub resample: Option<u64>,
    /// Parameters of architectures.
    #[command(flatten)]
    pub params: ArchArgs,
    /// Divide activations by the root of their mean squared length; the dictionary still takes raw ones
    #[arg(long)]
    pub normalise: bool,
    /// Weights to start from: tensors as Etalon or dictionary_learning name them
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// The order of rows
    #[arg(long, value_name = "ORDER", default_value = "shuffle", value_parser = ["sequential", "shuffle"])]
    pub order: String,
    /// Rows that are shuffled together
    #[arg(long, value_name = "ROWS", default_value_t = 1 << 18)]
    pub window: usize,
    /// Write a line of JSON for every 100th step (--log-every) to this file
    #[arg(long, value_name = "FILE.jsonl")]
    pub log: Option<PathBuf>,
    /// Write the same numbers for TensorBoard into this folder
    #[arg(long, value_name = "DIR")]
    pub tensorboard: Option<PathBuf>,
    /// Steps between two lines of the log
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub log_every: u64,
    /// Steps between two saved states
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub checkpoint_every: u64,
    /// Shares of the training after which a copy is kept beside the output, such as 0.01,0.1
    #[arg(long, value_name = "SHARE[,SHARE..]", value_delimiter = ',')]
    pub keep: Vec<f64>,
    /// Split for early stopping: training stops when its error no longer falls, and the best weights are kept
    #[arg(long, value_name = "SPLIT")]
    pub held_out: Option<String>,
    /// Evaluations of that split without a smaller error after which training stops
    #[arg(long, value_name = "N", default_value_t = 3, requires = "held_out")]
    pub patience: u32,
    /// Steps between two evaluations of that split [default: an epoch]
    #[arg(long, value_name = "N", requires = "held_out")]
    pub look_every: Option<u64>,
    /// Where to write: a new directory, with one below for each dictionary if there are several
    #[arg(long, value_name = "SAE")]
    pub out: PathBuf,
}

/// Options of `archs`.
#[derive(Args)]
pub struct Archs {
    /// The architecture or baseline whose card to show
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Options of `convert`.
#[derive(Args)]
pub struct Convert {
    /// The dictionary: a directory, or the file of weights in it
    #[arg(value_name = "SAE")]
    pub sae: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", value_parser = written_formats())]
    pub to: String,
    /// Where to write: a new directory
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `layout`.
#[derive(Args)]
pub struct Layout {
    /// A dictionary, for its directions; or rows: .npy, .npz[:key], .safetensors[:key], .parquet or a store
    #[arg(value_name = "DIR_OR_ARRAY")]
    pub rows: PathBuf,
    /// Where to write: .npy (a row of x and y per concept) or .csv
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Neighbours of a point, itself included
    #[arg(long, value_name = "N", default_value_t = 15)]
    pub neighbours: usize,
    /// How near points may lie, where 1 is the scale on which they stop attracting each other
    #[arg(long, value_name = "D", default_value_t = 0.1)]
    pub min_dist: f64,
    /// Times that every point moves [default: 500, or 200 above 10,000 points]
    #[arg(long, value_name = "N")]
    pub epochs: Option<usize>,
    /// What is near
    #[arg(long, value_name = "METRIC", default_value = "cosine", value_parser = ["cosine", "euclidean"])]
    pub metric: String,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// The names of the formats that dictionaries are written in.
fn written_formats() -> Vec<&'static str> {
    FORMATS.iter().filter(|format| format.is_written()).map(|format| format.name).collect()
}

/// Options of `eval`.
#[derive(Args)]
pub struct Eval {
    /// One or more metrics, separated by commas; `etalon metrics` lists them
    #[arg(value_name = "METRIC[,METRIC..]", required = true, value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// Where inputs are.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// The published definition, or the numbers of the released program
    #[arg(long, value_name = "PROFILE", default_value = "paper", value_parser = ["paper", "reference"])]
    pub profile: String,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// What to do with rows of embeddings that hold NaN or infinity
    #[arg(long, value_name = "RULE", default_value = "refuse", value_parser = ["refuse", "drop-rows"])]
    pub nan: String,
    /// The result file; with several metrics it holds an array
    #[arg(long, value_name = "FILE.json")]
    pub out: Option<PathBuf>,
    /// Also write files as SAEBench does, for its graphs and for Neuronpedia, into this folder
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
}

/// Options of `sanity`.
#[derive(Args)]
pub struct SanityArgs {
    /// Where inputs are.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// Only these metrics [default: all that the inputs allow and that take seconds]
    #[arg(long, value_name = "METRIC[,METRIC..]", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// The name of the codes under test in tables and figures
    #[arg(long, value_name = "NAME", default_value = "trained")]
    pub name: String,
    /// Active latents per row of the baselines [default: the mean of the codes]
    #[arg(long, value_name = "K")]
    pub k: Option<usize>,
    /// Untrained dictionaries behind ΔMATCHScore
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub nulls: usize,
    /// The published definition, or the numbers of the released program
    #[arg(long, value_name = "PROFILE", default_value = "paper", value_parser = ["paper", "reference"])]
    pub profile: String,
    /// The seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Where results and the report go
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `run`.
#[derive(Args)]
pub struct Run {
    /// The study; docs/study.md describes the file
    #[arg(value_name = "STUDY.toml")]
    pub study: PathBuf,
    /// Where results go [default: what the study says]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Who does the work
    #[arg(long, value_name = "ENGINE", default_value = "local", value_parser = ["local"])]
    pub engine: String,
    /// Also write files as SAEBench does, for its graphs and for Neuronpedia, into this folder
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
}

/// Options of `unit`.
#[derive(Args)]
pub struct Unit {
    /// The study; docs/study.md describes the file
    #[arg(value_name = "STUDY.toml")]
    pub study: PathBuf,
    /// Cell of the study, as SET:METRIC:SEED; without it, list the cells that have no result
    #[arg(long, value_name = "CELL")]
    pub cell: Option<String>,
    /// Stage of the cell; without it, merge finished units and print the stage that waits and its missing units
    #[arg(long, value_name = "STAGE", requires = "cell")]
    pub stage: Option<String>,
    /// Unit of the stage, or a range such as 4..8
    #[arg(long, value_name = "UNIT", requires = "stage")]
    pub unit: Option<String>,
    /// Directory of the results [default: what the study says]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Args)]
pub struct Report {
    /// A directory with results
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The title of the page
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Also write files as SAEBench does, for its graphs and for Neuronpedia, into this folder
    #[arg(long, value_name = "DIR")]
    pub saebench: Option<PathBuf>,
}

/// Options of `serve`.
#[derive(Args)]
pub struct Serve {
    /// A directory with results
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The port; 0 takes any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,
    /// The address to listen on [default: 127.0.0.1, which only this machine can reach]
    #[arg(long, value_name = "ADDR")]
    pub bind: Option<String>,
    /// A dictionary or an array of directions, for the nearest latents by cosine [default: DIR/directions, if it is there]
    #[arg(long, value_name = "SAE_OR_ARRAY")]
    pub directions: Option<PathBuf>,
}

/// Options of `samples`.
#[derive(Args)]
pub struct Samples {
    /// Where inputs are.
    #[command(flatten)]
    pub inputs: InputArgs,
    /// A table of what rows show: columns image (a file), text, words (a list in JSON, one entry per token), caption, id;
    /// row, if lines are not rows in order; set, for what a generator made
    #[arg(long, value_name = "TABLE")]
    pub rows: Option<PathBuf>,
    /// A table of where concepts are in the images: row, concept, x, y, width, height, as shares of the image
    #[arg(long, value_name = "TABLE")]
    pub boxes: Option<PathBuf>,
    /// Patches of an image, with --pool: lines × columns of its last tokens [default: a square, or a square after one token
    /// for the whole image]
    #[arg(long, value_name = "HxW", requires = "pool")]
    pub grid: Option<String>,
    /// Rows to take (of those in --rows, if it is given): of more, for every latent some on which it fires strongly, some of
    /// each tenth of its activations, and any
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub most: usize,
    /// The directory with results
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Options of `export`.
#[derive(Args)]
pub struct Export {
    /// A directory with results
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The folder to write to
    #[arg(long, value_name = "DIR2")]
    pub out: Option<PathBuf>,
    /// One file with everything in it
    #[arg(long, value_name = "FILE.html")]
    pub single: Option<PathBuf>,
    /// A dictionary or an array of directions, for the nearest latents by cosine [default: DIR/directions, if it is there]
    #[arg(long, value_name = "SAE_OR_ARRAY")]
    pub directions: Option<PathBuf>,
}

/// Options of `import-results`.
#[derive(Args)]
pub struct ImportResults {
    /// A directory with files *eval_results.json, in any folders
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The directory of results to add them to
    #[arg(long, value_name = "DIR", default_value = "etalon-results")]
    pub out: PathBuf,
}

/// Options of `verify`.
#[derive(Args)]
pub struct Verify {
    /// A store, codes, a world or a results directory
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
}

/// Options of `metrics`.
#[derive(Args)]
pub struct Metrics {
    /// The metric whose card to show
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
}

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}
