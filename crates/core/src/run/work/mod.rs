//! All long work of a metric goes through [`Work`]. A metric is one function; the local run, workers and the driver call it,
//! and [`Mode`] decides what the calls inside it do.
//!
//! Stages are numbered by the order of calls. A finished stage is read from its file, so calling the function again
//! *replays* it up to the stage where there is something to do. Hence the rule for metrics: which stages there are, and what
//! their units compute, follows from the job and from results of earlier stages, nothing else. The key of a stage, a hash of
//! everything before it, turns a broken rule into an error.

mod in_step;
mod kept;
mod lazy;

use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use kept::Kept;
pub use lazy::Lazy;

use super::batch::RowBatch;
use super::files;
use super::inputs::{Inputs, Over};
use super::layout;
use super::leaves;
use super::scan::Member;
use super::state::{List, State};
use super::tree::{Sequence, reduce};
use crate::context::{Context, Monitor, Reserved};
use crate::error::{Error, Result};
use crate::results::Scores;
use crate::store::disk;

/// What the calls of a metric do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Run all units here; keep them if there is a directory.
    #[default]
    Local,
    /// Run some units of a stage and stop. The stage is what [`Outcome::Waiting`] names.
    Units(String, Range<usize>),
    /// Run no unit: merge what is there and report what is missing.
    Merge,
}

/// What came of a call.
#[derive(Debug)]
pub enum Outcome {
    /// The scores.
    Done(Scores),
    /// The units that were asked for are stored.
    Stored,
    /// Units of a stage have to be run first.
    Waiting {
        /// Number and key, such as `1-5be2c1f0a9d3e477`.
        stage: String,
        /// Units without a valid file.
        missing: Vec<usize>,
    },
}

/// The file of a finished stage.
const MERGED: &str = "merged";

/// Runs passes and blocks for a metric.
pub struct Work<'a> {
    /// What progress bars call the work.
    title: &'a str,
    inputs: &'a Inputs,
    context: &'a Context,
    kept: Option<&'a Kept>,
    mode: Mode,
    /// Leaves per unit of passes; `None`: as many as keep the number of units small.
    unit_leaves: Option<usize>,
    /// Shares the reading of rows with other metrics.
    member: Option<&'a Member<'a>>,
    stages: usize,
    /// Hash of everything before the next stage.
    key: blake3::Hash,
    /// Why no further stage runs: this process has done its part, or a stage failed.
    end: Option<Result<Outcome>>,
}

/// What a block returns.
pub trait Output: Serialize + DeserializeOwned + Send + 'static {}
impl<T: Serialize + DeserializeOwned + Send + 'static> Output for T {}

/// What does not depend on the type of a stage's state.
struct Stage<'s> {
    name: &'s str,
    leaves: usize,
    unit_leaves: usize,
    /// Size of a state.
    bytes: u64,
    /// What one step on the progress bar is called, and how many steps a leaf has.
    step: &'s str,
    steps: &'s (dyn Fn(usize) -> u64 + Sync),
    /// Called before the first unit that runs here.
    prepare: &'s (dyn Fn() -> Result<()> + Sync),
}

impl Stage<'_> {
    fn units(&self) -> usize {
        self.leaves.div_ceil(self.unit_leaves)
    }

    fn leaves_of(&self, unit: usize) -> Range<usize> {
        unit * self.unit_leaves..((unit + 1) * self.unit_leaves).min(self.leaves)
    }

    /// Bytes of the states that a unit holds while it runs: one that is made, and one per level of its part of the tree.
    fn unit_bytes(&self) -> u64 {
        self.bytes.saturating_mul(1 + u64::from(self.unit_leaves.ilog2()))
    }
}

/// The most units of a stage that are stored: more files cost more than they save.
const MOST_UNITS: usize = 64;

