//! Writes arrays as `.npy`, version 1, little-endian `f32`, C order.

use std::path::Path;

use super::disk::NewFile;
use crate::error::{Error, Result};

/// Bytes written at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// Writes an array row by row. The file appears under its name when it is complete.
#[derive(Debug)]
pub struct NpyWriter {
    file: NewFile,
    block: Vec<u8>,
    /// Values that are not written yet.
    missing: usize,
}

/// The header of an array in C order. `kind` and `shape` are in the notation of numpy.
pub fn npy_header(kind: &str, shape: &str) -> Vec<u8> {
    let mut header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}");
    // Magic, version, length and header together are a multiple of 64 bytes and end with a line break.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat()
}

impl NpyWriter {
    /// Starts an array of rows × width.
    pub fn create(path: &Path, rows: usize, width: usize) -> Result<NpyWriter> {
        let missing = rows.checked_mul(width).ok_or_else(|| Error::Bug(format!("an array of {rows} × {width}")))?;
        let mut file = NewFile::create(path)?;
        file.write(&npy_header("<f4", &format!("({rows}, {width})")))?;
        Ok(NpyWriter { file, block: Vec::new(), missing })
    }

    /// Appends values.
    pub fn append(&mut self, values: &[f32]) -> Result<()> {
        self.missing =
            self.missing.checked_sub(values.len()).ok_or_else(|| Error::Bug("an array with too many values".into()))?;
        self.block.extend_from_slice(bytemuck::cast_slice(values));
        if self.block.len() >= BLOCK_BYTES {
            self.file.write(&self.block)?;
            self.block.clear();
        }
        Ok(())
    }

    /// Makes the array durable and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        if self.missing > 0 {
            return Err(Error::Bug(format!("an array that lacks {} values", self.missing)));
        }
        self.file.write(&self.block)?;
        self.file.finish()
    }
}

/// Writes rows × width values that a function fills row by row, without keeping them all in memory.
pub fn write_npy(
    path: &Path,
    rows: usize,
    width: usize,
    mut fill: impl FnMut(usize, &mut [f32]) -> Result<()>,
) -> Result<()> {
    let mut writer = NpyWriter::create(path, rows, width)?;
    let mut line = vec![0.0f32; width];
    for row in 0..rows {
        line.fill(0.0);
        fill(row, &mut line)?;
        writer.append(&line)?;
    }
    writer.finish()
}
