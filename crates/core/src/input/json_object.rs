//! A whole file that is one JSON object.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::de::DeserializeOwned;

use super::file::{Regular, read_error};
use super::json::Entries;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// Bytes of the text of a file and of its parsed values, by byte of the file.
const BYTES_PER_BYTE: u64 = 8;

/// The entries of a file with one object, in the order of the file, and their memory. `expected` describes it in errors.
pub(crate) fn read_object<V: DeserializeOwned>(
    path: &Path,
    expected: &str,
    budget: &Budget,
) -> Result<(Vec<(String, V)>, Reservation)> {
    let file = Regular::open(path)?;
    let memory = budget.reserve(file.length.saturating_mul(BYTES_PER_BYTE), "a JSON file")?;
    let mut text = String::new();
    file.file.take(file.length).read_to_string(&mut text).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => InputError::new("the file is not UTF-8 text").expected(expected).file(path).into(),
        _ => read_error(error, path),
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let Entries(entries) = serde_json::from_str(text).map_err(|error| {
        InputError::new("the file is not the JSON object that it should be").expected(expected).found(error).file(path)
    })?;
    Ok((entries, memory))
}
