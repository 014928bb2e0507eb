//! Numpy archives: several arrays under keys, stored or deflated.

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use super::archive::{Archive, Entry};
use super::file::read_error;
use super::fortran::Fortran;
use super::npy::Header;
use super::number::NumberFormat;
use super::source::key_error;
use super::stream::Stream;
use super::strided::View;
use super::tensors::{Collector, Tensor, Tensors};
use super::{RowReader, Shape, Source};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InFile, InputError, Result};

/// The key of an entry: numpy appends `.npy` to the name of each array.
fn key_of(entry: &Entry) -> Option<&str> {
    entry.name.strip_suffix(".npy")
}

/// Picks the array with a key, or the only array.
fn pick(archive: &Archive, key: Option<&str>) -> Result<Entry> {
    let arrays: Vec<&Entry> = archive.entries().iter().filter(|entry| key_of(entry).is_some()).collect();
    let picked = match (key, arrays.as_slice()) {
        (None, [only]) => Some(*only),
        (None, _) => None,
        (Some(key), _) => arrays.iter().copied().find(|entry| key_of(entry) == Some(key)),
    };
    let keys = || arrays.iter().filter_map(|entry| key_of(entry)).map(str::to_string).collect();
    picked.cloned().ok_or_else(|| key_error(key, keys()).into())
}

/// Opens an array of a `.npz` file as rows.
pub(super) fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let archive = Archive::open(&source.path)?;
    let entry = pick(&archive, source.key.as_deref())?;
    let mut stream = archive.stream(&entry.name)?;
    let header = Header::read(&mut stream, &source.path)?;
    let layout = header.layout()?;
    let shape = Shape::of(&header.dimensions)?;
    header.check_length(entry.size, layout.size())?;
    let kind = header.kind("npz", layout);
    let path = source.path.clone();
    if !header.is_scattered() {
        return Ok(Box::new(Stream::new(stream, layout, shape, kind, path, true)));
    }
    // Fortran order needs random access, and a compressed stream can only be read in order.
    let length = entry.size - header.data;
    let memory = budget.reserve(length, format!("the array `{}` in Fortran order", entry.name))?;
    let mut bytes = Vec::new();
    stream.take(length.saturating_add(1)).read_to_end(&mut bytes).map_err(|error| read_error(error, &path))?;
    if bytes.len() as u64 != length {
        return Err(InputError::new("the length of an array in the archive does not agree with its header")
            .expected(format!("{length} bytes"))
            .found(format!("{} bytes", bytes.len()))
            .at(format!("entry `{}`", entry.name))
            .advice("the file is damaged; copy or write it again")
            .into());
    }
    let unpacked = Unpacked { bytes: Cursor::new(bytes), _memory: memory };
    Ok(Box::new(Fortran::new(unpacked, 0, layout, shape, kind, path, budget)?))
}

/// Unpacked bytes with their memory reservation.
struct Unpacked {
    bytes: Cursor<Vec<u8>>,
    _memory: Reservation,
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.bytes.read(out)
    }
}

impl Seek for Unpacked {
    fn seek(&mut self, position: SeekFrom) -> std::io::Result<u64> {
        self.bytes.seek(position)
    }
}

/// An unpacked array of the archive with its header, not converted.
pub(super) struct RawArray {
    pub header: Header,
    bytes: Vec<u8>,
    _memory: Reservation,
}

impl RawArray {
    /// Unpacks the array with a key; `None` if there is none.
    pub fn read(archive: &mut Archive, key: &str, budget: &Budget) -> Result<Option<RawArray>> {
        let name = format!("{key}.npy");
        if archive.find(&name).is_none() {
            return Ok(None);
        }
        let (bytes, memory) = archive.bytes(&name, budget)?;
        let header = Header::read(&mut &bytes[..], archive.path())?;
        Ok(Some(RawArray { header, bytes, _memory: memory }))
    }

    /// The bytes of the elements.
    pub fn data(&self) -> &[u8] {
        usize::try_from(self.header.data).ok().and_then(|start| self.bytes.get(start..)).unwrap_or_default()
    }

    /// The number type, after comparing lengths.
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

/// Reads every array of numbers in a `.npz` file; arrays of text are skipped.
pub(super) fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    let mut archive = Archive::open(path)?;
    let keys: Vec<String> = archive.entries().iter().filter_map(key_of).map(str::to_string).collect();
    let mut tensors = Collector::new(budget);
    for key in keys {
        let Some(raw) = RawArray::read(&mut archive, &key, budget)? else { continue };
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
fn error_at(error: Error, key: &str) -> Error {
    match error {
        Error::Input(input) => input.at(format!("array `{key}`")).into(),
        other => other,
    }
}
