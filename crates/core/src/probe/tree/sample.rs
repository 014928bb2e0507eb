//! The sorted entries of the rows that trees are grown on.

use super::split::Classes;
use crate::codes::{CodesView, Latent};
use crate::error::{Error, InputError, Result};

/// A nonzero value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub value: f32,
    /// The index of the row in the sample.
    pub row: u32,
    /// The index of the latent in the sample.
    pub column: u32,
    pub positive: bool,
}

/// Rows with their class, prepared for any number of trees.
#[derive(Debug)]
pub struct TreeRows {
    pub(super) classes: Classes,
    /// By latent, then value, then row. The index in this list is the rank of an entry.
    pub(super) entries: Vec<Entry>,
    /// The latents that have entries, ascending.
    pub(super) latents: Vec<Latent>,
    /// The offset of every row in `ranks`, and the end.
    starts: Vec<usize>,
    /// The ranks of the entries, row by row.
    ranks: Vec<u32>,
}

impl TreeRows {
    /// Sorts the entries of some rows, each given with its class (true: positive).
    pub fn new(codes: CodesView<'_>, rows: &[(usize, bool)]) -> Result<TreeRows> {
        let mut gathered: Vec<(Latent, Entry)> = Vec::new();
        let mut classes = Classes::default();
        let mut starts = vec![0];
        for (index, &(row, positive)) in rows.iter().enumerate() {
            if row >= codes.rows() {
                return Err(Error::Bug(format!("row {row} in a sample of codes with {}", codes.rows())));
            }
            classes.add(positive);
            let (latents, values) = codes.row(row);
            let entry = |value| Entry { value, row: index as u32, column: 0, positive };
            gathered.extend(latents.iter().zip(values).map(|(&latent, &value)| (Latent(latent), entry(value))));
            starts.push(gathered.len());
        }
        if gathered.len() > u32::MAX as usize || rows.len() > u32::MAX as usize {
            return Err(InputError::new("too many entries for a decision tree")
                .expected(format!("at most {} nonzero values", u32::MAX))
                .found(gathered.len())
                .advice("evaluate a sample of the rows")
                .into());
        }
        gathered
            .sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.value.total_cmp(&b.1.value)).then(a.1.row.cmp(&b.1.row)));
        let mut latents: Vec<Latent> = Vec::new();
        let mut entries = Vec::with_capacity(gathered.len());
        let mut ranks = vec![0; gathered.len()];
        let mut next = starts.clone();
        for (rank, (latent, entry)) in gathered.into_iter().enumerate() {
            if latents.last() != Some(&latent) {
                latents.push(latent);
            }
            entries.push(Entry { column: latents.len() as u32 - 1, ..entry });
            ranks[next[entry.row as usize]] = rank as u32;
            next[entry.row as usize] += 1;
        }
        Ok(TreeRows { classes, entries, latents, starts, ranks })
    }

    /// The number of rows of either class.
    pub fn classes(&self) -> Classes {
        self.classes
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The ranks of the entries of a row.
    pub(super) fn ranks_of(&self, row: u32) -> &[u32] {
        &self.ranks[self.starts[row as usize]..self.starts[row as usize + 1]]
    }
}
