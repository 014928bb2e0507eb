//! The values of a batch of an Arrow table, read from its buffers and turned into cells one at a time.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::sync::Arc;

use half::f16;

use super::arrow_messages::{Batch, Codec, invalid};
use super::arrow_schema::{ArrowLayout, Field};
use super::{Cell, text_cell};
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};
use crate::input::file::Regular;

/// The values of a field.
pub(super) struct Values {
    rows: usize,
    /// Bitmaps of the field and of the structures around it: a bit is 0 where there is no value.
    validity: Vec<Vec<u8>>,
    content: Content,
}

enum Content {
    Null,
    Nested,
    Bool(Vec<u8>),
    Integer { values: Vec<u8>, bytes: usize, signed: bool },
    Float { values: Vec<u8>, bytes: usize },
    Bytes { offsets: Vec<u8>, large: bool, values: Vec<u8>, text: bool },
    View { views: Vec<u8>, buffers: Vec<Vec<u8>>, text: bool },
    List { offsets: Vec<u8>, large: bool, elements: Box<Values> },
    Dictionary { indices: Box<Values>, values: Arc<Values> },
}

/// Dictionaries by number.
pub(super) type Dictionaries = BTreeMap<i64, Arc<Values>>;

/// Reads the fields of a batch in depth-first order.
pub(super) struct BatchReader<'a> {
    file: &'a mut Regular,
    batch: &'a Batch,
    dictionaries: &'a Dictionaries,
    node: usize,
    buffer: usize,
    view: usize,
    /// The memory of all buffers read so far.
    pub memory: Reservation,
}

impl<'a> BatchReader<'a> {
    /// A reader of a batch.
    pub fn new(
        file: &'a mut Regular,
        batch: &'a Batch,
        dictionaries: &'a Dictionaries,
        budget: &Budget,
    ) -> Result<Self> {
        let memory = budget.reserve(0, "a batch of an Arrow table")?;
        Ok(BatchReader { file, batch, dictionaries, node: 0, buffer: 0, view: 0, memory })
    }

    /// Reads the columns of a field that are wanted; the others are `None`. `column` counts columns.
    pub fn columns(
        &mut self,
        field: &Field,
        above: &[Vec<u8>],
        wanted: &dyn Fn(usize) -> bool,
        column: &mut usize,
        found: &mut Vec<Option<Values>>,
    ) -> Result<()> {
        if !field.is_structure() {
            let is_wanted = wanted(*column);
            *column += 1;
            let mut values = self.values(field, is_wanted)?;
            values.validity.extend_from_slice(above);
            found.push(is_wanted.then_some(values));
            return Ok(());
        }
        self.node += 1;
        let mut validity = above.to_vec();
        validity.extend(Some(self.read(true)?).filter(|bitmap| !bitmap.is_empty()));
        field.children.iter().try_for_each(|child| self.columns(child, &validity, wanted, column, found))
    }

    /// Reads a field, or passes over it.
    pub fn values(&mut self, field: &Field, wanted: bool) -> Result<Values> {
        if let Some((id, layout)) = field.dictionary {
            let indices = Box::new(self.plain(layout, &[], wanted)?);
            return match self.dictionaries.get(&id) {
                Some(values) => {
                    let (rows, values) = (indices.rows, values.clone());
                    Ok(Values { rows, validity: Vec::new(), content: Content::Dictionary { indices, values } })
                }
                None if wanted && indices.rows > 0 => Err(invalid(0).into()),
                None => Ok(Values { content: Content::Nested, ..*indices }),
            };
        }
        self.plain(field.layout, &field.children, wanted)
    }

