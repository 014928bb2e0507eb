//! Imports rows of any source into a stored directory, in bounded memory.

use std::path::Path;

use super::ActivationStore;
use super::backing::check_finite;
use super::checksums::BLOCK_BYTES;
use super::layout::{FORMAT, RowShard, SAMPLES, StoreManifest, content_id, is_ours, shard_name};
use super::output::OutputDirectory;
use super::shard::{ShardWriter, differs};
use super::splits::{self, Boundaries, SplitRanges};
use super::stored_number::StoredNumber;
use crate::context::{Context, Monitor};
use crate::error::{Error, InputError, Result};
use crate::input::{Finite, RowReader, Shape};

/// Options of an import.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Rows per shard; `None` for about 256 MB.
    pub shard_rows: Option<usize>,
    /// What to do with values that are not finite.
    pub finite: Finite,
    /// The sample of each row of the source.
    pub samples: Option<Vec<u32>>,
    /// Named splits of the rows of the source.
    pub splits: SplitRanges,
    /// The number type of the stored rows.
    pub dtype: StoredNumber,
}

const SHARD_BYTES: usize = 256_000_000;
const MOST_BUFFER_BYTES: u64 = 64_000_000;
/// Bytes per row in the buffer besides its values: its sample, and whether it is kept.
const EXTRA_BYTES: u64 = 4 + 8;

/// Copies all rows of a source into a directory. After a crash, a second run keeps the shards that are already complete
/// and correct. A directory with another finished store is refused.
pub fn import(
    reader: &mut dyn RowReader,
    out: &Path,
    options: &ImportOptions,
    context: &Context,
) -> Result<ActivationStore> {
    let shape = reader.shape();
    let row_bytes = check_shape(shape, options)?;
    let budget = context.budget();
    let buffer_rows = (budget.left() / 4).min(MOST_BUFFER_BYTES) / (row_bytes as u64 + EXTRA_BYTES);
    let buffer_rows = (buffer_rows as usize).clamp(1, shape.rows.max(1));
    let _memory = budget.reserve(buffer_rows as u64 * (row_bytes as u64 + EXTRA_BYTES), "the import buffer")?;
    let mut buffer = vec![0f32; buffer_rows * shape.width];

    let output = OutputDirectory::claim(out, FORMAT, is_ours)?;
    if output.is_finished() {
        check_same_shape(out, shape, options)?;
    }
    context.start("importing activations", shape.rows as u64, "rows");
    let mut rows = ShardRows::new(&output, shape, options);
    let copied = copy(reader, &mut buffer, &mut rows, context);
    context.finish();
    copied?;
    let layout = rows.finish(reader.kind())?;
    let files: Vec<_> = layout.shards.iter().map(|shard| &shard.stored).chain(&layout.samples).collect();
    output.finish(&files, &layout)?;
    ActivationStore::open(out)
}

fn check_shape(shape: Shape, options: &ImportOptions) -> Result<usize> {
    let row_bytes = shape.width.checked_mul(4).filter(|&bytes| bytes > 0);
    let Some(row_bytes) = row_bytes.filter(|bytes| bytes.checked_mul(shape.rows).is_some()) else {
        return Err(InputError::new("activations have an impossible shape")
            .expected("at least one value per row, and fewer bytes than memory addresses")
            .found(format!("{} rows of {} values", shape.rows, shape.width))
            .advice("check the shape of the array")
            .into());
    };
    if let Some(samples) = &options.samples
        && samples.len() != shape.rows
    {
        return Err(InputError::new("there is not one sample id per row")
            .expected(format!("{} ids, one per row", shape.rows))
            .found(format!("{} ids", samples.len()))
            .advice("export rows and sample ids from the same split")
            .into());
    }
    let last_sample = shape.rows_per_sample.map(|rows| shape.rows.saturating_sub(1).checked_div(rows));
    if last_sample.is_some_and(|last| last.is_none_or(|last| last > u32::MAX as usize)) {
        return Err(InputError::new("there are too many samples, or samples without rows")
            .expected(format!("at most {} samples of at least one row", u32::MAX))
            .found(format!("{} rows, {} per sample", shape.rows, shape.rows_per_sample.unwrap_or(0)))
            .advice("check the shape of the array: samples × tokens × width")
            .into());
    }
    splits::check(&options.splits, shape.rows)?;
    Ok(row_bytes)
}

