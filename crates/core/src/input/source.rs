//! The name of an array: a path, and a key when the file holds several.

use std::fmt;
use std::path::PathBuf;

use crate::error::{InputError, Result};

/// Endings of files with several named arrays. After any other ending, a colon is a part of the path.
const KEYED: [&str; 6] = [".npz:", ".safetensors:", ".parquet:", ".pt:", ".pth:", ".bin:"];

/// A path with an optional key: `x.npz:codes`, `w.safetensors:encoder.weight`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// The name of the array in it, if given.
    pub key: Option<String>,
}

impl Source {
    /// Parses `PATH` or `PATH:KEY`.
    pub fn parse(text: &str) -> Result<Source> {
        if text.is_empty() || text.contains('\0') {
            return Err(InputError::new("a path is empty or contains a NUL character")
                .expected("a path such as codes.npy")
                .found(format!("{text:?}"))
                .into());
        }
        let lower = text.to_ascii_lowercase();
        let split = KEYED.iter().filter_map(|ending| Some(lower.find(ending)? + ending.len())).min();
        match split {
            None => Ok(Source { path: text.into(), key: None }),
            Some(end) if end == text.len() => Err(InputError::new("a key is missing after the colon")
                .expected("for example x.npz:codes")
                .found(text)
                .advice("omit the colon to see the keys of the file")
                .into()),
            Some(end) => Ok(Source { path: text[..end - 1].into(), key: Some(text[end..].to_string()) }),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            None => write!(f, "{}", self.path.display()),
            Some(key) => write!(f, "{}:{key}", self.path.display()),
        }
    }
}

/// Refuses a key where the file can hold only one array.
pub(super) fn no_key(source: &Source, format: &str) -> Result<()> {
    match &source.key {
        None => Ok(()),
        Some(key) => Err(InputError::new(format!("{format} files contain one array without a key"))
            .expected("a path without a key")
            .found(format!("the key `{key}`"))
            .advice(format!("remove `:{key}` from the path"))
            .into()),
    }
}

/// The error for a key that does not exist, or that is required and was not given.
pub(super) fn key_error(key: Option<&str>, mut keys: Vec<String>) -> InputError {
    keys.sort();
    let example = keys.first().cloned().unwrap_or_default();
    let count = keys.len();
    keys.truncate(20);
    let more = if count > keys.len() { format!(" and {} more", count - keys.len()) } else { String::new() };
    let list = format!("{}{more}", keys.join(", "));
    match key {
        None if count == 0 => InputError::new("the file contains no array of numbers")
            .expected("at least one array")
            .advice("check that this is the right file"),
        None => InputError::new("the file contains several arrays; choose one by its key")
            .expected(format!("one of {list}"))
            .advice(format!("append the key to the path, like FILE:{example}")),
        Some(key) => InputError::new("the file has no array of that name")
            .expected(format!("one of {list}"))
            .found(key)
            .advice("check the key after the colon"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_starts_a_key_only_after_a_keyed_ending() {
        let parse = |text: &str| Source::parse(text).map(|source| (source.path.display().to_string(), source.key));
        let some = |path: &str, key: &str| (path.to_string(), Some(key.to_string()));
        assert_eq!(parse("a/x.npz:codes").unwrap(), some("a/x.npz", "codes"));
        assert_eq!(parse("W.SafeTensors:encoder.weight").unwrap(), some("W.SafeTensors", "encoder.weight"));
        assert_eq!(parse("x.npz:a:b").unwrap(), some("x.npz", "a:b"));
        assert_eq!(parse("C:/x.npy").unwrap(), ("C:/x.npy".to_string(), None));
        assert_eq!(parse("x.npy:k").unwrap(), ("x.npy:k".to_string(), None));
        assert!(parse("x.npz:").unwrap_err().to_string().contains("key"));
        assert!(parse("").is_err());
        assert_eq!(Source::parse("x.pt:w").unwrap().to_string(), "x.pt:w");
    }
}
