//! Arrays for other programs: `.npy`, version 1, little-endian `f32`, C order.

use std::path::Path;

use super::disk::NewFile;
use crate::error::Result;

/// Rows handed to the file at a time.
const BLOCK: usize = 256;

/// Writes rows × width values that a function fills row by row, without holding them all.
pub fn write_npy(
    path: &Path,
    rows: usize,
    width: usize,
    mut fill: impl FnMut(usize, &mut [f32]) -> Result<()>,
) -> Result<()> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    // Magic, version, length and header together fill whole blocks of 64 bytes and end with a line break.
    let padding = (64 - (10 + header.len() + 1) % 64) % 64;
    header.push_str(&" ".repeat(padding));
    header.push('\n');
    let mut file = NewFile::create(path)?;
    file.write(b"\x93NUMPY\x01\x00")?;
    file.write(&(header.len() as u16).to_le_bytes())?;
    file.write(header.as_bytes())?;
    let mut block = vec![0.0f32; BLOCK * width];
    for first in (0..rows).step_by(BLOCK) {
        let count = BLOCK.min(rows - first);
        for (place, row) in block.chunks_exact_mut(width.max(1)).take(count).enumerate() {
            row.fill(0.0);
            fill(first + place, row)?;
        }
        file.write(bytemuck::cast_slice(&block[..count * width]))?;
    }
    file.finish()
}
