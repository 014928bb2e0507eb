//! Files as SAEBench writes and reads them.

mod envelope;
mod read;

pub use envelope::{Envelope, SHAPES, Shape};
pub use read::{Imported, read};
