//! Texts that a network is run on by a metric itself.

use std::fs;
use std::path::Path;

use super::artefact::Artefact;
use crate::context::{Budget, Reservation};
use crate::error::{Error, InFile, InputError, Result};
use crate::input::{Cell, Record, open_records};

/// Texts of a file.
#[derive(Debug)]
pub struct TextList {
    /// The texts, in the order of the file.
    pub texts: Vec<String>,
    _memory: Reservation,
}

impl TextList {
    /// Texts in memory.
    pub fn new(texts: Vec<String>, budget: &Budget) -> Result<TextList> {
        let bytes = texts.iter().map(|text| text.len() as u64 + 24).sum();
        Ok(TextList { texts, _memory: budget.reserve(bytes, "texts")? })
    }

    /// Reads a table with a column `text`, or a text file with an empty line between texts. Empty texts are left out.
    pub(super) fn read(path: &Path, budget: &Budget) -> Result<TextList> {
        let is_plain = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("txt"));
        let texts = if is_plain { plain(path, budget)? } else { column(path, budget)? };
        if texts.is_empty() {
            return Err(InputError::new("the file has no texts").file(path).into());
        }
        TextList::new(texts, budget)
    }
}

fn plain(path: &Path, budget: &Budget) -> Result<Vec<String>> {
    let size = fs::metadata(path).map_err(Error::io("read texts", path))?.len();
    let _memory = budget.reserve(size, "texts")?;
    let text = fs::read_to_string(path).map_err(Error::io("read texts", path))?;
    let texts = text.replace("\r\n", "\n").split("\n\n").map(|text| text.trim().to_string()).collect::<Vec<_>>();
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn column(path: &Path, budget: &Budget) -> Result<Vec<String>> {
    let mut reader = open_records(path, budget)?;
    let Some(column) = reader.columns().iter().position(|column| column.name == "text") else {
        let names: Vec<&str> = reader.columns().iter().map(|column| column.name.as_str()).collect();
        return Err(InputError::new("the table has no texts")
            .expected("a column `text`")
            .found(format!("columns {}", names.join(", ")))
            .file(path)
            .into());
    };
    reader.select(&[column]);
    let mut memory = budget.reserve(0, "texts")?;
    let (mut texts, mut bytes, mut number) = (Vec::new(), 0, 0u64);
    while let Some(record) = reader.read().in_file(path)? {
        number += 1;
        match record {
            Record::Cells(cells) => {
                if let Some(Cell::Text(text)) =
                    cells.into_iter().next().filter(|cell| *cell != Cell::Text(String::new()))
                {
                    bytes += text.len() as u64;
                    if bytes > memory.bytes() {
                        memory.resize(2 * bytes, "texts")?;
                    }
                    let text = text.trim();
                    texts.extend((!text.is_empty()).then(|| text.to_string()));
                }
            }
            Record::Corrupt(reason) => {
                let error = InputError::new("a text cannot be read").found(reason);
                return Err(error.at(format!("record {number}")).file(path).into());
            }
        }
    }
    Ok(texts)
}

impl Artefact for TextList {
    fn sizes(&self) -> Vec<usize> {
        vec![self.texts.len()]
    }

    fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new_derive_key("etalon texts v1");
        for text in &self.texts {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        TextList::read(&path, &Budget::new(1 << 24)).map(|list| list.texts)
    }

    #[test]
    fn tables_and_paragraphs_are_texts() {
        assert_eq!(
            read("a.jsonl", "{\"text\": \" one\", \"doi\": 3}\n{\"text\": \"\"}\n{\"text\": \"two\"}\n").unwrap(),
            ["one", "two"]
        );
        assert_eq!(read("a.txt", "one\nmore\n\n\n\ntwo\n").unwrap(), ["one\nmore", "two"]);
        let error = read("a.jsonl", "{\"title\": \"a\"}\n").unwrap_err().to_string();
        assert!(error.contains("column `text`") && error.contains("columns title"), "{error}");
        assert!(read("a.txt", "\n\n").unwrap_err().is_input());
    }
}
