//! Memory-mapped files, read-only.
//!
//! SAFETY: a slice of a mapped file is sound as long as no process writes into the file or truncates it. Etalon never
//! writes its own files in place: it renames a new file over the old one, which stays valid while it is mapped. Before
//! rows of foreign files are read, length, modification time and inode are compared with those seen on opening. The
//! remaining case is a file truncated between that check and the read: the system then stops the process with SIGBUS
//! instead of returning wrong values. Only types for which every bit pattern is valid are read from a map.
#![allow(unsafe_code)]

#[cfg(not(target_endian = "little"))]
compile_error!("stored arrays are little-endian and are mapped without conversion, which this host does not support");

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::{Mmap, UncheckedAdvice};

/// A whole file, mapped.
#[derive(Debug)]
pub struct FileMap {
    path: PathBuf,
    /// `None` for an empty file.
    map: Option<Mmap>,
    seen: Stamp,
    used: AtomicBool,
}

impl FileMap {
    /// Maps a regular file; [`io::ErrorKind::InvalidInput`] for anything else. The handle is closed, so that
    /// thousands of shards need no handles.
    pub fn open(path: &Path) -> io::Result<FileMap> {
        // Checked before opening, because opening a pipe waits for a writer.
        if !fs::metadata(path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let map = if metadata.len() == 0 {
            None
        } else {
            // SAFETY: no process modifies the file while it is mapped; the module documentation states how this is
            // ensured and what happens otherwise.
            Some(unsafe { Mmap::map(&file) }?)
        };
        Ok(FileMap { path: path.to_path_buf(), map, seen: stamp(&metadata), used: AtomicBool::new(false) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of bytes.
    pub fn length(&self) -> usize {
        self.map.as_ref().map_or(0, |map| map.len())
    }

    /// A range of bytes, if the file has it.
    pub fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        self.used.store(true, Ordering::Relaxed);
        self.map.as_deref().unwrap_or_default().get(range)
    }

    /// The current length of the file, if it changed or was replaced since it was opened.
    pub fn changed(&self) -> io::Result<Option<u64>> {
        let now = fs::metadata(&self.path)?;
        Ok((stamp(&now) != self.seen).then_some(now.len()))
    }

    /// Lets the system reclaim the memory. Pages are loaded again when read.
    pub fn release(&self) {
        if let Some(map) = &self.map
            && self.used.swap(false, Ordering::Relaxed)
        {
            // SAFETY: the map is a read-only view of an unchanging file, so dropped pages are reloaded with the same
            // bytes and existing slices stay valid. An error means that pages stay resident, which is harmless.
            let _ = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        }
    }
}

/// Identifies a file and its version.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    length: u64,
    modified: (i64, i64),
    inode: (u64, u64),
}

fn stamp(metadata: &Metadata) -> Stamp {
    Stamp {
        length: metadata.len(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        inode: (metadata.dev(), metadata.ino()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_shows_the_file_and_detects_changes() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, [0, 0, 128, 63, 7]).unwrap();
        let map = FileMap::open(&path).unwrap();
        assert_eq!(map.bytes(0..4).unwrap(), [0, 0, 128, 63]);
        assert_eq!(map.bytes(2..6), None);
        map.release();
        assert_eq!(map.bytes(4..5).unwrap(), [7]);
        assert_eq!(map.changed().unwrap(), None);
        // Append, because reading beyond the end of a truncated file would stop the test.
        fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| std::io::Write::write_all(&mut f, b"x"))
            .unwrap();
        assert_eq!(map.changed().unwrap(), Some(6));
    }

    #[test]
    fn empty_files_and_directories() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a");
        fs::write(&path, []).unwrap();
        assert_eq!(FileMap::open(&path).unwrap().bytes(0..0).unwrap(), []);
        assert_eq!(FileMap::open(directory.path()).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
