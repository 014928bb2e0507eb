//! Passes in step with those of other metrics.

use std::ops::Range;

use rayon::prelude::*;

use super::{Stage, Step, Work};
use crate::context::{Monitor, Reserved};
use crate::error::{Error, Result};
use crate::run::batch::RowBatch;
use crate::run::inputs::Over;
use crate::run::scan::Member;
use crate::run::state::State;
use crate::run::tree::Sequence;
use crate::run::{files, layout, leaves};

/// Batches of a leaf that members of a scan visit together.
const WINDOW: usize = 16;

impl<'a> Work<'a> {
    /// A pass in step with other metrics: the same leaves, units, files and tree as by itself.
    pub(super) fn scan<S: State>(
        &mut self,
        stage: &Stage<'_>,
        member: &Member<'_>,
        over: Over<'_>,
        rows: usize,
        empty: &(dyn Fn() -> S + Sync),
        add: &(dyn Fn(&mut S, &RowBatch<'_>) -> Result<()> + Sync),
    ) -> Result<Option<Reserved<S>>> {
        if self.end.is_some() {
            return Err(Error::Stopped);
        }
        let step = self.run_scan(stage, member, over, rows, empty, add);
        self.settle(step)
    }

    fn run_scan<S: State>(
        &mut self,
        stage: &Stage<'_>,
        member: &Member<'_>,
        over: Over<'_>,
        rows: usize,
        empty: &(dyn Fn() -> S + Sync),
        add: &(dyn Fn(&mut S, &RowBatch<'_>) -> Result<()> + Sync),
    ) -> Result<Step<S>> {
        let (context, inputs, kept) = (self.context, self.inputs, self.kept);
        let (key, address) = self.begin(stage, layout::hash::<S>())?;
        if let Some(state) = self.finished(stage, &key, &address)? {
            return Ok(Step::Merged(Some(state)));
        }
        let unit_file = |unit: usize| kept.map(|kept| kept.unit_file(&address, stage, unit));
        let stored: Vec<bool> =
            (0..stage.units()).map(|unit| unit_file(unit).is_some_and(|file| files::verify(&file).is_some())).collect();
        let window = member.join(over);
        // All members must visit the same leaves at a time, so the number does not depend on memory.
        let lanes = context.threads();
        let levels = u64::from(stage.leaves.next_power_of_two().ilog2());
        let memory = context.budget().reserve(stage.bytes.saturating_mul(lanes as u64 + levels), stage.name)?;
        if window.leads {
            context.start(self.title, rows as u64, stage.step);
        }
        let (mut merged, mut unit_states) = (Sequence::new(), Sequence::new());
        for first in (0..stage.leaves).step_by(lanes) {
            let mut lane: Vec<(Range<usize>, Option<S>)> = (first..(first + lanes).min(stage.leaves))
                .map(|leaf| (leaves::rows(leaf, rows), (!stored[leaf / stage.unit_leaves]).then(empty)))
                .collect();
            let batches = lane.iter().map(|(rows, _)| leaves::batches(rows.clone()).count()).max().unwrap_or(0);
            for batch in (0..batches).step_by(WINDOW) {
                context.install(|| {
                    lane.par_iter_mut().try_for_each(|(rows, state)| {
                        let Some(state) = state else { return Ok(()) };
                        leaves::batches(rows.clone()).skip(batch).take(WINDOW).try_for_each(|range| {
                            context.check()?;
                            add(state, &RowBatch::new(inputs, over, range))
                        })
                    })
                })?;
                window.next();
            }
            for (leaf, (rows, state)) in (first..).zip(lane) {
                if window.leads {
                    context.advance(rows.len() as u64);
                }
                state.map_or(Ok(()), |state| unit_states.push(state))?;
                let unit = leaf / stage.unit_leaves;
                if leaf + 1 != stage.leaves_of(unit).end {
                    continue;
                }
                let made = std::mem::replace(&mut unit_states, Sequence::new()).finish()?;
                merged.push(match (made, unit_file(unit)) {
                    (Some(state), Some(file)) => {
                        files::write(&file, &state)?;
                        state
                    }
                    (Some(state), None) => state,
                    (None, Some(file)) => files::read(&file, context)?,
                    (None, None) => return Err(Error::Bug("a unit without leaves".into())),
                })?;
            }
        }
        if window.leads {
            context.finish();
        }
        drop(window);
        let Some(state) = merged.finish()? else { return Ok(Step::Merged(None)) };
        let mut state = Reserved::new(state, memory);
        state.fit(stage.name)?;
        self.keep(stage, &key, &address, &state)?;
        Ok(Step::Merged(Some(state)))
    }
}
