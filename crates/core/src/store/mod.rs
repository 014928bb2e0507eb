//! Activations on disk and in memory: rows of one width, cut into tiles.

mod activations;
pub mod disk;

pub use activations::{ActivationStore, Tile};
