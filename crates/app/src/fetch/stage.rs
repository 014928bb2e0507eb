//! The folder in which an entry is prepared before it gets its name.
//!
//! `packages/.partial/NAME` has verified archives, the downloads of this process, and the unfinished entry. One process
//! works in it at a time. Downloads are in a folder of their own, because the client of a killed process may still write.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::error::{Error, Result};
use etalon::store::{Lock, disk};
use etalon_models::data::{Entry, packages};

/// A claimed folder.
pub(super) struct Stage {
    root: PathBuf,
    _lock: Lock,
}

const DOWNLOADS: &str = "download-";
const ENTRY: &str = "entry";

impl Stage {
    /// Claims the folder of an entry, and removes what a killed process has left in it, except for verified archives.
    pub fn claim(name: &str, cache: &Path) -> Result<Stage> {
        let root = packages(cache).join(".partial").join(name);
        let lock = Lock::take(&root)?;
        let stage = Stage { root, _lock: lock };
        stage.clean(|name| name.starts_with(DOWNLOADS) || name == ENTRY)?;
        Ok(stage)
    }

    /// Removes the folders of some names.
    fn clean(&self, is_removed: impl Fn(&str) -> bool) -> Result<()> {
        for entry in fs::read_dir(&self.root).map_err(Error::io("list a directory", &self.root))? {
            let entry = entry.map_err(Error::io("list a directory", &self.root))?;
            if entry.path().is_dir() && is_removed(&entry.file_name().to_string_lossy()) {
                disk::remove_directory(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Where verified archives are kept.
    pub fn archives(&self) -> PathBuf {
        self.root.join("archives")
    }

    /// A new folder for a client.
    pub fn new_downloads(&self, number: usize) -> Result<PathBuf> {
        let directory = self.root.join(format!("{DOWNLOADS}{}-{number}", std::process::id()));
        disk::make_directory(&directory)?;
        Ok(directory)
    }

    /// An empty folder for the entry.
    pub fn new_entry(&self) -> Result<PathBuf> {
        let directory = self.root.join(ENTRY);
        disk::make_directory(&directory)?;
        Ok(directory)
    }

    /// Completes the entry, gives it its name, and removes everything else.
    pub fn publish(self, entry: &Entry, target: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(entry).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        let directory = self.root.join(ENTRY);
        disk::write(&Entry::file(&directory), format!("{text}\n").as_bytes())?;
        disk::rename_directory(&directory, target)?;
        self.clean(|_| true)
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // After an error. What cannot be removed now is removed by the next run.
        let _ = self.clean(|name| name.starts_with(DOWNLOADS) || name == ENTRY);
    }
}
