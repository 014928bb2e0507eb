//! Some items of a source: every n-th, and not more than a limit.

use std::path::PathBuf;

use etalon::error::Result;

use super::input::{Item, Source};
use super::options::ContentKind;

/// Every n-th item of a source, up to a limit.
pub(super) struct Sampled {
    source: Box<dyn Source>,
    every: u64,
    limit: u64,
    /// Items that were read.
    taken: u64,
}

impl Sampled {
    pub fn new(source: Box<dyn Source>, every: u64, limit: u64) -> Sampled {
        Sampled { source, every: every.max(1), limit, taken: 0 }
    }
}

impl Source for Sampled {
    fn kind(&self) -> ContentKind {
        self.source.kind()
    }

    fn label_columns(&self) -> &[String] {
        self.source.label_columns()
    }

    fn word_columns(&self) -> Vec<String> {
        self.source.word_columns()
    }

    fn count(&self) -> Option<u64> {
        self.source.count().map(|count| count.div_ceil(self.every).min(self.limit))
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        self.source.files()
    }

    fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        if self.taken >= self.limit {
            return Ok(None);
        }
        // The items between two that are read.
        for _ in 1..if self.taken > 0 { self.every } else { 1 } {
            if self.source.read()?.is_none() {
                return Ok(None);
            }
        }
        self.taken += 1;
        self.source.read()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.taken = position.min(self.limit);
        // After the last item that was read, as without a seek.
        let before = self.taken.saturating_sub(1).saturating_mul(self.every);
        self.source.seek(before + u64::from(self.taken > 0))
    }
}
