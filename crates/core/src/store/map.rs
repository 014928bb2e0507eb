//! Mapped files of a store, with messages for people, and their numbers.

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
            ErrorKind::InvalidInput => InputError::new("this is not a regular file").file(path).into(),
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

    /// An error if the file is not the one that was opened.
    pub fn check_unchanged(&self) -> Result<()> {
        let changed = self.0.changed().map_err(Error::io("look at a file", self.path()))?;
        let Some(length) = changed else { return Ok(()) };
        Err(InputError::new("a file changed while it was read")
            .expected(format!("{} bytes, not touched since it was opened", self.length()))
            .found(format!("{length} bytes"))
            .advice("wait until whatever writes it has ended, then run again")
            .file(self.path())
            .into())
    }
}

impl Map {
    /// Lets the system take the memory back; what is read again is fetched again.
    pub fn release(&self) {
        self.0.release();
    }
}

/// Keeps a long scan from filling memory: counts what was handed out, and releases the maps every now and then.
#[derive(Debug, Default)]
pub struct Residency {
    handed_out: AtomicU64,
}

/// A scan keeps about this many bytes of mapped files resident.
const RESIDENT: u64 = 32 << 20;

impl Residency {
    /// Called with the size of what is about to be handed out, and all maps it may come from.
    pub fn hand_out<'a>(&self, bytes: usize, maps: impl Iterator<Item = &'a Map>) {
        if self.handed_out.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > RESIDENT {
            self.handed_out.store(0, Ordering::Relaxed);
            maps.for_each(Map::release);
        }
    }
}

/// Bytes as numbers; they must be aligned to such numbers.
pub fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T]> {
    // An empty slice has no alignment.
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
    fn a_map_shows_the_file_and_notices_change() {
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
