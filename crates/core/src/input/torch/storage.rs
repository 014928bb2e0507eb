//! The bytes of storages: entries of a zip archive, or parts of a mapped file.

use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::super::archive::Archive;
use super::super::map::Map;
use super::plan::{Place, ReadPlan};
use crate::context::{Budget, Reserved};
use crate::error::{InputError, Result};

/// Maximum length of the description in bytes.
const LONGEST_PICKLE: u64 = 1 << 24;

/// True for the entry that describes the tensors.
pub(in super::super) fn is_pickle(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

/// The storages of a checkpoint.
pub(super) enum Storages {
    /// Entries of an archive, below a folder. The pickle is kept if it contains numbers.
    Archive { archive: Mutex<Archive>, root: String, big_endian: bool, pickle: Option<Reserved<Vec<u8>>> },
    /// Parts of a file.
    Mapped { map: Map, parts: BTreeMap<String, Range<usize>> },
}

/// Bytes in memory or in a mapped file.
pub(super) enum Bytes<'a> {
    Unpacked(Reserved<Vec<u8>>),
    Borrowed(&'a [u8]),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Unpacked(bytes) => bytes,
            Bytes::Borrowed(bytes) => bytes,
        }
    }
}

/// Opens an archive; returns its pickle, and its storages.
pub(super) fn open_archive(path: &Path, budget: &Budget) -> Result<(Reserved<Vec<u8>>, Storages)> {
    let mut archive = Archive::open(path)?;
    let pickles: Vec<String> = archive.names().filter(|name| is_pickle(name)).map(str::to_string).collect();
    let [pickle] = &pickles[..] else {
        return Err(InputError::new("the archive is not a torch checkpoint")
            .expected("one entry data.pkl")
            .found(format!("{} such entries", pickles.len()))
            .advice("save model.state_dict() with torch.save; TorchScript and other zip files are not supported")
            .into());
    };
    let size = archive.find(pickle).map_or(0, |entry| entry.size);
    if size > LONGEST_PICKLE {
        return Err(InputError::new("the description of the tensors is too long")
            .expected(format!("at most {LONGEST_PICKLE} bytes"))
            .found(format!("{size} bytes"))
            .at(format!("entry `{pickle}`"))
            .advice("save only model.state_dict()")
            .into());
    }
    let (bytes, memory) = archive.bytes(pickle, budget)?;
    let root = pickle.strip_suffix("data.pkl").unwrap_or_default().to_string();
    let big_endian = big_endian(&mut archive, &root, budget)?;
    let storages = Storages::Archive { archive: Mutex::new(archive), root, big_endian, pickle: None };
    Ok((Reserved::new(bytes, memory), storages))
}

fn big_endian(archive: &mut Archive, root: &str, budget: &Budget) -> Result<bool> {
    let name = format!("{root}byteorder");
    if archive.find(&name).is_none() {
        return Ok(false);
    }
    match &archive.bytes(&name, budget)?.0[..] {
        b"little" => Ok(false),
        b"big" => Ok(true),
        other => Err(InputError::new("unknown byte order of the checkpoint")
            .expected("little or big")
            .found(other.escape_ascii())
            .at(format!("entry `{name}`"))
            .advice("the file is damaged; save it again with torch.save")
            .into()),
    }
}

impl Storages {
    /// Parts of a file.
    pub fn mapped(map: Map, parts: BTreeMap<String, Range<usize>>) -> Storages {
        Storages::Mapped { map, parts }
    }

    /// Keeps the pickle.
    pub fn with_pickle(mut self, kept: Option<Reserved<Vec<u8>>>) -> Storages {
        if let Storages::Archive { pickle, .. } = &mut self {
            *pickle = kept;
        }
        self
    }

    /// True if the storages are big-endian.
    pub fn big_endian(&self) -> bool {
        matches!(self, Storages::Archive { big_endian: true, .. })
    }

    /// Releases the memory of a mapped file.
    pub fn release(&self) {
        if let Storages::Mapped { map, .. } = self {
            map.release();
        }
    }

    /// The bytes in which the values of a tensor are.
    pub fn bytes(&self, name: &str, plan: &ReadPlan, budget: &Budget) -> Result<Bytes<'_>> {
        match (self, plan.place()) {
            (Storages::Archive { archive, root, .. }, Place::Storage(key)) => {
                let mut archive = archive.lock().unwrap_or_else(PoisonError::into_inner);
                let (bytes, memory) = archive.bytes(&format!("{root}data/{key}"), budget)?;
                Ok(Bytes::Unpacked(Reserved::new(bytes, memory)))
            }
            (Storages::Mapped { map, parts }, Place::Storage(key)) => {
                map.check_unchanged()?;
                let part = parts.get(key).ok_or_else(|| {
                    InputError::new("a storage is missing")
                        .expected(format!("a storage `{key}`"))
                        .at(format!("tensor `{name}`"))
                        .advice("the file is incomplete; copy or write it again")
                })?;
                Ok(Bytes::Borrowed(map.bytes(part.clone())?))
            }
            (_, Place::Pickle { start, end }) => Ok(Bytes::Borrowed(self.pickle(*start..*end)?)),
            (_, Place::Text { start, end }) => {
                let text = self.pickle(*start..*end)?;
                let memory = budget.reserve(text.len() as u64, format!("the bytes of the tensor `{name}`"))?;
                let bytes = std::str::from_utf8(text).ok().and_then(|text| {
                    text.chars().map(|letter| u8::try_from(u32::from(letter)).ok()).collect::<Option<Vec<u8>>>()
                });
                let bytes = bytes.ok_or_else(|| {
                    InputError::new("the numbers of an array are not text of the encoding latin1")
                        .at(format!("tensor `{name}`"))
                        .advice("the file is damaged; write it again")
                })?;
                Ok(Bytes::Unpacked(Reserved::new(bytes, memory)))
            }
        }
    }

    /// A part of the pickle.
    fn pickle(&self, range: Range<usize>) -> Result<&[u8]> {
        match self {
            Storages::Archive { pickle, .. } => {
                Ok(pickle.as_ref().and_then(|pickle| pickle.get(range)).unwrap_or_default())
            }
            Storages::Mapped { map, .. } => {
                map.check_unchanged()?;
                map.bytes(range)
            }
        }
    }
}
