//! A stored result: its id, the metadata of its inputs, and the format of its file.
//!
//! A file is the JSON of the result, one top-level field per line. It ends with the metadata of the inputs, the run
//! time, and a checksum of everything above the run time:
//!
//! ```json
//! {
//!   "etalon": "0.1.0",
//!   ...
//!   "about": {"inputs": "trained", "latents": 512},
//!   "seconds": 0.02,
//!   "check": "crc32c:1f2e3d4c"
//! }
//! ```
//!
//! The run time is not part of the checksum, so that the files of two runs of one recipe differ only in that number.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::fields::{FieldPerLine, Headlines, OneOrMore, ParsedFields, ResultFields};
use super::recipe::{Recipe, ResultFile};
use super::scores::Scores;
use crate::error::{Error, Result};

/// Metadata of an input set: `inputs` (its name), `group`, `latents`, `l0` and others.
pub type Metadata = BTreeMap<String, Value>;

/// The line before which the checksum ends. A JSON string has no line break, so only a top-level field can match.
const SECONDS: &str = "\n  \"seconds\": ";

/// A result with its id and the metadata of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The id of the recipe, followed by a checksum of the name of the inputs: input sets with different names can
    /// share a recipe.
    pub id: String,
    /// The result.
    pub result: ResultFile,
    /// The metadata of its inputs.
    pub about: Metadata,
    /// When its file was written or last used by a run; `None` for a result that is not on disk.
    pub written: Option<SystemTime>,
}

impl Stored {
    /// A result that need not be on disk.
    pub fn new(result: ResultFile, about: Metadata) -> Result<Stored> {
        Ok(Stored { id: Stored::id_of(&result.recipe, &about)?, result, about, written: None })
    }

    /// The id of a result of this recipe with these metadata.
    pub fn id_of(recipe: &Recipe, about: &Metadata) -> Result<String> {
        // Dictionaries of several sizes may share a name, and the recipe if the metric does not use the dictionary.
        let field = |key: &str| about.get(key).map(Value::to_string).unwrap_or_default();
        let checksum = crc32c::crc32c(["inputs", "data", "latents", "k"].map(field).join("\n").as_bytes());
        Ok(format!("{}-{checksum:08x}", recipe.id()?))
    }

    /// Bytes of memory, approximately.
    pub(super) fn bytes(&self) -> u64 {
        let of = |value: &Value| value.to_string().len() as u64 + 64;
        let params = self.result.recipe.params.iter().chain(&self.about);
        let named = params.map(|(name, value)| name.len() as u64 + of(value)).sum::<u64>();
        let inputs = self.result.recipe.inputs.iter().map(|(role, hash)| (role.len() + hash.len()) as u64 + 64);
        self.result.scores.bytes() + named + inputs.sum::<u64>() + size_of::<Stored>() as u64
    }

    /// The text of its file.
    #[cfg(test)]
    pub(super) fn to_text(&self) -> Result<String> {
        let mut text = Vec::new();
        write(&self.result, &self.about, &mut text)
            .map_err(|error| Error::Bug(format!("a result to JSON: {error}")))?;
        String::from_utf8(text).map_err(|error| Error::Bug(format!("a result to JSON: {error}")))
    }

    /// Parses the text of a file; the error is a short description of the damage.
    fn from_text(id: &str, text: &str) -> Result<Stored, String> {
        let end = text.rfind(SECONDS).ok_or("the file is truncated")?;
        let (body, rest) = text.split_at(end);
        let seconds = rest[SECONDS.len()..].split(',').next().unwrap_or_default();
        let check = check_text(crc32c::crc32c(body.as_bytes()));
        if format!("{SECONDS}{seconds},\n  \"check\": \"{check}\"\n}}\n") != rest {
            return Err("wrong checksum".into());
        }
        let fields: ParsedFields = serde_json::from_str(text).map_err(|error| not_a_result(&error))?;
        let stored = Stored::from_fields(fields)?;
        if stored.id == id { Ok(stored) } else { Err("the file name does not match the recipe".into()) }
    }

    /// The result with these fields, whose checksum is not tested.
    fn from_fields(mut fields: ParsedFields) -> Result<Stored, String> {
        let about = std::mem::take(&mut fields.about);
        let result = fields.into_result();
        result.scores.check().map_err(|error| one_line(&error))?;
        Stored::new(result, about).map_err(|error| one_line(&error))
    }

