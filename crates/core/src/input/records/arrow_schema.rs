//! The schema of an Arrow table: its fields, and which of them can be read as cells.

use super::flatbuffer::{Invalid, Read, Table};
use super::{CellKind, Column};

/// Maximum nesting of fields.
const DEEPEST: usize = 32;

/// Maximum number of fields.
const MOST_FIELDS: usize = 1 << 16;

/// A field, with those inside it.
#[derive(Clone, Debug)]
pub(super) struct Field {
    name: String,
    pub layout: ArrowLayout,
    /// The dictionary that its values are in, and the layout of the indices.
    pub dictionary: Option<(i64, ArrowLayout)>,
    pub children: Vec<Field>,
}

/// How values are stored, as far as cells depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrowLayout {
    Null,
    Bool,
    /// Integers of 1, 2, 4 or 8 bytes.
    Integer {
        bytes: usize,
        signed: bool,
    },
    /// Floating point of 2, 4 or 8 bytes.
    Float {
        bytes: usize,
    },
    /// Offsets and bytes.
    Bytes {
        large: bool,
        text: bool,
    },
    /// Views into any number of buffers.
    View {
        text: bool,
    },
    List {
        large: bool,
    },
    Struct,
    /// Not read. The number of buffers, without those of the children.
    Other {
        buffers: usize,
    },
}

impl ArrowLayout {
    /// The number of buffers, without those of the children and the data of views.
    pub fn buffers(self) -> usize {
        match self {
            ArrowLayout::Null => 0,
            ArrowLayout::Struct => 1,
            ArrowLayout::Bool | ArrowLayout::Integer { .. } | ArrowLayout::Float { .. } | ArrowLayout::View { .. } => 2,
            ArrowLayout::List { .. } => 2,
            ArrowLayout::Bytes { .. } => 3,
            ArrowLayout::Other { buffers } => buffers,
        }
    }

    fn of(number: u8, of_type: Option<Table<'_>>) -> Read<ArrowLayout> {
        let number_of = |field: usize| of_type.map_or(Ok(0), |of_type| of_type.i32(field));
        Ok(match number {
            1 => ArrowLayout::Null,
            2 => match (number_of(0)?, of_type.map_or(Ok(0), |of_type| of_type.u8(1))? != 0) {
                (bits @ (8 | 16 | 32 | 64), signed) => ArrowLayout::Integer { bytes: bits as usize / 8, signed },
                _ => return Err(Invalid),
            },
            3 => match of_type.map_or(Ok(0), |of_type| of_type.i16(0))? {
                precision @ 0..=2 => ArrowLayout::Float { bytes: 2 << precision },
                _ => return Err(Invalid),
            },
            4 => ArrowLayout::Bytes { large: false, text: false },
            5 => ArrowLayout::Bytes { large: false, text: true },
            6 => ArrowLayout::Bool,
            12 => ArrowLayout::List { large: false },
            13 => ArrowLayout::Struct,
            19 => ArrowLayout::Bytes { large: true, text: false },
            20 => ArrowLayout::Bytes { large: true, text: true },
            21 => ArrowLayout::List { large: true },
            23 => ArrowLayout::View { text: false },
            24 => ArrowLayout::View { text: true },
            // Decimals, dates, times, intervals, bytes of a fixed length, durations.
            7..=11 | 15 | 18 => ArrowLayout::Other { buffers: 2 },
            // Lists of a fixed length, maps, run ends, list views.
            16 => ArrowLayout::Other { buffers: 1 },
            17 => ArrowLayout::Other { buffers: 2 },
            22 => ArrowLayout::Other { buffers: 0 },
            25 | 26 => ArrowLayout::Other { buffers: 3 },
            // Unions have a number of buffers that depends on the version of the format.
            _ => return Err(Invalid),
        })
    }

    fn kind(self) -> CellKind {
        match self {
            ArrowLayout::Bool => CellKind::Bool,
            ArrowLayout::Integer { .. } | ArrowLayout::Float { .. } => CellKind::Number,
            ArrowLayout::Bytes { text: true, .. } | ArrowLayout::View { text: true } => CellKind::Text,
            ArrowLayout::Bytes { text: false, .. } | ArrowLayout::View { text: false } => CellKind::Bytes,
            ArrowLayout::Null | ArrowLayout::List { .. } | ArrowLayout::Struct | ArrowLayout::Other { .. } => {
                CellKind::Nested
            }
        }
    }
}

impl Field {
    /// The fields of a schema.
    pub fn all(schema: Table<'_>) -> Read<Vec<Field>> {
        if schema.i16(0)? != 0 {
            // Big-endian.
            return Err(Invalid);
        }
        let mut left = MOST_FIELDS;
        fields(schema, 1, DEEPEST, &mut left)
    }

    /// What cells of this field contain.
    pub fn kind(&self) -> CellKind {
        match (self.layout, self.children.as_slice()) {
            (ArrowLayout::List { .. }, [element]) if element.is_plain() => CellKind::List,
            (layout, _) => layout.kind(),
        }
    }

    fn is_plain(&self) -> bool {
        let plain = matches!(self.layout.kind(), CellKind::Text | CellKind::Number | CellKind::Bool);
        plain && self.dictionary.is_none()
    }

    /// Adds the columns of this field: itself, or the fields of a structure.
    pub fn columns(&self, above: &str, columns: &mut Vec<Column>) {
        let name = if above.is_empty() { self.name.clone() } else { format!("{above}.{}", self.name) };
        if self.is_structure() {
            self.children.iter().for_each(|child| child.columns(&name, columns));
        } else {
            columns.push(Column { name, kind: self.kind() });
        }
    }

    /// Whether its fields are columns of their own.
    pub fn is_structure(&self) -> bool {
        self.layout == ArrowLayout::Struct && self.dictionary.is_none()
    }

    /// Adds the dictionaries of this field and those inside it.
    pub fn dictionaries<'a>(&'a self, found: &mut Vec<(i64, &'a Field)>) {
        found.extend(self.dictionary.map(|(id, _)| (id, self)));
        self.children.iter().for_each(|child| child.dictionaries(found));
    }
}

fn fields(table: Table<'_>, number: usize, depth: usize, left: &mut usize) -> Read<Vec<Field>> {
    let mut found = Vec::new();
    for field in table.vector(number, 4)?.tables() {
        let field = field?;
        if depth == 0 || *left == 0 {
            return Err(Invalid);
        }
        *left -= 1;
        let dictionary = match field.table(4)? {
            None => None,
            // Without a type, indices are signed 32-bit numbers.
            Some(encoding) => Some((
                encoding.i64(0)?,
                match encoding.table(1)? {
                    None => ArrowLayout::Integer { bytes: 4, signed: true },
                    index => ArrowLayout::of(2, index)?,
                },
            )),
        };
        found.push(Field {
            name: field.text(0)?.unwrap_or_default().to_string(),
            layout: ArrowLayout::of(field.u8(2)?, field.table(3)?)?,
            dictionary,
            children: fields(field, 5, depth - 1, left)?,
        });
    }
    Ok(found)
}
