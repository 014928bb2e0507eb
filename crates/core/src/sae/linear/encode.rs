//! Rows through a [`Linear`]: prepared, selected, and checked.

use super::Linear;
use crate::codes::CodesBuilder;
use crate::error::{InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::matching_pursuit;
use crate::sae::selector::{Entries, Rule, Selector};
use crate::store::Tile;
use etalon_kernel::int8::Columns;

/// Rows that are selected together, at most.
const GROUP: usize = 1056;

/// Buffers whose lists hold more entries than this are not kept.
const KEPT_ENTRIES: usize = 1 << 18;

/// Buffers of one thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// Rows as the encoder reads them.
    rows: Vec<f32>,
    lists: Vec<Entries>,
    latents: Vec<u32>,
    values: Vec<f32>,
}

impl Linear {
    /// A row as the encoder reads it.
    fn prepare(&self, row: &[f32], into: &mut [f32]) {
        self.input.of(row).apply(row, into);
        if self.subtract_bias {
            into.iter_mut().zip(&self.bias).for_each(|(value, bias)| *value -= bias);
        }
    }

    pub(super) fn encode_rows(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        let Some(rule) = self.rule() else {
            let Activation::Pursuit(pursuit) = self.activation else { return Ok(()) };
            let prepare = |row: usize, into: &mut [f32]| self.prepare(tile.row(row), into);
            return matching_pursuit::encode(pursuit, &self.encoder, &self.decoder, tile.rows(), prepare, out);
        };
        let width = self.card.width;
        let mut scratch = self.spare.lock().ok().and_then(|mut spare| spare.pop()).unwrap_or_default();
        let mut entries = 0;
        for first in (0..tile.rows()).step_by(GROUP) {
            let rows = GROUP.min(tile.rows() - first);
            scratch.rows.resize(rows * width, 0.0);
            for (row, into) in scratch.rows.chunks_exact_mut(width).enumerate() {
                self.prepare(tile.row(first + row), into);
            }
            scratch.lists.resize_with(scratch.lists.len().max(rows), Entries::new);
            let selector = Selector {
                panels: &self.encoder,
                bias: &self.encoder_bias,
                floors: &self.floors,
                rounded: self.rounded(rule),
                threads: 1,
                // It is refused below.
                keeps_nan: true,
            };
            selector.select(rule, &scratch.rows, &self.memory, &mut scratch.lists[..rows]);
            let before = out.entries();
            self.push(rows, tile.first_row + first, &mut scratch, out)?;
            entries = (out.entries() - before).max(entries);
        }
        if entries <= KEPT_ENTRIES
            && let Ok(mut spare) = self.spare.lock()
        {
            spare.push(scratch);
        }
        Ok(())
    }

    /// What is kept of the pre-activations; none where they are not selected.
    fn rule(&self) -> Option<Rule<'_>> {
        match &self.activation {
            Activation::Relu | Activation::Threshold(_) => Some(Rule::Above),
            Activation::TopK(k) => Some(Rule::PerRow(*k)),
            Activation::Gated { .. } => Some(Rule::Gated(self.gates.each_ref().map(Vec::as_slice))),
            Activation::Signed => Some(Rule::NonZero),
            Activation::Largest(k) => Some(Rule::LargestBySize(*k)),
            Activation::Nearest => Some(Rule::Nearest),
            Activation::Pursuit(_) => None,
        }
    }

    /// Whether rounded products may propose what is kept.
    pub(super) fn may_search(&self) -> bool {
        matches!(self.activation, Activation::TopK(_) | Activation::Threshold(_))
    }

    /// The rounded encoder, if it should propose what the next rows keep.
    pub(super) fn rounded(&self, rule: Rule<'_>) -> Option<&Columns> {
        let wanted = self.may_search() && self.memory.wants_candidates(rule, self.card.latents);
        // Rounded on one thread: others that wait for it must not be given parts of it.
        (wanted && self.precision.proposes())
            .then(|| self.rounded.get_or_init(|| Columns::new(self.encoder.values(), self.card.width)))
    }

    /// Appends the rows of some lists, the first of which has a number.
    fn push(&self, rows: usize, first_row: usize, scratch: &mut Scratch, out: &mut CodesBuilder) -> Result<()> {
        let Scratch { lists, latents, values, .. } = scratch;
        for (row, list) in lists[..rows].iter().enumerate() {
            if let Some((value, latent)) = list.iter().find(|(value, _)| !value.is_finite()) {
                return Err(InputError::new("the dictionary gives a value that is not finite")
                    .expected("finite numbers")
                    .found(value)
                    .at(format!("row {}, latent {latent}", first_row + row))
                    .advice("look for huge values in that row and in the weights of that latent")
                    .into());
            }
            latents.clear();
            values.clear();
            latents.extend(list.iter().map(|entry| entry.1));
            match self.activation {
                Activation::Nearest => values.resize(list.len(), 1.0),
                _ => values.extend(list.iter().map(|entry| entry.0)),
            }
            out.push(latents, values)?;
        }
        Ok(())
    }

    pub(super) fn memory_of_rows(&self, rows: usize) -> u64 {
        let (rows, width, latents) = (rows as u64, self.card.width as u64, self.card.latents as u64);
        // Prepared and packed rows; and where they are searched, rows that are rounded and packed again, and candidates.
        let searched = if self.may_search() { latents / 2 + 5 * width } else { 0 };
        let entries = self.card.k.map_or(latents, |k| 2 * k as u64 + 128);
        rows.saturating_mul((8 * width).saturating_add(searched).saturating_add(8 * entries))
    }

    /// Where the last rows were cut, for tests.
    #[cfg(test)]
    pub(super) fn set_guess(&self, guess: f32) {
        self.memory.learn_guess(guess);
    }
}
