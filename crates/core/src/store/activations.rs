//! `ActivationStore`: rows × width of finite `f32`, wherever they live.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::{Complaint, Error, Result};

/// Rows × width `f32`, in memory or in checked shards on disk.
#[derive(Debug)]
pub struct ActivationStore {
    values: Vec<f32>,
    width: usize,
    /// The sample each row belongs to (a token row knows its text), if it is not one row per sample.
    samples: Option<Vec<u32>>,
}

/// Consecutive rows, borrowed where they lie in one piece.
#[derive(Debug)]
pub struct Tile<'a> {
    /// The number of the first row.
    pub first_row: usize,
    /// Values per row.
    pub width: usize,
    /// The rows, one after the other.
    pub values: Cow<'a, [f32]>,
}

impl Tile<'_> {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        if self.width == 0 { 0 } else { self.values.len() / self.width }
    }

    /// The row at a place within this tile.
    pub fn row(&self, place: usize) -> &[f32] {
        &self.values[place * self.width..][..self.width]
    }
}

impl ActivationStore {
    /// Rows held in memory. Refuses values that are not finite.
    pub fn from_rows(values: Vec<f32>, width: usize) -> Result<ActivationStore> {
        if width == 0 || !values.len().is_multiple_of(width) {
            return Err(Complaint::new("activations do not fill whole rows")
                .expected(format!("a multiple of the width {width}"))
                .found(format!("{} values", values.len()))
                .into());
        }
        if let Some(place) = values.iter().position(|v| !v.is_finite()) {
            return Err(Complaint::new("activations hold a value that is not finite")
                .found(values[place])
                .at(format!("row {}, column {}", place / width, place % width))
                .into());
        }
        Ok(ActivationStore { values, width, samples: None })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// Values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The sample of each row, when rows are not samples themselves.
    pub fn samples(&self) -> Option<&[u32]> {
        self.samples.as_deref()
    }

    /// The content address of rows, width and samples.
    pub fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new();
        hash.update(&(self.width as u64).to_le_bytes()).update(bytemuck::cast_slice(&self.values));
        if let Some(samples) = &self.samples {
            hash.update(bytemuck::cast_slice(samples));
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }

    /// A run of rows.
    pub fn tile(&self, rows: Range<usize>) -> Result<Tile<'_>> {
        let values = self
            .values
            .get(rows.start * self.width..rows.end * self.width)
            .ok_or_else(|| Error::Bug(format!("rows {rows:?} of a store of {}", self.rows())))?;
        Ok(Tile { first_row: rows.start, width: self.width, values: Cow::Borrowed(values) })
    }
}
