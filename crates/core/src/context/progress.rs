//! Progress of long work. The library prints nothing itself.

use std::sync::Arc;

/// Follows long work. Called from several threads.
pub trait Progress: Sync {
    /// Work of `total` steps begins; `what` names the work, `unit` one step.
    fn start(&self, what: &str, total: u64, unit: &str);
    /// Some steps are done.
    fn advance(&self, steps: u64);
    /// The work is over.
    fn finish(&self);
}

impl<P: Progress + Send + ?Sized> Progress for Arc<P> {
    fn start(&self, what: &str, total: u64, unit: &str) {
        (**self).start(what, total, unit);
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
