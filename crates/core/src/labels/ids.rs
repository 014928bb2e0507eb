//! What the ids of label rows are.

/// The ids of label rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowIds {
    /// The ids themselves.
    pub ids: Ids,
    /// Whether rows were aligned by these ids.
    pub compared: bool,
}

/// Ids of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    Numbers(Vec<u64>),
    Names(Vec<String>),
}

impl RowIds {
    /// The ids of some rows, in the order given.
    pub fn select(&self, rows: &[usize]) -> RowIds {
        let ids = match &self.ids {
            Ids::Numbers(numbers) => Ids::Numbers(rows.iter().map(|&row| numbers[row]).collect()),
            Ids::Names(names) => Ids::Names(rows.iter().map(|&row| names[row].clone()).collect()),
        };
        RowIds { ids, compared: self.compared }
    }
}
