//! A value that is expensive to compute and shared by the blocks of a stage.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// A value that is expensive to compute and shared by the blocks of a stage. It is computed before the first block that
/// runs in this process, and not at all if none runs.
///
/// A `OnceLock` that the first block fills would deadlock: while its thread waits in a parallel loop, rayon may hand it
/// another block, which then waits for the value that the same thread is computing.
pub struct Lazy<T, F>(OnceLock<T>, F);

impl<T, F: Fn() -> Result<T>> Lazy<T, F> {
    /// A value that `make` computes when it is needed.
    pub fn new(make: F) -> Lazy<T, F> {
        Lazy(OnceLock::new(), make)
    }

    /// The value; computes it if necessary. For the function of a metric and for other `Lazy`s: blocks receive the
    /// value as an argument.
    pub fn get(&self) -> Result<&T> {
        self.fill()?;
        self.filled()
    }

    pub(super) fn fill(&self) -> Result<()> {
        if self.0.get().is_none() {
            let _ = self.0.set((self.1)()?);
        }
        Ok(())
    }

    pub(super) fn filled(&self) -> Result<&T> {
        self.0.get().ok_or_else(|| Error::Bug("a block runs before its shared value is computed".into()))
    }
}
