//! Etalon measures how well the units of a representation (latents of a sparse autoencoder, neurons, concept
//! bottlenecks) correspond to things that people understand.
//!
//! Data passes through the modules in the order in which they are listed here, and a module uses only those above it.

pub mod budget;
pub mod error;
pub mod kernel;
pub mod progress;

pub mod input;

pub mod store;

pub mod codes;

pub mod labels;

pub mod sae;

pub mod probe;

pub mod results;

pub mod run;

pub mod metrics;

pub mod study;

pub mod report;
