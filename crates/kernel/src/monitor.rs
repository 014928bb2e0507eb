//! Progress and cancellation of long algorithms.

/// Observes and cancels long computations. Called from several threads.
pub trait Monitor: Sync {
    /// Work of `total` steps begins; `what` names the work, `unit` one step.
    fn start(&self, what: &str, total: u64, unit: &str);
    /// Some steps are done.
    fn advance(&self, steps: u64);
    /// The work is over.
    fn finish(&self);
    /// Whether the work should stop.
    fn is_cancelled(&self) -> bool;

    /// An error if the work should stop.
    fn check(&self) -> Result<(), Cancelled> {
        if self.is_cancelled() { Err(Cancelled) } else { Ok(()) }
    }
}

/// The [`Monitor`] stopped the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cancelled")]
pub struct Cancelled;

/// Reports nothing and never stops.
pub struct Silent;

impl Monitor for Silent {
    fn start(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Stops at once, for tests.
#[cfg(test)]
pub(crate) struct Stop;

#[cfg(test)]
impl Monitor for Stop {
    fn start(&self, _: &str, _: u64, _: &str) {}
    fn advance(&self, _: u64) {}
    fn finish(&self) {}
    fn is_cancelled(&self) -> bool {
        true
    }
}
