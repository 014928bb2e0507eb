//! Where the units and finished stages of one evaluation are kept.

use std::path::{Path, PathBuf};

use super::Stage;
use crate::error::{Error, Result};
use crate::store::disk;

/// Where the units of one evaluation are kept.
#[derive(Clone, Debug)]
pub struct Kept {
    directory: PathBuf,
    pub(super) cell: String,
}

impl Kept {
    /// Units of `cell`, the id of a recipe, below a directory.
    pub fn new(directory: &Path, cell: &str) -> Kept {
        Kept { directory: directory.to_path_buf(), cell: cell.into() }
    }

    /// Removes the files of a cell whose result is safely stored.
    pub fn forget(&self) -> Result<()> {
        let directory = &self.directory;
        if !directory.is_dir() {
            return Ok(());
        }
        let failed = |error| Error::io("list finished units", directory)(error);
        for entry in std::fs::read_dir(directory).map_err(failed)? {
            let path = entry.map_err(|error| Error::io("list finished units", directory)(error))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&self.cell)) {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn file(&self, stage: &str, part: &str) -> PathBuf {
        self.directory.join(format!("{}-{stage}-{part}", self.cell))
    }

    pub(super) fn unit_file(&self, address: &str, stage: &Stage<'_>, unit: usize) -> PathBuf {
        self.file(address, &format!("{}x{unit:06}", stage.unit_leaves))
    }
}
