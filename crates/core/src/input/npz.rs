//! Numpy archives: several arrays under keys, stored or deflated.

use std::io::{Cursor, Read};

use super::archive::{Archive, Entry};
use super::file::failed;
use super::fortran::Fortran;
use super::npy::Header;
use super::number::NumberFormat;
use super::source::which_key;
use super::stream::Stream;
use super::strided::View;
use super::tensors::{Collector, Tensor, Tensors};
use super::{RowReader, Shape, Source};
use crate::context::{Budget, Reservation};
use crate::error::{InFile, InputError, Result};

/// The key of an entry: numpy appends `.npy` to the name of each array.
fn key_of(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix(".npy")
}

/// Picks the array of a key, or the only one there is.
fn pick(archive: &Archive, key: Option<&str>) -> Result<Entry> {
    let arrays: Vec<&Entry> = archive.entries().iter().filter(|entry| key_of(entry).is_some()).collect();
    let picked = match (key, arrays.as_slice()) {
        (None, [only]) => Some(*only),
        (None, _) => None,
        (Some(key), _) => arrays.iter().copied().find(|entry| key_of(entry) == Some(key)),
    };
    let keys = || arrays.iter().filter_map(|entry| key_of(entry)).map(str::to_string).collect();
    picked.cloned().ok_or_else(|| which_key(key, keys()).into())
}

/// Opens an array of a `.npz` file as rows.
pub(super) fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let archive = Archive::open(&source.path)?;
    let entry = pick(&archive, source.key.as_deref())?;
    let mut inflow = archive.stream(&entry.name)?;
    let header = Header::read(&mut inflow, &source.path)?;
    let layout = header.layout()?;
    let shape = Shape::of(&header.dimensions)?;
    header.check_length(entry.size, layout.size())?;
    let kind = header.kind("npz", layout);
    let path = source.path.clone();
    if !header.is_scattered() {
        return Ok(Box::new(Stream::new(inflow, layout, shape, kind, path, true)));
    }
    // Fortran order needs any byte at any time, and a packed stream can only go forward.
    let length = entry.size - header.data;
    let memory = budget.reserve(length, format!("the array `{}` in Fortran order", entry.name))?;
    let mut bytes = Vec::new();
    inflow.take(length.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| failed(error, &path))?;
    if bytes.len() as u64 != length {
        return Err(InputError::new("an array of the archive has not the length that its header says")
            .expected(format!("{length} bytes"))
            .found(format!("{} bytes", bytes.len()))
            .into());
    }
    let held = Held { bytes: Cursor::new(bytes), _memory: memory };
    Ok(Box::new(Fortran::new(held, 0, layout, shape, kind, path, budget)?))
}

/// Bytes in memory with their part of the budget.
struct Held {
    bytes: Cursor<Vec<u8>>,
    _memory: Reservation,
}

impl Read for Held {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.read(out)
    }
}

impl std::io::Seek for Held {
    fn seek(&mut self, place: std::io::SeekFrom) -> std::io::Result<u64> {
        self.bytes.seek(place)
    }
}

/// An array of the archive as it lies there, for callers who know what they want of it.
pub(super) struct Raw {
    pub header: Header,
    bytes: Vec<u8>,
    _memory: Reservation,
}

impl Raw {
    /// Unpacks the array of a key, if there is one.
    pub fn read(archive: &mut Archive, key: &str, budget: &Budget) -> Result<Option<Raw>> {
        let name = format!("{key}.npy");
        if archive.find(&name).is_none() {
            return Ok(None);
        }
        let (bytes, memory) = archive.bytes(&name, budget)?;
        let header = Header::read(&mut &bytes[..], archive.path())?;
        Ok(Some(Raw { header, bytes, _memory: memory }))
    }

    /// The bytes of the elements.
    pub fn data(&self) -> &[u8] {
        usize::try_from(self.header.data).ok().and_then(|start| self.bytes.get(start..)).unwrap_or_default()
    }

    /// The kind of number, after comparing lengths.
    pub fn layout(&self) -> Result<NumberFormat> {
        let layout = self.header.layout()?;
        self.header.check_length(self.bytes.len() as u64, layout.size())?;
        Ok(layout)
    }

    /// True when the elements are text.
    pub fn is_text(&self) -> bool {
        self.header.descr.trim_start_matches(['<', '>', '|', '=']).starts_with(['S', 'U'])
    }
}

/// Reads every array of numbers of a `.npz` file; text beside them is left out.
pub(super) fn read_tensors(path: &std::path::Path, budget: &Budget) -> Result<Tensors> {
    let mut archive = Archive::open(path)?;
    let keys: Vec<String> = archive.entries().iter().filter_map(key_of).map(str::to_string).collect();
    let mut tensors = Collector::new(budget);
    for key in keys {
        let Some(raw) = Raw::read(&mut archive, &key, budget)? else { continue };
        if raw.is_text() {
            continue;
        }
        let layout = raw.layout().map_err(|error| error_at(error, &key)).in_file(path)?;
        let dimensions = &raw.header.dimensions;
        let length = raw.data().len() / layout.size();
        tensors.reserve(&key, length)?;
        let mut values = vec![0f32; length];
        layout.decode(raw.data(), &mut values);
        if raw.header.is_scattered() {
            tensors.reserve(&key, length)?;
            values = View::fortran(dimensions).copy(&values);
        }
        tensors.insert(key, Tensor { shape: dimensions.clone(), values })?;
    }
    Ok(tensors.finish())
}

/// Adds the key to an input error.
fn error_at(error: crate::error::Error, key: &str) -> crate::error::Error {
    match error {
        crate::error::Error::Input(complaint) => complaint.at(format!("array `{key}`")).into(),
        other => other,
    }
}
