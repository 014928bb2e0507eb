//! The messages of an Arrow file or stream: a schema, then dictionaries and batches of records.
//!
//! A file is a stream between two magic words, followed by an index, which is not needed: the messages are found by
//! walking over their headers.

use super::arrow_schema::Field;
use super::flatbuffer::{Invalid, Read, Table};
use crate::error::{InputError, Result};
use crate::input::file::Regular;

/// Maximum length of the header of a message.
const LONGEST_HEADER: u64 = 1 << 26;

const MAGIC: &[u8; 8] = b"ARROW1\0\0";

/// A batch of records, or of the values of a dictionary.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    /// The dictionary whose values these are; `None` for records.
    pub dictionary: Option<i64>,
    pub rows: usize,
    /// The rows of each field, in depth-first order.
    pub nodes: Vec<u64>,
    /// Position in the file and length of each buffer.
    pub buffers: Vec<(u64, u64)>,
    pub compression: Option<Codec>,
    /// The number of data buffers of each column of views.
    pub variadic: Vec<u64>,
}

/// How buffers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Lz4,
    Zstd,
}

/// The positions and lengths of the headers of all batches, and the fields.
pub(super) struct Messages {
    pub fields: Vec<Field>,
    /// Position and length of the header of each batch.
    headers: Vec<(u64, u64)>,
    /// Number of records of each batch; `None` for dictionaries.
    pub rows: Vec<Option<usize>>,
}

impl Messages {
    /// Walks over all messages.
    pub fn scan(file: &mut Regular) -> Result<Messages> {
        let mut start = [0; 8];
        let known = file.length.min(8) as usize;
        file.read_at(0, &mut start[..known])?;
        let mut at = if start == *MAGIC { 8 } else { 0 };
        let (mut fields, mut headers, mut rows) = (None, Vec::new(), Vec::new());
        while let Some((header, length)) = next_header(file, at)? {
            let bytes = read_header(file, header, length)?;
            let body = header + length;
            let found = message(&bytes, body, file.length).map_err(|Invalid| invalid(at))?;
            at = found.end;
            match found.content {
                Content::Schema(found) if fields.is_none() => fields = Some(found),
                Content::Schema(_) => return Err(invalid(header).into()),
                Content::Batch(batch) => {
                    headers.push((header, length));
                    rows.push(batch.dictionary.is_none().then_some(batch.rows));
                }
            }
        }
        let fields = fields.ok_or_else(|| {
            InputError::new("the Arrow file has no schema")
                .expected("an Arrow IPC file or stream, or Feather version 2")
                .advice("write the table with pyarrow.feather.write_feather")
        })?;
        Ok(Messages { fields, headers, rows })
    }

    /// The batch of a message.
    pub fn batch(&self, file: &mut Regular, index: usize) -> Result<Batch> {
        let Some(&(header, length)) = self.headers.get(index) else { return Err(invalid(0).into()) };
        let bytes = read_header(file, header, length)?;
        match message(&bytes, header + length, file.length).map(|message| message.content) {
            Ok(Content::Batch(batch)) => Ok(batch),
            _ => Err(invalid(header).into()),
        }
    }
}

/// Position and length of the header of the message at a position; `None` at the end.
fn next_header(file: &mut Regular, at: u64) -> Result<Option<(u64, u64)>> {
    if file.length.saturating_sub(at) < 8 {
        return Ok(None);
    }
    let mut start = [0; 8];
    file.read_at(at, &mut start)?;
    let [first @ .., a, b, c, d] = start;
    // Since format version 5, a marker precedes the length.
    let (length, header) = match u32::from_le_bytes(first) {
        u32::MAX => (u32::from_le_bytes([a, b, c, d]), at + 8),
        length => (length, at + 4),
    };
    let length = u64::from(length);
    if length == 0 {
        return Ok(None);
    }
    if length > LONGEST_HEADER || length > file.length - header {
        return Err(invalid(at).into());
    }
    Ok(Some((header, length)))
}

fn read_header(file: &mut Regular, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}

struct Message {
    content: Content,
    /// The byte after its body.
    end: u64,
}

enum Content {
    Schema(Vec<Field>),
    Batch(Batch),
}

/// Parses a header; its body starts at `body`.
fn message(bytes: &[u8], body: u64, file_length: u64) -> Read<Message> {
    let message = Table::root(bytes)?;
    let end = body.checked_add(message.size(3)?).filter(|end| *end <= file_length).ok_or(Invalid)?;
    let header = message.table(2)?.ok_or(Invalid)?;
    let content = match message.u8(1)? {
        1 => Content::Schema(Field::all(header)?),
        // A delta adds to a dictionary; no common program writes one.
        2 if header.u8(2)? != 0 => return Err(Invalid),
        2 => Content::Batch(batch(header.table(1)?.ok_or(Invalid)?, Some(header.i64(0)?), body, end)?),
        3 => Content::Batch(batch(header, None, body, end)?),
        _ => return Err(Invalid),
    };
    Ok(Message { content, end })
}

fn batch(header: Table<'_>, dictionary: Option<i64>, body: u64, end: u64) -> Read<Batch> {
    let compression = match header.table(3)? {
        None => None,
        Some(compression) => Some(match (compression.u8(0)?, compression.u8(1)?) {
            (0, 0) => Codec::Lz4,
            (1, 0) => Codec::Zstd,
            _ => return Err(Invalid),
        }),
    };
    let inside = |buffer: Read<(u64, u64)>| {
        let (offset, length) = buffer?;
        let start = body.checked_add(offset).ok_or(Invalid)?;
        let fits = start.checked_add(length).is_some_and(|last| last <= end);
        if fits { Ok((start, length)) } else { Err(Invalid) }
    };
    Ok(Batch {
        dictionary,
        rows: usize::try_from(header.size(0)?).map_err(|_| Invalid)?,
        nodes: header.vector(1, 16)?.pairs().map(|node| node.map(|(rows, _)| rows)).collect::<Read<_>>()?,
        buffers: header.vector(2, 16)?.pairs().map(inside).collect::<Read<_>>()?,
        compression,
        variadic: header.vector(4, 8)?.sizes().collect::<Read<_>>()?,
    })
}

/// The error for a message that cannot be read.
pub(super) fn invalid(at: u64) -> InputError {
    InputError::new("the Arrow file cannot be read")
        .expected("an Arrow IPC file or stream in little-endian order, without unions and delta dictionaries")
        .at(format!("byte {at}"))
        .advice("it is damaged or uses a rare type; write it again as parquet or JSONL")
}
