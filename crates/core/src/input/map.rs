//! Memory-mapped files.

use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

use etalon_kernel::map::FileMap;

use super::file::Regular;
use crate::error::{Error, InputError, Result};

/// A whole file, mapped.
#[derive(Debug)]
pub struct Map(FileMap);

impl Map {
    /// Maps a regular file.
    pub fn open(path: &Path) -> Result<Map> {
        FileMap::open(path).map(Map).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => InputError::new("the path is not a regular file")
                .expected("a regular file")
                .advice("check the path")
                .file(path)
                .into(),
            _ => Error::io("open a file", path)(error),
        })
    }

    /// Maps a file that a user named: an input error if it is missing, empty, or not a file.
    pub fn open_input(path: &Path) -> Result<Map> {
        Regular::open(path)?;
        Map::open(path)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Number of bytes.
    pub fn length(&self) -> usize {
        self.0.length()
    }

    /// A range of bytes.
    pub fn bytes(&self, range: Range<usize>) -> Result<&[u8]> {
        self.0.bytes(range.clone()).ok_or_else(|| {
            Error::Bug(format!("bytes {range:?} of a file of {}: {}", self.length(), self.path().display()))
        })
    }

    /// An error if the file changed after it was opened.
    pub fn check_unchanged(&self) -> Result<()> {
        let changed = self.0.changed().map_err(Error::io("check a file", self.path()))?;
        let Some(length) = changed else { return Ok(()) };
        Err(InputError::new("a file changed while it was read")
            .expected(format!("{} bytes, not modified since it was opened", self.length()))
            .found(format!("{length} bytes"))
            .advice("wait until the program that writes it has ended, then rerun")
            .file(self.path())
            .into())
    }

    /// Releases the resident pages. Reading them again loads them again.
    pub fn release(&self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_change_of_the_file_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, [0, 0, 128, 63, 7]).unwrap();
        let map = Map::open(&path).unwrap();
        assert_eq!(map.bytes(0..4).unwrap(), [0, 0, 128, 63]);
        assert!(map.bytes(2..6).is_err());
        map.check_unchanged().unwrap();
        fs::write(&path, [0; 9]).unwrap();
        assert!(map.check_unchanged().unwrap_err().to_string().contains("changed while it was read"));
        assert!(Map::open_input(&directory.path().join("b")).unwrap_err().to_string().contains("no such file"));
        assert!(Map::open(directory.path()).unwrap_err().to_string().contains("regular file"));
    }
}
