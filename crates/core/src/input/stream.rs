//! Rows out of a stream of bytes in C order, at the speed of a memory copy where the numbers are `f32` already.

use std::io::Read;
use std::path::PathBuf;

use super::file::failed;
use super::number::NumberFormat;
use super::{RowReader, Shape};
use crate::error::{InputError, Result};

/// Bytes that are converted at a time; a multiple of every number's size, and small enough for the cache.
const BLOCK: usize = 1 << 18;

/// Rows out of a stream that stands at the first value.
pub(super) struct Stream<R> {
    source: R,
    layout: NumberFormat,
    shape: Shape,
    kind: String,
    path: PathBuf,
    rows_left: usize,
    /// True when the source must end after the last row; asking it then also makes an archive compare its checksum.
    ends: bool,
    block: Vec<u8>,
}

impl<R: Read> Stream<R> {
    pub fn new(source: R, layout: NumberFormat, shape: Shape, kind: String, path: PathBuf, ends: bool) -> Stream<R> {
        Stream { source, layout, shape, kind, path, rows_left: shape.rows, ends, block: Vec::new() }
    }

    fn fill(&mut self, out: &mut [f32]) -> std::io::Result<()> {
        if self.layout.is_plain() {
            return self.source.read_exact(bytemuck::cast_slice_mut(out));
        }
        let size = self.layout.size();
        self.block.resize(BLOCK, 0);
        for part in out.chunks_mut(BLOCK / size) {
            let bytes = &mut self.block[..part.len() * size];
            self.source.read_exact(bytes)?;
            self.layout.decode(bytes, part);
        }
        Ok(())
    }
}

impl<R: Read + Send> RowReader for Stream<R> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let rows = (out.len() / self.shape.width).min(self.rows_left);
        self.fill(&mut out[..rows * self.shape.width]).map_err(|error| failed(error, &self.path))?;
        self.rows_left -= rows;
        if self.rows_left == 0 && self.ends {
            self.ends = false;
            match self.source.read(&mut [0]).map_err(|error| failed(error, &self.path))? {
                0 => {}
                _ => return Err(InputError::new("there are bytes after the last row").file(&self.path).into()),
            }
        }
        Ok(rows)
    }
}
