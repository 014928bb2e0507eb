//! The wire format of protocol buffers: numbered fields of four kinds.

use etalon::error::{Error, InputError, Result};

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Integer(u64),
    Eight,
    Bytes(&'a [u8]),
    Four([u8; 4]),
}

/// A message, read field by field. `base` is its offset in the file, for error messages.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    base: usize,
}

impl<'a> Fields<'a> {
    pub fn new(bytes: &'a [u8], base: usize) -> Fields<'a> {
        Fields { bytes, at: 0, base }
    }

    /// The offset in the file.
    pub fn offset(&self) -> usize {
        self.base + self.at
    }

    /// The number and the value of the next field; `None` at the end.
    pub fn next(&mut self) -> Result<Option<(u64, Value<'a>)>> {
        if self.at == self.bytes.len() {
            return Ok(None);
        }
        let key = self.integer()?;
        let value = match key & 7 {
            0 => Value::Integer(self.integer()?),
            1 => self.take(8).map(|_| Value::Eight)?,
            2 => {
                let length = self.integer()?;
                let length = usize::try_from(length).map_err(|_| self.cut())?;
                Value::Bytes(self.take(length)?)
            }
            5 => Value::Four(self.take(4)?.first_chunk().copied().unwrap_or_default()),
            _ => return Err(self.wrong("unknown kind of field")),
        };
        Ok(Some((key >> 3, value)))
    }

    /// A variable-length integer: seven bits per byte, the lowest first.
    fn integer(&mut self) -> Result<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first().unwrap_or(&0);
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong("an integer has more than 64 bits"))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length);
        let taken = end.and_then(|end| self.bytes.get(self.at..end)).ok_or_else(|| self.cut())?;
        self.at += length;
        Ok(taken)
    }

    fn cut(&self) -> Error {
        self.wrong("a field is longer than its message")
    }

    /// The error for a damaged file.
    pub fn wrong(&self, found: &str) -> Error {
        InputError::new("the SentencePiece model is damaged or cut off")
            .found(found)
            .at(format!("byte {}", self.offset()))
            .advice("copy or download the file again")
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_kinds_are_read() {
        // Field 1 = 300 (0b10_0101100), field 2 = "ab", field 3 = four bytes, field 4 = eight bytes.
        let bytes = [&[0x08, 0xac, 0x02, 0x12, 2, b'a', b'b', 0x1d, 1, 2, 3, 4, 0x21][..], &[0; 8]].concat();
        let mut fields = Fields::new(&bytes, 0);
        let mut read = Vec::new();
        while let Some(field) = fields.next().unwrap() {
            read.push(field);
        }
        let expected =
            [(1, Value::Integer(300)), (2, Value::Bytes(b"ab")), (3, Value::Four([1, 2, 3, 4])), (4, Value::Eight)];
        assert_eq!(read, expected);
    }

    #[test]
    fn damage_is_reported_with_its_offset() {
        let why = |bytes: &[u8]| Fields::new(bytes, 100).next().unwrap_err().to_string();
        assert!(why(&[0x12, 5, b'a']).contains("byte 102"), "{}", why(&[0x12, 5, b'a']));
        assert!(why(&[0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]).contains("longer"));
        assert!(why(&[0xff; 11]).contains("64 bits"));
        assert!(why(&[0x0b]).contains("unknown kind"));
        assert!(why(&[0x08]).contains("longer than its message"));
    }
}
