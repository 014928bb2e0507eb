//! Fuzzing of every parser. A target is a reader of the library with valid files to start from.
//!
//! A reader may accept bytes or refuse them with a message. It must not panic, return an internal error, run for long,
//! or use much memory. `cargo xtask fuzz` looks for bytes that make it do so, guided by coverage; the test of this crate
//! tries a few thousand random changes of valid files. Inputs that caused a failure are kept in `found/TARGET/` and run
//! in every test.

mod check;
mod files;
mod mutate;
mod records;
mod resume;
mod seeds;
mod targets;
mod tokenizers;
mod weights;

pub use check::{Outcome, Scratch};
pub use mutate::Mutator;
pub use targets::{TARGETS, Target, find};
