//! Rows from a stream of bytes in C order. `f32` is copied, every other type is converted block by block.

use std::io::Read;
use std::path::PathBuf;

use super::file::read_error;
use super::number::NumberFormat;
use super::{RowReader, Shape};
use crate::error::{InputError, Result};

/// Bytes that are converted at a time: a multiple of every number's size, and small enough for the cache.
const BLOCK: usize = 1 << 18;

/// Rows from a stream whose next byte is that of the first value.
pub(super) struct Stream<R> {
    source: R,
    layout: NumberFormat,
    shape: Shape,
    kind: String,
    path: PathBuf,
    rows_left: usize,
    /// True when the source must end after the last row. Reading its end also makes an archive compare its checksum.
    check_end: bool,
    block: Vec<u8>,
    /// Values that became 0.
    underflowed: u64,
}

impl<R: Read> Stream<R> {
    pub fn new(
        source: R,
        layout: NumberFormat,
        shape: Shape,
        kind: String,
        path: PathBuf,
        check_end: bool,
    ) -> Stream<R> {
        Stream {
            source,
            layout,
            shape,
            kind,
            path,
            rows_left: shape.rows,
            check_end,
            block: Vec::new(),
            underflowed: 0,
        }
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
            self.underflowed += self.layout.underflowed(bytes, part);
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
        self.fill(&mut out[..rows * self.shape.width]).map_err(|error| read_error(error, &self.path))?;
        self.rows_left -= rows;
        if self.rows_left == 0 && self.check_end {
            self.check_end = false;
            match self.source.read(&mut [0]).map_err(|error| read_error(error, &self.path))? {
                0 => {}
                _ => {
                    return Err(InputError::new("the array is longer than its header states")
                        .expected(format!("{} rows of {} values", self.shape.rows, self.shape.width))
                        .found("more bytes after the last row")
                        .advice("the file is damaged; copy or write it again")
                        .file(&self.path)
                        .into());
                }
            }
        }
        Ok(rows)
    }

    fn underflowed(&self) -> u64 {
        self.underflowed
    }
}
