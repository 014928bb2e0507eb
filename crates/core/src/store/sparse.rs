//! Sparse rows on disk: offsets of the rows, columns that are not zero, and their values.

use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::{self, DirectoryFormat, StoredFile};
use super::map::Residency;
use super::shard::{CheckedBlocks, Content, Shard, damaged};
use crate::error::{Error, InFile, InputError, Result};

/// Stored codes.
pub const FORMAT: DirectoryFormat = DirectoryFormat { name: "etalon-codes", version: 1 };

/// The names of the three files: offsets, latents, values.
pub const FILES: [&str; 3] = ["offsets.u64", "latents.u32", "values.f32"];

/// Rows whose structure is checked together, once.
const BLOCK_ROWS: usize = 1024;

/// True for the names of data files and checksums of stored codes.
pub fn is_ours(name: &str) -> bool {
    FILES.contains(&name) || ["offsets.crc", "latents.crc", "values.crc"].contains(&name)
}

/// The content of the manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SparseLayout {
    /// Number of rows.
    pub rows: usize,
    /// Number of latents.
    pub latents: usize,
    /// Number of entries that are not zero.
    pub entries: usize,
    /// The content address.
    pub id: String,
    /// Bytes per checksum.
    pub block_bytes: usize,
    /// Offsets (one more than rows), latents, values.
    pub files: [StoredFile; 3],
}

impl SparseLayout {
    fn read(directory: &Path) -> Result<SparseLayout> {
        let layout: SparseLayout = manifest::read_as(directory, FORMAT)?;
        let lengths = [
            layout.rows.checked_add(1).and_then(|offsets| offsets.checked_mul(8)),
            layout.entries.checked_mul(4),
            layout.entries.checked_mul(4),
        ];
        let fits = |((file, name), length): ((&StoredFile, &str), Option<usize>)| {
            file.file == name && Some(file.bytes) == length
        };
        let latents = u32::try_from(layout.latents).is_ok();
        let blocks = layout.block_bytes > 0 && layout.block_bytes.is_multiple_of(8);
        if latents && blocks && layout.files.iter().zip(FILES).zip(lengths).all(fits) {
            return Ok(layout);
        }
        Err(manifest::contradiction("files whose names or lengths do not agree with its numbers")
            .file(&directory.join(manifest::NAME))
            .into())
    }
}

/// Stored sparse rows, memory-mapped.
#[derive(Debug)]
pub struct MappedSparseRows {
    layout: SparseLayout,
    offsets: Shard,
    latents: Shard,
    values: Shard,
    checked: CheckedBlocks,
    residency: Residency,
}

/// Offsets (one more than rows, counted from the first entry of all rows), latents, values.
pub type Slices<'a> = (&'a [u64], &'a [u32], &'a [f32]);

impl MappedSparseRows {
    /// Opens a directory. Checks lengths and the files of checksums now, and rows when they are first read.
    pub fn open(directory: &Path) -> Result<MappedSparseRows> {
        let layout = SparseLayout::read(directory)?;
        let open = |file: &StoredFile| Shard::open(directory, file, layout.block_bytes, Content::Any);
        let [offsets, latents, values] = &layout.files;
        let (offsets, latents, values) = (open(offsets)?, open(latents)?, open(values)?);
        let rows = layout.rows;
        let ends = [offsets.read::<u64>(0..1)?[0], offsets.read::<u64>(rows..rows + 1)?[0]];
        if ends != [0, layout.entries as u64] {
            return Err(damaged(offsets.map().path())
                .expected(format!("offsets from 0 to {}", layout.entries))
                .found(format!("{} to {}", ends[0], ends[1]))
                .into());
        }
        let checked = CheckedBlocks::new(rows.div_ceil(BLOCK_ROWS));
        Ok(MappedSparseRows { layout, offsets, latents, values, checked, residency: Residency::default() })
    }

    /// The content of the manifest.
    pub fn layout(&self) -> &SparseLayout {
        &self.layout
    }

    /// Consecutive rows, after their structure is checked.
    pub fn slices(&self, rows: Range<usize>) -> Result<Slices<'_>> {
        if rows.start > rows.end || rows.end > self.layout.rows {
            return Err(Error::Bug(format!("rows {rows:?} of codes with {}", self.layout.rows)));
        }
        // An empty range still returns one offset, so its block is checked too.
        let blocks = rows.start / BLOCK_ROWS..rows.end.max(rows.start + 1).min(self.layout.rows).div_ceil(BLOCK_ROWS);
        self.checked.check(blocks, |block| {
            let first = block * BLOCK_ROWS;
            let slices = self.unchecked(first..(first + BLOCK_ROWS).min(self.layout.rows))?;
            self.count(slices);
            check(slices, first, self.layout.latents).in_file(self.latents.map().path())
        })?;
        let slices = self.unchecked(rows)?;
        self.count(slices);
        Ok(slices)
    }

    fn count(&self, (offsets, latents, values): Slices<'_>) {
        let maps = [&self.offsets, &self.latents, &self.values].map(Shard::map);
        self.residency.count(size_of_val(offsets) + size_of_val(latents) + size_of_val(values), maps.into_iter());
    }

    fn unchecked(&self, rows: Range<usize>) -> Result<Slices<'_>> {
        let offsets: &[u64] = self.offsets.read(rows.start..rows.end + 1)?;
        if !offsets.is_sorted() || offsets[offsets.len() - 1] > self.layout.entries as u64 {
            return Err(damaged(self.offsets.map().path())
                .expected(format!("ascending offsets up to {}", self.layout.entries))
                .at(format!("rows {} to {}", rows.start, rows.end))
                .into());
        }
        let entries = offsets[0] as usize..offsets[offsets.len() - 1] as usize;
        Ok((offsets, self.latents.read(entries.clone())?, self.values.read(entries)?))
    }

    /// Reads every byte of the three files, then the structure of every row.
    pub fn check_all(&self) -> Result<()> {
        let shards = [&self.offsets, &self.latents, &self.values];
        shards.into_iter().try_for_each(|shard| shard.check_all(|_| Ok(())))?;
        for first in (0..self.layout.rows).step_by(BLOCK_ROWS) {
            self.slices(first..(first + BLOCK_ROWS).min(self.layout.rows))?;
        }
        let found = content_id(self.layout.latents, shards.map(Shard::hash));
        if found == self.layout.id {
            return Ok(());
        }
        Err(manifest::other_content(&self.layout.id, &found).into())
    }
}

