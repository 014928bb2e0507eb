//! Numpy arrays: versions 1 to 3, C and Fortran order, both byte orders.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use super::file::{Regular, read_error};
use super::fortran::Fortran;
use super::number::{Number, NumberFormat};
use super::shape::{bytes_of, format_shape};
use super::source::no_key;
use super::stream::Stream;
use super::{RowReader, Shape, Source, python};
use crate::context::Budget;
use crate::error::{InputError, Result};

/// Maximum length of a header; numpy writes a few hundred bytes.
const LONGEST_HEADER: u32 = 1 << 20;

/// The header before the numbers.
#[derive(Debug)]
pub(super) struct Header {
    /// The type of an element, such as `<f4`.
    pub descr: String,
    /// True when the first index changes fastest.
    pub fortran: bool,
    /// The dimensions.
    pub dimensions: Vec<usize>,
    /// The byte of the first number.
    pub data: u64,
}

impl Header {
    /// Reads the header; the next byte of the reader is then that of the first number.
    pub fn read(reader: &mut impl Read, path: &Path) -> Result<Header> {
        let mut exactly = |bytes: &mut [u8]| reader.read_exact(bytes).map_err(|error| read_error(error, path));
        let mut start = [0; 8];
        exactly(&mut start)?;
        let [magic @ .., major, minor] = start;
        if magic != *b"\x93NUMPY" {
            return Err(InputError::new("the file is not a numpy array")
                .expected("\\x93NUMPY at the start")
                .found(format!("\"{}\"", magic.escape_ascii()))
                .at("byte 0")
                .advice("save it with numpy.save")
                .into());
        }
        let mut length = [0; 4];
        let before = match (major, minor) {
            (1, 0) => 2,
            (2 | 3, 0) => 4,
            _ => {
                return Err(InputError::new("unknown version of the numpy format")
                    .expected("1.0, 2.0 or 3.0")
                    .found(format!("{major}.{minor}"))
                    .at("byte 6")
                    .advice("save it with numpy.save")
                    .into());
            }
        };
        exactly(&mut length[..before])?;
        let length = u32::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(InputError::new("the header of the numpy array is too long")
                .expected(format!("at most {LONGEST_HEADER} bytes"))
                .found(format!("{length} bytes"))
                .at("byte 8")
                .advice("the file is damaged; save it again with numpy.save")
                .into());
        }
        let mut text = vec![0; length as usize];
        exactly(&mut text)?;
        let text = String::from_utf8(text).map_err(|error| {
            InputError::new("the header of the numpy array is not text")
                .expected("UTF-8")
                .at(format!("byte {}", 8 + before + error.utf8_error().valid_up_to()))
                .advice("the file is damaged; save it again with numpy.save")
        })?;
        let python::Description { descr, fortran, dimensions } = python::description(&text)?;
        Ok(Header { descr, fortran, dimensions, data: (8 + before) as u64 + u64::from(length) })
    }

    /// The number type; an error for anything else.
    pub fn layout(&self) -> Result<NumberFormat> {
        let code = self.descr.trim_start_matches(['<', '>', '|', '=']);
        if let Some(number) = Number::of_numpy(code) {
            return Ok(NumberFormat { number, big_endian: self.descr.starts_with('>') });
        }
        let error = InputError::new("unsupported element type in the numpy array")
            .expected("bool, int8 to int64, uint8 to uint64, float16, float32 or float64")
            .found(&self.descr);
        Err(match code.chars().next() {
            Some('O') => error.advice("objects can execute code; save an array of numbers, with allow_pickle=False"),
            Some('V') => error.advice("numpy has no bfloat16 and saves it as raw bytes; convert to float32 first"),
            Some('c') => error.advice("save the real part, or the absolute value"),
            Some('S' | 'U') => error.advice("save text as a CSV table"),
            _ => error.advice("convert with astype(numpy.float32) first"),
        }
        .into())
    }

    /// Compares the length that the header implies with the length of the file.
    pub fn check_length(&self, length: u64, item: usize) -> Result<()> {
        let needed = bytes_of(&self.dimensions, item).and_then(|bytes| bytes.checked_add(self.data));
        if needed == Some(length) {
            return Ok(());
        }
        let needed = needed.map_or("more than 2^64".to_string(), |needed| needed.to_string());
        Err(InputError::new("the length of the numpy array does not agree with its header")
            .expected(format!("{needed} bytes for {} of {item} bytes each", format_shape(&self.dimensions)))
            .found(format!("{length} bytes"))
            .advice("the file is incomplete or was changed; copy or write it again")
            .into())
    }

    /// True when rows are not contiguous: Fortran order, and more than one dimension larger than 1.
    pub fn is_scattered(&self) -> bool {
        self.fortran && self.dimensions.iter().filter(|&&size| size > 1).count() > 1
    }

    /// Format and number type, for messages.
    pub fn kind(&self, format: &str, layout: NumberFormat) -> String {
        let order = if self.fortran && self.dimensions.len() > 1 { ", Fortran order" } else { "" };
        format!("{format} {}{order}", layout.name())
    }
}

