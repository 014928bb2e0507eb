//! How one stage is run: units on all threads, their files, the merge, and the differences between modes.

use std::ops::Range;

use super::{Mode, Outcome, Work};
use crate::context::{Monitor, Reserved};
use crate::error::{Error, Result};
use crate::run::erased::{AnyState, StateType};
use crate::run::files;
use crate::run::tree::{Sequence, reduce};
use crate::store::disk;

/// The last part of the file name of a finished stage.
const MERGED: &str = "merged";

/// A stage.
pub struct Stage<'s> {
    pub name: &'s str,
    /// The type of its states.
    pub state: StateType,
    pub leaves: usize,
    /// Leaves per unit: a power of two, so that a unit is a subtree of the merge tree.
    pub unit_leaves: usize,
    /// Units that run at a time.
    pub at_once: usize,
    /// Bytes of one state.
    pub bytes: u64,
    /// Name of a progress step.
    pub step: &'s str,
    /// Number of progress steps of a leaf.
    pub steps: &'s (dyn Fn(usize) -> u64 + Sync),
    /// Called once before the first unit that runs in this process.
    pub prepare: &'s (dyn Fn() -> Result<()> + Sync),
}

impl Stage<'_> {
    pub fn units(&self) -> usize {
        self.leaves.div_ceil(self.unit_leaves)
    }

    pub fn leaves_of(&self, unit: usize) -> Range<usize> {
        unit * self.unit_leaves..((unit + 1) * self.unit_leaves).min(self.leaves)
    }

    /// Bytes of the states that are alive while a unit runs: the one being filled, and one per level of the unit's
    /// subtree.
    fn unit_bytes(&self) -> u64 {
        self.bytes.saturating_mul(1 + u64::from(self.unit_leaves.ilog2()))
    }
}

/// The largest number of stored units of a stage: more files cost more than they save on resuming.
pub(super) const MAX_STORED_UNITS: usize = 64;

/// Leaves per unit, so that a stage stores at most [`MAX_STORED_UNITS`] units.
pub fn leaves_per_stored_unit(leaves: usize) -> usize {
    leaves.div_ceil(MAX_STORED_UNITS).next_power_of_two()
}

/// What became of a stage.
pub enum StageOutcome {
    /// Its merged state; `None` without leaves.
    Merged(Option<Reserved<AnyState>>),
    /// This process has done its part.
    Stop(Outcome),
}

