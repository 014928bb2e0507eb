//! Progress of long work. The library prints nothing; a program implements [`Progress`].

use std::sync::Arc;

/// Receives the progress of long work, from several threads.
pub trait Progress: Sync {
    /// Work of `total` steps starts, or of an unknown number if that is 0; `what` names the work, `unit` a step.
    fn start(&self, what: &str, total: u64, unit: &str);
    /// An estimate of the total that was unknown at the start.
    fn estimate(&self, _total: u64) {}
    /// Some steps are done.
    fn advance(&self, steps: u64);
    /// The work has ended.
    fn finish(&self);
}

impl<P: Progress + Send + ?Sized> Progress for Arc<P> {
    fn start(&self, what: &str, total: u64, unit: &str) {
        (**self).start(what, total, unit);
    }

    fn estimate(&self, total: u64) {
        (**self).estimate(total);
    }

    fn advance(&self, steps: u64) {
        (**self).advance(steps);
    }

    fn finish(&self) {
        (**self).finish();
    }
}

/// Reports nothing.
pub struct Silent;

impl Progress for Silent {
    fn start(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
}