fn open(source: &Source) -> Result<(Regular, Header, NumberFormat, Shape)> {
    no_key(source, "npy")?;
    let mut file = Regular::open(&source.path)?;
    let header = Header::read(&mut file.file, &source.path)?;
    let layout = header.layout()?;
    let shape = Shape::of(&header.dimensions)?;
    header.check_length(file.length, layout.size())?;
    Ok((file, header, layout, shape))
}

/// Opens a `.npy` file as rows.
pub(super) fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let (Regular { mut file, path, .. }, header, layout, shape) = open(source)?;
    let kind = header.kind("npy", layout);
    if header.is_scattered() {
        return Ok(Box::new(Fortran::new(file, header.data, layout, shape, kind, path, budget)?));
    }
    file.seek(SeekFrom::Start(header.data)).map_err(|error| read_error(error, &path))?;
    Ok(Box::new(Stream::new(file, layout, shape, kind, path, false)))
}

/// The byte range of the values of a `.npy` file, if they can be mapped.
pub(super) fn plain_f32(source: &Source) -> Result<Option<(Range<u64>, Shape)>> {
    let (file, header, layout, shape) = open(source)?;
    let plain = layout == NumberFormat::little(Number::F32) && !header.is_scattered() && header.data.is_multiple_of(4);
    Ok(plain.then_some((header.data..file.length, shape)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a `.npy` file, as numpy writes it.
    fn npy(descr: &str, fortran: bool, dimensions: &[usize], data: &[u8]) -> Vec<u8> {
        npy_version(1, descr, fortran, dimensions, data)
    }

    fn npy_version(version: u8, descr: &str, fortran: bool, dimensions: &[usize], data: &[u8]) -> Vec<u8> {
        let sizes: String = dimensions.iter().map(|size| format!("{size}, ")).collect();
        let order = if fortran { "True" } else { "False" };
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': ({sizes}), }}");
        let before = if version == 1 { 10 } else { 12 };
        while !(before + text.len() + 1).is_multiple_of(64) {
            text.push(' ');
        }
        text.push('\n');
        let mut bytes = [b"\x93NUMPY".as_slice(), &[version, 0]].concat();
        match version {
            1 => bytes.extend((text.len() as u16).to_le_bytes()),
            _ => bytes.extend((text.len() as u32).to_le_bytes()),
        }
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn elements_that_are_not_numbers_are_refused_with_advice() {
        for (descr, advice) in [("|O", "allow_pickle=False"), ("<V2", "bfloat16"), ("<c8", "real part"), ("<U4", "CSV")]
        {
            let header = Header::read(&mut &npy(descr, false, &[1], &[])[..], Path::new("x.npy")).unwrap();
            let error = header.layout().unwrap_err().to_string();
            assert!(error.contains(descr) && error.contains(advice), "{error}");
        }
        let structured = b"\x93NUMPY\x01\x00\x3f\x00{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}";
        assert!(Header::read(&mut &structured[..], Path::new("x.npy")).unwrap_err().to_string().contains("structured"));
    }

    #[test]
    fn a_wrong_shape_in_the_header_is_refused() {
        let header = Header::read(&mut &npy("<f4", false, &[1 << 60, 1 << 3], &[])[..], Path::new("x.npy")).unwrap();
        let error = header.check_length(128, 4).unwrap_err().to_string();
        assert!(error.contains("more than 2^64") && error.contains("128 bytes"), "{error}");
        let mut long = b"\x93NUMPY\x02\x00".to_vec();
        long.extend(u32::MAX.to_le_bytes());
        assert!(Header::read(&mut &long[..], Path::new("x.npy")).unwrap_err().to_string().contains("too long"));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(tail: Vec<u8>, version in 0u8..5) {
            let bytes = [b"\x93NUMPY".as_slice(), &[version, 0], &tail].concat();
            let _ = Header::read(&mut &bytes[..], Path::new("x.npy"));
            let _ = Header::read(&mut &tail[..], Path::new("x.npy"));
        }
    }
}
