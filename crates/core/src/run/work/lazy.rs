//! Something expensive that blocks share.

use std::sync::OnceLock;

use crate::error::{Error, Result};

/// Something expensive that blocks share: made before the first block that runs here, never where none runs.
///
/// A `OnceLock` that the first block fills can deadlock: its thread waits in a parallel loop, picks up another block
/// meanwhile, and asks for what it is itself making.
pub struct Lazy<T, F>(OnceLock<T>, F);

impl<T, F: Fn() -> Result<T>> Lazy<T, F> {
    /// Made by `make` when it is needed.
    pub fn new(make: F) -> Lazy<T, F> {
        Lazy(OnceLock::new(), make)
    }

    /// What was made, or is made now. For the function of a metric and for other `Lazy`s: blocks are given it.
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
        self.0.get().ok_or_else(|| Error::Bug("a block runs before what it needs".into()))
    }
}