/// Refuses a source whose shape is not that of the finished store, before the source is read.
fn check_same_shape(out: &Path, shape: Shape, options: &ImportOptions) -> Result<()> {
    let finished = StoreManifest::read(out)?;
    let rows = finished.rows.saturating_add(finished.dropped_rows);
    if (rows, finished.width, finished.dtype) == (shape.rows, shape.width, options.dtype)
        && (finished.dropped_rows == 0 || options.finite == Finite::DropRows)
    {
        return Ok(());
    }
    Err(differs(out)
        .found(format!(
            "{rows} rows of {} {}; the source has {} of {} {}",
            finished.width,
            values(finished.dtype),
            shape.rows,
            shape.width,
            values(options.dtype)
        ))
        .into())
}

fn copy(reader: &mut dyn RowReader, buffer: &mut [f32], rows: &mut ShardRows<'_>, context: &Context) -> Result<()> {
    loop {
        context.check()?;
        let read = reader.read(buffer)?;
        let Some(values) = buffer.get_mut(..read.saturating_mul(rows.shape.width)) else {
            return Err(Error::Bug(format!(
                "a reader of {} returned {read} rows, more than its buffer has",
                reader.kind()
            )));
        };
        if read == 0 {
            break;
        }
        rows.add(values)?;
        context.advance(read as u64);
    }
    if rows.seen == rows.shape.rows {
        return Ok(());
    }
    Err(InputError::new("the source has fewer rows than its header states")
        .expected(format!("{} rows", rows.shape.rows))
        .found(format!("{} rows", rows.seen))
        .advice("the file is incomplete or still being written; try again when it is complete")
        .into())
}

/// Rows on their way into shards.
struct ShardRows<'a> {
    output: &'a OutputDirectory,
    shape: Shape,
    options: &'a ImportOptions,
    shard_rows: usize,
    row_bytes: usize,
    /// Rows of the source that were read, and how many of them were kept.
    seen: usize,
    kept: usize,
    shard: Option<ShardWriter>,
    shards: Vec<RowShard>,
    samples: Option<ShardWriter>,
    boundaries: Boundaries,
    values: blake3::Hasher,
}

