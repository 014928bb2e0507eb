//! The files of finished units and stages.

use std::path::{Path, PathBuf};

use super::stage::Stage;
use crate::error::{Error, Result};
use crate::store::disk;

/// The directory in which finished units and stages of one evaluation are stored.
#[derive(Clone, Debug)]
pub struct Kept {
    directory: PathBuf,
    pub(super) cell: String,
}

impl Kept {
    /// Files in `directory` of the evaluation `cell`, the id of a recipe.
    pub fn new(directory: &Path, cell: &str) -> Kept {
        Kept { directory: directory.to_path_buf(), cell: cell.into() }
    }

    /// Removes all files of the evaluation. Call it when the result is stored.
    pub fn forget(&self) -> Result<()> {
        let directory = &self.directory;
        if !directory.is_dir() {
            return Ok(());
        }
        for entry in std::fs::read_dir(directory).map_err(Error::io("list finished units", directory))? {
            let path = entry.map_err(Error::io("list finished units", directory))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&self.cell)) {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    pub(super) fn file(&self, stage: &str, part: &str) -> PathBuf {
        self.directory.join(format!("{}-{stage}-{part}", self.cell))
    }

    /// The file of a unit. Its name has the number of leaves, because units of another size are other units.
    pub(super) fn unit_file(&self, address: &str, stage: &Stage<'_>, unit: usize) -> PathBuf {
        self.file(address, &format!("{}x{unit:06}", stage.unit_leaves))
    }
}
