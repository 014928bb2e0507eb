//! Rows from an array in Fortran order, where the first index changes fastest and the values of a row are far apart.
//!
//! Gathers one block of samples at a time with one positioned read per column, so that arrays larger than memory can be
//! read row by row.

use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::file::read_error;
use super::number::NumberFormat;
use super::{RowReader, Shape};
use crate::context::{Budget, Reservation};
use crate::error::Result;

/// Maximum size of a block in bytes, unless one sample is larger. More samples per block mean longer reads.
const LARGEST_BLOCK: u64 = 1 << 28;

/// Columns that are read before their values are written row by row: one cache line of `f32`.
const TOGETHER: usize = 16;

/// Rows from a seekable source with samples × tokens × width numbers in Fortran order.
pub(super) struct Fortran<R> {
    source: R,
    /// The byte of the first number.
    start: u64,
    layout: NumberFormat,
    shape: Shape,
    kind: String,
    path: PathBuf,
    samples: usize,
    tokens: usize,
    next_sample: usize,
    samples_per_block: usize,
    /// Rows in C order; those before `used` were read.
    block: Vec<f32>,
    used: usize,
    /// Values that became 0.
    underflowed: u64,
    _memory: Reservation,
}

impl<R: Read + Seek> Fortran<R> {
    pub fn new(
        source: R,
        start: u64,
        layout: NumberFormat,
        shape: Shape,
        kind: String,
        path: PathBuf,
        budget: &Budget,
    ) -> Result<Fortran<R>> {
        let tokens = shape.rows_per_sample.unwrap_or(1);
        let samples = shape.rows / tokens;
        let sample_bytes = (tokens * shape.width * 4) as u64;
        let affordable = LARGEST_BLOCK.min(budget.left() / 4) / sample_bytes;
        let samples_per_block = samples.min(affordable as usize).max(1);
        // The bytes and the values of the columns that are read together.
        let columns = (samples_per_block * (TOGETHER * 4 + layout.size())) as u64;
        let memory =
            budget.reserve(sample_bytes * samples_per_block as u64 + columns, "rows of an array in Fortran order")?;
        Ok(Fortran {
            source,
            start,
            layout,
            shape,
            kind,
            path,
            samples,
            tokens,
            next_sample: 0,
            samples_per_block,
            block: Vec::new(),
            used: 0,
            underflowed: 0,
            _memory: memory,
        })
    }

    /// Gathers the next block of samples.
    fn gather(&mut self) -> std::io::Result<()> {
        let count = self.samples_per_block.min(self.samples - self.next_sample);
        let (width, tokens, size) = (self.shape.width, self.tokens, self.layout.size());
        self.block.resize(count * tokens * width, 0.0);
        let mut bytes = vec![0; count * size];
        let mut columns = vec![0f32; count * TOGETHER];
        for token in 0..tokens {
            for first in (0..width).step_by(TOGETHER) {
                let together = TOGETHER.min(width - first);
                for (column, values) in columns.chunks_mut(count).take(together).enumerate() {
                    let run = ((first + column) * tokens + token) * self.samples + self.next_sample;
                    self.source.seek(SeekFrom::Start(self.start + (run * size) as u64))?;
                    self.source.read_exact(&mut bytes)?;
                    self.layout.decode(&bytes, values);
                    self.underflowed += self.layout.underflowed(&bytes, values);
                }
                for sample in 0..count {
                    let row = &mut self.block[(sample * tokens + token) * width + first..][..together];
                    for (column, value) in row.iter_mut().enumerate() {
                        *value = columns[column * count + sample];
                    }
                }
            }
        }
        self.next_sample += count;
        self.used = 0;
        Ok(())
    }
}

impl<R: Read + Seek + Send> RowReader for Fortran<R> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let length = out.len() / self.shape.width * self.shape.width;
        let mut filled = 0;
        while filled < length {
            if self.used == self.block.len() {
                if self.next_sample == self.samples {
                    break;
                }
                self.gather().map_err(|error| read_error(error, &self.path))?;
            }
            let count = (length - filled).min(self.block.len() - self.used);
            out[filled..filled + count].copy_from_slice(&self.block[self.used..self.used + count]);
            filled += count;
            self.used += count;
        }
        Ok(filled / self.shape.width)
    }

    fn underflowed(&self) -> u64 {
        self.underflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn blocks_give_the_same_rows_as_the_whole() {
        // Element (s, t, w) is 100 s + 10 t + w; in Fortran order s changes fastest, then t, then w.
        for (samples, tokens, width) in [(5, 3, 2), (7, 1, 40), (1, 4, 3), (3, 2, 16)] {
            let value = |s: usize, t: usize, w: usize| (100 * s + 10 * t + w) as f32;
            let mut bytes = vec![0xff];
            for w in 0..width {
                for t in 0..tokens {
                    (0..samples).for_each(|s| bytes.extend(value(s, t, w).to_le_bytes()));
                }
            }
            let mut expected = Vec::new();
            for s in 0..samples {
                for t in 0..tokens {
                    expected.extend((0..width).map(|w| value(s, t, w)));
                }
            }
            let shape = Shape { rows: samples * tokens, width, rows_per_sample: Some(tokens) };
            let layout = NumberFormat::little(super::super::number::Number::F32);
            for budget in [4 * (2 * tokens * width * 4) as u64, 1 << 20] {
                let source = Cursor::new(bytes.clone());
                let budget = Budget::new(budget.max(4000));
                let mut reader =
                    Fortran::new(source, 1, layout, shape, String::new(), PathBuf::new(), &budget).unwrap();
                let mut out = vec![0.0; expected.len()];
                let mut filled = 0;
                while filled < out.len() {
                    let end = (filled + 2 * width).min(out.len());
                    filled += reader.read(&mut out[filled..end]).unwrap() * width;
                }
                assert_eq!(out, expected);
                assert_eq!(reader.read(&mut vec![0.0; width]).unwrap(), 0);
            }
        }
    }
}
