//! Regular files of a known length.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::error::{Error, InputError, Result};

/// An open regular file that is not empty.
#[derive(Debug)]
pub(super) struct Regular {
    pub file: File,
    pub length: u64,
    pub path: PathBuf,
}

impl Regular {
    /// Opens a file. Checks its type first: opening a pipe would wait for a writer.
    pub fn open(path: &Path) -> Result<Regular> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                InputError::new("there is no such file").advice("check the path").file(path).into()
            }
            _ => Error::io("check the file", path)(error),
        })?;
        let wrong = |found: &str| {
            InputError::new("the path is not a regular file").expected("a regular file").found(found).file(path)
        };
        if metadata.is_dir() {
            return Err(wrong("a directory").advice("give the path of a file in it").into());
        }
        if !metadata.is_file() {
            return Err(wrong("a pipe, a device or a socket").advice("save it to a file first").into());
        }
        let file = File::open(path).map_err(Error::io("open the file", path))?;
        let length = file.metadata().map_err(Error::io("check the file", path))?.len();
        if length == 0 {
            return Err(InputError::new("the file is empty").advice("write or download it again").file(path).into());
        }
        Ok(Regular { file, length, path: path.to_path_buf() })
    }

    /// Fills `bytes` from an offset of the file.
    pub fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(bytes))
            .map_err(|error| read_error(error, &self.path))
    }
}

/// Opens a regular file that is not empty; returns it with its length in bytes.
pub fn open_regular(path: &Path) -> Result<(File, u64)> {
    Regular::open(path).map(|file| (file.file, file.length))
}

/// The error of a failed read: an early end and damage are input errors, everything else is an I/O error.
pub(super) fn read_error(error: std::io::Error, path: &Path) -> Error {
    match error.kind() {
        ErrorKind::UnexpectedEof => InputError::new("the file ends too early")
            .advice("it is incomplete, or it changed while it was read; copy or write it again")
            .file(path)
            .into(),
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other => {
            InputError::new("the file is damaged").found(error).advice("copy or write it again").file(path).into()
        }
        _ => Error::io("read the file", path)(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_devices_and_empty_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let why = |path: &Path| Regular::open(path).unwrap_err().to_string();
        assert!(why(&directory.path().join("absent")).contains("no such file"));
        assert!(why(directory.path()).contains("a directory"));
        let empty = directory.path().join("empty");
        fs::write(&empty, b"").unwrap();
        assert!(why(&empty).contains("is empty"));
        assert!(why(&empty.join("below")).contains("no such file"));
        if Path::new("/dev/null").exists() {
            assert!(why(Path::new("/dev/null")).contains("a device"));
        }
    }
}
