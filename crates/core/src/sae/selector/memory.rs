//! What one selection leaves for the next: it saves time and changes nothing else.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{Rule, SPARSE};
use etalon_kernel::candidates::CandidateRows;

/// What the last rows were like. Threads share it.
#[derive(Debug, Default)]
pub struct Memory {
    /// Where they were cut, as bits.
    guess: AtomicU32,
    /// Whether few pre-activations exceeded the floors of their latents.
    few: AtomicBool,
    /// Buffers to be used again.
    found: Mutex<Vec<CandidateRows>>,
}

impl Memory {
    /// Whether candidates should be proposed by rounded products: once rows have said what to expect, and that it is
    /// little.
    pub fn wants_candidates(&self, rule: Rule<'_>, latents: usize) -> bool {
        match rule {
            Rule::Above => self.few.load(Ordering::Relaxed),
            Rule::PerRow(keep) | Rule::PerBatch(keep) => self.guess() > 0.0 && keep.saturating_mul(SPARSE) <= latents,
            _ => false,
        }
    }

    /// Where the last rows were cut.
    pub(super) fn guess(&self) -> f32 {
        f32::from_bits(self.guess.load(Ordering::Relaxed))
    }

    /// Remembers where rows were cut.
    pub fn learn_guess(&self, guess: f32) {
        self.guess.store(guess.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn learn_few(&self, few: bool) {
        self.few.store(few, Ordering::Relaxed);
    }

    pub(super) fn take_found(&self) -> CandidateRows {
        self.found.lock().ok().and_then(|mut found| found.pop()).unwrap_or_default()
    }

    pub(super) fn give_found(&self, found: CandidateRows) {
        if let Ok(mut all) = self.found.lock() {
            all.push(found);
        }
    }

    /// Whether anything was ever searched.
    #[cfg(test)]
    pub fn has_searched(&self) -> bool {
        self.found.lock().is_ok_and(|found| !found.is_empty())
    }
}