impl Work<'_> {
    /// Runs a stage; `leaf` computes the state of one leaf, and may inherit from the state of the leaves before it.
    /// Returns `None` for a stage without leaves, and [`Error::Stopped`] if the stage has no result in this process: then
    /// `self.end` records why.
    pub(super) fn stage(
        &mut self,
        stage: &Stage<'_>,
        leaf: &(dyn Fn(usize, Option<&mut AnyState>) -> Result<AnyState> + Sync),
    ) -> Result<Option<Reserved<AnyState>>> {
        if self.end.is_some() {
            return Err(Error::Stopped);
        }
        let unit = |unit: usize| {
            let mut states = Sequence::default();
            for index in stage.leaves_of(unit) {
                let state = leaf(index, states.last())?;
                states.push(state)?;
            }
            states.finish()?.ok_or_else(|| Error::Bug("a unit without leaves".into()))
        };
        let done = self.run_stage(stage, &unit);
        self.record_end(done)
    }

    /// Returns the merged state of a stage, or records why there is none.
    pub(super) fn record_end(&mut self, done: Result<StageOutcome>) -> Result<Option<Reserved<AnyState>>> {
        match done {
            Ok(StageOutcome::Merged(state)) => return Ok(state),
            Ok(StageOutcome::Stop(outcome)) => self.end = Some(Ok(outcome)),
            Err(error) => self.end = Some(Err(error)),
        }
        Err(Error::Stopped)
    }

    /// Runs, reads or merges the units of a stage, as the mode requires.
    fn run_stage(
        &mut self,
        stage: &Stage<'_>,
        run: &(dyn Fn(usize) -> Result<AnyState> + Sync),
    ) -> Result<StageOutcome> {
        let (context, units) = (self.context, stage.units());
        let (name, at_once, bytes) = (stage.name, stage.at_once, stage.unit_bytes());
        let (key, address) = self.begin(stage)?;
        if units == 0 {
            // There is nothing to run, wait for or merge, whatever the mode.
            return Ok(StageOutcome::Merged(None));
        }
        let Some(kept) = self.kept else {
            self.announce(stage, 0..units)?;
            let merged = reduce(context, name, units, at_once, bytes, run);
            context.finish();
            return Ok(StageOutcome::Merged(merged?));
        };
        if let Some(state) = self.finished(stage, &key, &address)? {
            return Ok(StageOutcome::Merged(Some(state)));
        }
        let unit_file = |unit: usize| kept.unit_file(&address, stage, unit);
        let missing: Vec<usize> = (0..units).filter(|&unit| files::verify(&unit_file(unit)).is_none()).collect();
        let run_and_store = |unit: usize| {
            let state = run(unit)?;
            files::write(&unit_file(unit), &state)?;
            Ok(state)
        };
        match &self.mode {
            Mode::Local => {}
            // The number of the stage matches; a different key means that this process has computed something else
            // before.
            Mode::Units(requested, range) if requested.split('-').next() == address.split('-').next() => {
                if *requested != address || range.end > units {
                    let text =
                        format!("units {range:?} of stage {requested} requested, but there are {units} of {address}");
                    return Err(Error::Bug(text));
                }
                let todo: Vec<usize> = missing.into_iter().filter(|unit| range.contains(unit)).collect();
                self.announce(stage, todo.iter().copied())?;
                let done = reduce(context, name, todo.len(), at_once, bytes, &|index| {
                    run_and_store(todo[index]).map(|_| AnyState::new(()))
                });
                context.finish();
                done?;
                return Ok(StageOutcome::Stop(Outcome::Stored));
            }
            // Only a driver merges and removes units. A worker waits for earlier stages: it knows the key of its stage
            // only because a driver has merged them.
            Mode::Merge if missing.is_empty() => {}
            _ => return Ok(StageOutcome::Stop(Outcome::Waiting { stage: address, missing })),
        }
        self.announce(stage, missing.iter().copied())?;
        let merged = reduce(context, name, units, at_once, bytes, &|unit| match missing.binary_search(&unit) {
            Ok(_) => run_and_store(unit),
            Err(_) => files::read(&unit_file(unit), &stage.state, context),
        });
        context.finish();
        let merged = merged?;
        if let Some(state) = &merged {
            self.keep(stage, &key, &address, state)?;
        }
        Ok(StageOutcome::Merged(merged))
    }

    /// The state of a stage that an earlier call finished.
    pub(super) fn finished(
        &mut self,
        stage: &Stage<'_>,
        key: &blake3::Hash,
        address: &str,
    ) -> Result<Option<Reserved<AnyState>>> {
        let Some(file) = self.kept.map(|kept| kept.file(address, MERGED)) else { return Ok(None) };
        let Some(hash) = files::verify(&file) else { return Ok(None) };
        self.key = chain(key, &hash);
        let memory = self.context.budget().reserve(stage.bytes, stage.name)?;
        let mut state = Reserved::new(files::read(&file, &stage.state, self.context)?, memory);
        state.fit(stage.name)?;
        Ok(Some(state))
    }

    /// Stores the state of a finished stage and removes its units.
    pub(super) fn keep(
        &mut self,
        stage: &Stage<'_>,
        key: &blake3::Hash,
        address: &str,
        state: &AnyState,
    ) -> Result<()> {
        let Some(kept) = self.kept else { return Ok(()) };
        self.key = chain(key, &files::write(&kept.file(address, MERGED), state)?);
        (0..stage.units()).try_for_each(|unit| disk::remove(&kept.unit_file(address, stage, unit)))
    }

    /// Starts the next stage: returns its key and its address (number and start of the key, as in
    /// [`Outcome::Waiting`]). Fails if its states do not fit into memory.
    pub(super) fn begin(&mut self, stage: &Stage<'_>) -> Result<(blake3::Hash, String)> {
        self.context.check()?;
        if self.kept.is_none() && self.mode != Mode::Local {
            return Err(Error::Bug("units of other processes need a directory to be stored in".into()));
        }
        let key = blake3::Hasher::new()
            .update(self.key.as_bytes())
            .update(stage.state.layout.as_bytes())
            .update(format!("{} {} {}", stage.name, stage.leaves, stage.bytes).as_bytes())
            .finalize();
        let address = format!("{}-{}", self.stages, &key.to_hex()[..16]);
        self.stages += 1;
        // The least that a single thread needs: one state per level of the tree that waits for its sibling, and one
        // unit.
        let levels = u64::from(stage.units().next_power_of_two().ilog2());
        let least = stage.bytes.saturating_mul(levels).saturating_add(stage.unit_bytes());
        self.context.budget().reserve(least, stage.name)?;
        Ok((key, address))
    }

    /// Starts the progress bar for some units and, if there are any, prepares the value that they share.
    fn announce(&self, stage: &Stage<'_>, units: impl ExactSizeIterator<Item = usize>) -> Result<()> {
        let runs_any = units.len() > 0;
        let steps = units.flat_map(|unit| stage.leaves_of(unit)).map(stage.steps).sum();
        self.context.start(self.title, steps, stage.step);
        if runs_any { (stage.prepare)() } else { Ok(()) }
    }
}

/// The key after a stage: hash of the stage's key and of its result.
fn chain(key: &blake3::Hash, result: &blake3::Hash) -> blake3::Hash {
    blake3::Hasher::new().update(key.as_bytes()).update(result.as_bytes()).finalize()
}
