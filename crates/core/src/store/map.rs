//! Memory-mapped files of a store, and their bytes as numbers.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use etalon_kernel::map::FileMap;

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
}

impl Map {
    /// Releases the resident pages. Reading them again loads them again.
    pub fn release(&self) {
        self.0.release();
    }
}

/// Limits the resident memory of a long scan: counts the bytes that were read, and releases the maps regularly.
#[derive(Debug, Default)]
pub struct Residency {
    bytes: AtomicU64,
}

/// A scan keeps about this many bytes of mapped files resident.
const RESIDENT: u64 = 32 << 20;

impl Residency {
    /// Counts bytes that are about to be read from some of these maps.
    pub fn count<'a>(&self, bytes: usize, maps: impl Iterator<Item = &'a Map>) {
        if self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > RESIDENT {
            self.bytes.store(0, Ordering::Relaxed);
            maps.for_each(Map::release);
        }
    }
}

/// Bytes as numbers; they must be aligned.
pub fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T]> {
    // An empty slice may not be aligned.
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|error| Error::Bug(format!("stored numbers are not aligned: {error}")))
}

/// Bytes as `f32`, copied only where they are not aligned.
pub fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
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
        assert_eq!(numbers::<f32>(map.bytes(0..4).unwrap()).unwrap(), [1.0]);
        assert!(map.bytes(2..6).is_err() && numbers::<f32>(map.bytes(0..5).unwrap()).is_err());
        map.check_unchanged().unwrap();
        fs::write(&path, [0; 9]).unwrap();
        assert!(map.check_unchanged().unwrap_err().to_string().contains("changed while it was read"));
        assert!(numbers::<u64>(&[]).unwrap().is_empty());
        assert!(Map::open(directory.path()).unwrap_err().to_string().contains("regular file"));
    }

    #[test]
    fn values_that_are_not_aligned_are_copied() {
        let bytes: Vec<u8> = [0u8].into_iter().chain(2.5f32.to_le_bytes()).collect();
        let values = floats(&bytes[1..]);
        assert_eq!(values[..], [2.5]);
        assert_eq!(matches!(values, Cow::Borrowed(_)), (bytes[1..].as_ptr() as usize).is_multiple_of(4));
    }
}
