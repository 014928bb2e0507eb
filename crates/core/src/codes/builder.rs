//! Builds codes row by row.

use super::{Codes, CodesView};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Result};

/// Collects rows of codes in order.
#[derive(Debug)]
pub struct CodesBuilder {
    latents: usize,
    offsets: Vec<u64>,
    indices: Vec<u32>,
    values: Vec<f32>,
    /// The memory reservation, if there is a budget.
    memory: Option<Memory>,
}

/// A reservation that grows with the codes.
#[derive(Debug)]
struct Memory {
    budget: Budget,
    reserved: Reservation,
    /// Entries and rows that are reserved.
    entries: usize,
    rows: usize,
}

impl CodesBuilder {
    /// No rows yet, without a memory limit.
    pub fn new(latents: usize) -> CodesBuilder {
        CodesBuilder { latents, offsets: vec![0], indices: Vec::new(), values: Vec::new(), memory: None }
    }

    /// No rows yet. Their memory is reserved as they are added; the codes keep the reservation.
    pub fn within(latents: usize, budget: &Budget) -> CodesBuilder {
        let memory = budget.reserve(0, "codes").ok().map(|reserved| Memory {
            budget: budget.clone(),
            reserved,
            entries: 0,
            rows: 0,
        });
        CodesBuilder { memory, ..CodesBuilder::new(latents) }
    }

    /// Reserves memory for more rows and entries. Includes the old copy that a growing vector keeps for a moment.
    fn grow(&mut self, rows: usize, entries: usize) -> Result<()> {
        let (rows, entries) = (self.rows() + rows, self.entries() + entries);
        let Some(memory) = self.memory.as_mut().filter(|memory| rows > memory.rows || entries > memory.entries) else {
            return Ok(());
        };
        let (rows, entries) = (rows.next_power_of_two(), entries.next_power_of_two());
        let bytes = (rows as u64).saturating_mul(8).saturating_add((entries as u64).saturating_mul(8));
        let bytes = bytes.saturating_add(bytes / 2);
        memory.reserved.resize(bytes, format!("codes of at least {} entries", self.values.len()))?;
        (memory.rows, memory.entries) = (rows, entries);
        self.offsets.reserve_exact(rows + 1 - self.offsets.len().min(rows + 1));
        self.indices.reserve_exact(entries - self.indices.len().min(entries));
        self.values.reserve_exact(entries - self.values.len().min(entries));
        Ok(())
    }

    /// Reserves capacity for more rows and entries.
    pub fn reserve(&mut self, rows: usize, entries: usize) {
        self.offsets.reserve(rows);
        self.indices.reserve(entries);
        self.values.reserve(entries);
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of entries so far.
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// Appends a row of strictly ascending latents and their values; zeros are dropped.
    pub fn push(&mut self, latents: &[u32], values: &[f32]) -> Result<()> {
        let ascending = latents.windows(2).all(|pair| pair[0] < pair[1]);
        if latents.len() != values.len() || !ascending || latents.last().is_some_and(|&l| l as usize >= self.latents) {
            return Err(Error::Bug(format!("row {} of codes is not a sorted sparse row", self.rows())));
        }
        self.grow(1, values.len())?;
        // The fast path, for nearly all rows.
        if values.iter().all(|value| value.is_finite() & (*value != 0.0)) {
            self.indices.extend_from_slice(latents);
            self.values.extend_from_slice(values);
            self.offsets.push(self.values.len() as u64);
            return Ok(());
        }
        self.extend(latents.iter().copied().zip(values.iter().copied()))
    }

    /// Appends rows of other codes with the same number of latents.
    pub fn append(&mut self, rows: CodesView<'_>) -> Result<()> {
        if rows.indices.iter().any(|&latent| latent as usize >= self.latents) {
            return Err(Error::Bug(format!("rows of more than {} latents", self.latents)));
        }
        self.grow(rows.rows(), rows.values.len())?;
        let (base, entries) = (rows.offsets[0], self.entries() as u64);
        self.offsets.extend(rows.offsets[1..].iter().map(|offset| offset - base + entries));
        self.indices.extend_from_slice(rows.indices);
        self.values.extend_from_slice(rows.values);
        Ok(())
    }

    /// Appends a row that has a value for every latent.
    pub fn push_dense(&mut self, row: &[f32]) -> Result<()> {
        if row.len() != self.latents {
            return Err(Error::Bug(format!("a dense row of {} for {} latents", row.len(), self.latents)));
        }
        self.grow(1, if self.memory.is_some() { row.iter().filter(|value| **value != 0.0).count() } else { 0 })?;
        self.extend(row.iter().enumerate().map(|(latent, &value)| (latent as u32, value)))
    }

    fn extend(&mut self, entries: impl Iterator<Item = (u32, f32)>) -> Result<()> {
        for (latent, value) in entries {
            if !value.is_finite() {
                return Err(InputError::new("codes contain a value that is not finite")
                    .expected("finite numbers")
                    .found(value)
                    .at(format!("row {}, latent {latent}", self.rows()))
                    .advice("check for overflow where the codes were computed")
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
        let CodesBuilder { latents, mut offsets, mut indices, mut values, memory } = self;
        let memory = memory.map(|mut memory| {
            offsets.shrink_to_fit();
            indices.shrink_to_fit();
            values.shrink_to_fit();
            let bytes = 8 * (offsets.len() + values.len()) as u64;
            // Cannot fail: the reservation shrinks.
            let _ = memory.reserved.resize(bytes, "codes");
            (memory.reserved, memory.budget)
        });
        Codes::new(latents, offsets, indices, values, memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_rows_equal_pushed_rows() {
        let other = Codes::from_dense(&[0.0, 2.0, 0.0, 0.0, 1.0, -3.0], 2).unwrap();
        let mut builder = CodesBuilder::new(2);
        builder.push(&[1], &[5.0]).unwrap();
        builder.append(other.view(1..3).unwrap()).unwrap();
        assert_eq!(
            builder.finish().id().unwrap(),
            Codes::from_dense(&[0.0, 5.0, 0.0, 0.0, 1.0, -3.0], 2).unwrap().id().unwrap()
        );
    }

    #[test]
    fn invalid_rows_are_refused() {
        let mut builder = CodesBuilder::new(3);
        assert!(builder.push(&[2, 1], &[1.0, 1.0]).is_err());
        assert!(builder.push(&[3], &[1.0]).is_err());
        assert!(builder.append(Codes::from_dense(&[0.0, 0.0, 0.0, 1.0], 4).unwrap().all().unwrap()).is_err());
        let error = builder.push_dense(&[0.0, f32::NAN, 0.0]).unwrap_err().to_string();
        assert!(error.contains("row 0, latent 1"), "{error}");
    }
}
