//! Dictionaries: what turns activations into codes and back.

pub mod arch;
pub mod baseline;
pub mod checkpoint;
mod encode;
mod linear;
mod normalise;
mod precision;
mod pursuit;
mod sieve;
pub mod train;

pub use baseline::{random_codes, untrained};
pub use encode::{Encoded, encode_store, encode_to_disk};
pub use linear::{Activation, Linear, Parts};
pub use normalise::Normalisation;
pub use precision::Precision;
pub use pursuit::Pursuit;

use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::error::Result;
use crate::store::Tile;

/// A dictionary of directions with a way to find which of them an activation uses.
pub trait Dictionary: Send + Sync {
    /// What it is.
    fn card(&self) -> &SaeCard;
    /// Appends one sparse row per row of the tile. A row's codes do not depend on the rows around it.
    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()>;
    /// Writes one reconstruction per row of codes. Dictionaries that normalise rows want to see the rows that were
    /// encoded, to put their mean and scale back.
    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()>;
    /// The direction that a latent adds to the reconstruction.
    fn direction(&self, latent: Latent) -> &[f32];
}

/// What a dictionary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaeCard {
    /// The name of its architecture.
    pub arch: String,
    /// The width of the activations it reads.
    pub width: usize,
    /// How many latents it has.
    pub latents: usize,
    /// How many latents a row can have at most, if that is fixed.
    pub k: Option<usize>,
}
