//! `ActivationStore`: rows × width of finite `f32`, in memory or on disk.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::backing::{Backing, PlainFile, RowMemory, check_finite};
use super::layout::{StoreManifest, content_id};
use super::map::{Map, Residency};
use super::shard::{Content, Shard};
use super::splits::{self, SplitRanges};
use super::stored_number::StoredNumber;
use crate::context::Reserved;
use crate::error::{Error, InputError, Result};
use crate::input::{RowReader, Shape};

/// Rows × width `f32`: in memory, in a plain file of another program, or in checked shards on disk.
#[derive(Debug)]
pub struct ActivationStore {
    backing: Arc<Backing>,
    width: usize,
    rows: usize,
    /// The rows of the backing; more than one piece only in a split.
    pieces: Vec<Piece>,
    samples: Samples,
    splits: SplitRanges,
    /// Rows of the source that were dropped because they were not finite.
    dropped: Vec<usize>,
    id: OnceLock<String>,
}

/// Consecutive rows of the backing.
#[derive(Debug)]
struct Piece {
    /// The index of the first row in this store.
    first: usize,
    rows: Range<usize>,
}

/// The sample that each row belongs to, such as the text of a token, unless every row is a sample.
#[derive(Debug)]
enum Samples {
    None,
    Memory(Vec<u32>),
    Stored(Box<Shard>),
}

/// Consecutive rows, borrowed if they are contiguous in memory.
#[derive(Debug)]
pub struct Tile<'a> {
    /// The index of the first row.
    pub first_row: usize,
    /// Values per row.
    pub width: usize,
    /// The rows, one after the other.
    pub values: Cow<'a, [f32]>,
}

impl Tile<'_> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// A row by its index within this tile.
    pub fn row(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..][..self.width]
    }
}

impl ActivationStore {
    fn new(backing: Backing, width: usize, rows: usize) -> ActivationStore {
        ActivationStore {
            backing: Arc::new(backing),
            width,
            rows,
            pieces: vec![Piece { first: 0, rows: 0..rows }],
            samples: Samples::None,
            splits: SplitRanges::new(),
            dropped: Vec::new(),
            id: OnceLock::new(),
        }
    }

    /// Rows held in memory. Refuses values that are not finite.
    pub fn from_rows(values: Vec<f32>, width: usize) -> Result<ActivationStore> {
        ActivationStore::from_memory(values, width)
    }

    /// Like [`ActivationStore::from_rows`], for rows in the memory of another owner, which is kept alive. They must not change.
    pub fn from_memory(values: impl AsRef<[f32]> + Send + Sync + 'static, width: usize) -> Result<ActivationStore> {
        let count = values.as_ref().len();
        if width == 0 || !count.is_multiple_of(width) {
            return Err(InputError::new("activations do not fill whole rows")
                .expected(format!("a multiple of the width {width}"))
                .found(format!("{count} values"))
                .advice("check the shape of the array")
                .into());
        }
        check_finite(values.as_ref(), 0, width)?;
        Ok(ActivationStore::new(Backing::Memory(RowMemory(Box::new(values)), None), width, count / width))
    }

    /// Like [`ActivationStore::from_rows`], for rows whose memory is reserved. The store keeps the reservation.
    pub fn from_reserved(rows: Reserved<Vec<f32>>, width: usize) -> Result<ActivationStore> {
        let (values, memory) = rows.into_parts();
        let mut store = ActivationStore::from_rows(values, width)?;
        if let Some(Backing::Memory(_, held)) = Arc::get_mut(&mut store.backing) {
            *held = Some(memory);
        }
        Ok(store)
    }

    /// Records which rows of the source were dropped, ascending.
    #[must_use]
    pub fn without_rows(self, dropped: Vec<usize>) -> ActivationStore {
        ActivationStore { dropped, ..self }
    }

