//! A pass that reads its rows together with the passes of other metrics; see `run/scan.rs`.

use std::ops::Range;

use rayon::prelude::*;

use super::Work;
use super::stage::{Stage, StageOutcome};
use crate::context::{Monitor, Reserved};
use crate::error::{Error, Result};
use crate::run::batch::RowBatch;
use crate::run::erased::AnyState;
use crate::run::inputs::Over;
use crate::run::scan::Member;
use crate::run::tree::Sequence;
use crate::run::{files, leaves};

/// Batches of a leaf that the members of a scan visit before they wait for each other: few enough that the rows are
/// still cached when the last member reads them.
const WINDOW: usize = 16;

impl<'a> Work<'a> {
    /// Runs a pass as a member of a shared scan, with the same leaves, units, files and merge tree as [`Work::stage`].
    /// Local mode only.
    pub(super) fn scan(
        &mut self,
        stage: &Stage<'_>,
        member: &Member<'_>,
        over: Over<'_>,
        rows: usize,
        empty: &(dyn Fn() -> AnyState + Sync),
        add: &(dyn Fn(&mut AnyState, &RowBatch<'_>) -> Result<()> + Sync),
    ) -> Result<Option<Reserved<AnyState>>> {
        if self.end.is_some() {
            return Err(Error::Stopped);
        }
        let done = self.run_scan(stage, member, over, rows, empty, add);
        self.record_end(done)
    }

    fn run_scan(
        &mut self,
        stage: &Stage<'_>,
        member: &Member<'_>,
        over: Over<'_>,
        rows: usize,
        empty: &(dyn Fn() -> AnyState + Sync),
        add: &(dyn Fn(&mut AnyState, &RowBatch<'_>) -> Result<()> + Sync),
    ) -> Result<StageOutcome> {
        let (context, inputs, kept) = (self.context, self.inputs, self.kept);
        let (key, address) = self.begin(stage)?;
        if let Some(state) = self.finished(stage, &key, &address)? {
            return Ok(StageOutcome::Merged(Some(state)));
        }
        let unit_file = |unit: usize| kept.map(|kept| kept.unit_file(&address, stage, unit));
        let stored: Vec<bool> =
            (0..stage.units()).map(|unit| unit_file(unit).is_some_and(|file| files::verify(&file).is_some())).collect();
        let window = member.join(over);
        // All members visit the same leaves at a time, so the number of leaves must not depend on the memory of one
        // member.
        let lanes = context.threads();
        let levels = u64::from(stage.leaves.next_power_of_two().ilog2());
        let memory = context.budget().reserve(stage.bytes.saturating_mul(lanes as u64 + levels), stage.name)?;
        if window.leads {
            context.start(self.title, rows as u64, stage.step);
        }
        let (mut merged, mut unit_states) = (Sequence::default(), Sequence::default());
        for first in (0..stage.leaves).step_by(lanes) {
            // The rows of each leaf, and its state unless its unit is stored.
            let mut group: Vec<(Range<usize>, Option<AnyState>)> = (first..(first + lanes).min(stage.leaves))
                .map(|leaf| (leaves::rows(leaf, rows), (!stored[leaf / stage.unit_leaves]).then(empty)))
                .collect();
            let batches = group.iter().map(|(rows, _)| leaves::batches(rows.clone()).count()).max().unwrap_or(0);
            for batch in (0..batches).step_by(WINDOW) {
                context.install(|| {
                    group.par_iter_mut().try_for_each(|(rows, state)| {
                        let Some(state) = state else { return Ok(()) };
                        leaves::batches(rows.clone()).skip(batch).take(WINDOW).try_for_each(|range| {
                            context.check()?;
                            add(state, &RowBatch::new(inputs, over, range))
                        })
                    })
                })?;
                window.next();
            }
            for (leaf, (rows, state)) in (first..).zip(group) {
                if window.leads {
                    context.advance(rows.len() as u64);
                }
                if let Some(state) = state {
                    unit_states.push(state)?;
                }
                let unit = leaf / stage.unit_leaves;
                if leaf + 1 != stage.leaves_of(unit).end {
                    continue;
                }
                let computed = std::mem::take(&mut unit_states).finish()?;
                merged.push(match (computed, unit_file(unit)) {
                    (Some(state), Some(file)) => {
                        files::write(&file, &state)?;
                        state
                    }
                    (Some(state), None) => state,
                    (None, Some(file)) => files::read(&file, &stage.state, context)?,
                    (None, None) => return Err(Error::Bug("a unit without leaves".into())),
                })?;
            }
        }
        if window.leads {
            context.finish();
        }
        drop(window);
        let Some(state) = merged.finish()? else { return Ok(StageOutcome::Merged(None)) };
        let mut state = Reserved::new(state, memory);
        state.fit(stage.name)?;
        self.keep(stage, &key, &address, &state)?;
        Ok(StageOutcome::Merged(Some(state)))
    }
}
