//! The Thrift headers of a parquet file, checked before the parquet crate parses them.
//!
//! The crate trusts the types of fields that it knows and skips fields that it does not know, element by element. A list
//! of booleans takes no bytes there, so a few bytes can cause billions of steps; and a field of a wrong type makes it
//! read other bytes than a check that trusts the type. So every known field must have its type, and unknown fields must
//! take bytes. Only sizes are interpreted here.

use Encoded::{Byte, Bytes, Double, Flag, Integer, List, Struct};

/// Maximum nesting of structures.
const DEEPEST: usize = 32;

/// How the value of a known field is encoded.
pub(super) enum Encoded {
    Integer,
    Byte,
    Flag,
    Double,
    Bytes,
    Struct(&'static [Field]),
    List(&'static Encoded),
}

/// A known field: its number and encoding.
pub(super) type Field = (i64, Encoded);

/// The rest of a header in Thrift's compact encoding. Every method returns `None` if the bytes are invalid.
pub(super) struct Thrift<'a> {
    pub bytes: &'a [u8],
}

impl Thrift<'_> {
    /// Skips a structure; calls `seen` with its integers, but not with those of nested structures.
    pub fn structure(&mut self, known: &'static [Field], seen: &mut dyn FnMut(i64, i64)) -> Option<()> {
        self.nested(known, seen, 0)
    }

    fn nested(&mut self, known: &'static [Field], seen: &mut dyn FnMut(i64, i64), depth: usize) -> Option<()> {
        let mut number = 0;
        while let Some((next, kind)) = self.field(number)? {
            number = next;
            match known.iter().find(|(number, _)| *number == next) {
                Some((_, Integer)) if matches!(kind, I16 | I32 | I64) => seen(number, self.integer()?),
                Some((_, encoded)) => self.value(kind, encoded, depth + 1)?,
                None => self.skip(kind, depth + 1)?,
            }
        }
        Some(())
    }

    /// Skips a known field.
    pub fn known(&mut self, kind: u8, encoded: &'static Encoded) -> Option<()> {
        self.value(kind, encoded, 0)
    }

    fn value(&mut self, kind: u8, encoded: &'static Encoded, depth: usize) -> Option<()> {
        match (encoded, kind) {
            (Integer, I16 | I32 | I64) | (Byte, BYTE) | (Flag, TRUE | FALSE) | (Double, DOUBLE) | (Bytes, BINARY) => {
                self.skip(kind, depth)
            }
            (Struct(known), STRUCT) => self.nested(known, &mut |_, _| {}, depth),
            (List(element), LIST) => {
                let (kind, count) = self.list()?;
                (0..count).try_for_each(|_| self.value(kind, element, depth + 1))
            }
            _ => None,
        }
    }

    /// The next field's number and kind; `Some(None)` at the end of the structure.
    pub fn field(&mut self, before: i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        let number = match byte >> 4 {
            0 => self.integer()?,
            delta => before.checked_add(i64::from(delta))?,
        };
        // The parquet crate truncates numbers to 16 bits, so a larger one would be another field.
        i16::try_from(number).ok()?;
        Some(Some((number, byte & 15)))
    }

    /// The kind and number of the elements of a list.
    pub fn list(&mut self) -> Option<(u8, u64)> {
        let byte = self.byte()?;
        let count = match byte >> 4 {
            15 => self.varint()?,
            count => u64::from(count),
        };
        // An element takes at least one byte.
        (count <= self.bytes.len() as u64).then_some((byte & 15, count))
    }

