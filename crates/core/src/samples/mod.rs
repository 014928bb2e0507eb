//! Samples for the explorer: rows with their image or text, the latents that fire on them, and on which patches or
//! words.

mod arrangement;
mod gallery;
mod ranking;
mod tables;
mod write;

pub use arrangement::PatchGrid;
pub use gallery::Gallery;
pub use write::{SampleSettings, WrittenSamples, write_samples};