/// Refuses rows whose latents do not ascend or are out of range, and values that are zero or not finite. Offsets must
/// ascend.
pub fn check((offsets, latents, values): Slices<'_>, first_row: usize, width: usize) -> Result<()> {
    for (index, ends) in offsets.windows(2).enumerate() {
        let range = (ends[0] - offsets[0]) as usize..(ends[1] - offsets[0]) as usize;
        let (row, row_values) = (&latents[range.clone()], &values[range]);
        let ascending = row.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascending || row.last().is_some_and(|&latent| latent as usize >= width) {
            return Err(InputError::new("codes are not sorted sparse rows")
                .expected(format!("ascending latents below {width}"))
                .at(format!("row {}", first_row + index))
                .advice("encode the activations again")
                .into());
        }
        if let Some(entry) = row_values.iter().position(|value| !value.is_finite() || *value == 0.0) {
            return Err(InputError::new("codes contain an invalid value")
                .expected("finite numbers other than 0")
                .found(row_values[entry])
                .at(format!("row {}, latent {}", first_row + index, row[entry]))
                .advice("encode the activations again")
                .into());
        }
    }
    Ok(())
}

/// The content address of sparse rows, from the BLAKE3 of offsets, latents and values, so that a writer can compute it
/// row by row.
pub fn content_id(latents: usize, hashes: [blake3::Hash; 3]) -> String {
    let mut hash = blake3::Hasher::new_derive_key("etalon codes v1");
    hash.update(&(latents as u64).to_le_bytes());
    hashes.iter().for_each(|part| {
        hash.update(part.as_bytes());
    });
    format!("blake3:{}", hash.finalize().to_hex())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::checksums::BLOCK_BYTES;
    use crate::store::output::OutputDirectory;
    use crate::store::verify;

    /// Writes rows without checking them, with correct checksums.
    fn write(directory: &Path, (offsets, latents, values): Slices<'_>, width: usize) {
        let output = OutputDirectory::claim(directory, FORMAT, is_ours).unwrap();
        let parts: [&[u8]; 3] =
            [bytemuck::cast_slice(offsets), bytemuck::cast_slice(latents), bytemuck::cast_slice(values)];
        let mut index = 0;
        let written = parts.map(|bytes| {
            let mut file = output.file(FILES[index]).unwrap();
            index += 1;
            file.append(bytes).unwrap();
            file.finish().unwrap()
        });
        let id = content_id(width, written.each_ref().map(|(_, hash)| *hash));
        let files = written.map(|(file, _)| file);
        let (rows, entries) = (offsets.len() - 1, values.len());
        let layout = SparseLayout { rows, latents: width, entries, id, block_bytes: BLOCK_BYTES, files };
        output.finish(&layout.files.each_ref(), &layout).unwrap();
    }

    #[test]
    fn invalid_rows_are_refused() {
        let good: Slices<'_> = (&[0, 2, 2, 3], &[0, 4, 1], &[1.0, -2.0, 3.0]);
        let directory = tempfile::tempdir().unwrap();
        write(&directory.path().join("good"), good, 5);
        let rows = MappedSparseRows::open(&directory.path().join("good")).unwrap();
        assert_eq!(rows.slices(0..3).unwrap(), good);
        assert_eq!(rows.slices(2..3).unwrap(), (&[2, 3][..], &[1][..], &[3.0][..]));
        assert_eq!(rows.slices(3..3).unwrap().0, [3]);
        let bad: [Slices<'_>; 7] = [
            (&[0, 2, 1, 3], good.1, good.2),
            (&[0, 9, 2, 3], good.1, good.2),
            (&[0, 2, 2, 2], good.1, good.2),
            (good.0, &[4, 0, 1], good.2),
            (good.0, &[0, 5, 1], good.2),
            (good.0, good.1, &[1.0, 0.0, 3.0]),
            (good.0, good.1, &[1.0, f32::NAN, 3.0]),
        ];
        for (number, slices) in bad.into_iter().enumerate() {
            let out = directory.path().join(format!("bad-{number}"));
            write(&out, slices, 5);
            assert!(verify(&out).is_err(), "{number}");
            assert!(MappedSparseRows::open(&out).and_then(|rows| rows.slices(0..3).map(drop)).is_err(), "{number}");
        }
    }

    #[test]
    fn only_the_rows_that_are_read_are_checked() {
        // Row 1500 contains a zero; the other block of rows is valid.
        let offsets: Vec<u64> = (0..=2000).collect();
        let mut values = vec![1.0; 2000];
        values[1500] = 0.0;
        let directory = tempfile::tempdir().unwrap();
        write(directory.path(), (&offsets, &[0; 2000], &values), 1);
        let rows = MappedSparseRows::open(directory.path()).unwrap();
        rows.slices(0..1024).unwrap();
        let error = rows.slices(1024..1025).unwrap_err().to_string();
        assert!(error.contains("row 1500, latent 0"), "{error}");
    }
}