/// Leaves per unit so that there are not too many units.
fn group(leaves: usize) -> usize {
    leaves.div_ceil(MOST_UNITS).next_power_of_two()
}

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

    /// Shares the reading of rows with other metrics.
    pub(crate) fn in_step(self, member: &'a Member<'a>) -> Work<'a> {
        Work { member: Some(member), ..self }
    }

    /// What ended the work counts even if the metric swallowed the error.
    pub(crate) fn conclude(self, scores: Result<Scores>) -> Result<Outcome> {
        match (self.end, self.mode, scores) {
            (Some(end), ..) => end,
            (_, Mode::Units(stage, _), Ok(_)) => Err(Error::Bug(format!("there is no stage {stage}"))),
            (.., scores) => scores.map(Outcome::Done),
        }
    }

    /// Visits all rows once, a batch at a time, and returns the merged state.
    pub fn pass<S: State>(
        &mut self,
        name: &str,
        over: Over<'_>,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RowBatch<'_>) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        let (inputs, context, rows) = (self.inputs, self.context, self.inputs.rows(over)?);
        let leaves = leaves::count(rows);
        let unit_leaves = self.unit_leaves.unwrap_or_else(|| if self.kept.is_some() { group(leaves) } else { 1 });
        let steps = |leaf: usize| leaves::rows(leaf, rows).len() as u64;
        let stage = Stage {
            name,
            leaves,
            unit_leaves,
            bytes: empty().bytes(),
            step: "rows",
            steps: &steps,
            prepare: &|| Ok(()),
        };
        let merged = match self.member.filter(|_| self.mode == Mode::Local && leaves > 0) {
            Some(member) => self.scan(&stage, member, over, rows, &empty, &add)?,
            None => self.stage(&stage, &|leaf| {
                let mut state = empty();
                leaves::batches(leaves::rows(leaf, rows)).try_for_each(|range| {
                    context.check()?;
                    let length = range.len() as u64;
                    add(&mut state, &RowBatch::new(inputs, over, range))?;
                    context.advance(length);
                    Ok::<_, Error>(())
                })?;
                Ok(state)
            })?,
        };
        self.or_empty(merged, &stage, &empty)
    }

    /// Runs independent blocks that add to a state, such as counts of pairs, and returns the merged state.
    pub fn fold<S: State>(
        &mut self,
        name: &str,
        count: usize,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, usize) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        self.fold_with(&Lazy::new(|| Ok(())), name, count, empty, |(), state, block| add(state, block))
    }

    /// Runs independent blocks that add to a state and share something expensive.
    pub fn fold_with<S: State, L: Send + Sync, F: Fn() -> Result<L> + Send + Sync>(
        &mut self,
        shared: &Lazy<L, F>,
        name: &str,
        count: usize,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&L, &mut S, usize) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        let context = self.context;
        let stage = Stage {
            name,
            leaves: count,
            unit_leaves: self.block_group(count),
            bytes: empty().bytes(),
            step: name,
            steps: &|_| 1,
            prepare: &|| shared.fill(),
        };
        let merged = self.stage(&stage, &|block| {
            context.check()?;
            let mut state = empty();
            add(shared.filled()?, &mut state, block)?;
            context.advance(1);
            Ok(state)
        })?;
        self.or_empty(merged, &stage, &empty)
    }

    /// Runs independent blocks and returns their results in order. `name` is what a block is called on the progress bar.
    pub fn blocks<T: Output>(
        &mut self,
        name: &str,
        count: usize,
        run: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Reserved<Vec<T>>> {
        self.blocks_with(&Lazy::new(|| Ok(())), name, count, |(), block| run(block))
    }

    /// Runs independent blocks that share something expensive.
    pub fn blocks_with<T: Output, L: Send + Sync, F: Fn() -> Result<L> + Send + Sync>(
        &mut self,
        shared: &Lazy<L, F>,
        name: &str,
        count: usize,
        run: impl Fn(&L, usize) -> Result<T> + Sync,
    ) -> Result<Reserved<Vec<T>>> {
        let context = self.context;
        let stage = Stage {
            name,
            leaves: count,
            unit_leaves: self.block_group(count),
            bytes: 0,
            step: name,
            steps: &|_| 1,
            prepare: &|| shared.fill(),
        };
        let found = self.stage(&stage, &|block| {
            context.check()?;
            let result = run(shared.filled()?, block)?;
            context.advance(1);
            Ok(List(vec![result]))
        })?;
        match found {
            Some(found) => Ok(found.map(|List(results)| results)),
            None => Ok(Reserved::new(Vec::new(), context.budget().reserve(0, name)?)),
        }
    }

    /// Runs one long piece of work that does not split; it is kept like a block and must check for cancellation itself.
    pub fn once<T: Output>(&mut self, name: &str, run: impl Fn() -> Result<T> + Sync) -> Result<T> {
        let (mut results, _) = self.blocks(name, 1, |_| run())?.into_parts();
        results.pop().ok_or_else(|| Error::Bug("one block gave no result".into()))
    }

    /// Blocks per unit: stored together where they are stored, alone otherwise.
    fn block_group(&self, count: usize) -> usize {
        if self.kept.is_some() { group(count) } else { 1 }
    }

    /// The state of no rows or blocks where there are none.
    fn or_empty<S: State>(
        &self,
        merged: Option<Reserved<S>>,
        stage: &Stage<'_>,
        empty: &dyn Fn() -> S,
    ) -> Result<Reserved<S>> {
        let nothing = || Ok(Reserved::new(empty(), self.context.budget().reserve(stage.bytes, stage.name)?));
        merged.map_or_else(nothing, Ok)
    }

    /// Runs a stage and remembers why it gave no result.
    fn stage<S: State>(
        &mut self,
        stage: &Stage<'_>,
        leaf: &(dyn Fn(usize) -> Result<S> + Sync),
    ) -> Result<Option<Reserved<S>>> {
        if self.end.is_none() {
            let unit = |unit: usize| {
                let mut states = Sequence::new();
                stage.leaves_of(unit).try_for_each(|index| states.push(leaf(index)?))?;
                states.finish()?.ok_or_else(|| Error::Bug("a unit without leaves".into()))
            };
            let step = self.run_stage(stage, &unit);
            return self.settle(step);
        }
        Err(Error::Stopped)
    }

    /// Remembers why a stage gave no result.
    fn settle<S>(&mut self, step: Result<Step<S>>) -> Result<Option<Reserved<S>>> {
        match step {
            Ok(Step::Merged(state)) => return Ok(state),
            Ok(Step::Stop(outcome)) => self.end = Some(Ok(outcome)),
            Err(error) => self.end = Some(Err(error)),
        }
        Err(Error::Stopped)
    }

    /// The one place where modes differ.
    fn run_stage<S: State>(&mut self, stage: &Stage<'_>, run: &(dyn Fn(usize) -> Result<S> + Sync)) -> Result<Step<S>> {
        let (context, units) = (self.context, stage.units());
        let (name, bytes) = (stage.name, stage.unit_bytes());
        let (key, address) = self.begin(stage, layout::hash::<S>())?;
        if units == 0 {
            // Nothing to run, to wait for or to merge, in every mode.
            return Ok(Step::Merged(None));
        }
        let Some(kept) = self.kept else {
            self.announce(stage, 0..units)?;
            let merged = reduce(context, name, units, bytes, run);
            context.finish();
            return Ok(Step::Merged(merged?));
        };
        if let Some(state) = self.finished(stage, &key, &address)? {
            return Ok(Step::Merged(Some(state)));
        }
        let unit_file = |unit: usize| kept.unit_file(&address, stage, unit);
        let missing: Vec<usize> = (0..units).filter(|&unit| files::verify(&unit_file(unit)).is_none()).collect();
        let make = |unit: usize| {
            let state = run(unit)?;
            files::write(&unit_file(unit), &state)?;
            Ok(state)
        };
        match &self.mode {
            Mode::Local => {}
            Mode::Units(wanted, range) if wanted.split('-').next() == address.split('-').next() => {
                if *wanted != address || range.end > units {
                    let text = format!("units {range:?} of {wanted} were asked for, here are {units} of {address}");
                    return Err(Error::Bug(text));
                }
                let todo: Vec<usize> = missing.into_iter().filter(|unit| range.contains(unit)).collect();
                self.announce(stage, todo.iter().copied())?;
                let done = reduce(context, name, todo.len(), bytes, &|index| make(todo[index]).map(drop));
                context.finish();
                done?;
                return Ok(Step::Stop(Outcome::Stored));
            }
            // Only the driver merges, and removes units: a worker knows a stage's key, so earlier ones are merged.
            Mode::Merge if missing.is_empty() => {}
            _ => return Ok(Step::Stop(Outcome::Waiting { stage: address, missing })),
        }
        self.announce(stage, missing.iter().copied())?;
        let merged = reduce(context, name, units, bytes, &|unit| match missing.binary_search(&unit) {
            Ok(_) => make(unit),
            Err(_) => files::read(&unit_file(unit), context),
        });
        context.finish();
        let merged = merged?;
        merged.as_ref().map_or(Ok(()), |state| self.keep(stage, &key, &address, state))?;
        Ok(Step::Merged(merged))
    }

    /// The state of a stage that was finished before.
    fn finished<S: State>(
        &mut self,
        stage: &Stage<'_>,
        key: &blake3::Hash,
        address: &str,
    ) -> Result<Option<Reserved<S>>> {
        let Some(file) = self.kept.map(|kept| kept.file(address, MERGED)) else { return Ok(None) };
        let Some(hash) = files::verify(&file) else { return Ok(None) };
        self.key = chain(key, &hash);
        let memory = self.context.budget().reserve(stage.bytes, stage.name)?;
        let mut state = Reserved::new(files::read::<S>(&file, self.context)?, memory);
        state.fit(stage.name)?;
        Ok(Some(state))
    }

    /// Stores the state of a finished stage and removes its units.
    fn keep<S: State>(
        &mut self,
        stage: &Stage<'_>,
        key: &blake3::Hash,
        address: &str,
        state: &Reserved<S>,
    ) -> Result<()> {
        let Some(kept) = self.kept else { return Ok(()) };
        self.key = chain(key, &files::write(&kept.file(address, MERGED), &**state)?);
        (0..stage.units()).try_for_each(|unit| disk::remove(&kept.unit_file(address, stage, unit)))
    }

    /// The key of the next stage and its address, which workers are given. Checks that the states fit into memory.
    fn begin(&mut self, stage: &Stage<'_>, layout: blake3::Hash) -> Result<(blake3::Hash, String)> {
        self.context.check()?;
        if self.kept.is_none() && self.mode != Mode::Local {
            return Err(Error::Bug("units of other processes need a directory".into()));
        }
        let key = blake3::Hasher::new()
            .update(self.key.as_bytes())
            .update(layout.as_bytes())
            .update(format!("{} {} {}", stage.name, stage.leaves, stage.bytes).as_bytes())
            .finalize();
        let address = format!("{}-{}", self.stages, &key.to_hex()[..16]);
        self.stages += 1;
        // One state per level of the tree waits for its sibling; one unit runs.
        let levels = u64::from(stage.units().next_power_of_two().ilog2());
        let least = stage.bytes.saturating_mul(levels).saturating_add(stage.unit_bytes());
        self.context.budget().reserve(least, stage.name)?;
        Ok((key, address))
    }

    /// Starts the progress bar and prepares what units share, if any run here.
    fn announce(&self, stage: &Stage<'_>, units: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        let none = units.len() == 0;
        let steps = units.flat_map(|unit| stage.leaves_of(unit)).map(stage.steps).sum();
        self.context.start(self.title, steps, stage.step);
        if none { Ok(()) } else { (stage.prepare)() }
    }
}

/// What became of a stage.
enum Step<S> {
    Merged(Option<Reserved<S>>),
    Stop(Outcome),
}

fn chain(key: &blake3::Hash, result: &blake3::Hash) -> blake3::Hash {
    blake3::Hasher::new().update(key.as_bytes()).update(result.as_bytes()).finalize()
}
