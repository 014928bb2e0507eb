//! Records of a JSONL file: one object per line. The first line names the columns; other keys are ignored.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Cell, CellKind, Column, LONGEST_RECORD, Record, RecordReader, all, check_names};
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};
use crate::input::file::{Regular, read_error};
use crate::input::json::Entries;

struct JsonlRecords {
    reader: BufReader<File>,
    columns: Vec<Column>,
    /// The index of each column.
    indices: BTreeMap<String, usize>,
    selected: Vec<usize>,
    /// The current line.
    line: Vec<u8>,
    /// Lines read so far, empty ones included.
    lines: u64,
    /// The first line was read to name the columns, and is still to be returned.
    first: bool,
    memory: Reservation,
    path: PathBuf,
}

/// Opens a JSONL file.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Box<dyn RecordReader>> {
    let reader = BufReader::with_capacity(1 << 16, Regular::open(path)?.file);
    let mut records = JsonlRecords {
        reader,
        columns: Vec::new(),
        indices: BTreeMap::new(),
        selected: Vec::new(),
        line: Vec::new(),
        lines: 0,
        first: true,
        memory: budget.reserve(0, "a line of a table")?,
        path: path.to_path_buf(),
    };
    if !records.advance()? {
        return Err(InputError::new("the table is empty")
            .expected("one JSON object per line")
            .advice("write or download it again")
            .into());
    }
    let entries = entries(&records.line).map_err(|found| {
        InputError::new("the first line is not one JSON object")
            .expected("an object such as {\"id\": \"a\", \"text\": \"..\"}")
            .found(found)
            .at(format!("line {}", records.lines))
            .advice("write one object per line; a JSON array of objects is not read")
    })?;
    let column = |(name, value): (String, Value)| Column { name, kind: kind(&value) };
    records.columns = entries.into_iter().map(column).collect();
    check_names(&records.columns)?;
    records.indices = records.columns.iter().enumerate().map(|(index, column)| (column.name.clone(), index)).collect();
    records.selected = all(&records.columns);
    Ok(Box::new(records))
}

impl JsonlRecords {
    /// Reads the next line that is not empty; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            self.line.clear();
            // One byte beyond the longest line shows that it is too long, without reading all of it.
            let mut limited = (&mut self.reader).take(LONGEST_RECORD as u64 + 1);
            let read = limited.read_until(b'\n', &mut self.line).map_err(|error| read_error(error, &self.path))?;
            if read == 0 {
                return Ok(false);
            }
            self.lines += 1;
            if self.line.len() > LONGEST_RECORD {
                return Err(InputError::new("a line is too long for a table")
                    .expected(format!("at most {LONGEST_RECORD} bytes"))
                    .at(format!("line {}", self.lines))
                    .advice("split the text, or save texts as files in a folder")
                    .file(&self.path)
                    .into());
            }
            // The line, its parsed values, and the cells.
            let bytes = 3 * self.line.capacity() as u64;
            if bytes > self.memory.bytes() {
                self.memory.resize(bytes, "a line of a table")?;
            }
            if self.lines == 1 && self.line.starts_with(b"\xef\xbb\xbf") {
                self.line.drain(..3);
            }
            if !self.line.trim_ascii().is_empty() {
                return Ok(true);
            }
        }
    }

    /// Moves to the next record; the first one was read by `open`.
    fn next_record(&mut self) -> Result<bool> {
        if std::mem::take(&mut self.first) { Ok(true) } else { self.advance() }
    }
}

impl RecordReader for JsonlRecords {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count(&self) -> Option<u64> {
        None
    }

    fn select(&mut self, columns: &[usize]) {
        self.selected = columns.to_vec();
    }

    fn read(&mut self) -> Result<Option<Record>> {
        if !self.next_record()? {
            return Ok(None);
        }
        let entries = match entries(&self.line) {
            Ok(entries) => entries,
            Err(found) => return Ok(Some(Record::Corrupt(format!("line {}: {found}", self.lines)))),
        };
        let mut cells: Vec<Option<Cell>> = vec![None; self.columns.len()];
        for (key, value) in entries {
            if let Some(slot) = self.indices.get(&key).and_then(|&index| cells.get_mut(index)) {
                *slot = Some(cell(value));
            }
        }
        let selected = self.selected.iter().map(|&index| cells.get_mut(index).and_then(Option::take));
        Ok(Some(Record::Cells(selected.map(|cell| cell.unwrap_or(Cell::Null)).collect())))
    }

    fn skip(&mut self, records: u64) -> Result<u64> {
        let mut skipped = 0;
        while skipped < records && self.next_record()? {
            skipped += 1;
        }
        Ok(skipped)
    }
}

/// The entries of a line, or what is wrong with it.
fn entries(line: &[u8]) -> std::result::Result<Vec<(String, Value)>, String> {
    let text = std::str::from_utf8(line).map_err(|error| format!("not UTF-8 text (byte {})", error.valid_up_to()))?;
    match serde_json::from_str::<Entries<Value>>(text.trim()) {
        Ok(Entries(entries)) => Ok(entries),
        Err(error) => Err(format!("not a JSON object: {error}")),
    }
}

fn kind(value: &Value) -> CellKind {
    match value {
        Value::Null | Value::String(_) => CellKind::Text,
        Value::Bool(_) => CellKind::Bool,
        Value::Number(_) => CellKind::Number,
        Value::Array(list) if list.iter().all(|value| plain(value).is_some()) => CellKind::List,
        Value::Array(_) | Value::Object(_) => CellKind::Nested,
    }
}

fn cell(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::String(text) => Cell::Text(text),
        Value::Bool(_) | Value::Number(_) => Cell::Text(value.to_string()),
        Value::Array(list) => list.iter().map(plain).collect::<Option<_>>().map_or(Cell::Nested, Cell::List),
        Value::Object(_) => Cell::Nested,
    }
}

/// The text of a value that is not nested.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{records, text};
    use super::*;

    #[test]
    fn lists_are_cells_and_damaged_lines_are_reported() {
        let lines = b"{\"text\": \"a\", \"tags\": [\"x\", 1], \"o\": {}}\n\n{\"tags\": [], \"text\": null}\nnonsense\n{\"text\": \"\xff\"}\n{\"other\": 1}\n{\"text\": true}";
        let (columns, read) = records("a.jsonl", lines).unwrap();
        let kinds: Vec<CellKind> = columns.iter().map(|column| column.kind).collect();
        assert_eq!(kinds, [CellKind::Text, CellKind::List, CellKind::Nested]);
        let list = Cell::List(vec!["x".into(), "1".into()]);
        assert_eq!(read[0], Record::Cells(vec![text("a"), list, Cell::Nested]));
        assert_eq!(read[1], Record::Cells(vec![Cell::Null, Cell::List(Vec::new()), Cell::Null]));
        for (record, reason) in [(&read[2], "line 4: not a JSON"), (&read[3], "line 5: not UTF-8")] {
            assert!(matches!(record, Record::Corrupt(found) if found.contains(reason)), "{record:?}");
        }
        assert_eq!(read[4], Record::Cells(vec![Cell::Null, Cell::Null, Cell::Null]));
        assert_eq!(read[5], Record::Cells(vec![text("true"), Cell::Null, Cell::Null]));
    }

    #[test]
    fn a_file_without_objects_is_refused() {
        for (bytes, what) in
            [(&b"\n \n"[..], "empty"), (b"[{\"a\": 1}]", "array of objects"), (b"{\"\": 1}", "no name")]
        {
            let error = records("a.jsonl", bytes).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("a.jsonl"), "{error}");
        }
    }
}
