//! Where the engine says how far it is. The library prints nothing itself.

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
