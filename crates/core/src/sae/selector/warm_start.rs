//! Statistics of earlier selections that speed up the next one. They change no result.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::{MIN_SPARSITY, Rule};
use etalon_kernel::candidates::CandidateRows;

/// What earlier selections found. Threads share it.
#[derive(Debug, Default)]
pub struct WarmStart {
    /// A guess of the smallest value that the next rows keep, as bits.
    guess: AtomicU32,
    /// Whether few pre-activations exceeded the floors of their latents.
    sparse: AtomicBool,
    /// Buffers to reuse.
    buffers: Mutex<Vec<CandidateRows>>,
}

impl WarmStart {
    /// Whether an int8 pre-filter saves time: once earlier rows have shown that candidates will be few.
    pub fn prefilters(&self, rule: Rule<'_>, latents: usize) -> bool {
        match rule {
            Rule::Above => self.sparse.load(Ordering::Relaxed),
            Rule::PerRow(keep) | Rule::PerBatch(keep) => {
                self.guess() > 0.0 && keep.saturating_mul(MIN_SPARSITY) <= latents
            }
            _ => false,
        }
    }

    /// The guess of the smallest value that the next rows keep.
    pub(super) fn guess(&self) -> f32 {
        f32::from_bits(self.guess.load(Ordering::Relaxed))
    }

    /// Stores a guess for the next rows.
    pub fn set_guess(&self, guess: f32) {
        self.guess.store(guess.to_bits(), Ordering::Relaxed);
    }

    pub(super) fn set_sparse(&self, sparse: bool) {
        self.sparse.store(sparse, Ordering::Relaxed);
    }

    pub(super) fn take_buffer(&self) -> CandidateRows {
        self.buffers.lock().ok().and_then(|mut buffers| buffers.pop()).unwrap_or_default()
    }

    pub(super) fn return_buffer(&self, buffer: CandidateRows) {
        if let Ok(mut buffers) = self.buffers.lock() {
            buffers.push(buffer);
        }
    }

    /// Whether a pre-filter ever ran.
    #[cfg(test)]
    pub fn has_prefiltered(&self) -> bool {
        self.buffers.lock().is_ok_and(|buffers| !buffers.is_empty())
    }
}
