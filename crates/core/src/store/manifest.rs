//! `manifest.json`: the description of a finished directory. It is written last, so a valid one means that the
//! directory is complete.
//!
//! It ends with a CRC32C of everything before, in a form that is the same in every version.

use std::fs;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, InputError, Result};

/// The name of the manifest.
pub const NAME: &str = "manifest.json";

/// Maximum size in bytes, far more than the manifest of a petabyte needs.
const MOST_BYTES: u64 = 256 << 20;

/// The format of a directory, and the version of it that this program writes and reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryFormat {
    /// The name, such as `etalon-activations`.
    pub name: &'static str,
    /// The version, counted from 1.
    pub version: u64,
}

/// A data file of the directory; its checksums are in the file of the same name with the ending `crc`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredFile {
    /// Its name.
    pub file: String,
    /// Its length in bytes.
    pub bytes: usize,
    /// Its BLAKE3, in hexadecimal.
    pub blake3: String,
}

/// The text of a manifest: format, version, the fields of the body, checksum.
pub fn text(format: DirectoryFormat, body: &impl Serialize) -> Result<String> {
    let bug = |error: serde_json::Error| Error::Bug(format!("a manifest cannot be written: {error}"));
    let mut fields = Map::new();
    fields.insert("format".into(), format.name.into());
    fields.insert("version".into(), format.version.into());
    let Value::Object(body) = serde_json::to_value(body).map_err(bug)? else {
        return Err(Error::Bug("a manifest must have fields".into()));
    };
    fields.extend(body);
    let mut text = serde_json::to_string_pretty(&fields).map_err(bug)?;
    text.truncate(text.len() - "\n}".len());
    let end = end(&text);
    Ok(text + &end)
}

fn end(head: &str) -> String {
    format!(",\n  \"crc32c\": \"{:08x}\"\n}}\n", crc32c::crc32c(head.as_bytes()))
}

/// The fields of a directory's manifest, of any format, after its checksum is checked.
pub fn read(directory: &Path) -> Result<Map<String, Value>> {
    let path = directory.join(NAME);
    let metadata = match fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let advice = match directory.join("world.json").is_file() {
                true => "this is a world; give the path of its part `activations` or `codes`",
                false => "check the path, or rerun the command that writes it: finished parts are kept",
            };
            return Err(InputError::new("the directory is not a finished Etalon directory")
                .expected(format!("a file {NAME}"))
                .advice(advice)
                .file(directory)
                .into());
        }
        metadata => metadata.map_err(Error::io("open a manifest", &path))?,
    };
    let damaged = |found: &str| {
        InputError::new("the manifest is damaged")
            .found(found)
            .advice("delete the directory and create it again from its source")
            .file(&path)
    };
    if !metadata.is_file() || metadata.len() > MOST_BYTES {
        return Err(damaged("a directory, or more than 256 MB").into());
    }
    let all = fs::read(&path).map_err(Error::io("read a manifest", &path))?;
    let all = String::from_utf8(all).map_err(|_| damaged("bytes that are not text"))?;
    let head = all.len().checked_sub(end("").len()).and_then(|length| all.get(..length));
    let head = head.ok_or_else(|| damaged("too few bytes"))?;
    if all[head.len()..] != end(head) {
        return Err(damaged("a wrong checksum").into());
    }
    serde_json::from_str(&format!("{head}\n}}")).map_err(|error| damaged(&error.to_string()).into())
}

/// The error for a manifest whose checksum is right and whose content is not.
pub fn contradiction(found: &str) -> InputError {
    InputError::new("the manifest is invalid")
        .found(found)
        .advice("delete the directory and create it again from its source")
}

/// The error for data files that are not those that the manifest describes.
pub fn other_content(expected: &str, found: &str) -> InputError {
    InputError::new("the content does not match the manifest")
        .expected(expected)
        .found(found)
        .advice("delete the directory and create it again from its source")
}

/// The name of a directory's format.
pub fn format_of(fields: &Map<String, Value>) -> &str {
    fields.get("format").and_then(Value::as_str).unwrap_or("unknown")
}

/// The body of a directory's manifest, if the directory has this format.
pub fn read_as<T: DeserializeOwned>(directory: &Path, format: DirectoryFormat) -> Result<T> {
    let mut fields = read(directory)?;
    let path = directory.join(NAME);
    if format_of(&fields) != format.name {
        return Err(InputError::new("the directory has another format")
            .expected(format.name)
            .found(format_of(&fields))
            .advice("check the path")
            .file(directory)
            .into());
    }
    let version = fields.get("version").and_then(Value::as_u64);
    if version != Some(format.version) {
        let (what, advice) = match version {
            Some(version) if version > format.version => {
                ("the directory was written by a newer version of Etalon", "install the newest Etalon")
            }
            Some(_) => (
                "the directory was written by an older version of Etalon, whose format is no longer read",
                "create it again from its source",
            ),
            None => ("the manifest has no version", "delete the directory and create it again from its source"),
        };
        return Err(InputError::new(what)
            .expected(format!("{}, version {}", format.name, format.version))
            .found(version.map_or("no version".into(), |version| format!("version {version}")))
            .advice(advice)
            .file(directory)
            .into());
    }
    fields.remove("format");
    fields.remove("version");
    serde_json::from_value(Value::Object(fields)).map_err(|error| contradiction(&error.to_string()).file(&path).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: DirectoryFormat = DirectoryFormat { name: "etalon-test", version: 1 };

    #[test]
    fn every_flipped_byte_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let file = StoredFile { file: "a".into(), bytes: 3, blake3: "00".into() };
        let text = text(FORMAT, &file).unwrap();
        fs::write(&path, &text).unwrap();
        assert_eq!(read_as::<StoredFile>(directory.path(), FORMAT).unwrap(), file);
        for index in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[index] ^= 1 << (index % 8);
            fs::write(&path, bytes).unwrap();
            assert!(read(directory.path()).is_err(), "byte {index}");
        }
        for length in 0..text.len() {
            fs::write(&path, &text[..length]).unwrap();
            assert!(read(directory.path()).is_err(), "cut to {length}");
        }
    }

    #[test]
    fn other_formats_and_versions_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let file = StoredFile { file: "a".into(), bytes: 3, blake3: "00".into() };
        let newer = DirectoryFormat { version: 2, ..FORMAT };
        fs::write(directory.path().join(NAME), text(newer, &file).unwrap()).unwrap();
        let error = read_as::<StoredFile>(directory.path(), FORMAT).unwrap_err().to_string();
        assert!(error.contains("newer version of Etalon") && error.contains("version 2"), "{error}");
        let third = DirectoryFormat { version: 3, ..FORMAT };
        let error = read_as::<StoredFile>(directory.path(), third).unwrap_err().to_string();
        assert!(error.contains("older version of Etalon") && error.contains("create it again"), "{error}");
        let unnumbered = format!("{{\n\"format\": \"{}\"", FORMAT.name);
        fs::write(directory.path().join(NAME), unnumbered.clone() + &end(&unnumbered)).unwrap();
        let error = read_as::<StoredFile>(directory.path(), FORMAT).unwrap_err().to_string();
        assert!(error.contains("no version") && !error.contains("newer"), "{error}");
        fs::write(directory.path().join(NAME), text(newer, &file).unwrap()).unwrap();
        let other = DirectoryFormat { name: "etalon-other", version: 1 };
        assert!(read_as::<StoredFile>(directory.path(), other).unwrap_err().to_string().contains("another format"));
    }
}