    /// Rows of the source that were dropped because they were not finite, ascending.
    pub fn dropped_rows(&self) -> &[usize] {
        &self.dropped
    }

    /// One row per sample: the mean of its rows, or the first of them; a sample without rows is zero.
    pub fn pooled(&self, samples: &[u32], count: usize, first_only: bool) -> Result<ActivationStore> {
        if samples.len() != self.rows() {
            return Err(InputError::new("there is not one sample id per row of the embeddings")
                .expected(format!("{} ids, one per row", self.rows()))
                .found(format!("{} ids", samples.len()))
                .advice("export embeddings and sample ids from the same split")
                .into());
        }
        if let Some(row) = samples.iter().position(|&sample| sample as usize >= count) {
            return Err(InputError::new("a row belongs to a sample that does not exist")
                .expected(format!("a sample below {count}"))
                .found(samples[row])
                .at(format!("row {row}"))
                .advice("check the sample ids; they are counted from 0")
                .into());
        }
        let width = self.width();
        let (mut sums, mut rows) = (vec![0.0f64; count * width], vec![0usize; count]);
        for first in (0..self.rows()).step_by(4096) {
            let tile = self.tile(first..(first + 4096).min(self.rows()))?;
            for (row, sample) in tile.values.chunks_exact(width).zip(&samples[first..]) {
                let sample = *sample as usize;
                if first_only && rows[sample] > 0 {
                    continue;
                }
                rows[sample] += 1;
                sums[sample * width..][..width].iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            }
        }
        let mean = |(index, sum): (usize, &f64)| (sum / rows[index / width].max(1) as f64) as f32;
        ActivationStore::from_rows(sums.iter().enumerate().map(mean).collect(), width)
    }

    /// Maps the little-endian `f32` in a byte range of a file. Values are checked when they are first read.
    pub fn mapped(path: &Path, bytes: Range<u64>, width: usize) -> Result<ActivationStore> {
        let file = PlainFile::new(Map::open(path)?, bytes, width)?;
        let rows = file.rows();
        Ok(ActivationStore::new(Backing::File(file), width, rows))
    }

    /// Opens a directory that [`super::import`] wrote. Checks lengths, the files of checksums and sample ids now, and
    /// rows when they are first read.
    pub fn open(directory: &Path) -> Result<ActivationStore> {
        let layout = StoreManifest::read(directory)?;
        let mut shards = Vec::with_capacity(layout.shards.len());
        let mut first = 0;
        for shard in &layout.shards {
            shards.push((
                first,
                Shard::open(directory, &shard.stored, layout.block_bytes, Content::Finite(layout.dtype))?,
            ));
            first += shard.rows;
        }
        let backing = Backing::Shards { shards, dtype: layout.dtype, residency: Residency::default() };
        let mut store = ActivationStore::new(backing, layout.width, layout.rows);
        if let Some(listed) = &layout.samples {
            let shard = Shard::open(directory, listed, layout.block_bytes, Content::Any)?;
            shard.read::<u32>(0..layout.rows)?;
            store.samples = Samples::Stored(Box::new(shard));
        }
        store.splits = layout.splits;
        store.id = OnceLock::from(layout.id);
        Ok(store)
    }

    /// Sets the sample of each row.
    pub fn with_samples(mut self, samples: Vec<u32>) -> Result<ActivationStore> {
        if samples.len() != self.rows {
            return Err(InputError::new("there is not one sample id per row")
                .expected(format!("{} ids, one per row", self.rows))
                .found(format!("{} ids", samples.len()))
                .advice("export activations and sample ids from the same split")
                .into());
        }
        self.samples = Samples::Memory(samples);
        self.id = OnceLock::new();
        Ok(self)
    }

