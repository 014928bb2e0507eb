//! Studies: grids of input sets × metrics × seeds, resumable, kept in one results directory.

mod dictionary;
mod folder;
mod gallery;
mod generated;
mod grid;
mod load;
mod plan_file;
mod rows;
mod sample_tables;
mod samples;
mod sanity;
mod standing;
mod tokens;
mod verify;
mod world_dir;

pub use dictionary::Recognised;
pub use gallery::Gallery;
pub use grid::{Failure, Grid, Outcome, Set};
pub use load::{Paths, load_activations, load_codes, load_directions, load_labels};
pub use plan_file::Study;
pub use samples::{SampleSettings, WrittenSamples, write_samples};
pub use sanity::{Sanity, sanity_sets};
pub use tokens::{PatchGrid, Tokens, TokensOfSets};
pub use verify::{Checked, verify};
pub use world_dir::{Converted, convert_data_set, save_world};
