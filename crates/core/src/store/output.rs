//! A directory that is being written: claimed, filled file by file, sealed with its manifest.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::disk;
use super::lock::{self, Lock};
use super::manifest::{self, Format, StoredFile};
use super::seal::{BLOCK_BYTES, Seal};
use super::shard::{ShardWriter, differs};
use crate::error::{Error, InFile, InputError, Result};

/// A directory with one writer.
#[derive(Debug)]
pub struct Output {
    directory: PathBuf,
    format: Format,
    is_ours: fn(&str) -> bool,
    /// The directory was finished before: all we may do is confirm it.
    finished: bool,
    _lock: Lock,
}

impl Output {
    /// Claims a directory that is new, empty, unfinished or finished with the same format; refuses any other, so that
    /// nothing of others is ever overwritten. `is_ours` knows the names of data files.
    pub fn claim(directory: &Path, format: Format, is_ours: fn(&str) -> bool) -> Result<Output> {
        if directory.exists() && !directory.is_dir() {
            return Err(InputError::new("the output is a directory")
                .found("a file of that name")
                .advice("choose another name")
                .file(directory)
                .into());
        }
        for name in lock::names(directory)? {
            let known = name == lock::NAME || name == manifest::NAME || disk::owner(&name).is_some();
            if !known && !is_ours(&name) {
                return Err(InputError::new("the output directory holds other files")
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
        Ok(Output { directory: directory.to_path_buf(), format, is_ours, finished, _lock: lock })
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// True when a finished store is there and can only be confirmed.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Starts a data file.
    pub fn file(&self, name: &str) -> Result<ShardWriter> {
        ShardWriter::create(self.directory.join(name), BLOCK_BYTES, self.finished)
    }

    /// Removes data files that an earlier, other run left, and writes the manifest.
    pub fn finish(self, files: &[&StoredFile], body: &impl Serialize) -> Result<()> {
        let path = self.directory.join(manifest::NAME);
        let text = manifest::text(self.format, body)?;
        if self.finished {
            let there = fs::read(&path).map_err(Error::io("read a manifest", &path))?;
            return if there == text.as_bytes() { Ok(()) } else { Err(differs(&self.directory).into()) };
        }
        let seal = |name: &str| Seal::beside(Path::new(name)).to_string_lossy().into_owned();
        let wanted: BTreeSet<String> = files.iter().flat_map(|file| [file.file.clone(), seal(&file.file)]).collect();
        for name in lock::names(&self.directory)? {
            if (self.is_ours)(&name) && !wanted.contains(&name) {
                disk::remove(&self.directory.join(name))?;
            }
        }
        disk::write(&path, text.as_bytes())
    }
}
