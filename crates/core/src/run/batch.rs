//! The argument of a pass's closure: a batch of consecutive rows of every input.

use std::ops::Range;

use super::artefact::ByRow;
use super::inputs::{Inputs, Over};
use super::role::Role;
use crate::error::{Error, Result};

/// Consecutive rows of every input that has the rows of the pass.
pub struct RowBatch<'a> {
    inputs: &'a Inputs,
    over: Over<'a>,
    /// The row numbers.
    pub range: Range<usize>,
}

impl<'a> RowBatch<'a> {
    pub(super) fn new(inputs: &'a Inputs, over: Over<'a>, range: Range<usize>) -> RowBatch<'a> {
        RowBatch { inputs, over, range }
    }

    /// These rows in batches of at most `rows` rows.
    pub fn split(&self, rows: usize) -> Vec<RowBatch<'a>> {
        let end = |first: usize| first.saturating_add(rows).min(self.range.end);
        let firsts = self.range.clone().step_by(rows.max(1));
        firsts.map(|first| RowBatch { range: first..end(first), ..*self }).collect()
    }

    /// These rows of an input. The role's first axis must be that of the pass.
    pub fn get<T: ByRow>(&self, role: &'static Role<T>) -> Result<T::Batch<'a>> {
        if role.card().axes.first() != Some(&self.over.0) {
            return Err(Error::Bug(format!("`{}` has no {:?}", role.card().name, self.over.0)));
        }
        self.inputs.named(role, self.over.1)?.batch(self.range.clone())
    }
}
