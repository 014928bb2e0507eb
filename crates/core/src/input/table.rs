//! Tables of text: CSV with a header, and JSONL with one flat object per line.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::file::{Regular, failed};
use super::json::Entries;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// Longer lines than this are no table.
const LONGEST_LINE: usize = 1 << 20;

/// What a cell costs beside its text: the string itself and what the allocator adds.
const CELL_BYTES: u64 = 56;

/// A table of text cells with a header.
#[derive(Debug, Default)]
pub struct TextTable {
    /// The names of the columns: unique, and none is empty.
    pub header: Vec<String>,
    /// The cells, row by row, as many in each row as there are columns.
    pub cells: Vec<Vec<String>>,
    /// The line of each row in the file, counted from 1; empty when the file has no lines (parquet).
    pub lines: Vec<u64>,
    /// The part of the budget that the cells use; keep it as long as them.
    pub memory: Vec<Reservation>,
}

impl TextTable {
    /// An empty table under a checked header.
    pub(super) fn new(header: Vec<String>) -> Result<TextTable> {
        let mut sorted: Vec<&String> = header.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InputError::new("two columns have the same name")
                .found(twice[0].escape_debug())
                .at("the header")
                .advice("rename one of them")
                .into());
        }
        if let Some(column) = header.iter().position(|name| name.trim().is_empty()) {
            return Err(InputError::new("a column has no name")
                .at(format!("the header, column {} of {}", column + 1, header.len()))
                .advice("the first line must name every column")
                .into());
        }
        Ok(TextTable { header, cells: Vec::new(), lines: Vec::new(), memory: Vec::new() })
    }

    /// The place of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|other| other == name)
    }

    /// Where a row is in the file, for messages.
    pub fn place(&self, row: usize) -> String {
        self.lines.get(row).map_or_else(|| format!("row {row}"), |line| format!("line {line}"))
    }

    /// Adds a row. The budget is asked for a few thousand rows at a time.
    pub(super) fn push(&mut self, cells: Vec<String>, pending: &mut u64, budget: &Budget) -> Result<()> {
        *pending += 24 + cells.iter().map(|cell| CELL_BYTES + cell.len() as u64).sum::<u64>();
        self.cells.push(cells);
        if *pending > 1 << 20 { self.settle(pending, budget) } else { Ok(()) }
    }

    /// Asks the budget for what was added since the last time.
    pub(super) fn settle(&mut self, pending: &mut u64, budget: &Budget) -> Result<()> {
        self.memory.push(budget.reserve(*pending, "the cells of a table")?);
        *pending = 0;
        Ok(())
    }
}

/// Reads a CSV file.
pub(super) fn read_csv(path: &Path, delimiter: u8, budget: &Budget) -> Result<TextTable> {
    let file = Regular::open(path)?;
    let guarded = Guarded::new(BufReader::with_capacity(1 << 16, file.file), delimiter, path.to_path_buf());
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::Headers).from_reader(guarded);
    let header = match reader.headers() {
        Ok(header) => header.iter().map(str::to_string).collect(),
        Err(error) => return Err(csv_error(error, &reader.get_ref().starts)),
    };
    let mut table = TextTable::new(header)?;
    let mut pending = 0;
    let mut record = csv::StringRecord::new();
    loop {
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => return Err(csv_error(error, &reader.get_ref().starts)),
        }
        if record.as_slice().len() > LONGEST_LINE {
            return Err(too_long(line_of(record.position(), &reader.get_ref().starts)).into());
        }
        table.push(record.iter().map(str::to_string).collect(), &mut pending, budget)?;
    }
    table.settle(&mut pending, budget)?;
    // The first of the lines is that of the header.
    table.lines = reader.into_inner().starts.into_iter().skip(1).collect();
    Ok(table)
}

