//! How a metric runs long work: [`Work`].
//!
//! A metric is one function that calls `work.pass`, `work.fold`, `work.blocks` and `work.once`. Every call is a
//! *stage*. A stage splits its work into *leaves* (ranges of rows, or blocks), runs groups of leaves as *units* on all
//! threads, and merges the states of the leaves along a fixed tree, so the result does not depend on threads or units.
//!
//! With a directory ([`Kept`]), finished units and stages are stored as files. Calling the function again *replays* it:
//! finished stages are read from their files, and computation starts at the first stage with missing units. The same
//! replay resumes an interrupted run, runs single units in worker processes, and merges them in a driver; [`Mode`]
//! selects which of the three.
//!
//! A rule for metrics follows: the stages, and what their units compute, may depend only on the job and on the results
//! of earlier stages, never on threads, free memory, time or hash order. Stages are identified by number and *key*, a
//! hash of the cell, all earlier results, and the stage's name, size and layout. A process whose replay differs gets a
//! different key and fails with an error instead of computing the wrong units.

mod in_order;
mod in_step;
mod kept;
mod lazy;
mod stage;

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use kept::Kept;
pub use lazy::Lazy;
use stage::Stage;

use super::batch::RowBatch;
use super::erased::{AnyState, StateType};
use super::inputs::{Inputs, Over};
use super::leaves;
use super::scan::Member;
use super::state::{List, State};
use crate::context::{Context, Monitor, Reserved};
use crate::error::{Error, Result};
use crate::results::Scores;

/// Which part of the work this process does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mode {
    /// Run everything here; store units if there is a directory.
    #[default]
    Local,
    /// Run these units of a stage and stop. The stage is named as in [`Outcome::Waiting`].
    Units(String, Range<usize>),
    /// Run no units: merge stored units until a stage lacks some.
    Merge,
}

/// How the function of a metric ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// With scores.
    Done(Scores),
    /// The units of [`Mode::Units`] are stored.
    Stored,
    /// Units of a stage have to be run before it can be merged.
    Waiting {
        /// Number and key of the stage, such as `1-5be2c1f0a9d3e477`.
        stage: String,
        /// Units without a valid file.
        missing: Vec<usize>,
    },
}

/// Runs the stages of a metric.
pub struct Work<'a> {
    /// Title of progress bars.
    title: &'a str,
    inputs: &'a Inputs,
    context: &'a Context,
    /// Where finished units and stages are stored; `None` stores nothing.
    kept: Option<&'a Kept>,
    mode: Mode,
    /// Leaves per unit of a pass; `None` chooses so that there are few units.
    unit_leaves: Option<usize>,
    /// Takes part in shared scans of rows with other metrics.
    member: Option<&'a Member<'a>>,
    /// Number of stages so far.
    stages: usize,
    /// Hash of the cell and of all results so far.
    key: blake3::Hash,
    /// Set when no further stage runs: this process has done its part, or a stage failed.
    end: Option<Result<Outcome>>,
}

/// The result of a block: any type that serde can store.
pub trait BlockResult: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> BlockResult for T {}

