//! Tables as JSONL: one flat object per line. The first line names the columns.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::file::{Regular, read_error};
use super::json::Entries;
use super::table::{LONGEST_LINE, TextTable, not_text, nul, too_long};
use crate::context::Budget;
use crate::error::{InputError, Result};

/// Reads a JSONL file. Lists in the columns `lists` become their JSON text; others are refused.
pub(super) fn read(path: &Path, lists: &[&str], budget: &Budget) -> Result<TextTable> {
    let file = Regular::open(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, file.file);
    let mut table: Option<TextTable> = None;
    let mut pending = 0;
    let mut bytes = Vec::new();
    for line in 1u64.. {
        bytes.clear();
        // One byte beyond the longest line shows that it is too long, without reading all of it.
        let mut limited = (&mut reader).take(LONGEST_LINE as u64 + 1);
        if limited.read_until(b'\n', &mut bytes).map_err(|error| read_error(error, path))? == 0 {
            break;
        }
        if bytes.len() > LONGEST_LINE {
            return Err(too_long(line).into());
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| not_text(line))?;
        let text = if line == 1 { text.strip_prefix('\u{feff}').unwrap_or(text) } else { text }.trim();
        if text.contains('\0') {
            return Err(nul(line).into());
        }
        if text.is_empty() {
            continue;
        }
        let Entries(entries) = serde_json::from_str::<Entries<serde_json::Value>>(text).map_err(|error| {
            InputError::new("a line is not one JSON object")
                .expected("an object such as {\"a\": 1, \"b\": \"x\"}")
                .found(error)
                .at(format!("line {line}"))
        })?;
        let table = match &mut table {
            Some(table) => table,
            none => {
                let header = entries.iter().map(|(key, _)| key.clone()).collect();
                none.insert(TextTable::new(header)?)
            }
        };
        let mut cells = vec![String::new(); table.header.len()];
        // Nearly always the keys come in the order of the first line, so try that column first.
        for (index, (key, value)) in entries.into_iter().enumerate() {
            let column = if table.header.get(index) == Some(&key) { Some(index) } else { table.column(&key) };
            let Some(column) = column else {
                return Err(InputError::new("a line has a key that the first line does not have")
                    .expected(format!("one of {}", table.header.join(", ")))
                    .found(key)
                    .at(format!("line {line}"))
                    .advice("give the first line every key, with null where there is no value")
                    .into());
            };
            cells[column] = match value {
                serde_json::Value::Null => String::new(),
                serde_json::Value::String(text) => text,
                serde_json::Value::Bool(_) | serde_json::Value::Number(_) => value.to_string(),
                serde_json::Value::Array(_) if lists.contains(&key.as_str()) => value.to_string(),
                serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                    return Err(InputError::new("a value is nested")
                        .expected("text, a number, true, false or null")
                        .found("a list or an object")
                        .at(format!("line {line}, key `{key}`"))
                        .advice("write one key per value")
                        .into());
                }
            };
        }
        table.lines.push(line);
        table.push(cells, &mut pending, budget)?;
    }
    let mut table = table.ok_or_else(|| {
        InputError::new("the table is empty").expected("one JSON object per line").advice("write or download it again")
    })?;
    table.reserve(&mut pending, budget)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read_table;

    fn read(bytes: &[u8]) -> Result<TextTable> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        std::fs::write(&path, bytes).unwrap();
        read_table(&path, &Budget::new(1 << 26))
    }

    fn message(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn jsonl_rows_follow_the_first_line() {
        let table = read(b"{\"a\": 1, \"b\": \"x\"}\r\n\n{\"b\": true}\n{\"b\": null, \"a\": 2.5}").unwrap();
        assert_eq!(table.header, ["a", "b"]);
        assert_eq!(table.cells, [["1", "x"], ["", "true"], ["2.5", ""]]);
        assert_eq!(table.lines, [1, 3, 4]);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        std::fs::write(&path, r#"{"words": ["a", " b"]}"#).unwrap();
        let table = crate::input::read_table_with_lists(&path, &["words"], &Budget::new(1 << 26)).unwrap();
        assert_eq!(table.cells, [[r#"["a"," b"]"#]]);
        for (bytes, what) in [
            (&b"{\"a\": 1}\n{\"c\": 1}"[..], "line 2"),
            (b"{\"a\": [1]}", "nested"),
            (b"{\"a\": 1, \"a\": 2}", "twice"),
            (b"[1]", "line 1"),
            (b"{\"a\": 1", "line 1"),
            (b"\n\n", "empty"),
            (b"{\"a\": \"\xff\"}", "UTF-8"),
            (b"{\"\": 1}", "no name"),
            (&vec![b' '; LONGEST_LINE + 2], "too long"),
        ] {
            assert!(message(bytes).contains(what), "{}", message(bytes));
        }
        assert!(message("[".repeat(900_000).as_bytes()).contains("line 1"));
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[a,\"\\n\\r{}:1]{1,60}") {
            let _ = read(&bytes);
            let _ = read(text.as_bytes());
        }
    }
}
