//! Checks every byte of a stored directory.

use std::fs;
use std::path::Path;

use super::checksums::Checksums;
use super::layout::{self, StoreManifest, content_id};
use super::manifest::{self, DirectoryFormat, StoredFile};
use super::shard::{Content, Shard};
use super::sparse::{self, MappedSparseRows};
use crate::error::{Error, InFile, InputError, Result};

/// The summary of a directory without errors.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The format of the directory.
    pub format: String,
    /// Number of files that were read, manifest and checksums included.
    pub files: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// Number of rows.
    pub rows: usize,
    /// The content address.
    pub id: String,
}

/// A format of directories and the function that verifies it. Other modules may add their own.
#[derive(Clone, Copy, Debug)]
pub struct DirectoryKind {
    /// Its format.
    pub format: DirectoryFormat,
    /// Checks every byte of a directory.
    pub verify: fn(&Path) -> Result<Verified>,
}

/// The formats of this module.
pub const KINDS: &[DirectoryKind] = &[
    DirectoryKind { format: layout::FORMAT, verify: activations },
    DirectoryKind { format: sparse::FORMAT, verify: codes },
];

/// Checks every byte of a directory: lengths, checksums, BLAKE3, structure. The error states the first problem.
pub fn verify(directory: &Path) -> Result<Verified> {
    verify_among(directory, KINDS)
}

/// Like [`verify`], for other formats.
pub fn verify_among(directory: &Path, kinds: &[DirectoryKind]) -> Result<Verified> {
    let fields = manifest::read(directory)?;
    let format = manifest::format_of(&fields);
    let Some(kind) = kinds.iter().find(|kind| kind.format.name == format) else {
        let known: Vec<&str> = kinds.iter().map(|kind| kind.format.name).collect();
        return Err(InputError::new("unknown format of the directory")
            .expected(known.join(", "))
            .found(format)
            .advice("install the newest Etalon")
            .file(directory)
            .into());
    };
    (kind.verify)(directory).in_file(&directory.join(manifest::NAME))
}

fn activations(directory: &Path) -> Result<Verified> {
    let layout = StoreManifest::read(directory)?;
    let mut hash = blake3::Hasher::new();
    for shard in &layout.shards {
        let shard = Shard::open(directory, &shard.stored, layout.block_bytes, Content::Finite(layout.dtype))?;
        shard.check_all(|bytes| {
            hash.update(bytes);
            Ok(())
        })?;
    }
    let mut samples = None;
    if let Some(listed) = &layout.samples {
        let shard = Shard::open(directory, listed, layout.block_bytes, Content::Any)?;
        shard.check_all(|_| Ok(()))?;
        samples = Some(shard.hash());
    }
    let found = content_id([layout.rows, layout.width], layout.dtype, samples, hash.finalize());
    if found != layout.id {
        return Err(manifest::other_content(&layout.id, &found).into());
    }
    let files = layout.shards.iter().map(|shard| &shard.stored).chain(&layout.samples);
    verified(directory, layout::FORMAT, files, layout.rows, found)
}

fn codes(directory: &Path) -> Result<Verified> {
    let rows = MappedSparseRows::open(directory)?;
    rows.check_all()?;
    let layout = rows.layout();
    verified(directory, sparse::FORMAT, layout.files.iter(), layout.rows, layout.id.clone())
}

fn verified<'a>(
    directory: &Path,
    format: DirectoryFormat,
    listed: impl Iterator<Item = &'a StoredFile>,
    rows: usize,
    id: String,
) -> Result<Verified> {
    let paths = listed.map(|listed| directory.join(&listed.file)).flat_map(|path| [Checksums::path_of(&path), path]);
    let mut verified = Verified { format: format.name.to_string(), files: 0, bytes: 0, rows, id };
    for path in paths.chain([directory.join(manifest::NAME)]) {
        verified.files += 1;
        verified.bytes += fs::metadata(&path).map_err(Error::io("check a file", &path))?.len();
    }
    Ok(verified)
}
