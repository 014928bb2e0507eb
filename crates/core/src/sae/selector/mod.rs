//! Selection of active latents, for training and encoding alike: the encoder product, tile by tile, and what is kept of it.
//! The full product never exists.

mod largest;
mod memory;
mod scan;
#[cfg(test)]
mod tests;

pub use memory::Memory;

use rayon::prelude::*;

use etalon_kernel::candidates::Search;
use etalon_kernel::int8::{Arithmetic, Columns};
use etalon_kernel::packed::{PANEL, Panels, TILE_ROWS};
use scan::Cut;

/// Pre-activation and latent of everything that a row keeps, latents ascending.
pub type Entries = Vec<(f32, u32)>;

/// What is kept of the pre-activations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule<'a> {
    /// Everything above the floor of its latent.
    Above,
    /// The largest of every row, if they are above the floor of their latent; among equals the lower latent.
    PerRow(usize),
    /// The largest of all rows, so many per row on average, if they are above the floor of their latent; among equals the
    /// lower row, then the lower latent.
    PerBatch(usize),
    /// Positive magnitudes behind open gates, as in [`etalon_kernel::activation::Gates`]: bias of the gate, scale and bias
    /// of the magnitude, one per latent, padded to whole panels.
    Gated([&'a [f32]; 3]),
    /// Everything that is not 0.
    NonZero,
    /// The largest of every row by absolute value; among equals the lower latent.
    LargestBySize(usize),
    /// The largest of every row alone, whatever its sign; among equals the lower latent.
    Nearest,
}

/// Of how many latents at least one must be kept for candidates to be few.
const SPARSE: usize = 48;

/// A row with more candidates than one in so many latents gets all its products.
const MANY: usize = 8;

/// Rows that are searched together, at most.
const SEARCHED: usize = 1056;

/// A product to select from.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    /// The encoder.
    pub panels: &'a Panels,
    /// Added to every product, one per latent, padded to whole panels.
    pub bias: &'a [f32],
    /// Pre-activations must exceed these, one per latent; infinite in the padding.
    pub floors: &'a [f32],
    /// The encoder, rounded: it proposes what may be kept, and saves most of the product.
    pub rounded: Option<&'a Columns>,
    /// Threads of the present pool that share the rows; with 1 nothing leaves the present thread.
    pub threads: usize,
    /// Whether what is not a number is kept, so that it can be refused, or is never kept.
    pub keeps_nan: bool,
}

impl Selector<'_> {
    /// Selects for every row. `rows` lie one after the other, as long as the vectors of the encoder. A row's entries do
    /// not depend on threads, on the memory or, but for [`Rule::PerBatch`], on the rows beside it.
    pub fn select(&self, rule: Rule<'_>, rows: &[f32], memory: &Memory, lists: &mut [Entries]) {
        match rule {
            Rule::Above => {
                self.above(rows, None, memory, lists);
                let total: usize = lists.iter().map(Vec::len).sum();
                memory.learn_few(total.saturating_mul(SPARSE) <= lists.len().saturating_mul(self.panels.columns()));
            }
            Rule::PerRow(keep) => self.per_row(keep, rows, memory, lists),
            Rule::PerBatch(keep) => self.per_batch(keep.saturating_mul(lists.len()), rows, memory, lists),
            Rule::Gated(gates) => self.scan_gated(gates, rows, lists),
            Rule::NonZero => self.scan_nonzero(None, rows, lists),
            Rule::LargestBySize(keep) => self.scan_nonzero(Some(keep), rows, lists),
            Rule::Nearest => self.scan_nearest(rows, lists),
        }
    }

    /// Everything above the floors of latents and the starts of rows.
    fn above(&self, rows: &[f32], starts: Option<&[f32]>, memory: &Memory, lists: &mut [Entries]) {
        let start = |row: usize| starts.map_or(f32::NEG_INFINITY, |starts| starts[row]);
        match self.search(rows, starts, memory, lists) {
            Some(left) => self.again(&left, rows, start, Cut::Nothing, lists),
            None => self.scan(rows, start, Cut::Nothing, lists),
        }
    }

    /// Everything above the floors of latents and the starts of rows, but for some rows, which are returned. Nothing is
    /// searched if there is no rounded encoder, or if it cannot be trusted.
    fn search(
        &self,
        rows: &[f32],
        starts: Option<&[f32]>,
        memory: &Memory,
        lists: &mut [Entries],
    ) -> Option<Vec<usize>> {
        let Selector { panels, bias, floors, .. } = *self;
        let search = Search { panels, columns: self.rounded?, bias, floors, arithmetic: Arithmetic::fastest() };
        if !search.usable() {
            return None;
        }
        let stride = panels.inner();
        let size = lists.len().div_ceil(self.threads.max(1)).next_multiple_of(PANEL).clamp(PANEL, SEARCHED);
        let most = panels.columns() / MANY + PANEL;
        let left = self.each_chunk(lists, size, |first, lists| {
            let starts = starts.map(|starts| &starts[first..first + lists.len()]);
            let mut found = memory.take_found();
            search.run(&rows[first * stride..], stride, lists.len(), starts, most, &mut found);
            for (row, list) in lists.iter_mut().enumerate() {
                list.clear();
                list.extend_from_slice(found.row(row));
            }
            let left: Vec<usize> = found.left.iter().map(|row| first + row).collect();
            memory.give_found(found);
            left
        });
        Some(left.concat())
    }

    /// Does some rows again by all their products.
    fn again(
        &self,
        which: &[usize],
        rows: &[f32],
        start: impl Fn(usize) -> f32 + Sync,
        cut: Cut,
        lists: &mut [Entries],
    ) {
        if which.is_empty() {
            return;
        }
        let stride = self.panels.inner();
        let mut chosen = vec![0.0; which.len().next_multiple_of(TILE_ROWS) * stride];
        for (&row, into) in which.iter().zip(chosen.chunks_exact_mut(stride)) {
            into.copy_from_slice(&rows[row * stride..][..stride]);
        }
        let mut found = vec![Entries::new(); which.len()];
        self.scan(&chosen, |index| start(which[index]), cut, &mut found);
        which.iter().zip(found).for_each(|(&row, found)| lists[row] = found);
    }

    /// Does something with chunks of lists, on as many threads as there are. It is told the first row of its chunk.
    fn each_chunk<T: Send>(
        &self,
        lists: &mut [Entries],
        size: usize,
        work: impl Fn(usize, &mut [Entries]) -> T + Sync,
    ) -> Vec<T> {
        let work = |(which, lists): (usize, &mut [Entries])| work(which * size, lists);
        if self.threads <= 1 {
            lists.chunks_mut(size).enumerate().map(work).collect()
        } else {
            lists.par_chunks_mut(size).enumerate().map(work).collect()
        }
    }
}