    fn plain(&mut self, layout: ArrowLayout, children: &[Field], wanted: bool) -> Result<Values> {
        let rows = self.batch.nodes.get(self.node).and_then(|&rows| usize::try_from(rows).ok());
        let rows = rows.ok_or_else(|| invalid(0))?;
        self.node += 1;
        let mut validity = Vec::new();
        if layout.buffers() > 0 {
            validity.extend(Some(self.read(wanted)?).filter(|bitmap| !bitmap.is_empty()));
        }
        let content = match layout {
            ArrowLayout::Null => Content::Null,
            ArrowLayout::Bool => Content::Bool(self.read(wanted)?),
            ArrowLayout::Integer { bytes, signed } => Content::Integer { values: self.read(wanted)?, bytes, signed },
            ArrowLayout::Float { bytes } => Content::Float { values: self.read(wanted)?, bytes },
            ArrowLayout::Bytes { large, text } => {
                Content::Bytes { offsets: self.read(wanted)?, large, values: self.read(wanted)?, text }
            }
            ArrowLayout::View { text } => {
                let views = self.read(wanted)?;
                let count = self.batch.variadic.get(self.view).copied().ok_or_else(|| invalid(0))?;
                self.view += 1;
                // Every buffer is listed, so a wrong count ends with an error.
                let buffers = (0..count).map(|_| self.read(wanted)).collect::<Result<_>>()?;
                Content::View { views, buffers, text }
            }
            ArrowLayout::List { large } => {
                let offsets = self.read(wanted)?;
                let [element] = children else { return Err(invalid(0).into()) };
                let elements = Box::new(self.values(element, wanted)?);
                Content::List { offsets, large, elements }
            }
            ArrowLayout::Struct => Content::Nested,
            ArrowLayout::Other { buffers } => {
                self.buffer += buffers.saturating_sub(1);
                Content::Nested
            }
        };
        if !matches!(content, Content::List { .. }) {
            children.iter().try_for_each(|child| self.values(child, false).map(drop))?;
        }
        let values = Values { rows, validity, content };
        if wanted && !values.is_complete() {
            return Err(damaged(0, "a column with more rows than values").into());
        }
        Ok(values)
    }

    /// The next buffer, decompressed; empty if it is not wanted.
    fn read(&mut self, wanted: bool) -> Result<Vec<u8>> {
        let (at, length) = self.batch.buffers.get(self.buffer).copied().ok_or_else(|| invalid(0))?;
        self.buffer += 1;
        if !wanted || length == 0 {
            return Ok(Vec::new());
        }
        let Some(codec) = self.batch.compression else { return self.bytes(at, length) };
        if length < 8 {
            return Err(invalid(at).into());
        }
        let mut start = [0; 8];
        self.file.read_at(at, &mut start)?;
        let packed = self.bytes(at + 8, length - 8)?;
        let Ok(unpacked) = u64::try_from(i64::from_le_bytes(start)) else { return Ok(packed) };
        self.reserve(unpacked)?;
        let mut bytes = Vec::with_capacity(unpacked as usize);
        // One byte more shows that the stated length is wrong.
        let limit = unpacked + 1;
        let read = match codec {
            Codec::Lz4 => lz4_flex::frame::FrameDecoder::new(packed.as_slice()).take(limit).read_to_end(&mut bytes),
            Codec::Zstd => {
                zstd::Decoder::new(packed.as_slice()).and_then(|reader| reader.take(limit).read_to_end(&mut bytes))
            }
        };
        match read {
            Ok(read) if read as u64 == unpacked => Ok(bytes),
            Ok(_) => Err(damaged(at, "a buffer whose length is not the stated one").into()),
            Err(error) => Err(damaged(at, &error.to_string()).into()),
        }
    }

    fn bytes(&mut self, at: u64, length: u64) -> Result<Vec<u8>> {
        self.reserve(length)?;
        let mut bytes = vec![0; length as usize];
        self.file.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    fn reserve(&mut self, bytes: u64) -> Result<()> {
        let bytes = self.memory.bytes().saturating_add(bytes);
        self.memory.resize(bytes, "a batch of an Arrow table")
    }
}

fn damaged(at: u64, found: &str) -> InputError {
    InputError::new("the Arrow file is damaged").found(found).at(format!("byte {at}")).advice("copy or write it again")
}

impl Values {
    /// Whether the buffers have a value for every row, so that the stated number of rows cannot exceed the file. Where
    /// nothing is stored, it can: such columns are never read alone.
    fn is_complete(&self) -> bool {
        let whole =
            |buffer: &Vec<u8>, size: usize, rows: usize| rows.checked_mul(size).is_some_and(|n| n <= buffer.len());
        let offsets = |buffer, large: bool| self.rows == 0 || whole(buffer, if large { 8 } else { 4 }, self.rows + 1);
        match &self.content {
            Content::Null | Content::Nested => true,
            Content::Bool(values) => self.rows.div_ceil(8) <= values.len(),
            Content::Integer { values, bytes, .. } | Content::Float { values, bytes } => {
                whole(values, *bytes, self.rows)
            }
            Content::View { views, .. } => whole(views, 16, self.rows),
            Content::Bytes { offsets: buffer, large, .. } | Content::List { offsets: buffer, large, .. } => {
                offsets(buffer, *large)
            }
            Content::Dictionary { indices, .. } => indices.is_complete(),
        }
    }