    /// Skips an unknown field of some kind.
    pub fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        if depth > DEEPEST {
            return None;
        }
        match kind {
            TRUE | FALSE => Some(()),
            BYTE => self.pass(1),
            I16 | I32 | I64 => self.varint().map(|_| ()),
            DOUBLE => self.pass(8),
            BINARY => {
                let length = self.varint()?;
                self.pass(length)
            }
            LIST | SET => {
                let (kind, count) = self.list()?;
                // The parquet crate skips booleans without consuming bytes.
                let endless = count > 0 && matches!(kind, TRUE | FALSE);
                (!endless).then_some(())?;
                (0..count).try_for_each(|_| self.skip(kind, depth + 1))
            }
            STRUCT => self.nested(&[], &mut |_, _| {}, depth),
            // Parquet headers have no maps.
            _ => None,
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let zigzag = self.varint()?;
        Some((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I32: u8 = 5;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const SET: u8 = 10;
pub(super) const STRUCT: u8 = 12;

/// The footer; its field 2 is the schema.
pub(super) static FILE: &[Field] = &[
    (1, Integer),
    (3, Integer),
    (4, List(&Struct(ROW_GROUP))),
    (5, List(&Struct(KEY_VALUE))),
    (6, Bytes),
    (7, List(&Struct(COLUMN_ORDER))),
];

/// An element of the schema.
pub(super) static ELEMENT: &[Field] = &[
    (1, Integer),
    (2, Integer),
    (3, Integer),
    (4, Bytes),
    (CHILDREN, Integer),
    (6, Integer),
    (7, Integer),
    (8, Integer),
    (9, Integer),
    (10, Struct(LOGICAL_TYPE)),
];

/// The field with the number of children of a schema element.
pub(super) const CHILDREN: i64 = 5;

/// The header of a page.
pub(super) static PAGE: &[Field] = &[
    (PAGE_KIND, Integer),
    (2, Integer),
    (PAGE_BYTES, Integer),
    (4, Integer),
    (5, Struct(&[(1, Integer), (2, Integer), (3, Integer), (4, Integer), (5, Struct(STATISTICS))])),
    (6, Struct(&[])),
    (7, Struct(&[(1, Integer), (2, Integer), (3, Flag)])),
    (
        8,
        Struct(&[
            (1, Integer),
            (2, Integer),
            (3, Integer),
            (4, Integer),
            (5, Integer),
            (6, Integer),
            (7, Flag),
            (8, Struct(STATISTICS)),
        ]),
    ),
];

/// The field with the kind of a page.
pub(super) const PAGE_KIND: i64 = 1;

/// The field with the number of bytes after the header of a page.
pub(super) const PAGE_BYTES: i64 = 3;

static KEY_VALUE: &[Field] = &[(1, Bytes), (2, Bytes)];

static COLUMN_ORDER: &[Field] = &[(1, Struct(&[])), (2, Struct(&[])), (3, Struct(&[]))];

static TIME: &[Field] = &[(1, Flag), (2, Struct(&[(1, Struct(&[])), (2, Struct(&[])), (3, Struct(&[]))]))];

/// Logical types without parameters are structures without fields.
static LOGICAL_TYPE: &[Field] = &[
    (1, Struct(&[])),
    (2, Struct(&[])),
    (3, Struct(&[])),
    (4, Struct(&[])),
    (5, Struct(&[(1, Integer), (2, Integer)])),
    (6, Struct(&[])),
    (7, Struct(TIME)),
    (8, Struct(TIME)),
    (10, Struct(&[(1, Byte), (2, Flag)])),
    (11, Struct(&[])),
    (12, Struct(&[])),
    (13, Struct(&[])),
    (14, Struct(&[])),
    (15, Struct(&[])),
    (16, Struct(&[(1, Byte)])),
    (17, Struct(&[(1, Bytes)])),
    (18, Struct(&[(1, Bytes), (2, Integer)])),
    (19, Struct(&[])),
];

static ROW_GROUP: &[Field] = &[
    (1, List(&Struct(COLUMN))),
    (2, Integer),
    (3, Integer),
    (4, List(&Struct(&[(1, Integer), (2, Flag), (3, Flag)]))),
    (5, Integer),
    (6, Integer),
    (7, Integer),
];

static COLUMN: &[Field] = &[
    (1, Bytes),
    (2, Integer),
    (3, Struct(COLUMN_METADATA)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (9, Bytes),
];

static COLUMN_METADATA: &[Field] = &[
    (1, Integer),
    (2, List(&Integer)),
    (3, List(&Bytes)),
    (4, Integer),
    (5, Integer),
    (6, Integer),
    (7, Integer),
    (8, List(&Struct(KEY_VALUE))),
    (9, Integer),
    (10, Integer),
    (11, Integer),
    (12, Struct(STATISTICS)),
    (13, List(&Struct(&[(1, Integer), (2, Integer), (3, Integer)]))),
    (14, Integer),
    (15, Integer),
    (16, Struct(&[(1, Integer), (2, List(&Integer)), (3, List(&Integer))])),
    (17, Struct(&[(1, Struct(BOX)), (2, List(&Integer))])),
];

static STATISTICS: &[Field] =
    &[(1, Bytes), (2, Bytes), (3, Integer), (4, Integer), (5, Bytes), (6, Bytes), (7, Flag), (8, Flag), (9, Integer)];

static BOX: &[Field] =
    &[(1, Double), (2, Double), (3, Double), (4, Double), (5, Double), (6, Double), (7, Double), (8, Double)];