impl<'a> ShardRows<'a> {
    fn new(output: &'a OutputDirectory, shape: Shape, options: &'a ImportOptions) -> ShardRows<'a> {
        let row_bytes = shape.width * options.dtype.bytes();
        ShardRows {
            output,
            shape,
            options,
            shard_rows: options.shard_rows.unwrap_or(SHARD_BYTES / row_bytes).max(1),
            row_bytes,
            seen: 0,
            kept: 0,
            shard: None,
            shards: Vec::new(),
            samples: None,
            boundaries: Boundaries::of(&options.splits),
            values: blake3::Hasher::new(),
        }
    }

    /// Adds the next rows of the source.
    fn add(&mut self, values: &mut [f32]) -> Result<()> {
        let width = self.shape.width;
        let rows = values.len() / width;
        if self.seen + rows > self.shape.rows {
            return Err(Error::Bug(format!("a reader gave more than its {} rows", self.shape.rows)));
        }
        let kept = match (check_finite(values, self.seen, width), self.options.finite) {
            (Ok(()), _) => None,
            (Err(error), Finite::Refuse) => return Err(error),
            (Err(_), Finite::DropRows) => Some(keep_finite(values, width)),
        };
        let start = self.kept;
        let ids = match &kept {
            // The usual case: all rows are kept.
            None => {
                for row in 0..=rows {
                    self.boundaries.pass(self.seen + row, start + row);
                }
                self.sample_ids(0..rows)
            }
            Some(kept) => {
                let mut next = 0;
                for row in 0..=rows {
                    self.boundaries.pass(self.seen + row, start + next);
                    next += usize::from(kept.get(next) == Some(&row));
                }
                self.sample_ids(kept.iter().copied())
            }
        };
        let count = kept.map_or(rows, |kept| kept.len());
        self.write_samples(ids)?;
        self.write_rows(&self.options.dtype.encode(&values[..count * width], self.seen, width)?)?;
        self.seen += rows;
        self.kept += count;
        Ok(())
    }

    /// The samples of rows, counted from the first row of the buffer; `None` if every row is a sample.
    fn sample_ids(&self, rows: impl Iterator<Item = usize>) -> Option<Vec<u32>> {
        match (&self.options.samples, self.shape.rows_per_sample) {
            (Some(samples), _) => Some(rows.map(|row| samples[self.seen + row]).collect()),
            (None, Some(per_sample)) if per_sample > 1 => {
                Some(rows.map(|row| ((self.seen + row) / per_sample) as u32).collect())
            }
            _ => None,
        }
    }

    fn write_samples(&mut self, ids: Option<Vec<u32>>) -> Result<()> {
        let Some(ids) = ids else { return Ok(()) };
        if self.samples.is_none() {
            self.samples = Some(self.output.file(SAMPLES)?);
        }
        self.samples.iter_mut().try_for_each(|samples| samples.append(bytemuck::cast_slice(&ids)))
    }

    fn write_rows(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.values.update(bytes);
        while !bytes.is_empty() {
            let shard = match &mut self.shard {
                Some(shard) => shard,
                None => self.shard.insert(self.output.file(&shard_name(self.shards.len(), self.options.dtype))?),
            };
            let free = self.shard_rows.saturating_mul(self.row_bytes) - shard.bytes();
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            shard.append(now)?;
            bytes = later;
            if now.len() == free {
                self.finish_shard()?;
            }
        }
        Ok(())
    }

    fn finish_shard(&mut self) -> Result<()> {
        if let Some(shard) = self.shard.take() {
            let (stored, _) = shard.finish()?;
            self.shards.push(RowShard { rows: stored.bytes / self.row_bytes, stored });
        }
        Ok(())
    }

    fn finish(mut self, source: &str) -> Result<StoreManifest> {
        self.finish_shard()?;
        if self.shape.rows == 0 {
            self.write_samples(self.sample_ids(0..0))?;
            self.boundaries.pass(0, 0);
        }
        let (samples, hash) = self.samples.map(ShardWriter::finish).transpose()?.unzip();
        Ok(StoreManifest {
            rows: self.kept,
            width: self.shape.width,
            id: content_id([self.kept, self.shape.width], self.options.dtype, hash, self.values.finalize()),
            source: source.to_string(),
            dropped_rows: self.seen - self.kept,
            dtype: self.options.dtype,
            block_bytes: BLOCK_BYTES,
            shards: self.shards,
            samples,
            splits: self.boundaries.adjusted(&self.options.splits),
        })
    }
}

/// "values", with their number type if it is not the usual one.
fn values(dtype: StoredNumber) -> String {
    if dtype.is_f32() { "values".into() } else { format!("values in {}", dtype.name()) }
}

/// Moves the finite rows to the front; returns their indices.
fn keep_finite(values: &mut [f32], width: usize) -> Vec<usize> {
    let rows = 0..values.len() / width;
    let is_finite = |row: &usize| values[row * width..][..width].iter().all(|value| value.is_finite());
    let kept: Vec<usize> = rows.filter(is_finite).collect();
    for (index, &row) in kept.iter().enumerate() {
        values.copy_within(row * width..(row + 1) * width, index * width);
    }
    kept
}
