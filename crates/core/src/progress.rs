//! Where the engine says how far it is. The library prints nothing itself.

use std::sync::atomic::AtomicBool;

/// Told about long work. Called from several threads.
pub trait Progress: Sync {
    /// Work of `total` steps begins; `what` says what is done, `unit` what a step is.
    fn start(&self, what: &str, total: u64, unit: &str);
    /// Some steps are done.
    fn advance(&self, steps: u64);
    /// The work is over.
    fn finish(&self);
}

/// Says nothing.
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
}

/// Who is told how far something is, and who may stop it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Is told.
    pub progress: &'a dyn Progress,
    /// May stop it.
    pub cancel: &'a AtomicBool,
}
