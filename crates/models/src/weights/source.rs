//! Where the values of a tensor are.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, InputError, Result};
use etalon::input::{Map, TensorFile, format_shape};

use super::encoding::Encoding;

/// The place of a tensor.
pub(super) enum Source {
    /// A tensor of a file that `etalon::input` reads.
    File(Arc<TensorFile>, String),
    /// Bytes of mapped files, one after the other. There is at least one part.
    Bytes(Vec<Part>, Encoding),
    /// Values in memory.
    Memory(Vec<f32>),
}

/// A part of a mapped file. The range is within the file.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub map: Arc<Map>,
    pub range: Range<usize>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File(file, name) => write!(f, "`{name}` of {}", file.path().display()),
            Source::Bytes(parts, encoding) => f.debug_tuple("Bytes").field(parts).field(encoding).finish(),
            Source::Memory(values) => write!(f, "{} values", values.len()),
        }
    }
}

impl Source {
    /// The file, if there is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Source::File(file, _) => Some(file.path()),
            Source::Bytes(parts, _) => parts.first().map(|part| part.map.path()),
            Source::Memory(_) => None,
        }
    }

    /// Reads `length` values, for which the caller has reserved memory.
    pub fn read(&self, length: usize, budget: &Budget) -> Result<Vec<f32>> {
        match self {
            Source::File(file, name) => file.read(name),
            Source::Memory(values) => Ok(values.clone()),
            Source::Bytes(parts, encoding) => {
                parts.iter().try_for_each(|part| part.map.check_unchanged())?;
                let (bytes, _memory) = joined(parts, budget)?;
                if encoding.bytes(length) != Some(bytes.len()) {
                    return Err(Error::Bug(format!("{length} values of {} in {} bytes", encoding.name(), bytes.len())));
                }
                let mut values = vec![0f32; length];
                encoding.decode(&bytes, &mut values);
                parts.iter().for_each(|part| part.map.release());
                Ok(values)
            }
        }
    }
}

/// The bytes of some parts; copied if there are several.
fn joined<'a>(parts: &'a [Part], budget: &Budget) -> Result<(Cow<'a, [u8]>, Option<Reservation>)> {
    if let [part] = parts {
        return Ok((Cow::Borrowed(part.map.bytes(part.range.clone())?), None));
    }
    let length: usize = parts.iter().map(|part| part.range.len()).sum();
    let memory = budget.reserve(length as u64, "a tensor that continues in the next file")?;
    let mut bytes = Vec::with_capacity(length);
    for part in parts {
        bytes.extend(part.map.bytes(part.range.clone())?);
    }
    Ok((Cow::Owned(bytes), Some(memory)))
}

/// Refuses NaN and infinite values.
pub(super) fn finite(name: &str, shape: &[usize], values: &[f32]) -> Result<()> {
    // Chunks without an exit in between are checked with vector instructions.
    let wrong = |values: &[f32]| values.iter().fold(false, |wrong, value| wrong | !value.is_finite());
    if !values.chunks(1 << 12).any(wrong) {
        return Ok(());
    }
    let count = values.iter().filter(|value| !value.is_finite()).count();
    let first = values.iter().position(|value| !value.is_finite()).unwrap_or(0);
    let value = values.get(first).copied().unwrap_or(f32::NAN);
    Err(InputError::new(format!("values of the tensor `{name}` are NaN or infinite"))
        .expected("finite numbers")
        .found(format!("{count} such values; value {first} of {} is {value}", format_shape(shape)))
        .advice("copy or download the file again; if that does not help, the model cannot be used")
        .into())
}