    /// The cell of a row; the reason if it cannot be read.
    pub fn cell(&self, row: usize, column: &str) -> std::result::Result<Cell, String> {
        let outside = || format!("column `{column}` has a value outside of its buffer");
        if row >= self.rows {
            return Err(outside());
        }
        let is_set = |bitmap: &Vec<u8>| bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1);
        if !self.validity.iter().all(is_set) {
            return Ok(Cell::Null);
        }
        let text = |text: String| Ok(Cell::Text(text));
        match &self.content {
            Content::Null => Ok(Cell::Null),
            Content::Nested => Ok(Cell::Nested),
            Content::Bool(values) => {
                let byte = values.get(row / 8).ok_or_else(outside)?;
                text((byte >> (row % 8) & 1 == 1).to_string())
            }
            Content::Integer { values, bytes, signed } => {
                text(integer(values, row, *bytes, *signed).ok_or_else(outside)?.to_string())
            }
            Content::Float { values, bytes } => text(match *bytes {
                2 => f16::from_le_bytes(at(values, row).ok_or_else(outside)?).to_string(),
                4 => f32::from_le_bytes(at(values, row).ok_or_else(outside)?).to_string(),
                _ => f64::from_le_bytes(at(values, row).ok_or_else(outside)?).to_string(),
            }),
            Content::Bytes { offsets, large, values, text } => {
                let range = range(offsets, row, *large).ok_or_else(outside)?;
                let bytes = values.get(range).ok_or_else(outside)?;
                if *text { text_cell(bytes, column) } else { Ok(Cell::Bytes(bytes.to_vec())) }
            }
            Content::View { views, buffers, text } => {
                let bytes = viewed(views, buffers, row).ok_or_else(outside)?;
                if *text { text_cell(bytes, column) } else { Ok(Cell::Bytes(bytes.to_vec())) }
            }
            Content::List { elements, .. } if matches!(elements.content, Content::Null | Content::Nested) => {
                Ok(Cell::Nested)
            }
            Content::List { offsets, large, elements } => {
                let mut list = Vec::new();
                for element in range(offsets, row, *large).ok_or_else(outside)? {
                    list.push(match elements.cell(element, column)? {
                        Cell::Text(text) => text,
                        Cell::Null => String::new(),
                        _ => return Ok(Cell::Nested),
                    });
                }
                Ok(Cell::List(list))
            }
            Content::Dictionary { indices, values } => match indices.cell(row, column)? {
                Cell::Text(index) => values.cell(index.parse().map_err(|_| outside())?, column),
                _ => Ok(Cell::Null),
            },
        }
    }
}

/// The value of `N` bytes at an index.
fn at<const N: usize>(values: &[u8], index: usize) -> Option<[u8; N]> {
    let start = index.checked_mul(N)?;
    values.get(start..start.checked_add(N)?)?.try_into().ok()
}

fn integer(values: &[u8], row: usize, bytes: usize, signed: bool) -> Option<i128> {
    Some(match (bytes, signed) {
        (1, true) => i8::from_le_bytes(at(values, row)?).into(),
        (1, false) => u8::from_le_bytes(at(values, row)?).into(),
        (2, true) => i16::from_le_bytes(at(values, row)?).into(),
        (2, false) => u16::from_le_bytes(at(values, row)?).into(),
        (4, true) => i32::from_le_bytes(at(values, row)?).into(),
        (4, false) => u32::from_le_bytes(at(values, row)?).into(),
        (_, true) => i64::from_le_bytes(at(values, row)?).into(),
        (_, false) => u64::from_le_bytes(at(values, row)?).into(),
    })
}

/// The range of a row in the values.
fn range(offsets: &[u8], row: usize, large: bool) -> Option<std::ops::Range<usize>> {
    let bytes = if large { 8 } else { 4 };
    let offset = |row: usize| usize::try_from(integer(offsets, row, bytes, true)?).ok();
    let (start, end) = (offset(row)?, offset(row.checked_add(1)?)?);
    (start <= end).then_some(start..end)
}

/// The bytes of a view: up to 12 of them are in the view, more are in a buffer.
fn viewed<'a>(views: &'a [u8], buffers: &'a [Vec<u8>], row: usize) -> Option<&'a [u8]> {
    let start = row.checked_mul(16)?;
    let view = views.get(start..start.checked_add(16)?)?;
    let number = |index: usize| at::<4>(view, index).and_then(|bytes| usize::try_from(i32::from_le_bytes(bytes)).ok());
    let length = number(0)?;
    if length <= 12 {
        return view.get(4..4 + length);
    }
    let (buffer, offset) = (number(2)?, number(3)?);
    buffers.get(buffer)?.get(offset..offset.checked_add(length)?)
}
