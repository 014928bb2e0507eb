//! Trials of experiments as jsPsych and JATOS write them: a list of objects, or a list per line, one per participant.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::file::{Regular, read_error};
use super::table::TextTable;
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};

/// Bytes of the text of a file and of its parsed values, by byte of the file.
const BYTES_PER_BYTE: u64 = 8;

/// The column with the number of the list that a trial is in, which tells participants apart if nothing else does.
const RECORD: &str = "record";

/// Keys of an answer.
const ANSWERS: [&str; 2] = ["correct", "is_correct"];

/// Reads a file of JSON into a table with a row per trial. Columns are the keys of all trials in order of first appearance;
/// keys of a nested object count as keys of the trial, and an object with a list of objects gives its other values to
/// each of them if they are answers. Other nested values are left out. Unless trials have one, there is a column `record`.
pub fn read_trials(path: &Path, budget: &Budget) -> Result<TextTable> {
    let file = Regular::open(path)?;
    let _memory = budget.reserve(file.length.saturating_mul(BYTES_PER_BYTE), "the trials of an experiment")?;
    let mut text = String::new();
    let mut limited = file.file.take(file.length);
    limited.read_to_string(&mut text).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => {
            InputError::new("the file of trials is not UTF-8 text").expected("UTF-8").file(path).into()
        }
        _ => read_error(error, path),
    })?;
    table(&text, budget).in_file(path)
}

fn table(text: &str, budget: &Budget) -> Result<TextTable> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut trials = Trials::default();
    if let Ok(whole) = serde_json::from_str::<Value>(text) {
        trials.add(whole, 1, 0)?;
    } else {
        for (line, text) in text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = line as u64 + 1;
            let value = serde_json::from_str(text).map_err(|error| {
                InputError::new("a line of trials is not JSON")
                    .expected("a list of trials, or a list per line")
                    .found(error)
                    .at(format!("line {line}"))
            })?;
            trials.add_record(value, line)?;
        }
    }
    let mut header: Vec<String> = Vec::new();
    let mut known = std::collections::BTreeMap::new();
    for trial in &trials.rows {
        for key in trial.fields.keys().chain(trial.shared.keys()).filter(|key| !key.trim().is_empty()) {
            known.entry(key.clone()).or_insert_with(|| {
                header.push(key.clone());
                header.len() - 1
            });
        }
    }
    if header.is_empty() {
        return Err(InputError::new("the file has no trials").expected("a list of objects, one per trial").into());
    }
    let record = (!known.contains_key(RECORD)).then(|| {
        header.push(RECORD.into());
        header.len() - 1
    });
    let mut table = TextTable::new(header)?;
    let mut pending = 0;
    for Trial { line, record: number, fields, shared } in trials.rows {
        let mut cells = vec![String::new(); table.header.len()];
        if let Some(column) = record {
            cells[column] = number.to_string();
        }
        for (key, value) in shared.iter().chain(&fields) {
            if let Some(&column) = known.get(key) {
                cells[column] = match value {
                    Value::String(text) => text.clone(),
                    Value::Bool(_) | Value::Number(_) => value.to_string(),
                    Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
                };
            }
        }
        table.lines.push(line);
        table.push(cells, &mut pending, budget)?;
    }
    table.reserve(&mut pending, budget)?;
    Ok(table)
}

struct Trial {
    line: u64,
    record: usize,
    fields: Map<String, Value>,
    /// Values of the object around the trial.
    shared: Arc<Map<String, Value>>,
}

/// Whether a list is one of trials, and not the path of a mouse.
fn has_answers(list: &[Value]) -> bool {
    list.iter().all(Value::is_object) && list.iter().any(|one| ANSWERS.iter().any(|key| one.get(key).is_some()))
}

#[derive(Default)]
struct Trials {
    rows: Vec<Trial>,
    /// Number of lists so far.
    records: usize,
}

impl Trials {
    /// Adds the trials of a list as a new record; a trial alone belongs to record 0.
    fn add_record(&mut self, value: Value, line: u64) -> Result<()> {
        let record = if value.is_array() { self.next_record() } else { 0 };
        self.add(value, line, record)
    }

    fn next_record(&mut self) -> usize {
        self.records += 1;
        self.records
    }

    /// Adds the trials of a value: an object, or lists of objects.
    fn add(&mut self, value: Value, line: u64, record: usize) -> Result<()> {
        match value {
            Value::Array(values) => values.into_iter().try_for_each(|value| match value.is_array() {
                true => self.add_record(value, line),
                false => self.add(value, line, record),
            }),
            Value::Object(fields) => self.add_object(fields, line, record),
            other => Err(InputError::new("a trial is not an object")
                .expected("an object such as {\"unit\": 3, \"correct\": true}")
                .found(other)
                .at(format!("line {line}"))
                .into()),
        }
    }

    fn add_object(&mut self, fields: Map<String, Value>, line: u64, record: usize) -> Result<()> {
        let (mut own, mut lists) = (Map::new(), Vec::new());
        for (key, value) in fields {
            match value {
                Value::Object(nested) => own.extend(nested),
                Value::Array(list) if has_answers(&list) => lists.push(list),
                value => {
                    own.insert(key, value);
                }
            }
        }
        if lists.is_empty() {
            self.rows.push(Trial { line, record, fields: own, shared: Arc::default() });
            return Ok(());
        }
        let (record, first) = (self.next_record(), self.rows.len());
        lists.into_iter().try_for_each(|trials| self.add(Value::Array(trials), line, record))?;
        let shared = Arc::new(own);
        self.rows[first..].iter_mut().for_each(|trial| trial.shared = shared.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_participants_and_nested_fields_become_rows() {
        let budget = Budget::new(1 << 20);
        // JATOS: a line per participant. jsPsych: one list.
        let jatos = "[{\"unit\": 1, \"correct\": true}, {\"unit\": 2, \"data\": {\"correct\": false, \"rt\": 12.5}}]\n\n[{\"unit\": 3}]\n";
        let found = table(jatos, &budget).unwrap();
        assert_eq!(found.header, ["unit", "correct", "rt", "record"]);
        assert_eq!(found.cells, [["1", "true", "", "1"], ["2", "false", "12.5", "1"], ["3", "", "", "2"]]);
        assert_eq!(found.lines, [1, 1, 3]);
        assert_eq!(table("[{\"a\": null, \"b\": [1]}]", &budget).unwrap().cells, [["", "", "0"]]);
        // Lists of participants in one value; a participant with a list of trials; a column of that name.
        let nested = "[[{\"unit\": 1}], [{\"unit\": 2}, {\"unit\": 3}]]";
        assert_eq!(table(nested, &budget).unwrap().cells, [["1", "1"], ["2", "2"], ["3", "2"]]);
        let people = "[{\"id\": \"p\", \"trials\": [{\"correct\": 1}, {\"correct\": 0, \"id\": \"q\"}]}, \
                      {\"id\": \"r\", \"trials\": [{\"correct\": 1}], \"mouse\": [{\"x\": 3}]}]";
        let found = table(people, &budget).unwrap();
        assert_eq!(found.header, ["correct", "id", "mouse", "record"]);
        assert_eq!(found.cells, [["1", "p", "", "1"], ["0", "q", "", "1"], ["1", "r", "", "2"]]);
        assert_eq!(table("[{\"record\": 7}]", &budget).unwrap().cells, [["7"]]);
        for (text, what) in [("[1]", "not an object"), ("", "no trials"), ("[{}]", "no trials"), ("x\n[]", "line 1")] {
            let message = table(text, &budget).unwrap_err().to_string();
            assert!(message.contains(what), "{message}");
        }
    }
}
