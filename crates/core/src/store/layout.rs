//! The manifest of stored activations, version 1.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::{self, DirectoryFormat, StoredFile};
use super::splits::{self, SplitRanges};
use super::stored_number::StoredNumber;
use crate::error::{InFile, Result};

/// Stored activations.
pub const FORMAT: DirectoryFormat = DirectoryFormat { name: "etalon-activations", version: 1 };

/// The name of the file with the sample of each row.
pub const SAMPLES: &str = "samples.u32";

/// The content of the manifest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreManifest {
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// The content address.
    pub id: String,
    /// Format and number type of the source.
    pub source: String,
    /// Number of rows of the source that were dropped because they were not finite.
    pub dropped_rows: usize,
    /// The number type of the rows; `f32` if there is none.
    #[serde(default, skip_serializing_if = "StoredNumber::is_f32")]
    pub dtype: StoredNumber,
    /// Bytes per checksum.
    pub block_bytes: usize,
    /// The rows, in order.
    pub shards: Vec<RowShard>,
    /// The sample of each row, if rows are not samples.
    pub samples: Option<StoredFile>,
    /// Named splits of the rows.
    pub splits: SplitRanges,
}

/// A file of consecutive rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct RowShard {
    /// Number of rows.
    pub rows: usize,
    /// The file.
    #[serde(flatten)]
    pub stored: StoredFile,
}

/// The name of a shard.
pub fn shard_name(index: usize, dtype: StoredNumber) -> String {
    format!("shard-{index:05}.{}", dtype.name())
}

/// True for the names of data files and checksums of stored activations.
pub fn is_ours(name: &str) -> bool {
    let number = |name: &str| name.len() >= 5 && name.bytes().all(|byte| byte.is_ascii_digit());
    let ending = |ending: &str| StoredNumber::NAMES.contains(&ending) || ending == "crc";
    let shard = name.strip_prefix("shard-").and_then(|rest| rest.split_once('.'));
    name == SAMPLES || name == "samples.crc" || shard.is_some_and(|(digits, end)| number(digits) && ending(end))
}

impl StoreManifest {
    /// Reads a manifest and checks that its numbers agree.
    pub fn read(directory: &Path) -> Result<StoreManifest> {
        let layout: StoreManifest = manifest::read_as(directory, FORMAT)?;
        layout.check().in_file(&directory.join(manifest::NAME))?;
        Ok(layout)
    }

    fn check(&self) -> Result<()> {
        let wrong = |found: &str| Err(manifest::contradiction(found).into());
        if self.width == 0 || self.block_bytes == 0 || !self.block_bytes.is_multiple_of(8) {
            return wrong("an impossible width or block size");
        }
        let bytes =
            |rows: usize| rows.checked_mul(self.width).and_then(|values| values.checked_mul(self.dtype.bytes()));
        let mut rows = Some(0usize);
        for (index, shard) in self.shards.iter().enumerate() {
            // Names must be the expected ones, so a manifest cannot refer to files outside of its directory.
            if shard.stored.file != shard_name(index, self.dtype)
                || shard.rows == 0
                || bytes(shard.rows) != Some(shard.stored.bytes)
            {
                return wrong(&format!("shard {index} with a wrong name or length"));
            }
            rows = rows.and_then(|rows| rows.checked_add(shard.rows));
        }
        if rows != Some(self.rows) || bytes(self.rows).is_none() {
            return wrong("shards that do not add up to its rows");
        }
        if self
            .samples
            .as_ref()
            .is_some_and(|file| file.file != SAMPLES || Some(file.bytes) != self.rows.checked_mul(4))
        {
            return wrong("a file of sample ids with a wrong name or length");
        }
        splits::check(&self.splits, self.rows)
    }
}

/// The content address of rows: the same for equal content, independent of storage and shards. `values` is the hash of the
/// stored bytes, so rows of another number type have another address.
pub fn content_id(
    [rows, width]: [usize; 2],
    dtype: StoredNumber,
    samples: Option<blake3::Hash>,
    values: blake3::Hash,
) -> String {
    let mut hash = blake3::Hasher::new_derive_key("etalon activations v1");
    hash.update(&(rows as u64).to_le_bytes()).update(&(width as u64).to_le_bytes()).update(values.as_bytes());
    if !dtype.is_f32() {
        hash.update(dtype.name().as_bytes());
    }
    if let Some(samples) = samples {
        hash.update(samples.as_bytes());
    }
    format!("blake3:{}", hash.finalize().to_hex())
}
