//! Codes by latent.

use super::{CodesView, Latent};
use crate::error::{InputError, Result};
use etalon_kernel::bits::Bits;

/// The entries of every latent, rows ascending.
#[derive(Debug)]
pub struct Columns {
    rows: usize,
    offsets: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl Columns {
    pub(super) fn build(codes: CodesView<'_>, latents: usize) -> Result<Columns> {
        if codes.rows() > u32::MAX as usize {
            return Err(InputError::new("the codes have too many rows to be sorted by latent")
                .expected(format!("at most {} rows", u32::MAX))
                .found(codes.rows())
                .advice("evaluate a sample of the rows")
                .into());
        }
        let mut offsets = vec![0usize; latents + 1];
        for (_, row, _) in codes.iter() {
            row.iter().for_each(|&latent| offsets[latent as usize + 1] += 1);
        }
        for latent in 0..latents {
            offsets[latent + 1] += offsets[latent];
        }
        let entries = offsets[latents];
        let (mut indices, mut values) = (vec![0u32; entries], vec![0f32; entries]);
        let mut next = offsets.clone();
        for (number, row, row_values) in codes.iter() {
            for (&latent, &value) in row.iter().zip(row_values) {
                let slot = &mut next[latent as usize];
                indices[*slot] = number as u32;
                values[*slot] = value;
                *slot += 1;
            }
        }
        Ok(Columns { rows: codes.rows(), offsets, indices, values })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of latents.
    pub fn latents(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The rows (ascending) and values of a latent; values are never zero.
    pub fn latent(&self, latent: Latent) -> (&[u32], &[f32]) {
        let range = self.offsets[latent.0 as usize]..self.offsets[latent.0 as usize + 1];
        (&self.indices[range.clone()], &self.values[range])
    }

    /// The rows where the latent is above a threshold of at least 0.
    pub fn fired(&self, latent: Latent, above: f32) -> Bits {
        let (rows, values) = self.latent(latent);
        Bits::of(self.rows, rows.iter().zip(values).filter(|&(_, &value)| value > above).map(|(&row, _)| row as usize))
    }
}
