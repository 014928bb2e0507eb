//! Codes row by row.

use super::Codes;
use crate::error::{Complaint, Error, Result};

/// Collects rows of codes in order.
#[derive(Debug)]
pub struct CodesBuilder {
    latents: usize,
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
}

impl CodesBuilder {
    /// No rows yet.
    pub fn new(latents: usize) -> CodesBuilder {
        CodesBuilder { latents, offsets: vec![0], indices: Vec::new(), values: Vec::new() }
    }

    /// How many rows were pushed.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many entries they have.
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// Appends a row of strictly ascending latents and their values; zeros are dropped.
    pub fn push(&mut self, latents: &[u32], values: &[f32]) -> Result<()> {
        let ascending = latents.windows(2).all(|pair| pair[0] < pair[1]);
        if latents.len() != values.len() || !ascending || latents.last().is_some_and(|&l| l as usize >= self.latents) {
            return Err(Error::Bug(format!("row {} of codes is not a sorted sparse row", self.rows())));
        }
        self.extend(latents.iter().copied().zip(values.iter().copied()))
    }

    /// Appends a row that has a value for every latent.
    pub fn push_dense(&mut self, row: &[f32]) -> Result<()> {
        if row.len() != self.latents {
            return Err(Error::Bug(format!("a dense row of {} for {} latents", row.len(), self.latents)));
        }
        self.extend(row.iter().enumerate().map(|(latent, &value)| (latent as u32, value)))
    }

    fn extend(&mut self, entries: impl Iterator<Item = (u32, f32)>) -> Result<()> {
        for (latent, value) in entries {
            if !value.is_finite() {
                return Err(Complaint::new("codes hold a value that is not finite")
                    .expected("finite numbers")
                    .found(value)
                    .at(format!("row {}, latent {latent}", self.rows()))
                    .advice("look for an overflow where these codes were made")
                    .into());
            }
            if value != 0.0 {
                self.indices.push(latent);
                self.values.push(value);
            }
        }
        self.offsets.push(self.values.len() as u64);
        Ok(())
    }

    /// The codes.
    pub fn finish(self) -> Codes {
        Codes::new(self.latents, self.offsets, self.indices, self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_rows_are_refused() {
        let mut builder = CodesBuilder::new(3);
        assert!(builder.push(&[2, 1], &[1.0, 1.0]).is_err());
        assert!(builder.push(&[3], &[1.0]).is_err());
        let error = builder.push_dense(&[0.0, f32::NAN, 0.0]).unwrap_err().to_string();
        assert!(error.contains("row 0, latent 1"), "{error}");
    }
}