    /// Sets the named splits of the rows.
    #[cfg(test)]
    pub(crate) fn with_splits(mut self, splits: SplitRanges) -> Result<ActivationStore> {
        splits::check(&splits, self.rows)?;
        self.splits = splits;
        Ok(self)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The sample of each row, when rows are not samples themselves.
    pub fn samples(&self) -> Option<&[u32]> {
        match &self.samples {
            Samples::None => None,
            Samples::Memory(samples) => Some(samples),
            // All blocks were checked when the store was opened, so this cannot fail.
            Samples::Stored(shard) => shard.read(0..self.rows).ok(),
        }
    }

    /// The named splits of the rows.
    pub fn splits(&self) -> &SplitRanges {
        &self.splits
    }

    /// The rows of a split, renumbered from 0. Copies no values.
    pub fn select_split(&self, name: &str) -> Result<ActivationStore> {
        let ranges = splits::find(&self.splits, name)?;
        let (mut pieces, mut rows) = (Vec::new(), 0);
        for range in ranges {
            for (piece, part) in self.overlaps(range.clone()) {
                let start = piece.rows.start + (part.start - piece.first);
                pieces.push(Piece { first: rows, rows: start..start + part.len() });
                rows += part.len();
            }
        }
        let pick = |samples: &[u32]| ranges.iter().flat_map(|range| samples[range.clone()].to_vec()).collect();
        Ok(ActivationStore {
            backing: self.backing.clone(),
            width: self.width,
            rows,
            pieces,
            samples: self.samples().map(pick).map_or(Samples::None, Samples::Memory),
            splits: SplitRanges::new(),
            dropped: Vec::new(),
            id: OnceLock::new(),
        })
    }

    /// The pieces that contain some rows of this store, each with those rows.
    fn overlaps(&self, rows: Range<usize>) -> impl Iterator<Item = (&Piece, Range<usize>)> {
        let from = self.pieces.partition_point(|piece| piece.first + piece.rows.len() <= rows.start);
        self.pieces[from..].iter().take_while(move |piece| piece.first < rows.end).filter_map(move |piece| {
            let part = rows.start.max(piece.first)..rows.end.min(piece.first + piece.rows.len());
            (!part.is_empty()).then_some((piece, part))
        })
    }

    /// Consecutive rows: borrowed if they are contiguous, else copied together.
    pub fn tile(&self, rows: Range<usize>) -> Result<Tile<'_>> {
        if rows.start > rows.end || rows.end > self.rows {
            return Err(Error::Bug(format!("rows {rows:?} of a store of {}", self.rows)));
        }
        let mut values = Cow::Borrowed(&[][..]);
        for (piece, part) in self.overlaps(rows.clone()) {
            let mut next = piece.rows.start + (part.start - piece.first);
            let end = next + part.len();
            while next < end {
                let run = self.backing.run(next..end, self.width)?;
                if run.is_empty() {
                    return Err(Error::Bug(format!("row {next} is missing in the store")));
                }
                next += run.len() / self.width;
                if values.is_empty() {
                    values = run;
                } else {
                    let all = values.to_mut();
                    all.reserve_exact(rows.len() * self.width - all.len());
                    all.extend_from_slice(&run);
                }
            }
        }
        Ok(Tile { first_row: rows.start, width: self.width, values })
    }

    /// All rows, if they are one slice of memory or of a mapped file and need no copy.
    pub fn contiguous(&self) -> Result<Option<&[f32]>> {
        let [piece] = &self.pieces[..] else { return Ok(None) };
        // The first row is borrowed if and only if all rows are: neither decoded nor copied because of its alignment.
        if self.rows == 0 || !matches!(self.tile(0..1)?.values, Cow::Borrowed(_)) {
            return Ok(None);
        }
        Ok(match self.backing.run(piece.rows.clone(), self.width)? {
            Cow::Borrowed(values) if values.len() == self.rows * self.width => Some(values),
            _ => None,
        })
    }

