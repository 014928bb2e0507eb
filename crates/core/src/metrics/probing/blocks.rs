//! The blocks of the probing metrics: a task in a repeat each.

use super::dense;
use super::tasks::{Tasks, absent};
use crate::error::Result;
use crate::metrics::unit_rows::direction_lengths;
use crate::probe::preconditioner::Preconditioner;
use crate::results::Scores;
use crate::run::{Job, LABELS, Work};

/// What the blocks of a metric with the parameters `P` share.
pub struct Probing<'a, P> {
    pub job: &'a Job<'a>,
    pub protocol: &'a P,
    pub tasks: &'a Tasks<'a>,
    /// The lengths of directions, which codes are multiplied by.
    pub lengths: Option<&'a [f32]>,
    /// Of the channels, if it was asked for.
    pub preconditioner: Option<&'a Preconditioner>,
}

/// Prepares what the blocks share, and calls `run` with it. `needs_preconditioner` says whether probes on all channels
/// are fitted.
pub fn with_tasks<P>(
    job: &Job<'_>,
    work: &mut Work<'_>,
    protocol: &P,
    needs_preconditioner: bool,
    run: impl FnOnce(&Probing<'_, P>, &mut Work<'_>) -> Result<Scores>,
) -> Result<Scores> {
    let absent = absent(job, work)?;
    let tasks = Tasks::new(job.get(&LABELS)?, &absent);
    let preconditioner = dense::preconditioner(job, work, needs_preconditioner)?;
    let lengths = direction_lengths(job)?;
    let lengths = lengths.as_ref().map(|lengths| &lengths[..]);
    run(&Probing { job, protocol, tasks: &tasks, lengths, preconditioner: preconditioner.first() }, work)
}
