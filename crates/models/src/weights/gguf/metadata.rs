//! The metadata of a GGUF file: keys with typed values.

use std::collections::BTreeMap;

use etalon::context::Reservation;
use etalon::error::{Error, InputError, Result};

use super::cursor::Cursor;

/// Most keys.
const MOST_KEYS: usize = 1 << 16;

/// Longest list; vocabularies have some hundred thousand tokens.
const LONGEST_LIST: usize = 1 << 24;

/// Deepest nesting of lists. No known program nests them at all.
const DEEPEST: usize = 4;

/// A value of the metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// A whole number of any size.
    Integer(i64),
    /// A number of 32 or 64 bits.
    Number(f64),
    /// Text.
    Text(String),
    /// A list of values of one type.
    List(List),
}

/// A list of values of one type.
#[derive(Clone, Debug, PartialEq)]
pub enum List {
    /// Yes or no.
    Flags(Vec<bool>),
    /// Whole numbers.
    Integers(Vec<i64>),
    /// Numbers of 32 bits.
    Numbers(Vec<f32>),
    /// Numbers of 64 bits.
    Doubles(Vec<f64>),
    /// Texts.
    Texts(Vec<String>),
    /// Lists.
    Lists(Vec<List>),
}

/// The metadata of a file: architecture, tokenizer, chat template.
#[derive(Debug)]
pub struct Metadata {
    values: BTreeMap<String, Value>,
    _memory: Option<Reservation>,
}

impl Metadata {
    /// The keys, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.values.get(key)
    }

    /// A text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A flag.
    pub fn flag(&self, key: &str) -> Option<bool> {
        match self.get(key)? {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        }
    }

    /// A whole number. A list with one number per layer counts if all are equal.
    pub fn integer(&self, key: &str) -> Option<i64> {
        match self.get(key)? {
            Value::Integer(number) => Some(*number),
            Value::List(List::Integers(numbers)) => {
                numbers.first().copied().filter(|first| numbers.iter().all(|number| number == first))
            }
            _ => None,
        }
    }

    /// A number; whole numbers count.
    pub fn number(&self, key: &str) -> Option<f64> {
        match self.get(key)? {
            Value::Number(number) => Some(*number),
            Value::Integer(number) => Some(*number as f64),
            _ => None,
        }
    }

    /// A list of texts, such as the tokens.
    pub fn texts(&self, key: &str) -> Option<&[String]> {
        match self.get(key)? {
            Value::List(List::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    /// A list of whole numbers, such as the types of tokens.
    pub fn integers(&self, key: &str) -> Option<&[i64]> {
        match self.get(key)? {
            Value::List(List::Integers(numbers)) => Some(numbers),
            _ => None,
        }
    }

    /// A list of numbers of 32 bits, such as the scores of tokens.
    pub fn numbers(&self, key: &str) -> Option<&[f32]> {
        match self.get(key)? {
            Value::List(List::Numbers(numbers)) => Some(numbers),
            _ => None,
        }
    }

    /// Metadata from values.
    pub fn of(values: impl IntoIterator<Item = (String, Value)>) -> Metadata {
        Metadata { values: values.into_iter().collect(), _memory: None }
    }

    /// Keeps the reservation of the memory.
    pub(super) fn with_memory(self, memory: Reservation) -> Metadata {
        Metadata { _memory: Some(memory), ..self }
    }
}

/// Reads a number of entries.
pub(super) fn read(cursor: &mut Cursor, count: usize) -> Result<Metadata> {
    let mut values = BTreeMap::new();
    for _ in 0..count {
        let key = cursor.text("a key of the metadata")?;
        cursor.reserve(key.len() + 128)?;
        let kind = cursor.u32()?;
        let value = value(cursor, kind).map_err(|error| of_key(error, key))?;
        if values.insert(key.to_string(), value).is_some() {
            return Err(cursor.error("a key of the metadata appears twice").found(key).into());
        }
    }
    Ok(Metadata { values, _memory: None })
}

/// The number of entries.
pub(super) fn count(cursor: &mut Cursor) -> Result<usize> {
    // The length of the key, the type, and one byte.
    cursor.count("metadata entries", MOST_KEYS, 13)
}

/// Adds the key to the help of an input error, because its position is a byte.
fn of_key(error: Error, key: &str) -> Error {
    match error {
        Error::Input(input) => {
            input.advice(format!("the value of `{key}` is damaged; copy or download the file again")).into()
        }
        other => other,
    }
}

/// Reads a value of a type.
fn value(cursor: &mut Cursor, kind: u32) -> Result<Value> {
    Ok(match kind {
        6 => Value::Number(f32::from_le_bytes(cursor.array()?).into()),
        12 => Value::Number(f64::from_le_bytes(cursor.array()?)),
        7 => Value::Flag(cursor.array()? != [0]),
        8 => Value::Text(owned(cursor)?),
        9 => Value::List(list(cursor, 1)?),
        _ => Value::Integer(integer(cursor, kind)?),
    })
}

/// The size of a value of a type, at least; `None` for unknown types.
fn least_size(kind: u32) -> Option<usize> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        8 | 10..=12 => 8,
        9 => 12,
        _ => return None,
    })
}