impl<'a> Work<'a> {
    pub(crate) fn new(
        title: &'a str,
        inputs: &'a Inputs,
        context: &'a Context,
        kept: Option<&'a Kept>,
        mode: Mode,
        unit_leaves: Option<usize>,
    ) -> Work<'a> {
        let key = blake3::hash(kept.map_or("", |kept| &kept.cell).as_bytes());
        Work { title, inputs, context, kept, mode, unit_leaves, member: None, stages: 0, key, end: None }
    }

    /// Lets passes share the reading of rows with the passes of other metrics.
    pub(crate) fn in_step(self, member: &'a Member<'a>) -> Work<'a> {
        Work { member: Some(member), ..self }
    }

    /// The outcome of a metric whose function returned `scores`. If a stage ended the work, that counts, even if the
    /// metric discarded the stage's error.
    pub(crate) fn conclude(self, scores: Result<Scores>) -> Result<Outcome> {
        match (self.end, self.mode, scores) {
            (Some(end), ..) => end,
            (_, Mode::Units(stage, _), Ok(_)) => Err(Error::Bug(format!("there is no stage {stage}"))),
            (.., scores) => scores.map(Outcome::Done),
        }
    }

    /// Visits all rows once: calls `add` with batches of consecutive rows, on all threads, and returns the merged
    /// state.
    ///
    /// `empty` makes the state of no rows. A state is a struct of [`super::Count`], [`super::Sum`] and other mergeable
    /// fields; see [`state!`](crate::state). `name` appears in messages and in the stage's key.
    pub fn pass<S: State>(
        &mut self,
        name: &str,
        over: Over<'_>,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RowBatch<'_>) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        let (inputs, context, rows) = (self.inputs, self.context, self.inputs.rows(over)?);
        let leaves = leaves::count(rows);
        let unit_leaves = self.unit_leaves.unwrap_or_else(|| self.leaves_per_unit_of_rows(leaves));
        let steps = |leaf: usize| leaves::rows(leaf, rows).len() as u64;
        let bytes = empty().bytes();
        let (state, step, prepare) = (StateType::of::<S>(), "rows", &|| Ok(()));
        let at_once = context.threads();
        let stage = Stage { name, state, leaves, unit_leaves, at_once, bytes, step, steps: &steps, prepare };
        let empty = || AnyState::new(empty());
        let add = |state: &mut AnyState, batch: &RowBatch<'_>| add(state.get_mut()?, batch);
        let merged = match self.member.filter(|_| self.mode == Mode::Local && leaves > 0) {
            Some(member) => self.scan(&stage, member, over, rows, &empty, &add)?,
            None => {
                let leaf = |leaf: usize, earlier: Option<&mut AnyState>| {
                    let mut state = empty();
                    earlier.map_or(Ok(()), |earlier| state.inherit(earlier))?;
                    add_rows(context, inputs, over, leaves::rows(leaf, rows), &mut state, &add)?;
                    Ok(state)
                };
                self.stage(&stage, &leaf)?
            }
        };
        self.or_empty(merged, &stage, &empty)
    }

    /// Runs `count` independent blocks that each add to a state, such as counts over pairs of latents, and returns the
    /// merged state.
    pub fn fold<S: State>(
        &mut self,
        name: &str,
        count: usize,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, usize) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        self.fold_with(&Lazy::new(|| Ok(())), name, count, empty, |(), state, block| add(state, block))
    }

    /// [`Work::fold`] with a value that is expensive to compute and shared by all blocks.
    pub fn fold_with<S: State, L: Send + Sync, F: Fn() -> Result<L> + Send + Sync>(
        &mut self,
        shared: &Lazy<L, F>,
        name: &str,
        count: usize,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&L, &mut S, usize) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        let context = self.context;
        let empty = || AnyState::new(empty());
        let stage = Stage {
            name,
            state: StateType::of::<S>(),
            leaves: count,
            unit_leaves: self.leaves_per_unit(count),
            at_once: context.threads(),
            bytes: empty().bytes(),
            step: name,
            steps: &|_| 1,
            prepare: &|| shared.fill(),
        };
        let merged = self.stage(&stage, &|block, _| {
            context.check()?;
            let mut state = empty();
            add(shared.filled()?, state.get_mut()?, block)?;
            context.advance(1);
            Ok(state)
        })?;
        self.or_empty(merged, &stage, &empty)
    }

    /// Runs `count` independent blocks and returns their results in order. `name` is the unit of the progress bar.
    pub fn blocks<T: BlockResult>(
        &mut self,
        name: &str,
        count: usize,
        run: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Reserved<Vec<T>>> {
        self.blocks_with(&Lazy::new(|| Ok(())), name, count, |(), block| run(block))
    }

    /// [`Work::blocks`] with a value that is expensive to compute and shared by all blocks.
    pub fn blocks_with<T: BlockResult, L: Send + Sync, F: Fn() -> Result<L> + Send + Sync>(
        &mut self,
        shared: &Lazy<L, F>,
        name: &str,
        count: usize,
        run: impl Fn(&L, usize) -> Result<T> + Sync,
    ) -> Result<Reserved<Vec<T>>> {
        let context = self.context;
        let stage = Stage {
            name,
            state: StateType::of::<List<T>>(),
            leaves: count,
            unit_leaves: self.leaves_per_unit(count),
            at_once: context.threads(),
            bytes: 0,
            step: name,
            steps: &|_| 1,
            prepare: &|| shared.fill(),
        };
        let merged = self.stage(&stage, &|block, _| {
            context.check()?;
            let result = run(shared.filled()?, block)?;
            context.advance(1);
            Ok(AnyState::new(List(vec![result])))
        })?;
        let empty = || AnyState::new(List::<T>(Vec::new()));
        self.or_empty(merged, &stage, &empty).map(|list: Reserved<List<T>>| list.map(|List(results)| results))
    }

    /// Runs work that does not split, as one block: its result is stored like that of other stages. `run` must check
    /// for cancellation itself.
    pub fn once<T: BlockResult>(&mut self, name: &str, run: impl Fn() -> Result<T> + Sync) -> Result<T> {
        let (mut results, _) = self.blocks(name, 1, |_| run())?.into_parts();
        results.pop().ok_or_else(|| Error::Bug("one block gave no result".into()))
    }

    /// Leaves of rows are grouped while there are enough units for all threads: later leaves inherit from earlier ones.
    fn leaves_per_unit_of_rows(&self, leaves: usize) -> usize {
        let is_grouped = 8 * self.context.threads() <= stage::MAX_STORED_UNITS;
        if is_grouped { stage::leaves_per_stored_unit(leaves) } else { self.leaves_per_unit(leaves) }
    }

    /// Units are grouped only where they are stored: otherwise a unit per leaf balances threads best.
    fn leaves_per_unit(&self, leaves: usize) -> usize {
        if self.kept.is_some() { stage::leaves_per_stored_unit(leaves) } else { 1 }
    }

    /// The merged state, or an empty one for a stage without leaves.
    fn or_empty<S: State>(
        &self,
        merged: Option<Reserved<AnyState>>,
        stage: &Stage<'_>,
        empty: &dyn Fn() -> AnyState,
    ) -> Result<Reserved<S>> {
        let (state, memory) = match merged {
            Some(merged) => merged.into_parts(),
            None => (empty(), self.context.budget().reserve(stage.bytes, stage.name)?),
        };
        Ok(Reserved::new(state.into_inner()?, memory))
    }
}

/// Adds the rows of one leaf to its state, batch by batch.
fn add_rows(
    context: &Context,
    inputs: &Inputs,
    over: Over<'_>,
    rows: Range<usize>,
    state: &mut AnyState,
    add: &dyn Fn(&mut AnyState, &RowBatch<'_>) -> Result<()>,
) -> Result<()> {
    for range in leaves::batches(rows) {
        context.check()?;
        let length = range.len() as u64;
        add(state, &RowBatch::new(inputs, over, range))?;
        context.advance(length);
    }
    Ok(())
}
