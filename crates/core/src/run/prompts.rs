//! Questions to judges as a user words them: a text file with named sections.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::artefact::Artefact;
use crate::error::{Error, InFile, InputError, Result};

/// Texts by the name of their section. A section starts with a line that has its name in brackets, such as `[explain]`, and
/// lasts to the next one. Lines before the first section are comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompts(BTreeMap<String, String>);

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;

impl Prompts {
    /// Reads sections; refuses two of the same name.
    pub fn parse(text: &str) -> Result<Prompts> {
        let mut sections: BTreeMap<String, String> = BTreeMap::new();
        let mut name: Option<String> = None;
        for (number, line) in text.lines().enumerate() {
            let heading = line.trim_end().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let is_name = |heading: &&str| heading.chars().all(|c| c.is_ascii_lowercase() || c == ' ');
            if let Some(heading) = heading.filter(is_name) {
                if sections.insert(heading.to_string(), String::new()).is_some() {
                    let error = InputError::new(format!("two sections are called `{heading}`"));
                    return Err(error.at(format!("line {}", number + 1)).into());
                }
                name = Some(heading.to_string());
            } else if let Some(section) = name.as_ref().and_then(|name| sections.get_mut(name)) {
                section.push_str(line);
                section.push('\n');
            }
        }
        sections.values_mut().for_each(|section| *section = section.trim().to_string());
        Ok(Prompts(sections))
    }

    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Prompts> {
        let size = fs::metadata(path).map_err(Error::io("read a file of questions", path))?.len();
        if size > MAX_BYTES {
            let error = InputError::new("the file of questions is too large");
            return Err(error.expected(format!("at most {MAX_BYTES} bytes")).found(size).file(path).into());
        }
        let text = fs::read_to_string(path).map_err(Error::io("read a file of questions", path))?;
        let prompts = Prompts::parse(&text).in_file(path)?;
        if prompts.0.is_empty() {
            return Err(InputError::new("the file has no questions")
                .expected("sections that start with a line such as `[explain]`")
                .file(path)
                .into());
        }
        Ok(prompts)
    }

    /// The text of a section.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The names of the sections.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl Artefact for Prompts {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new_derive_key("etalon prompts v1");
        for text in self.0.iter().flat_map(|(name, text)| [name, text]) {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_names() {
        let prompts =
            Prompts::parse("a comment\n[explain]\n\nOne.\n[1]\nTwo.\n\n[detect request]\n{examples}\n").unwrap();
        assert_eq!(prompts.names().collect::<Vec<_>>(), ["detect request", "explain"]);
        assert_eq!((prompts.get("explain"), prompts.get("fuzz")), (Some("One.\n[1]\nTwo."), None));
        assert!(Prompts::parse("[a]\n[a]\n").unwrap_err().to_string().contains("line 2"));
    }
}
