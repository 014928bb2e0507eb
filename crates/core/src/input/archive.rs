//! Zip archives, which `.npz` files and torch checkpoints are: few entries, honest names, no bombs.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use zip::ZipArchive;
use zip::result::ZipError;

use super::file::{Regular, failed};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Result};

/// More entries than this are not an archive of arrays.
const MOST_ENTRIES: u64 = 4096;

/// Deflate cannot shrink by more than 1032 to 1; what claims more is a bomb.
const LARGEST_RATIO: u64 = 1100;

/// Bytes that travel at a time from the thread that inflates.
const PIECE: usize = 1 << 18;

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
    /// Bytes when it is unpacked, as the directory says.
    pub size: u64,
}

impl Archive {
    /// Opens an archive and checks every entry's name, size and packing.
    pub fn open(path: &Path) -> Result<Archive> {
        let mut file = Regular::open(path)?;
        check_counts(&mut file)?;
        let mut zip = ZipArchive::new(file.file).map_err(|error| damaged(error, path))?;
        if zip.len() as u64 > MOST_ENTRIES {
            return Err(too_many(zip.len() as u64).file(path).into());
        }
        if zip.has_duplicate_names() {
            return Err(InputError::new("the archive has two entries of the same name").file(path).into());
        }
        let mut entries = Vec::with_capacity(zip.len());
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|error| damaged(error, path))?;
            let name = entry.name().map_err(|error| damaged(error, path))?.into_owned();
            let wrong = |what: &str| InputError::new(what).at(format!("entry `{}`", name.escape_debug())).file(path);
            let climbs = name.split('/').any(|part| part == "..");
            if climbs || name.starts_with('/') || name.contains(['\\', '\0']) || name.is_empty() {
                return Err(wrong("an entry of the archive has a name that leads out of it")
                    .advice("do not use this file: somebody may have made it to do harm")
                    .into());
            }
            if entry.encrypted() {
                return Err(wrong("an entry of the archive is encrypted").advice("save it without a password").into());
            }
            if entry.size() > entry.compressed_size().saturating_mul(LARGEST_RATIO) {
                return Err(wrong("an entry of the archive claims to unpack to an impossible size")
                    .expected(format!("at most {LARGEST_RATIO} times {} bytes", entry.compressed_size()))
                    .found(format!("{} bytes", entry.size()))
                    .advice("do not use this file: it is made to fill the memory")
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

    /// The entry of a name.
    pub fn find(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    /// Unpacks an entry into memory, after asking the budget.
    pub fn bytes(&mut self, name: &str, budget: &Budget) -> Result<(Vec<u8>, Reservation)> {
        let size = match self.find(name) {
            Some(entry) => entry.size,
            None => return Err(InputError::new("the archive lacks an entry").expected(name).file(&self.path).into()),
        };
        let memory = budget.reserve(size, format!("the entry `{name}` of an archive"))?;
        let entry = self.zip.by_name(name).map_err(|error| damaged(error, &self.path))?;
        let mut bytes = Vec::new();
        // One byte more than promised shows that the directory lied; reading to the end compares the checksum.
        entry.take(size.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| failed(error, &self.path))?;
        if bytes.len() as u64 != size {
            return Err(InputError::new("an entry of the archive has not the length that its directory says")
                .expected(format!("{size} bytes"))
                .found(format!("{} bytes", bytes.len()))
                .at(format!("entry `{name}`"))
                .file(&self.path)
                .into());
        }
        Ok((bytes, memory))
    }

    /// Unpacks an entry bit by bit, in a thread of its own, because the entry borrows from the archive.
    pub fn stream(self, name: &str) -> Result<Inflow> {
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
                let mut piece = Vec::with_capacity(PIECE);
                let read = (&mut entry).take(PIECE as u64).read_to_end(&mut piece).map(|_| piece);
                let over = read.as_ref().map_or(true, Vec::is_empty);
                // When nobody listens any more, there is nothing left to do.
                if sender.send(read).is_err() || over {
                    return;
                }
            }
        };
        std::thread::Builder::new()
            .name("inflate".to_string())
            .spawn(inflate)
            .map_err(Error::io("start a thread to read the archive", &path))?;
        Ok(Inflow { receiver, piece: Vec::new(), place: 0, over: false })
    }
}

/// The bytes of an entry as they are unpacked.
pub(super) struct Inflow {
    receiver: Receiver<io::Result<Vec<u8>>>,
    piece: Vec<u8>,
    place: usize,
    over: bool,
}

impl Read for Inflow {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.place == self.piece.len() && !self.over {
            self.piece = self.receiver.recv().map_err(|_| io::Error::other("the archive cannot be unpacked"))??;
            self.place = 0;
            self.over = self.piece.is_empty();
        }
        let count = out.len().min(self.piece.len() - self.place);
        out[..count].copy_from_slice(&self.piece[self.place..self.place + count]);
        self.place += count;
        Ok(count)
    }
}