    /// The content address of rows, width and samples: equal for equal content, in memory or on disk as `f32`; a directory in
    /// half precision has an address of its own. Read from the manifest of a stored directory, otherwise computed on the
    /// first call.
    pub fn id(&self) -> Result<String> {
        if let Some(id) = self.id.get() {
            return Ok(id.clone());
        }
        let mut hash = blake3::Hasher::new();
        let step = ((1 << 20) / self.width).max(1);
        for first in (0..self.rows).step_by(step) {
            let tile = self.tile(first..(first + step).min(self.rows))?;
            hash.update(bytemuck::cast_slice(&tile.values));
        }
        let samples = self.samples().map(|samples| blake3::hash(bytemuck::cast_slice(samples)));
        let id = content_id([self.rows, self.width], StoredNumber::F32, samples, hash.finalize());
        Ok(self.id.get_or_init(|| id).clone())
    }

    /// The rows in order, for [`super::import`].
    pub fn reader(&self) -> StoreReader<'_> {
        StoreReader { store: self, next: 0 }
    }
}

/// Reads a store from its first row to its last.
#[derive(Debug)]
pub struct StoreReader<'a> {
    store: &'a ActivationStore,
    next: usize,
}

impl RowReader for StoreReader<'_> {
    fn shape(&self) -> Shape {
        Shape { rows: self.store.rows, width: self.store.width, rows_per_sample: None }
    }

    fn kind(&self) -> &str {
        "etalon"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let rows = (out.len() / self.store.width).min(self.store.rows - self.next);
        let tile = self.store.tile(self.next..self.next + rows)?;
        out[..tile.values.len()].copy_from_slice(&tile.values);
        self.next += rows;
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_renumbers_rows_and_samples() {
        let values: Vec<f32> = (0..12).map(|value| value as f32).collect();
        let store = ActivationStore::from_rows(values, 2).unwrap();
        let splits: SplitRanges = [("odd".into(), vec![1..2, 3..4, 5..6]), ("none".into(), vec![])].into();
        let store = store.with_samples(vec![0, 0, 1, 1, 2, 2]).unwrap().with_splits(splits).unwrap();
        let odd = store.select_split("odd").unwrap();
        assert_eq!((odd.rows(), odd.samples()), (3, Some(&[0u32, 1, 2][..])));
        assert_eq!(odd.tile(0..3).unwrap().values[..], [2.0, 3.0, 6.0, 7.0, 10.0, 11.0]);
        assert!(matches!(odd.tile(1..2).unwrap().values, Cow::Borrowed([6.0, 7.0])));
        let again = ActivationStore::from_rows(vec![2.0, 3.0, 6.0, 7.0, 10.0, 11.0], 2).unwrap();
        assert_ne!(odd.id().unwrap(), again.id().unwrap());
        assert_eq!(odd.id().unwrap(), again.with_samples(vec![0, 1, 2]).unwrap().id().unwrap());
        assert_eq!(store.select_split("none").unwrap().tile(0..0).unwrap().rows(), 0);
        let error = store.select_split("even").unwrap_err().to_string();
        assert!(error.contains("none, odd"), "{error}");
    }

    #[test]
    fn rows_are_pooled_by_sample_and_other_samples_are_refused() {
        let store = ActivationStore::from_rows(vec![1.0, 2.0, 3.0, 4.0, 5.0, 8.0], 2).unwrap();
        // Rows 0 and 2 are of sample 2, row 1 is of sample 0: means (3, 5) and (3, 4); sample 1 has no rows.
        let pooled = |first| store.pooled(&[2, 0, 2], 3, first).unwrap().tile(0..3).unwrap().values.to_vec();
        assert_eq!(pooled(false), [3.0, 4.0, 0.0, 0.0, 3.0, 5.0]);
        assert_eq!(pooled(true), [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        let error = store.pooled(&[2, 0, 3], 3, false).unwrap_err().to_string();
        assert!(error.contains("row 2") && error.contains("below 3"), "{error}");
        assert!(store.pooled(&[0, 1], 3, false).is_err());
    }
}