    /// The result with these fields, one of which is the checksum of its file.
    fn from_checked_fields(mut fields: ParsedFields) -> Result<Stored, String> {
        let check = fields.check.take().ok_or("not a result file: it has no checksum")?;
        let stored = Stored::from_fields(fields)?;
        let expected = checksum(&stored.result, &stored.about).map_err(|error| error.to_string())?;
        if expected == check { Ok(stored) } else { Err("wrong checksum".into()) }
    }
}

/// The fields of its file. It is also read inside an array, or formatted differently.
impl Serialize for Stored {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let check = checksum(&self.result, &self.about).map_err(serde::ser::Error::custom)?;
        ResultFields { result: &self.result, about: Some(&self.about), end: Some(Some(check)) }.serialize(out)
    }
}

/// Writes the text of a file.
pub(super) fn write(result: &ResultFile, about: &Metadata, out: impl Write) -> io::Result<()> {
    let end = Some(Some(checksum(result, about)?));
    write_fields(&ResultFields { result, about: Some(about), end }, FieldPerLine::default(), out)
}

fn write_fields(fields: &ResultFields<'_>, format: FieldPerLine, out: impl Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    fields.serialize(&mut serde_json::Serializer::with_formatter(&mut out, format))?;
    out.flush()
}

/// The checksum of everything above the run time, as its file has it.
fn checksum(result: &ResultFile, about: &Metadata) -> io::Result<String> {
    let (mut crc, fields) = (Crc(0), ResultFields { result, about: Some(about), end: None });
    write_fields(&fields, FieldPerLine::unfinished(), &mut crc)?;
    Ok(check_text(crc.0))
}

fn check_text(crc: u32) -> String {
    format!("crc32c:{crc:08x}")
}

/// The checksum of the written bytes.
struct Crc(u32);

impl Write for Crc {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = crc32c::crc32c_append(self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The hash of the part of a result that depends only on the recipe. Of its JSON, in which an empty column has no type.
pub(super) fn content(result: &ResultFile) -> Result<blake3::Hash> {
    let mut hash = BufWriter::with_capacity(1 << 16, blake3::Hasher::new());
    let Scores { headline, tables, notes } = &result.scores;
    let tables: Vec<_> = tables.iter().map(|table| (&table.axis, &table.columns)).collect();
    let written = serde_json::to_writer(&mut hash, &(&result.recipe, Headlines(headline), tables, notes));
    written.map_err(|error| Error::Bug(format!("a result to JSON: {error}")))?;
    let hash = hash.into_inner().map_err(|error| Error::Bug(format!("the hash of a result: {error}")))?;
    Ok(hash.finalize())
}

fn not_a_result(error: &serde_json::Error) -> String {
    match error.is_data() {
        true => format!("not a result file of Etalon: {error}"),
        false => format!("not JSON: {error}"),
    }
}

/// An upper bound of the memory of a parsed result: every cell is 16 bytes, and strings and lists are blocks of their own.
pub(super) fn parsed_bytes(text: &[u8]) -> u64 {
    let count = |wanted: u8| text.iter().filter(|byte| **byte == wanted).count() as u64;
    let (commas, lists, quotes) = (count(b','), count(b'['), count(b'"'));
    16 * (commas + lists) + 64 * lists + 32 * quotes + text.len() as u64
}

fn one_line(error: &Error) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Parses the bytes of a file with any name: one result, or an array of several, as `etalon eval --out` writes them.
pub(super) fn read_values(bytes: &[u8]) -> Result<Vec<Stored>, String> {
    let OneOrMore(results) = serde_json::from_slice(bytes).map_err(|error| not_a_result(&error))?;
    results.into_iter().map(Stored::from_checked_fields).collect()
}

/// Whether a file name is an id, not a name that a user chose.
pub(super) fn is_id(name: &str) -> bool {
    let is_hex = |part: &str, length| part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    name.split_once('-').is_some_and(|(recipe, inputs)| is_hex(recipe, 32) && is_hex(inputs, 8))
}

/// Parses the bytes of a file that is named by its id.
pub(super) fn read(id: &str, bytes: &[u8]) -> Result<Stored, String> {
    Stored::from_text(id, std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text")?)
}
