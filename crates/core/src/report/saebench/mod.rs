//! Import and export of SAEBench result files.

mod envelope;
mod read;
mod translate;
mod write;

pub use envelope::{Envelope, EvaluationFields, SHAPES};
pub use read::{Imported, read};
pub use write::{bytes, files};
