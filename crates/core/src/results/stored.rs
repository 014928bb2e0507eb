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
use std::time::SystemTime;

use serde_json::Value;

use super::recipe::{Recipe, ResultFile};
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

    /// The text of its file.
    pub(super) fn to_text(&self) -> Result<String> {
        let json = |value: &Value| {
            serde_json::to_string(value).map_err(|error| Error::Bug(format!("a result to JSON: {error}")))
        };
        let result = self.result.to_json()?;
        let fields = result.as_object().ok_or_else(|| Error::Bug("a result is not a JSON object".into()))?;
        let about = serde_json::to_value(&self.about).map_err(|error| Error::Bug(format!("about to JSON: {error}")))?;
        let mut text = String::from("{");
        for (name, value) in
            fields.iter().filter(|(name, _)| *name != "seconds").chain([(&"about".to_string(), &about)])
        {
            text.push_str(&format!("\n  {}: {},", json(&Value::from(name.as_str()))?, json(value)?));
        }
        let ending = ending(&json(&Value::from(self.result.seconds))?, &text);
        Ok(text + &ending)
    }

    /// Its file as a JSON value. It is also read inside an array, or formatted differently.
    pub fn to_json(&self) -> Result<Value> {
        serde_json::from_str(&self.to_text()?).map_err(|error| Error::Bug(format!("a result to JSON: {error}")))
    }

    /// Parses the text of a file; the error is a short description of the damage.
    fn from_text(id: &str, text: &str) -> Result<Stored, String> {
        let end = text.rfind(SECONDS).ok_or("the file is truncated")?;
        let (body, rest) = text.split_at(end);
        let seconds = rest[SECONDS.len()..].split(',').next().unwrap_or_default();
        if ending(seconds, body) != rest {
            return Err("wrong checksum".into());
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let stored = Stored::from_json(&value)?;
        if stored.id == id { Ok(stored) } else { Err("the file name does not match the recipe".into()) }
    }

    /// The result in a JSON value, without its checksum.
    fn from_json(value: &Value) -> Result<Stored, String> {
        let result = ResultFile::from_json(value).map_err(|error| one_line(&error))?;
        result.scores.check().map_err(|error| one_line(&error))?;
        let about: Metadata = match value.get("about") {
            Some(about) => serde_json::from_value(about.clone()).map_err(|error| format!("field `about`: {error}"))?,
            None => Metadata::new(),
        };
        Stored::new(result, about).map_err(|error| one_line(&error))
    }

    /// The result in a JSON value whose field `check` is the checksum of its file.
    fn from_checked_json(value: &Value) -> Result<Stored, String> {
        let check = value.get("check").ok_or("not a result file: it has no checksum")?;
        let stored = Stored::from_json(value)?;
        let expected = stored.to_json().map_err(|error| one_line(&error))?;
        if expected.get("check") == Some(check) { Ok(stored) } else { Err("wrong checksum".into()) }
    }
}

/// The lines after the part with the checksum.
fn ending(seconds: &str, body: &str) -> String {
    format!("{SECONDS}{seconds},\n  \"check\": \"crc32c:{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes()))
}

/// The part of a result that depends only on the recipe. As JSON, in which an empty column has no type.
pub(super) fn content(result: &ResultFile) -> Result<Value> {
    let mut value = result.to_json()?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "seconds" && name != "etalon");
    }
    Ok(value)
}

fn one_line(error: &Error) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// Parses the bytes of a file with any name: one result, or an array of several, as `etalon eval --out` writes them.
pub(super) fn read_values(bytes: &[u8]) -> Result<Vec<Stored>, String> {
    match serde_json::from_slice(bytes).map_err(|error| format!("not JSON: {error}"))? {
        Value::Array(values) => values.iter().map(Stored::from_checked_json).collect(),
        value => Ok(vec![Stored::from_checked_json(&value)?]),
    }
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
