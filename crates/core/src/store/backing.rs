//! Where rows lie: in memory, in a plain file of another program, in shards of our own.

use std::borrow::Cow;
use std::ops::Range;

use super::map::{Map, Residency, floats};
use super::shard::{Seen, Shard};
use crate::context::Reservation;
use crate::error::{Error, InFile, InputError, Key, Result};

/// The rows themselves.
#[derive(Debug)]
pub enum Backing {
    /// In memory, known to be finite, with the part of the budget that they use.
    Memory(Vec<f32>, Option<Reservation>),
    /// In a file that we did not write.
    File(PlainFile),
    /// In shards.
    Shards {
        /// Each with the number of its first row, ascending.
        shards: Vec<(usize, Shard)>,
        /// How much of them is in memory.
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
    /// Rows whose values are looked at together, once.
    block_rows: usize,
    seen: Seen,
    residency: Residency,
}

/// Bytes that are looked at together.
const BLOCK_BYTES: usize = 1 << 20;

impl PlainFile {
    /// The bytes of `range` as rows of a width.
    pub fn new(map: Map, range: Range<u64>, width: usize) -> Result<PlainFile> {
        let place = |byte| usize::try_from(byte).ok().filter(|&byte| byte <= map.length());
        let row_bytes = width.checked_mul(4).filter(|&bytes| bytes > 0);
        let (Some(start), Some(end), Some(row_bytes)) = (place(range.start), place(range.end), row_bytes) else {
            return Err(InputError::new("an array does not lie within its file")
                .expected(format!("rows of {width} values within {} bytes", map.length()))
                .found(format!("bytes {} to {}", range.start, range.end))
                .advice("the file is cut; copy or export it again")
                .file(map.path())
                .into());
        };
        if start > end || !(end - start).is_multiple_of(row_bytes) {
            return Err(InputError::new("activations do not fill whole rows")
                .expected(format!("a multiple of {row_bytes} bytes, {width} values"))
                .found(format!("{} bytes", end.saturating_sub(start)))
                .file(map.path())
                .into());
        }
        let (rows, block_rows) = ((end - start) / row_bytes, (BLOCK_BYTES / row_bytes).max(1));
        let seen = Seen::new(rows.div_ceil(block_rows));
        Ok(PlainFile { map, start, rows, block_rows, seen, residency: Residency::default() })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    fn values(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        let bytes = self.start + rows.start * width * 4..self.start + rows.end * width * 4;
        Ok(floats(self.map.bytes(bytes)?))
    }

    fn run(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        self.map.check_unchanged()?;
        self.residency.hand_out(rows.len() * width * 4, std::iter::once(&self.map));
        self.seen.check(rows.start / self.block_rows..rows.end.div_ceil(self.block_rows), |block| {
            let first = block * self.block_rows;
            let values = self.values(first..(first + self.block_rows).min(self.rows), width)?;
            check_finite(&values, first, width).in_file(self.map.path())
        })?;
        self.values(rows, width)
    }
}

impl Backing {
    /// As many of the rows, from the first on, as lie in one piece; at least one if there is one.
    pub fn run(&self, rows: Range<usize>, width: usize) -> Result<Cow<'_, [f32]>> {
        match self {
            Backing::Memory(values, _) => {
                let values = values.get(rows.start * width..rows.end * width);
                values.map(Cow::Borrowed).ok_or_else(|| Error::Bug(format!("rows {rows:?} are not in memory")))
            }
            Backing::File(file) => file.run(rows, width),
            Backing::Shards { shards, residency } => {
                let place = shards.partition_point(|(first, _)| *first <= rows.start);
                let Some((first, shard)) = place.checked_sub(1).and_then(|place| shards.get(place)) else {
                    return Err(Error::Bug(format!("rows {rows:?} are in no shard")));
                };
                let end = shards.get(place).map_or(rows.end, |(next, _)| rows.end.min(*next));
                residency.hand_out((end - rows.start) * width * 4, shards.iter().map(|(_, shard)| shard.map()));
                shard.read((rows.start - first) * width..(end - first) * width).map(Cow::Borrowed)
            }
        }
    }
}

/// Refuses values that are not finite, with the place of the first and how many there are.
pub fn check_finite(values: &[f32], first_row: usize, width: usize) -> Result<()> {
    // A sum of the exponent bits would be quicker still; this form is already compiled to vector instructions.
    let bad = values.iter().filter(|value| !value.is_finite()).count();
    if bad == 0 {
        return Ok(());
    }
    let place = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
    let last_row = first_row + (values.len() / width).saturating_sub(1);
    Err(InputError::new("activations hold a value that is not finite")
        .expected("finite numbers")
        .found(format!("{}; {bad} such values in rows {first_row} to {last_row}", values[place]))
        .at(format!("row {}, column {}", first_row + place / width, place % width))
        .advice(format!("look for an overflow where they were made, or import them with {} drop-rows", Key("nan")))
        .into())
}
