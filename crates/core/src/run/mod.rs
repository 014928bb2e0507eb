//! How work is done: a plan of units fixed by the data, tallies merged along a fixed tree, one engine.
//!
//! The same plan gives the same bits with any number of threads: integers, extremes and tops commute, sums follow the
//! tree, and randomness is keyed by `(seed, purpose, block)`.

mod engine;
mod job;
mod leaders;
mod model;
mod plan;
mod tally;

pub use engine::Engine;
pub use job::{Inputs, Job, Truth};
pub use leaders::Leaders;
pub use model::Model;
pub use plan::Plan;

pub use tally::{Column, Tally};

use crate::codes::CodesView;
use crate::error::Result;
use crate::results::Scores;
use crate::store::Tile;

/// What the engine must do next for a metric.
pub enum Next {
    /// Look at every row once.
    Pass(Box<dyn Pass>),
    /// Do work that splits by concept, latent or fold.
    Blocks(Box<dyn Blocks>),
    /// Nothing: here are the scores.
    Done(Scores),
}

/// One look at every row, in any split. The law: absorbing A then B equals absorbing each and merging.
pub trait Pass: Send + Sync {
    /// A tally of no rows.
    fn empty(&self) -> Tally;
    /// Adds some consecutive rows.
    fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()>;
    /// Turns the tally of all rows into scores, or into more work.
    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next>;
}

/// Work on blocks that do not depend on each other. Merged in block order.
pub trait Blocks: Send + Sync {
    /// How many blocks there are.
    fn count(&self) -> usize;
    /// What one block is called on a progress bar, such as "concepts".
    fn unit(&self) -> &'static str;
    /// Does one block.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally>;
    /// Turns the tally of all blocks into scores, or into more work.
    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next>;
}

/// What a pass sees of some consecutive rows.
pub struct Rows<'a> {
    /// The codes, if the job has any.
    pub codes: Option<CodesView<'a>>,
    /// The embeddings, if the job has any.
    pub embeddings: Option<Tile<'a>>,
}
