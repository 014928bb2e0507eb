//! Reads flatbuffers, the encoding of Arrow's metadata. Every position is checked against the bytes.

/// The bytes are not a valid flatbuffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invalid;

/// A value, or [`Invalid`].
pub(super) type Read<T> = Result<T, Invalid>;

/// A table: fields by number, each of which may be absent.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    /// The byte of the table, and that of its list of fields.
    start: usize,
    fields: usize,
    /// The length of the list of fields in bytes.
    length: usize,
}

/// A vector of values of a fixed size.
#[derive(Clone, Copy)]
pub(super) struct Vector<'a> {
    bytes: &'a [u8],
    /// The byte of the first value.
    start: usize,
    /// The number of values.
    pub length: usize,
}

fn fixed<const N: usize>(bytes: &[u8], at: usize) -> Read<[u8; N]> {
    let end = at.checked_add(N).ok_or(Invalid)?;
    bytes.get(at..end).and_then(|bytes| bytes.try_into().ok()).ok_or(Invalid)
}

/// The target of an offset that counts from its own position.
fn target(bytes: &[u8], at: usize) -> Read<usize> {
    at.checked_add(u32::from_le_bytes(fixed(bytes, at)?) as usize).ok_or(Invalid)
}

impl<'a> Table<'a> {
    /// The root table.
    pub fn root(bytes: &'a [u8]) -> Read<Table<'a>> {
        Table::at(bytes, target(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], start: usize) -> Read<Table<'a>> {
        let back = i64::from(i32::from_le_bytes(fixed(bytes, start)?));
        let fields = i64::try_from(start).ok().and_then(|start| usize::try_from(start - back).ok()).ok_or(Invalid)?;
        let length = usize::from(u16::from_le_bytes(fixed(bytes, fields)?));
        Ok(Table { bytes, start, fields, length })
    }

    /// The byte of a field; `None` if it is absent.
    fn field(&self, number: usize) -> Read<Option<usize>> {
        let entry = 4 + 2 * number;
        if entry + 2 > self.length {
            return Ok(None);
        }
        match u16::from_le_bytes(fixed(self.bytes, self.fields.checked_add(entry).ok_or(Invalid)?)?) {
            0 => Ok(None),
            offset => self.start.checked_add(usize::from(offset)).map(Some).ok_or(Invalid),
        }
    }

    fn number<const N: usize, T>(&self, number: usize, default: T, convert: impl Fn([u8; N]) -> T) -> Read<T> {
        self.field(number)?.map_or(Ok(default), |at| fixed(self.bytes, at).map(convert))
    }

    /// A byte; 0 if absent.
    pub fn u8(&self, number: usize) -> Read<u8> {
        self.number(number, 0, u8::from_le_bytes)
    }

    /// A number; 0 if absent.
    pub fn i16(&self, number: usize) -> Read<i16> {
        self.number(number, 0, i16::from_le_bytes)
    }

    /// A number; 0 if absent.
    pub fn i32(&self, number: usize) -> Read<i32> {
        self.number(number, 0, i32::from_le_bytes)
    }

    /// A size; 0 if absent. Negative sizes are invalid.
    pub fn size(&self, number: usize) -> Read<u64> {
        u64::try_from(self.i64(number)?).map_err(|_| Invalid)
    }

    /// A number; 0 if absent.
    pub fn i64(&self, number: usize) -> Read<i64> {
        self.number(number, 0, i64::from_le_bytes)
    }

    /// A table.
    pub fn table(&self, number: usize) -> Read<Option<Table<'a>>> {
        self.field(number)?.map(|at| Table::at(self.bytes, target(self.bytes, at)?)).transpose()
    }

    /// A vector of values of `size` bytes each; empty if absent.
    pub fn vector(&self, number: usize, size: usize) -> Read<Vector<'a>> {
        let Some(at) = self.field(number)? else { return Ok(Vector { bytes: self.bytes, start: 0, length: 0 }) };
        let start = target(self.bytes, at)?;
        let length = u32::from_le_bytes(fixed(self.bytes, start)?) as usize;
        let start = start + 4;
        let end = length.checked_mul(size).and_then(|bytes| bytes.checked_add(start)).ok_or(Invalid)?;
        if end > self.bytes.len() { Err(Invalid) } else { Ok(Vector { bytes: self.bytes, start, length }) }
    }

    /// A text; `None` if absent.
    pub fn text(&self, number: usize) -> Read<Option<&'a str>> {
        if self.field(number)?.is_none() {
            return Ok(None);
        }
        let Vector { bytes, start, length } = self.vector(number, 1)?;
        let text = bytes.get(start..start + length).ok_or(Invalid)?;
        std::str::from_utf8(text).map(Some).map_err(|_| Invalid)
    }
}

impl<'a> Vector<'a> {
    /// The tables of a vector of offsets.
    pub fn tables(self) -> impl Iterator<Item = Read<Table<'a>>> {
        (0..self.length).map(move |index| Table::at(self.bytes, target(self.bytes, self.start + 4 * index)?))
    }

    /// The pairs of sizes of a vector of structures of two 64-bit numbers.
    pub fn pairs(self) -> impl Iterator<Item = Read<(u64, u64)>> {
        let size = move |at: usize| {
            fixed(self.bytes, at).and_then(|bytes| u64::try_from(i64::from_le_bytes(bytes)).map_err(|_| Invalid))
        };
        (0..self.length).map(move |index| {
            let at = self.start + 16 * index;
            Ok((size(at)?, size(at + 8)?))
        })
    }

    /// The sizes of a vector of 64-bit numbers.
    pub fn sizes(self) -> impl Iterator<Item = Read<u64>> {
        (0..self.length).map(move |index| {
            let bytes = fixed(self.bytes, self.start + 8 * index)?;
            u64::try_from(i64::from_le_bytes(bytes)).map_err(|_| Invalid)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_and_absent_ones_are_zero() {
        // Root offset 12; list of fields at 4 (8 bytes: its length, that of the table, two fields); table at 12.
        let bytes = [12u8, 0, 0, 0, 8, 0, 8, 0, 4, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0];
        let table = Table::root(&bytes).unwrap();
        assert_eq!((table.i32(0), table.i32(1), table.i64(5)), (Ok(7), Ok(0), Ok(0)));
        assert!(table.table(0).is_err() && table.vector(1, 8).is_ok_and(|vector| vector.length == 0));
        for end in 0..bytes.len() {
            if let Ok(table) = Table::root(&bytes[..end]) {
                assert_eq!(table.i32(0), Err(Invalid));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, number in 0usize..70_000) {
            if let Ok(table) = Table::root(&bytes) {
                let _ = (table.u8(number), table.i16(number), table.size(number), table.text(number).is_ok());
                let _ = table.vector(number, 4).map(|vector| vector.tables().all(|table| table.is_ok()));
                let _ = table.vector(number, 16).map(|vector| vector.pairs().all(|pair| pair.is_ok()));
                let _ = table.vector(number, 8).map(|vector| vector.sizes().all(|size| size.is_ok()));
            }
        }
    }
}
