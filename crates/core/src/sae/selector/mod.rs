//! Selection of active latents, for training and encoding: computes the encoder product tile by tile and keeps the
//! entries that a rule selects. The full product is never stored.

mod largest;
mod scan;
#[cfg(test)]
mod tests;
mod warm_start;

pub use warm_start::WarmStart;

use rayon::prelude::*;

use etalon_kernel::candidates::Search;
use etalon_kernel::int8::{Arithmetic, Columns};
use etalon_kernel::packed::{PANEL, Panels, TILE_ROWS};
use scan::Truncate;

/// The kept entries of a row: pre-activation and latent, latents ascending.
pub type Entries = Vec<(f32, u32)>;

/// Which pre-activations are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule<'a> {
    /// All above the floor of their latent.
    Above,
    /// The k largest of every row, if they are above the floor of their latent; among equals the lower latent.
    PerRow(usize),
    /// The largest of all rows, k per row on average, if they are above the floor of their latent; among equals the
    /// lower row, then the lower latent.
    PerBatch(usize),
    /// Positive magnitudes behind open gates, as in [`etalon_kernel::activation::Gates`]: bias of the gate, scale and
    /// bias of the magnitude, one per latent, padded to whole panels.
    Gated([&'a [f32]; 3]),
    /// All nonzero values.
    NonZero,
    /// The k largest of every row by absolute value; among equals the lower latent.
    LargestMagnitude(usize),
    /// The largest of every row, whatever its sign; among equals the lower latent.
    Nearest,
}

/// The pre-filter is used if at most one of this many latents is kept.
const MIN_SPARSITY: usize = 48;

/// A row with more candidates than one per this many latents gets all its products.
const LATENTS_PER_CANDIDATE: usize = 8;

/// Maximum rows that are pre-filtered together.
const PREFILTER_ROWS: usize = 1056;

/// An encoder to select from.
#[derive(Clone, Copy, Debug)]
pub struct Selector<'a> {
    /// The encoder, packed.
    pub panels: &'a Panels,
    /// Added to every product, one per latent, padded to whole panels.
    pub bias: &'a [f32],
    /// The floor of each latent, which pre-activations must exceed; infinite in the padding.
    pub floors: &'a [f32],
    /// The encoder rounded to int8, as a pre-filter.
    pub rounded: Option<&'a Columns>,
    /// Number of threads of the current pool to use; with 1 everything runs on the current thread.
    pub threads: usize,
    /// Whether NaN values are kept, for the caller to refuse, or dropped.
    pub keeps_nan: bool,
}

impl Selector<'_> {
    /// Fills `lists` with the kept entries of every row. `rows` are contiguous, with the stride of the encoder. The
    /// entries of a row depend neither on threads nor on the warm start nor, except for [`Rule::PerBatch`], on other
    /// rows.
    pub fn select(&self, rule: Rule<'_>, rows: &[f32], warm_start: &WarmStart, lists: &mut [Entries]) {
        match rule {
            Rule::Above => {
                self.above(rows, None, warm_start, lists);
                let total: usize = lists.iter().map(Vec::len).sum();
                let cells = lists.len().saturating_mul(self.panels.columns());
                warm_start.set_sparse(total.saturating_mul(MIN_SPARSITY) <= cells);
            }
            Rule::PerRow(keep) => self.per_row(keep, rows, warm_start, lists),
            Rule::PerBatch(keep) => self.per_batch(keep.saturating_mul(lists.len()), rows, warm_start, lists),
            Rule::Gated(gates) => self.scan_gated(gates, rows, lists),
            Rule::NonZero => self.scan_nonzero(None, rows, lists),
            Rule::LargestMagnitude(keep) => self.scan_nonzero(Some(keep), rows, lists),
            Rule::Nearest => self.scan_nearest(rows, lists),
        }
    }

    /// Keeps all entries above the floors of their latent and of their row.
    fn above(&self, rows: &[f32], row_floors: Option<&[f32]>, warm_start: &WarmStart, lists: &mut [Entries]) {
        let row_floor = |row: usize| row_floors.map_or(f32::NEG_INFINITY, |floors| floors[row]);
        match self.prefilter(rows, row_floors, warm_start, lists) {
            Some(skipped) => self.rescan(&skipped, rows, row_floor, Truncate::Never, lists),
            None => self.scan(rows, row_floor, Truncate::Never, lists),
        }
    }

    /// Keeps all entries above the floors of their latent and of their row, by the int8 pre-filter. Returns the rows
    /// with too many candidates, which it skips; `None` if there is no rounded encoder, or if its error bound cannot be
    /// trusted.
    fn prefilter(
        &self,
        rows: &[f32],
        row_floors: Option<&[f32]>,
        warm_start: &WarmStart,
        lists: &mut [Entries],
    ) -> Option<Vec<usize>> {
        let Selector { panels, bias, floors, .. } = *self;
        let search = Search { panels, columns: self.rounded?, bias, floors, arithmetic: Arithmetic::fastest() };
        if !search.usable() {
            return None;
        }
        let stride = panels.inner();
        let size = lists.len().div_ceil(self.threads.max(1)).next_multiple_of(PANEL).clamp(PANEL, PREFILTER_ROWS);
        let max_candidates = panels.columns() / LATENTS_PER_CANDIDATE + PANEL;
        let skipped = self.map_chunks(lists, size, |first, lists| {
            let row_floors = row_floors.map(|floors| &floors[first..first + lists.len()]);
            let mut candidates = warm_start.take_buffer();
            search.run(&rows[first * stride..], stride, lists.len(), row_floors, max_candidates, &mut candidates);
            for (row, list) in lists.iter_mut().enumerate() {
                list.clear();
                list.extend_from_slice(candidates.row(row));
            }
            let skipped: Vec<usize> = candidates.left.iter().map(|row| first + row).collect();
            warm_start.return_buffer(candidates);
            skipped
        });
        Some(skipped.concat())
    }

    /// Selects for the rows `indices` by all their products.
    fn rescan(
        &self,
        indices: &[usize],
        rows: &[f32],
        row_floor: impl Fn(usize) -> f32 + Sync,
        truncate: Truncate,
        lists: &mut [Entries],
    ) {
        if indices.is_empty() {
            return;
        }
        let stride = self.panels.inner();
        let mut gathered = vec![0.0; indices.len().next_multiple_of(TILE_ROWS) * stride];
        for (&row, into) in indices.iter().zip(gathered.chunks_exact_mut(stride)) {
            into.copy_from_slice(&rows[row * stride..][..stride]);
        }
        let mut entries = vec![Entries::new(); indices.len()];
        self.scan(&gathered, |index| row_floor(indices[index]), truncate, &mut entries);
        indices.iter().zip(entries).for_each(|(&row, entries)| lists[row] = entries);
    }

    /// Maps chunks of lists on all threads. `work` receives the first row of its chunk.
    fn map_chunks<T: Send>(
        &self,
        lists: &mut [Entries],
        size: usize,
        work: impl Fn(usize, &mut [Entries]) -> T + Sync,
    ) -> Vec<T> {
        let work = |(chunk, lists): (usize, &mut [Entries])| work(chunk * size, lists);
        if self.threads <= 1 {
            lists.chunks_mut(size).enumerate().map(work).collect()
        } else {
            lists.par_chunks_mut(size).enumerate().map(work).collect()
        }
    }
}
