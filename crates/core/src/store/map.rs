//! Files mapped into memory, read only: the one place of the store that needs `unsafe`.
//!
//! SAFETY: a slice of a mapped file is sound as long as nobody writes into the file or cuts it. Our own files are
//! never written in place: [`super::disk`] renames a new file over the old one, and the old one lives on while it is
//! mapped. Files of others are compared with the length, time of change and place on disk seen on opening before rows are read.
//! What remains is a file cut between that look and the reading: the system then stops the process (a bus error), it
//! does not make up values. Only types for which every bit pattern is valid are read from a map.
#![allow(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("stored arrays are little-endian and are mapped as they are, which this host cannot do");

use std::borrow::Cow;
use std::fs::{self, File, Metadata};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memmap2::{Mmap, UncheckedAdvice};

use crate::error::{Complaint, Error, Result};

/// A whole file, mapped.
#[derive(Debug)]
pub struct Map {
    path: PathBuf,
    /// Nothing is mapped of an empty file.
    map: Option<Mmap>,
    seen: Stamp,
    used: AtomicBool,
}

impl Map {
    /// Maps a regular file. The handle is closed again, so that thousands of shards need no handles.
    pub fn open(path: &Path) -> Result<Map> {
        let doing = "open a file";
        // Looked at before it is opened, because opening a pipe waits for a writer.
        let metadata = fs::metadata(path).map_err(Error::io(doing, path))?;
        if !metadata.is_file() {
            return Err(Complaint::new("this is not a regular file").file(path).into());
        }
        let file = File::open(path).map_err(Error::io(doing, path))?;
        let metadata = file.metadata().map_err(Error::io(doing, path))?;
        let map = if metadata.len() == 0 {
            None
        } else {
            // SAFETY: see the head of this file.
            Some(unsafe { Mmap::map(&file) }.map_err(Error::io("map a file", path))?)
        };
        Ok(Map { path: path.to_path_buf(), map, seen: stamp(&metadata), used: AtomicBool::new(false) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes it has.
    pub fn length(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// A run of bytes.
    pub fn bytes(&self, range: Range<usize>) -> Result<&[u8]> {
        self.used.store(true, Ordering::Relaxed);
        self.map.as_deref().unwrap_or_default().get(range.clone()).ok_or_else(|| {
            Error::Bug(format!("bytes {range:?} of a file of {}: {}", self.length(), self.path.display()))
        })
    }

    /// An error if the file is not the one that was opened.
    pub fn check_unchanged(&self) -> Result<()> {
        let now = fs::metadata(&self.path).map_err(Error::io("look at a file", &self.path))?;
        if stamp(&now) == self.seen {
            return Ok(());
        }
        Err(Complaint::new("a file changed while it was read")
            .expected(format!("{} bytes, not touched since it was opened", self.seen.length))
            .found(format!("{} bytes", now.len()))
            .advice("wait until whatever writes it has ended, then run again")
            .file(&self.path)
            .into())
    }

    /// Lets the system take the memory back; what is read again is fetched again.
    pub fn release(&self) {
        if let Some(map) = &self.map
            && self.used.swap(false, Ordering::Relaxed)
        {
            // SAFETY: the map is shared with an unchanging file, so dropped pages come back with the same bytes.
            // An error means that pages stay, which is harmless.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

/// What tells a file from a changed or another one.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    changed: (i64, i64),
    place: (u64, u64),
}

fn stamp(metadata: &Metadata) -> Stamp {
    Stamp {
        length: metadata.len(),
        changed: (metadata.mtime(), metadata.mtime_nsec()),
        place: (metadata.dev(), metadata.ino()),
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

/// Bytes as numbers; they must lie and end where such numbers do.
pub fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T]> {
    // No bytes lie nowhere in particular.
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|error| Error::Bug(format!("stored numbers do not line up: {error}")))
}

/// Bytes as `f32`, copied only where they do not line up.
pub fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_shows_the_file_and_notices_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, [0, 0, 128, 63, 7]).unwrap();
        let map = Map::open(&path).unwrap();
        assert_eq!(numbers::<f32>(map.bytes(0..4).unwrap()).unwrap(), [1.0]);
        assert!(map.bytes(2..6).is_err() && numbers::<f32>(map.bytes(0..5).unwrap()).is_err());
        map.release();
        assert_eq!(map.bytes(4..5).unwrap(), [7]);
        map.check_unchanged().unwrap();
        // Longer, not shorter: reading beyond the end of a cut file would stop the test.
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| std::io::Write::write_all(&mut f, b"x"))
            .unwrap();
        assert!(map.check_unchanged().unwrap_err().to_string().contains("changed while it was read"));
    }

    #[test]
    fn empty_files_and_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, []).unwrap();
        let map = Map::open(&path).unwrap();
        assert!(numbers::<u64>(map.bytes(0..0).unwrap()).unwrap().is_empty());
        assert!(Map::open(directory.path()).unwrap_err().to_string().contains("regular file"));
    }

    #[test]
    fn values_that_do_not_line_up_are_copied() {
        let bytes: Vec<u8> = [0u8].into_iter().chain(2.5f32.to_le_bytes()).collect();
        let values = floats(&bytes[1..]);
        assert_eq!(values[..], [2.5]);
        assert_eq!(matches!(values, Cow::Borrowed(_)), (bytes[1..].as_ptr() as usize).is_multiple_of(4));
    }
}