fn unknown(cursor: &Cursor, kind: u32) -> InputError {
    cursor.error("unknown type of a metadata value").expected("0 to 12").found(kind)
}

fn integer(cursor: &mut Cursor, kind: u32) -> Result<i64> {
    Ok(match kind {
        0 => u8::from_le_bytes(cursor.array()?).into(),
        1 => i8::from_le_bytes(cursor.array()?).into(),
        2 => u16::from_le_bytes(cursor.array()?).into(),
        3 => i16::from_le_bytes(cursor.array()?).into(),
        4 => cursor.u32()?.into(),
        5 => i32::from_le_bytes(cursor.array()?).into(),
        10 => {
            let number = cursor.u64()?;
            i64::try_from(number).map_err(|_| cursor.error("a number of the metadata is too large").found(number))?
        }
        11 => i64::from_le_bytes(cursor.array()?),
        _ => return Err(unknown(cursor, kind).into()),
    })
}

fn owned(cursor: &mut Cursor) -> Result<String> {
    let text = cursor.text("a text of the metadata")?;
    cursor.reserve(text.len() + 16)?;
    Ok(text.to_string())
}

/// Reads a list: the type of its values, their number, and the values.
fn list(cursor: &mut Cursor, depth: usize) -> Result<List> {
    if depth > DEEPEST {
        return Err(cursor
            .error("lists in the metadata are nested too deeply")
            .expected(format!("{DEEPEST} levels"))
            .into());
    }
    let kind = cursor.u32()?;
    let size = least_size(kind).ok_or_else(|| unknown(cursor, kind))?;
    let count = cursor.count("values of a list", LONGEST_LIST, size)?;
    Ok(match kind {
        6 => List::Numbers(values(cursor, count, |cursor| Ok(f32::from_le_bytes(cursor.array()?)))?),
        12 => List::Doubles(values(cursor, count, |cursor| Ok(f64::from_le_bytes(cursor.array()?)))?),
        7 => List::Flags(values(cursor, count, |cursor| Ok(cursor.array()? != [0]))?),
        8 => List::Texts(values(cursor, count, owned)?),
        9 => List::Lists(values(cursor, count, |cursor| list(cursor, depth + 1))?),
        _ => List::Integers(values(cursor, count, |cursor| integer(cursor, kind))?),
    })
}

fn values<T>(cursor: &mut Cursor, count: usize, read: impl Fn(&mut Cursor) -> Result<T>) -> Result<Vec<T>> {
    cursor.reserve(count.saturating_mul(size_of::<T>()))?;
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        values.push(read(cursor)?);
    }
    Ok(values)
}
