//! Reads little-endian numbers and text, and never beyond the end.

use etalon::context::{Budget, Reservation};
use etalon::error::{InputError, Result};

/// Longest text, in bytes. Chat templates have some ten thousand.
const LONGEST_TEXT: usize = 1 << 24;

/// What is wrong with an incomplete file.
const ENDS: &str = "the GGUF file ends within its header";

/// A position in the header of a file.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    offset: usize,
    memory: Reservation,
}

impl<'a> Cursor<'a> {
    /// The begin of a file.
    pub fn new(bytes: &'a [u8], budget: &Budget) -> Result<Cursor<'a>> {
        Ok(Cursor { bytes, offset: 0, memory: budget.reserve(0, PURPOSE)? })
    }

    /// The next byte that is read.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes until the end.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    /// An error at the next byte.
    pub fn error(&self, what: impl std::fmt::Display) -> InputError {
        InputError::new(what)
            .at(format!("byte {}", self.offset))
            .advice("the file is damaged or incomplete; copy or download it again")
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let taken = self.offset.checked_add(count).and_then(|end| self.bytes.get(self.offset..end));
        let taken = taken.ok_or_else(|| {
            let found = format!("{} bytes", self.left());
            self.error(ENDS).expected(format!("{count} more bytes")).found(found)
        })?;
        self.offset += count;
        Ok(taken)
    }

    /// The next bytes as an array.
    pub fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE]> {
        let mut array = [0; SIZE];
        array.copy_from_slice(self.take(SIZE)?);
        Ok(array)
    }

    /// A number of four bytes.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of items of at least `size` bytes each. It is within a limit, and the file has that many bytes.
    pub fn count(&mut self, what: &str, most: usize, size: usize) -> Result<usize> {
        let count = self.u64()?;
        let Some(count) = usize::try_from(count).ok().filter(|&count| count <= most) else {
            let error = self.error(format!("the number of {what} is too large"));
            return Err(error.expected(format!("at most {most}")).found(count).into());
        };
        if count > self.left() / size {
            let found = format!("{} bytes", self.left());
            return Err(self.error(ENDS).expected(format!("{count} {what}")).found(found).into());
        }
        Ok(count)
    }

    /// Text: a length and UTF-8.
    pub fn text(&mut self, what: &str) -> Result<&'a str> {
        let length = self.count(&format!("bytes of {what}"), LONGEST_TEXT, 1)?;
        let start = self.offset;
        std::str::from_utf8(self.take(length)?).map_err(|error| {
            let at = format!("byte {}", start + error.valid_up_to());
            self.error(format!("{what} is not UTF-8")).at(at).into()
        })
    }

    /// Reserves memory for something that is about to be kept.
    pub fn reserve(&mut self, bytes: usize) -> Result<()> {
        self.memory.resize(self.memory.bytes().saturating_add(bytes as u64), PURPOSE)
    }

    /// The reservation of all that was kept.
    pub fn into_memory(self) -> Reservation {
        self.memory
    }
}

/// The purpose of the memory.
const PURPOSE: &str = "the metadata of a GGUF file";
