//! Zip archives, the container of `.npz` files and torch checkpoints. Names, sizes and counts are checked on opening.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use zip::ZipArchive;
use zip::result::ZipError;

use super::file::{Regular, read_error};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Result};

/// Maximum number of entries.
const MOST_ENTRIES: u64 = 4096;

/// Maximum compression ratio. Deflate reaches 1032 at most; a larger ratio is a zip bomb.
const LARGEST_RATIO: u64 = 1100;

/// Bytes per message from the decompressing thread.
const CHUNK: usize = 1 << 18;

/// An open archive whose directory was checked.
pub(super) struct Archive {
    zip: ZipArchive<File>,
    path: PathBuf,
    entries: Vec<Entry>,
}

/// A file in an archive.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: String,
    /// Unpacked size in bytes, according to the directory.
    pub size: u64,
}

impl Archive {
    /// Opens an archive and checks the name, size and compression of every entry.
    pub fn open(path: &Path) -> Result<Archive> {
        let mut file = Regular::open(path)?;
        check_counts(&mut file)?;
        let mut zip = ZipArchive::new(file.file).map_err(|error| damaged(error, path))?;
        if zip.len() as u64 > MOST_ENTRIES {
            return Err(too_many(zip.len() as u64).file(path).into());
        }
        if zip.has_duplicate_names() {
            return Err(InputError::new("the archive has two entries of the same name")
                .expected("unique names")
                .advice("save the file again")
                .file(path)
                .into());
        }
        let mut entries = Vec::with_capacity(zip.len());
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|error| damaged(error, path))?;
            let name = entry.name().map_err(|error| damaged(error, path))?.into_owned();
            let wrong = |what: &str| InputError::new(what).at(format!("entry `{}`", name.escape_debug())).file(path);
            let climbs = name.split('/').any(|part| part == "..");
            if climbs || name.starts_with('/') || name.contains(['\\', '\0']) || name.is_empty() {
                return Err(wrong("the name of an entry leads out of the archive")
                    .expected("a relative path without `..`")
                    .advice("do not use this file: it may be malicious")
                    .into());
            }
            if entry.encrypted() {
                return Err(wrong("an entry of the archive is encrypted").advice("save it without a password").into());
            }
            if entry.size() > entry.compressed_size().saturating_mul(LARGEST_RATIO) {
                return Err(wrong("an entry of the archive states an impossible size")
                    .expected(format!("at most {LARGEST_RATIO} times {} bytes", entry.compressed_size()))
                    .found(format!("{} bytes", entry.size()))
                    .advice("do not use this file: it is damaged, or made to fill the memory")
                    .into());
            }
            let size = entry.size();
            entries.push(Entry { name, size });
        }
        Ok(Archive { zip, path: path.to_path_buf(), entries })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every entry, in the order of the directory.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The names of the entries.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// The entry with a name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Unpacks an entry into memory, within the budget.
    pub fn bytes(&mut self, name: &str, budget: &Budget) -> Result<(Vec<u8>, Reservation)> {
        let size = match self.find(name) {
            Some(entry) => entry.size,
            None => {
                return Err(InputError::new("an entry is missing in the archive")
                    .expected(format!("an entry `{name}`"))
                    .advice("the file is incomplete; copy or write it again")
                    .file(&self.path)
                    .into());
            }
        };
        let memory = budget.reserve(size, format!("the entry `{name}` of an archive"))?;
        let entry = self.zip.by_name(name).map_err(|error| damaged(error, &self.path))?;
        let mut bytes = Vec::new();
        // One byte more than stated shows that the directory is wrong; reading to the end compares the checksum.
        entry.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| read_error(error, &self.path))?;
        if bytes.len() as u64 != size {
            return Err(InputError::new("the length of an entry does not agree with the directory of the archive")
                .expected(format!("{size} bytes"))
                .found(format!("{} bytes", bytes.len()))
                .at(format!("entry `{name}`"))
                .advice("the file is damaged; copy or write it again")
                .file(&self.path)
                .into());
        }
        Ok((bytes, memory))
    }

    /// Unpacks an entry while it is read. A separate thread does the work, because an entry borrows from the archive.
    pub fn stream(self, name: &str) -> Result<EntryReader> {
        let (sender, receiver) = sync_channel(2);
        let Archive { mut zip, path, .. } = self;
        let name = name.to_string();
        let inflate = move || {
            let mut entry = match zip.by_name(&name) {
                Ok(entry) => entry,
                Err(error) => {
                    let _ = sender.send(Err(error.into()));
                    return;
                }
            };
            loop {
                let mut chunk = Vec::with_capacity(CHUNK);
                let read = (&mut entry).take(CHUNK as u64).read_to_end(&mut chunk).map(|_| chunk);
                let ended = read.as_ref().map_or(true, Vec::is_empty);
                // Sending fails once the reader is dropped.
                if sender.send(read).is_err() || ended {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("inflate".to_string())
            .spawn(inflate)
            .map_err(Error::io("start a thread to read the archive", &path))?;
        Ok(EntryReader { receiver, chunk: Vec::new(), used: 0, ended: false })
    }
}

/// The unpacked bytes of an entry, in order.
pub(super) struct EntryReader {
    receiver: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    /// Bytes of the chunk that were read.
    used: usize,
    ended: bool,
}

impl Read for EntryReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.used == self.chunk.len() && !self.ended {
            self.chunk = self.receiver.recv().map_err(|_| io::Error::other("the archive cannot be unpacked"))??;
            self.used = 0;
            self.ended = self.chunk.is_empty();
        }
        let count = out.len().min(self.chunk.len() - self.used);
        out[..count].copy_from_slice(&self.chunk[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

/// Checks the number of entries before the zip crate reads it, because the crate allocates by that number.
///
/// Only the 64-bit record can state more than 65,535 entries, and only if its locator comes right before an end record;
/// so every such position is checked.
fn check_counts(file: &mut Regular) -> Result<()> {
    const LOCATOR: usize = 20;
    let length = file.length.min((1 << 16) + 64);
    let mut tail = vec![0; length as usize];
    file.read_at(file.length - length, &mut tail)?;
    for end in LOCATOR..tail.len() {
        if !tail[end..].starts_with(b"PK\x05\x06") || !tail[end - LOCATOR..].starts_with(b"PK\x06\x07") {
            continue;
        }
        let offset = number(&tail[end - LOCATOR + 8..]);
        let mut record = [0; 56];
        if offset > file.length - record.len() as u64 {
            return Err(damaged_directory(format!("it begins at byte {offset} of {}", file.length))
                .file(&file.path)
                .into());
        }
        file.read_at(offset, &mut record)?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(damaged_directory(format!("no directory at byte {offset}")).file(&file.path).into());
        }
        let count = number(&record[24..]).max(number(&record[32..]));
        if count > MOST_ENTRIES {
            return Err(too_many(count).file(&file.path).into());
        }
    }
    file.file.seek(SeekFrom::Start(0)).map_err(|error| read_error(error, &file.path))?;
    Ok(())
}

/// Eight little-endian bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

fn too_many(count: u64) -> InputError {
    InputError::new("the archive has too many entries")
        .expected(format!("at most {MOST_ENTRIES}"))
        .found(count)
        .advice("check that this is an archive of arrays or tensors")
}

fn damaged_directory(found: String) -> InputError {
    InputError::new("the directory of the archive is damaged").found(found).advice("copy or write the file again")
}

fn damaged(error: ZipError, path: &Path) -> Error {
    match error {
        ZipError::Io(error) => read_error(error, path),
        error => InputError::new("the zip archive cannot be read")
            .found(error)
            .advice("it is damaged or uses an unsupported zip feature; copy or write it again")
            .file(path)
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Write};
    use zip::write::SimpleFileOptions;
    use zip::{CompressionMethod, ZipWriter};

    /// The bytes of an archive with these entries.
    fn zipped(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in entries {
            writer.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    fn open(bytes: &[u8]) -> Result<Archive> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.npz");
        std::fs::write(&path, bytes).unwrap();
        Archive::open(&path)
    }

    #[test]
    fn names_that_lead_out_of_the_archive_are_refused() {
        for name in ["../a.npy", "a/../../b", "/a.npy", "a\\b.npy"] {
            let error = open(&zipped(&[(name, b"x")], CompressionMethod::Stored)).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("leads out")), "{name}");
        }
    }

    #[test]
    fn zip_bombs_and_too_many_entries_are_refused() {
        // A stored entry of 4 bytes whose directory states 2^31.
        let mut bytes = zipped(&[("a.npy", b"abcd")], CompressionMethod::Stored);
        let directory = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        bytes[directory + 24..directory + 28].copy_from_slice(&(1u32 << 31).to_le_bytes());
        assert!(open(&bytes).err().unwrap().to_string().contains("impossible size"));

        let names: Vec<String> = (0..4097).map(|index| index.to_string()).collect();
        let many: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let error = open(&zipped(&many, CompressionMethod::Stored)).err().unwrap().to_string();
        assert!(error.contains("4097") && error.contains("at most 4096"), "{error}");

        // A 64-bit directory that states 2^60 entries.
        let mut bytes64 = vec![0; 1000];
        let offset = bytes64.len() as u64;
        bytes64.extend(b"PK\x06\x06");
        bytes64.extend(44u64.to_le_bytes());
        bytes64.extend([0; 12]);
        bytes64.extend([1u64 << 60, 1 << 60, 46 << 50, 0].map(u64::to_le_bytes).concat());
        bytes64.extend(b"PK\x06\x07\0\0\0\0");
        bytes64.extend(offset.to_le_bytes());
        bytes64.extend(1u32.to_le_bytes());
        bytes64.extend(b"PK\x05\x06");
        bytes64.extend([0; 4]);
        bytes64.extend([0xff; 12]);
        bytes64.extend([0; 2]);
        assert!(open(&bytes64).err().unwrap().to_string().contains("too many entries"));
    }

    #[test]
    fn entries_are_unpacked_whole_or_as_a_stream() {
        let long: Vec<u8> = (0..3 * CHUNK + 7).map(|index| (index % 251) as u8).collect();
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let bytes = zipped(&[("short", b"abc"), ("long", &long)], method);
            let budget = Budget::new(1 << 20);
            assert_eq!(open(&bytes).unwrap().bytes("long", &budget).unwrap().0, long);
            assert!(open(&bytes).unwrap().bytes("long", &Budget::new(10)).is_err());
            let mut streamed = Vec::new();
            open(&bytes).unwrap().stream("long").unwrap().read_to_end(&mut streamed).unwrap();
            assert_eq!(streamed, long);
        }
    }
}
