//! Encoding of rows by a [`Linear`]: prepare, select, check.

use super::Linear;
use crate::codes::CodesBuilder;
use crate::error::{InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::matching_pursuit;
use crate::sae::selector::{Entries, Rule, Selector};
use crate::store::Tile;
use etalon_kernel::int8::Columns;

/// Maximum rows that are selected together.
const GROUP: usize = 1056;

/// Buffers whose lists have more entries than this are freed instead of reused.
const MAX_REUSED_ENTRIES: usize = 1 << 18;

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
    /// Writes a row as the encoder reads it: normalised, and minus the bias.
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
                // `push` refuses them.
                keeps_nan: true,
            };
            selector.select(rule, &scratch.rows, &self.warm_start, &mut scratch.lists[..rows]);
            let before = out.entries();
            self.push(rows, tile.first_row + first, &mut scratch, out)?;
            entries = (out.entries() - before).max(entries);
        }
        if entries <= MAX_REUSED_ENTRIES
            && let Ok(mut spare) = self.spare.lock()
        {
            spare.push(scratch);
        }
        Ok(())
    }

    /// The selection rule; `None` for matching pursuit, which does not select.
    fn rule(&self) -> Option<Rule<'_>> {
        match &self.activation {
            Activation::Relu | Activation::Threshold(_) => Some(Rule::Above),
            Activation::TopK(k) => Some(Rule::PerRow(*k)),
            Activation::Gated { .. } => Some(Rule::Gated(self.gates.each_ref().map(Vec::as_slice))),
            Activation::Signed | Activation::Standardised { .. } => Some(Rule::NonZero),
            Activation::Largest(k) => Some(Rule::LargestMagnitude(*k)),
            Activation::Nearest => Some(Rule::Nearest),
            Activation::Pursuit(_) => None,
        }
    }

    /// Whether an int8 pre-filter is possible.
    pub(super) fn can_prefilter(&self) -> bool {
        matches!(self.activation, Activation::TopK(_) | Activation::Threshold(_))
    }

    /// The int8 encoder, if the next rows should be pre-filtered.
    pub(super) fn rounded(&self, rule: Rule<'_>) -> Option<&Columns> {
        let useful = self.can_prefilter() && self.warm_start.prefilters(rule, self.card.latents);
        // Rounded on one thread: a thread that waits for it must not take part of the work.
        (useful && self.precision.prefilters())
            .then(|| self.rounded.get_or_init(|| Columns::new(self.encoder.values(), self.card.width)))
    }

    /// Appends the codes of the first `rows` lists. `first_row` is the index of the first in the store, for messages.
    fn push(&self, rows: usize, first_row: usize, scratch: &mut Scratch, out: &mut CodesBuilder) -> Result<()> {
        let Scratch { lists, latents, values, .. } = scratch;
        for (row, list) in lists[..rows].iter_mut().enumerate() {
            self.standardise(list, values);
            if let Some((value, latent)) = list.iter().find(|(value, _)| !value.is_finite()) {
                return Err(InputError::new("the dictionary computes a code that is not finite")
                    .expected("finite numbers")
                    .found(value)
                    .at(format!("row {}, latent {latent}", first_row + row))
                    .advice("check that row and the weights of that latent for very large values")
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
        // Prepared and packed rows; with a pre-filter also rounded and repacked rows, and candidates.
        let prefilter = if self.can_prefilter() { latents / 2 + 5 * width } else { 0 };
        let dense = matches!(self.activation, Activation::Standardised { .. });
        let entries = self.card.k.filter(|_| !dense).map_or(latents, |k| 2 * k as u64 + 128);
        rows.saturating_mul((8 * width).saturating_add(prefilter).saturating_add(8 * entries))
    }

    /// Sets the guess for the next rows.
    #[cfg(test)]
    pub(super) fn set_guess(&self, guess: f32) {
        self.warm_start.set_guess(guess);
    }
}
