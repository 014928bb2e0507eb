//! Samples for people to look at: some rows with what they show, which latents fire there, and where.

mod arrangement;
mod gallery;
mod ranking;
mod tables;
mod write;

pub use arrangement::PatchGrid;
pub use gallery::Gallery;
pub use write::{SampleSettings, WrittenSamples, write_samples};
