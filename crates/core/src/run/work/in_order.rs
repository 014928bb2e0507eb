//! A pass whose threads all work on the same rows: for states that are too large for one per thread.

use super::Work;
use super::stage::Stage;
use crate::context::{Monitor, Reserved};
use crate::error::Result;
use crate::run::batch::RowBatch;
use crate::run::erased::{AnyState, StateType};
use crate::run::inputs::Over;
use crate::run::leaves::BATCH_ROWS;
use crate::run::state::State;

impl Work<'_> {
    /// Visits all rows once, in order: calls `add` with batches of 1,024 rows per thread, one call after the other.
    /// `add` uses the threads itself, for different parts of the state.
    ///
    /// `unit_rows` rows are a unit of work, so that one state is held for up to as many rows, and few for more. It must
    /// depend on the job only. States must merge without rounding: the tree over units is not that of [`Work::pass`].
    pub fn pass_in_order<S: State>(
        &mut self,
        name: &str,
        over: Over<'_>,
        unit_rows: usize,
        empty: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RowBatch<'_>) -> Result<()> + Sync,
    ) -> Result<Reserved<S>> {
        let (inputs, context, rows) = (self.inputs, self.context, self.inputs.rows(over)?);
        let unit_rows = unit_rows.max(1);
        let range = |leaf: usize| leaf * unit_rows..((leaf + 1) * unit_rows).min(rows);
        let count = rows.div_ceil(unit_rows);
        let stage = Stage {
            name,
            state: StateType::of::<S>(),
            leaves: count,
            unit_leaves: self.leaves_per_unit(count),
            at_once: 1,
            bytes: empty().bytes(),
            step: "rows",
            steps: &|leaf| range(leaf).len() as u64,
            prepare: &|| Ok(()),
        };
        let batch_rows = BATCH_ROWS * context.threads();
        let empty = || AnyState::new(empty());
        let merged = self.stage(&stage, &|leaf, _| {
            let mut state = empty();
            for batch in RowBatch::new(inputs, over, range(leaf)).split(batch_rows) {
                context.check()?;
                add(state.get_mut()?, &batch)?;
                context.advance(batch.range.len() as u64);
            }
            Ok(state)
        })?;
        self.or_empty(merged, &stage, &empty)
    }
}