/// Looks at the counts at the end of the archive before the zip reader does, because it reserves memory by them.
///
/// Only the 64-bit record can promise more than 65,535 entries, and it counts only where its locator stands right
/// before an end record, so that every such place is looked at.
fn check_counts(file: &mut Regular) -> Result<()> {
    const LOCATOR: usize = 20;
    let length = file.length.min((1 << 16) + 64);
    let mut tail = vec![0; length as usize];
    file.read_at(file.length - length, &mut tail)?;
    for end in LOCATOR..tail.len() {
        if !tail[end..].starts_with(b"PK\x05\x06") || !tail[end - LOCATOR..].starts_with(b"PK\x06\x07") {
            continue;
        }
        let place = number(&tail[end - LOCATOR + 8..]);
        let mut record = [0; 56];
        if place > file.length - record.len() as u64 {
            return Err(InputError::new("the directory of the archive lies outside of it").file(&file.path).into());
        }
        file.read_at(place, &mut record)?;
        if !record.starts_with(b"PK\x06\x06") {
            return Err(InputError::new("the directory of the archive is damaged").file(&file.path).into());
        }
        let count = number(&record[24..]).max(number(&record[32..]));
        if count > MOST_ENTRIES {
            return Err(too_many(count).file(&file.path).into());
        }
    }
    file.file.seek(SeekFrom::Start(0)).map_err(|error| failed(error, &file.path))?;
    Ok(())
}

/// Eight bytes as a number.
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

fn too_many(count: u64) -> InputError {
    InputError::new("the archive has too many entries").expected(format!("at most {MOST_ENTRIES}")).found(count)
}

fn damaged(error: ZipError, path: &Path) -> Error {
    match error {
        ZipError::Io(error) => failed(error, path),
        error => InputError::new("the zip archive cannot be read")
            .found(error)
            .advice("it is damaged or was made by an unusual program; copy or write it again")
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
    fn names_that_lead_out_are_refused() {
        for name in ["../a.npy", "a/../../b", "/a.npy", "a\\b.npy"] {
            let error = open(&zipped(&[(name, b"x")], CompressionMethod::Stored)).err().map(|error| error.to_string());
            assert!(error.is_some_and(|error| error.contains("leads out")), "{name}");
        }
    }

    #[test]
    fn bombs_and_crowds_are_refused() {
        // A stored entry of 4 bytes whose directory says that 2^31 come out.
        let mut bytes = zipped(&[("a.npy", b"abcd")], CompressionMethod::Stored);
        let directory = bytes.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
        bytes[directory + 24..directory + 28].copy_from_slice(&(1u32 << 31).to_le_bytes());
        assert!(open(&bytes).err().unwrap().to_string().contains("impossible size"));

        let names: Vec<String> = (0..4097).map(|index| index.to_string()).collect();
        let crowd: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
        let error = open(&zipped(&crowd, CompressionMethod::Stored)).err().unwrap().to_string();
        assert!(error.contains("4097") && error.contains("at most 4096"), "{error}");

        // A 64-bit directory that promises 2^60 entries, before anything is reserved for them.
        let mut lie = vec![0; 1000];
        let place = lie.len() as u64;
        lie.extend(b"PK\x06\x06");
        lie.extend(44u64.to_le_bytes());
        lie.extend([0; 12]);
        lie.extend([1u64 << 60, 1 << 60, 46 << 50, 0].map(u64::to_le_bytes).concat());
        lie.extend(b"PK\x06\x07\0\0\0\0");
        lie.extend(place.to_le_bytes());
        lie.extend(1u32.to_le_bytes());
        lie.extend(b"PK\x05\x06");
        lie.extend([0; 4]);
        lie.extend([0xff; 12]);
        lie.extend([0; 2]);
        assert!(open(&lie).err().unwrap().to_string().contains("too many entries"));
    }

    #[test]
    fn entries_come_out_whole_or_in_pieces() {
        let long: Vec<u8> = (0..3 * PIECE + 7).map(|place| (place % 251) as u8).collect();
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
