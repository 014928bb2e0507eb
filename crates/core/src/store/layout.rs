//! The manifest of stored activations, version 1.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::manifest::{self, Format, StoredFile};
use super::splits::{self, SplitRanges};
use crate::error::{InFile, InputError, Result};

/// Stored activations.
pub const FORMAT: Format = Format { name: "etalon-activations", version: 1 };

/// The name of the file with the sample of each row.
pub const SAMPLES: &str = "samples.u32";

/// What the manifest says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreManifest {
    /// How many rows there are.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// The content address.
    pub id: String,
    /// What kind of source the rows came from.
    pub source: String,
    /// How many rows of the source were left out, because they held values that are not finite.
    pub dropped_rows: usize,
    /// Bytes per checksum.
    pub block_bytes: usize,
    /// The rows, in order.
    pub shards: Vec<RowShard>,
    /// The sample of each row, if rows are not samples.
    pub samples: Option<StoredFile>,
    /// Named parts of the rows.
    pub splits: SplitRanges,
}

/// A file of consecutive rows.
#[derive(Debug, Serialize, Deserialize)]
pub struct RowShard {
    /// How many.
    pub rows: usize,
    /// Where.
    #[serde(flatten)]
    pub stored: StoredFile,
}

/// The name of a shard.
pub fn shard_name(place: usize) -> String {
    format!("shard-{place:05}.f32")
}

/// Is this the name of a data file or seal of stored activations?
pub fn is_ours(name: &str) -> bool {
    let number = |name: &str| name.len() >= 5 && name.bytes().all(|byte| byte.is_ascii_digit());
    let shard = name.strip_prefix("shard-").and_then(|rest| rest.strip_suffix(".f32").or(rest.strip_suffix(".crc")));
    name == SAMPLES || name == "samples.crc" || shard.is_some_and(number)
}

impl StoreManifest {
    /// Reads a manifest and makes sure that its numbers fit together; no number in it is trusted before that.
    pub fn read(directory: &Path) -> Result<StoreManifest> {
        let layout: StoreManifest = manifest::read_as(directory, FORMAT)?;
        layout.check().in_file(&directory.join(manifest::NAME))?;
        Ok(layout)
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(InputError::new("a manifest contradicts itself").found(what).into());
        if self.width == 0 || self.block_bytes == 0 || !self.block_bytes.is_multiple_of(8) {
            return wrong("a width or block size that cannot be");
        }
        let bytes = |rows: usize| rows.checked_mul(self.width).and_then(|values| values.checked_mul(4));
        let mut rows = Some(0usize);
        for (place, shard) in self.shards.iter().enumerate() {
            // Names are compared, never followed, so a manifest cannot lead out of its directory.
            if shard.stored.file != shard_name(place)
                || shard.rows == 0
                || bytes(shard.rows) != Some(shard.stored.bytes)
            {
                return wrong(&format!("shard {place} with a wrong name or length"));
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
            return wrong("sample ids that do not cover its rows");
        }
        splits::check(&self.splits, self.rows)
    }
}

/// The content address of rows: the same for equal content, wherever it lies and however it is cut.
pub fn content_id(rows: usize, width: usize, samples: Option<blake3::Hash>, values: blake3::Hash) -> String {
    let mut hash = blake3::Hasher::new_derive_key("etalon activations v1");
    hash.update(&(rows as u64).to_le_bytes()).update(&(width as u64).to_le_bytes()).update(values.as_bytes());
    if let Some(samples) = samples {
        hash.update(samples.as_bytes());
    }
    format!("blake3:{}", hash.finalize().to_hex())
}
