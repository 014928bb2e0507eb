//! A directory that is being written: locked, filled file by file, finished with its manifest.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::checksums::{BLOCK_BYTES, Checksums};
use super::disk;
use super::lock::{self, Lock};
use super::manifest::{self, DirectoryFormat, StoredFile};
use super::shard::{ShardWriter, differs};
use crate::error::{Error, InFile, InputError, Result};

/// A directory with one writer.
#[derive(Debug)]
pub struct OutputDirectory {
    directory: PathBuf,
    format: DirectoryFormat,
    is_ours: fn(&str) -> bool,
    /// The directory was finished before: its content may be confirmed, not changed.
    finished: bool,
    _lock: Lock,
}

impl OutputDirectory {
    /// Locks a directory that is new, empty, unfinished or finished with the same format. Any other is refused, so that
    /// other files are never overwritten. `is_ours` is true for the names of data files.
    pub fn claim(directory: &Path, format: DirectoryFormat, is_ours: fn(&str) -> bool) -> Result<OutputDirectory> {
        if directory.exists() && !directory.is_dir() {
            return Err(InputError::new("the output is not a directory")
                .expected("a new directory")
                .found("a file")
                .advice("choose another name")
                .file(directory)
                .into());
        }
        for name in lock::names(directory)? {
            let known = name == lock::NAME || name == manifest::NAME || disk::is_temporary(&name);
            if !known && !is_ours(&name) {
                return Err(InputError::new("the output directory contains other files")
                    .expected("a new or empty directory, or the unfinished work of an earlier run")
                    .found(format!("`{name}`"))
                    .advice("choose another directory")
                    .file(directory)
                    .into());
            }
        }
        let lock = Lock::take(directory)?;
        let finished = directory.join(manifest::NAME).exists();
        if finished {
            manifest::read_as::<serde_json::Value>(directory, format).in_file(directory)?;
        }
        Ok(OutputDirectory { directory: directory.to_path_buf(), format, is_ours, finished, _lock: lock })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// True if the directory was finished before.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Starts a data file.
    pub fn file(&self, name: &str) -> Result<ShardWriter> {
        ShardWriter::create(self.directory.join(name), BLOCK_BYTES, self.finished)
    }

    /// Removes data files of an earlier run that are not in `files`, and writes the manifest.
    pub fn finish(self, files: &[&StoredFile], body: &impl Serialize) -> Result<()> {
        let path = self.directory.join(manifest::NAME);
        let text = manifest::text(self.format, body)?;
        if self.finished {
            let existing = disk::read(&path).map_err(Error::io("read a manifest", &path))?;
            return if existing == text.as_bytes() { Ok(()) } else { Err(differs(&self.directory).into()) };
        }
        let checksums = |name: &str| Checksums::path_of(Path::new(name)).to_string_lossy().into_owned();
        let listed: BTreeSet<String> =
            files.iter().flat_map(|file| [file.file.clone(), checksums(&file.file)]).collect();
        for name in lock::names(&self.directory)? {
            if (self.is_ours)(&name) && !listed.contains(&name) {
                disk::remove(&self.directory.join(name))?;
            }
        }
        disk::write(&path, text.as_bytes())
    }
}
