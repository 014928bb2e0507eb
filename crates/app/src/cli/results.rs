//! Options of commands that show and exchange results.

use std::path::PathBuf;

use clap::Args;

use crate::options::InputArgs;

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

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// Shell
    pub shell: clap_complete::Shell,
}