/// Reads a JSONL file.
pub(super) fn read_jsonl(path: &Path, budget: &Budget) -> Result<TextTable> {
    let file = Regular::open(path)?;
    let mut reader = BufReader::with_capacity(1 << 16, file.file);
    let mut table: Option<TextTable> = None;
    let mut pending = 0;
    let mut bytes = Vec::new();
    for line in 1u64.. {
        bytes.clear();
        // One byte beyond the longest line shows that it is too long, without reading all of it.
        let mut limited = (&mut reader).take(LONGEST_LINE as u64 + 1);
        if limited.read_until(b'\n', &mut bytes).map_err(|error| failed(error, path))? == 0 {
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
            InputError::new("the line is not one JSON object")
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
        // Keys come in the order of the first line nearly always, so that the search is over at once.
        for (place, (key, value)) in entries.into_iter().enumerate() {
            let column = if table.header.get(place) == Some(&key) { Some(place) } else { table.column(&key) };
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
                serde_json::Value::Array(_) | serde_json::Value::Object(_) => {
                    return Err(InputError::new("a value is nested")
                        .expected("text, a number, true, false or null")
                        .at(format!("line {line}, key `{key}`"))
                        .into());
                }
            };
        }
        table.lines.push(line);
        table.push(cells, &mut pending, budget)?;
    }
    let mut table = table.ok_or_else(|| InputError::new("the table is empty").advice("write one object per line"))?;
    table.settle(&mut pending, budget)?;
    Ok(table)
}

/// Bytes on their way to the CSV reader, looked at for what it would let pass: NUL, endless lines, and a quote that is
/// never closed and swallows the rest of the file.
struct Guarded<R> {
    source: R,
    delimiter: u8,
    path: PathBuf,
    line: u64,
    length: usize,
    quotes: Quotes,
    quoted_since: u64,
    started: bool,
    /// The line on which each record starts. The CSV reader's own count is late after empty lines and CRLF.
    starts: Vec<u64>,
    between_records: bool,
}

/// Where in a field the last byte was.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    Start,
    Bare,
    Inside,
    /// After a quote inside a quoted field: its end, or the first of two that stand for one.
    Closing,
}

impl<R: BufRead> Guarded<R> {
    fn new(source: R, delimiter: u8, path: PathBuf) -> Guarded<R> {
        Guarded {
            source,
            delimiter,
            path,
            line: 1,
            length: 0,
            quotes: Quotes::Start,
            quoted_since: 0,
            started: false,
            starts: Vec::new(),
            between_records: true,
        }
    }

    fn look(&mut self, bytes: &[u8]) -> Result<()> {
        for &byte in bytes {
            if byte == 0 {
                return Err(nul(self.line).into());
            }
            let line_end = matches!(byte, b'\n' | b'\r');
            if self.between_records && !line_end {
                self.starts.push(self.line);
                self.between_records = false;
            }
            self.between_records |= line_end && self.quotes != Quotes::Inside;
            self.quotes = match (self.quotes, byte) {
                (Quotes::Start | Quotes::Closing, b'"') => {
                    if self.quotes == Quotes::Start {
                        self.quoted_since = self.line;
                    }
                    Quotes::Inside
                }
                (Quotes::Inside, b'"') => Quotes::Closing,
                (Quotes::Inside, _) => Quotes::Inside,
                (_, byte) if line_end || byte == self.delimiter => Quotes::Start,
                _ => Quotes::Bare,
            };
            self.length += 1;
            if byte == b'\n' {
                self.line += 1;
                self.length = 0;
            } else if self.length > LONGEST_LINE {
                return Err(too_long(self.line).into());
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Guarded<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if !self.started {
            self.started = true;
            if self.source.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
                self.source.consume(3);
            }
        }
        let count = self.source.read(out)?;
        // The CSV reader hands our own error back to us, inside its own.
        self.look(&out[..count]).map_err(std::io::Error::other)?;
        if count == 0 && !out.is_empty() && self.quotes == Quotes::Inside {
            let complaint = InputError::new("a quote is opened and never closed")
                .at(format!("line {}", self.quoted_since))
                .advice("a quote within a quoted cell is written twice")
                .file(&self.path);
            return Err(std::io::Error::other(crate::error::Error::from(complaint)));
        }
        Ok(count)
    }
}

/// The line on which the record of a position starts.
fn line_of(position: Option<&csv::Position>, starts: &[u64]) -> u64 {
    let record = position.and_then(|position| usize::try_from(position.record()).ok());
    record.and_then(|record| starts.get(record)).copied().unwrap_or(0)
}

fn csv_error(error: csv::Error, starts: &[u64]) -> crate::error::Error {
    let line = |position: &Option<csv::Position>| line_of(position.as_ref(), starts);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.downcast::<crate::error::Error>() {
            Ok(error) => error,
            Err(error) => failed(error, Path::new("a table")),
        },
        csv::ErrorKind::Utf8 { pos, .. } => not_text(line(&pos)).into(),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            InputError::new("a row has not as many cells as the header has names")
                .expected(format!("{expected_len} cells"))
                .found(format!("{len} cells"))
                .at(format!("line {}", line(&pos)))
                .advice("a cell that contains the separator must stand in quotes")
                .into()
        }
        other => InputError::new("the table cannot be read").found(format!("{other:?}")).into(),
    }
}

