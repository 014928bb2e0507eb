//! Safetensors files. The safetensors crate checks that the tensors fill the file without gaps or overlaps.

use std::io::{Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use ::safetensors::Dtype;
use ::safetensors::tensor::{Metadata, TensorInfo};
use serde::de::IgnoredAny;

use super::file::{Regular, read_error};
use super::json::Entries;
use super::map::Map;
use super::number::{Number, NumberFormat};
use super::source::key_error;
use super::stream::Stream;
use super::tensors::{Collector, Tensor, Tensors};
use super::{RowReader, Shape, Source};
use crate::context::Budget;
use crate::error::{Error, InputError, Result};

/// Maximum length of a header; a tensor takes about a hundred bytes.
const LONGEST_HEADER: u64 = 1 << 24;

/// A mapped file and its checked header.
pub(super) struct SafetensorsFile {
    map: Map,
    metadata: Metadata,
    /// The byte of the first tensor.
    data: u64,
}

/// Maps a file and checks its header.
pub(super) fn open(path: &Path) -> Result<SafetensorsFile> {
    let map = Map::open_input(path)?;
    let file_length = map.length() as u64;
    let wrong = |what: &str| InputError::new(what).advice("copy or write the file again").file(path);
    let Some(length) = map.bytes(0..map.length())?.first_chunk() else {
        return Err(wrong("the safetensors file ends within its header")
            .expected("at least 8 bytes")
            .found(format!("{file_length} bytes"))
            .into());
    };
    let length = u64::from_le_bytes(*length);
    let longest = LONGEST_HEADER.min(file_length - 8);
    if length > longest {
        return Err(wrong("the header of the safetensors file is too long")
            .expected(format!("at most {longest} bytes"))
            .found(format!("{length} bytes"))
            .at("byte 0")
            .into());
    }
    let header = map.bytes(8..8 + length as usize)?;
    let metadata = serde_json::from_slice::<Entries<IgnoredAny>>(header)
        .and_then(|_| serde_json::from_slice::<Metadata>(header))
        .map_err(|error| wrong("the header of the safetensors file is invalid").found(error))?;
    let data = 8 + length;
    let end = data.checked_add(metadata.data_len() as u64);
    if end != Some(file_length) {
        return Err(wrong("the length of the safetensors file does not agree with its header")
            .expected(end.map_or("less than 2^64 bytes".to_string(), |end| format!("{end} bytes")))
            .found(format!("{file_length} bytes"))
            .into());
    }
    Ok(SafetensorsFile { map, metadata, data })
}

impl SafetensorsFile {
    /// Picks the tensor with a key, or the only one with rows.
    fn pick(&self, key: Option<&str>) -> Result<(String, &TensorInfo)> {
        let names = self.metadata.offset_keys();
        let info = |name: &String| self.metadata.info(name);
        let with = |dimensions: Range<usize>| -> Vec<&String> {
            let fits = |name: &&String| info(name).is_some_and(|info| dimensions.contains(&info.shape.len()));
            names.iter().filter(fits).collect()
        };
        let picked = match key {
            Some(key) => names.iter().find(|name| *name == key),
            // Besides one matrix there may be vectors, such as biases or ids.
            None => match (with(2..4).as_slice(), with(1..2).as_slice()) {
                ([only], _) | ([], [only]) => Some(*only),
                _ => None,
            },
        };
        match picked.and_then(|name| Some((name.clone(), info(name)?))) {
            Some(picked) => Ok(picked),
            None => Err(key_error(key, names).into()),
        }
    }

    /// The names of the tensors, in the order of the file.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// The shape and the number type of a tensor.
    pub fn describe(&self, name: &str) -> Option<(&[usize], String)> {
        let info = self.metadata.info(name)?;
        let number = layout(name, info).map_or_else(|_| info.dtype.to_string(), NumberFormat::name);
        Some((&info.shape, number))
    }

    /// Reads one tensor. The caller reserves memory for the values.
    pub fn values(&self, name: &str) -> Result<Vec<f32>> {
        let info = self.metadata.info(name).ok_or_else(|| Error::Bug(format!("no tensor `{name}` in the header")))?;
        let layout = layout(name, info)?;
        self.map.check_unchanged()?;
        let Range { start, end } = self.range(info);
        let bytes = self.map.bytes(start as usize..end as usize)?;
        let mut values = vec![0f32; bytes.len() / layout.size()];
        layout.decode(bytes, &mut values);
        self.map.release();
        Ok(values)
    }

    /// The byte range of a tensor in the file.
    fn range(&self, info: &TensorInfo) -> Range<u64> {
        self.data + info.data_offsets.0 as u64..self.data + info.data_offsets.1 as u64
    }
}

/// The number type of a tensor.
fn layout(name: &str, info: &TensorInfo) -> Result<NumberFormat> {
    Ok(NumberFormat::little(match info.dtype {
        Dtype::BOOL => Number::Bool,
        Dtype::U8 => Number::U8,
        Dtype::I8 => Number::I8,
        Dtype::U16 => Number::U16,
        Dtype::I16 => Number::I16,
        Dtype::U32 => Number::U32,
        Dtype::I32 => Number::I32,
        Dtype::U64 => Number::U64,
        Dtype::I64 => Number::I64,
        Dtype::F16 => Number::F16,
        Dtype::BF16 => Number::Bf16,
        Dtype::F32 => Number::F32,
        Dtype::F64 => Number::F64,
        other => {
            return Err(InputError::new("unsupported number type of a tensor")
                .expected("BOOL, I8 to I64, U8 to U64, F16, BF16, F32 or F64")
                .found(other)
                .at(format!("tensor `{name}`"))
                .advice("convert it to float32 first")
                .into());
        }
    }))
}

/// Opens a tensor as rows.
pub(super) fn open_rows(source: &Source) -> Result<Box<dyn RowReader>> {
    let opened = open(&source.path)?;
    let (name, info) = opened.pick(source.key.as_deref())?;
    let layout = layout(&name, info)?;
    let shape = Shape::of(&info.shape)?;
    let start = opened.range(info).start;
    let mut file = Regular::open(&source.path)?.file;
    file.seek(SeekFrom::Start(start)).map_err(|error| read_error(error, &source.path))?;
    let kind = format!("safetensors {}", layout.name());
    Ok(Box::new(Stream::new(file, layout, shape, kind, source.path.clone(), false)))
}

/// The byte range of the values of a tensor, if they can be mapped.
pub(super) fn plain_f32(source: &Source) -> Result<Option<(Range<u64>, Shape)>> {
    let opened = open(&source.path)?;
    let (_, info) = opened.pick(source.key.as_deref())?;
    let shape = Shape::of(&info.shape)?;
    let range = opened.range(info);
    Ok((info.dtype == Dtype::F32 && range.start.is_multiple_of(4)).then_some((range, shape)))
}

/// Reads every tensor.
pub(super) fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    let opened = open(path)?;
    let mut tensors = Collector::new(budget);
    for name in opened.names() {
        let Some(info) = opened.metadata.info(&name) else { continue };
        tensors.reserve(&name, info.shape.iter().product())?;
        let (shape, values) = (info.shape.clone(), opened.values(&name)?);
        tensors.insert(name, Tensor { shape, values })?;
    }
    Ok(tensors.finish())
}
