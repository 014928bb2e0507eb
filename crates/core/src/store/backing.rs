//! The storage of rows: memory, a plain file of another program, or shards that Etalon wrote.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use super::map::{Map, Residency, floats};
use super::shard::{CheckedBlocks, Shard};
use super::stored_number::StoredNumber;
use crate::context::Reservation;
use crate::error::{Error, InFile, InputError, Key, Result};

/// Rows in memory, owned by a vector or by another program, such as an array of Python.
pub struct RowMemory(pub Box<dyn AsRef<[f32]> + Send + Sync>);

impl fmt::Debug for RowMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", (*self.0).as_ref().len())
    }
}

/// The storage of rows.
#[derive(Debug)]
pub enum Backing {
    /// In memory, checked to be finite, with their memory reservation.
    Memory(RowMemory, Option<Reservation>),
    /// In a file of another program.
    File(PlainFile),
    /// In shards.
    Shards {
        /// Each with the index of its first row, ascending.
        shards: Vec<(usize, Shard)>,
        /// The number type of their values.
        dtype: StoredNumber,
        /// Limits how much of them is resident in memory.
        residency: Residency,
    },
}

/// A plain array of little-endian `f32` inside a file.
#[derive(Debug)]
pub struct PlainFile {
    map: Map,
    /// The byte of the first value.
    start: usize,
    rows: usize,
    /// Rows that are checked together, once.
    block_rows: usize,
    checked: CheckedBlocks,
    residency: Residency,
}

/// Bytes that are checked together.
const BLOCK_BYTES: usize = 1 << 20;

impl PlainFile {
    /// The bytes of `range` as rows of `width` values.
    pub fn new(map: Map, range: Range<u64>, width: usize) -> Result<PlainFile> {
        let inside = |byte| usize::try_from(byte).ok().filter(|&byte| byte <= map.length());
        let row_bytes = width.checked_mul(4).filter(|&bytes| bytes > 0);
        let (Some(start), Some(end), Some(row_bytes)) = (inside(range.start), inside(range.end), row_bytes) else {
            return Err(InputError::new("the array is longer than its file")
                .expected(format!("rows of {width} values within {} bytes", map.length()))
                .found(format!("bytes {} to {}", range.start, range.end))
                .advice("the file is incomplete; copy or export it again")
                .file(map.path())
                .into());
        };
        if start > end || !(end - start).is_multiple_of(row_bytes) {
            return Err(InputError::new("activations do not fill whole rows")
                .expected(format!("a multiple of {row_bytes} bytes, {width} values"))
                .found(format!("{} bytes", end.saturating_sub(start)))
                .advice("check the shape of the array")
                .file(map.path())
                .into());
        }
        let (rows, block_rows) = ((end - start) / row_bytes, (BLOCK_BYTES / row_bytes).max(1));
        let checked = CheckedBlocks::new(rows.div_ceil(block_rows));
        Ok(PlainFile { map, start, rows, block_rows, checked, residency: Residency::default() })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn values(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        let bytes = self.start + rows.start * width * 4..self.start + rows.end * width * 4;
        Ok(floats(self.map.bytes(bytes)?))
    }

    fn run(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        self.map.check_unchanged()?;
        self.residency.count(rows.len() * width * 4, std::iter::once(&self.map));
        self.checked.check(rows.start / self.block_rows..rows.end.div_ceil(self.block_rows), |block| {
            let first = block * self.block_rows;
            let values = self.values(first..(first + self.block_rows).min(self.rows), width)?;
            check_finite(&values, first, width).in_file(self.map.path())
        })?;
        self.values(rows, width)
    }
}

impl Backing {
    /// As many rows, from the first on, as are contiguous; at least one if `rows` is not empty.
    pub fn run(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        match self {
            Backing::Memory(values, _) => {
                let values = (*values.0).as_ref().get(rows.start * width..rows.end * width);
                values.map(Cow::Borrowed).ok_or_else(|| Error::Bug(format!("rows {rows:?} are not in memory")))
            }
            Backing::File(file) => file.run(rows, width),
            Backing::Shards { shards, dtype, residency } => {
                let next = shards.partition_point(|(first, _)| *first <= rows.start);
                let Some((first, shard)) = next.checked_sub(1).and_then(|index| shards.get(index)) else {
                    return Err(Error::Bug(format!("rows {rows:?} are in no shard")));
                };
                let end = shards.get(next).map_or(rows.end, |(first, _)| rows.end.min(*first));
                residency
                    .count((end - rows.start) * width * dtype.bytes(), shards.iter().map(|(_, shard)| shard.map()));
                let values = (rows.start - first) * width..(end - first) * width;
                if dtype.is_f32() {
                    return shard.read(values).map(Cow::Borrowed);
                }
                Ok(Cow::Owned(dtype.decode(shard.read(values)?)))
            }
        }
    }
}

/// Refuses NaN and infinite values; the error states how many there are and where the first one is.
pub fn check_finite(values: &[f32], first_row: usize, width: usize) -> Result<()> {
    // The compiler vectorises this form.
    let bad = values.iter().filter(|value| !value.is_finite()).count();
    if bad == 0 {
        return Ok(());
    }
    let index = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
    let last_row = first_row + (values.len() / width).saturating_sub(1);
    Err(InputError::new("activations contain a value that is not finite")
        .expected("finite numbers")
        .found(format!("{}; {bad} such values in rows {first_row} to {last_row}", values[index]))
        .at(format!("row {}, column {}", first_row + index / width, index % width))
        .advice(format!(
            "check for overflow where they were computed, or drop those rows with {}",
            Key("nan drop-rows")
        ))
        .into())
}