fn too_long(line: u64) -> InputError {
    InputError::new("a line is too long for a table")
        .expected(format!("at most {LONGEST_LINE} bytes"))
        .at(format!("line {line}"))
}

fn not_text(line: u64) -> InputError {
    InputError::new("the table is not UTF-8 text").at(format!("line {line}")).advice("save it as UTF-8")
}

fn nul(line: u64) -> InputError {
    InputError::new("the table holds a NUL byte")
        .at(format!("line {line}"))
        .advice("save it as UTF-8; UTF-16 text has such bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Result<TextTable> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        super::super::read_table(&path, &Budget::new(1 << 26))
    }

    fn why(name: &str, bytes: &[u8]) -> String {
        read(name, bytes).unwrap_err().to_string()
    }

    #[test]
    fn csv_with_bom_crlf_and_quotes() {
        let table = read("a.csv", b"\xef\xbb\xbfa, b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n,=cmd()\r\n").unwrap();
        assert_eq!(table.header, ["a", "b"]);
        assert_eq!(table.cells, [["1", "x, \"y\"\nz"], ["", "=cmd()"]]);
        assert_eq!(table.lines, [2, 5]);
        assert_eq!((table.column("b"), table.place(1)), (Some(1), "line 5".to_string()));
        assert_eq!(read("a.tsv", b"a\tb\n1\t2").unwrap().cells, [["1", "2"]]);
        assert!(read("a.csv", b"a,b\n").unwrap().cells.is_empty());
    }

    #[test]
    fn bad_csv_is_refused_with_its_line() {
        for (bytes, what, place) in [
            (&b"a,b\n1,2\n3\n"[..], "2 cells", "line 3"),
            (b"a,b\n1,\xff\n", "UTF-8", "line 2"),
            (b"a,b\n1,2\n1,\0\n", "NUL", "line 3"),
            (b"a,a\n1,2\n", "same name", "header"),
            (b"a,\n1,2\n", "no name", "column 2"),
            (b"a,b\n1,\"x\n2,y\n", "never closed", "line 2"),
            (&[b"a\n".as_slice(), &vec![b'x'; LONGEST_LINE + 1]].concat(), "too long", "line 2"),
        ] {
            let error = why("a.csv", bytes);
            assert!(error.contains(what) && error.contains(place) && error.contains("a.csv"), "{error}");
        }
    }

    #[test]
    fn jsonl_rows_follow_the_first_line() {
        let table = read("a.jsonl", b"{\"a\": 1, \"b\": \"x\"}\r\n\n{\"b\": true}\n{\"b\": null, \"a\": 2.5}").unwrap();
        assert_eq!(table.header, ["a", "b"]);
        assert_eq!(table.cells, [["1", "x"], ["", "true"], ["2.5", ""]]);
        assert_eq!(table.lines, [1, 3, 4]);
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
            assert!(why("a.jsonl", bytes).contains(what), "{}", why("a.jsonl", bytes));
        }
        assert!(why("a.jsonl", "[".repeat(900_000).as_bytes()).contains("line 1"));
    }

    #[test]
    fn the_budget_is_asked_for_cells() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        std::fs::write(&path, "a\n".to_string() + &"1\n".repeat(1000)).unwrap();
        assert!(super::super::read_table(&path, &Budget::new(20_000)).is_err());
        let budget = Budget::new(200_000);
        let table = super::super::read_table(&path, &budget).unwrap();
        assert!(budget.left() < 200_000);
        drop(table);
        assert_eq!(budget.left(), 200_000);
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[a,\"\\n\\r{}:1]{1,60}") {
            for name in ["a.csv", "a.jsonl"] {
                let _ = read(name, &bytes);
                let _ = read(name, text.as_bytes());
            }
        }
    }
}
