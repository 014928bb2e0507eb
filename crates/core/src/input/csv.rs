//! Tables as CSV: comma- or tab-separated cells below a header line.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::file::{Regular, read_error};
use super::table::{LONGEST_LINE, TextTable, not_text, nul, too_long};
use crate::context::Budget;
use crate::error::{Error, InputError, Result};

/// Reads a CSV file.
pub(super) fn read(path: &Path, delimiter: u8, budget: &Budget) -> Result<TextTable> {
    let file = Regular::open(path)?;
    let checked = CheckedBytes::new(BufReader::with_capacity(1 << 16, file.file), delimiter, path.to_path_buf());
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).trim(csv::Trim::Headers).from_reader(checked);
    let mut header: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(str::to_string).collect(),
        Err(error) => return Err(csv_error(error, &reader.get_ref().starts)),
    };
    let has_index = TextTable::name_index(&mut header);
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
    table.reserve(&mut pending, budget)?;
    // The first entry is the line of the header.
    table.lines = reader.into_inner().starts.into_iter().skip(1).collect();
    if has_index {
        table.check_index()?;
    }
    Ok(table)
}

/// Checks bytes on their way to the CSV reader for what it accepts: NUL, endless lines, and a quote that is never closed
/// and makes one cell of the rest of the file.
pub(super) struct CheckedBytes<R> {
    source: R,
    delimiter: u8,
    path: PathBuf,
    line: u64,
    length: usize,
    /// Maximum length of a line.
    longest: usize,
    quotes: Quotes,
    quoted_since: u64,
    started: bool,
    /// The line on which each record starts. The CSV reader's own count is wrong after empty lines and CRLF.
    starts: Vec<u64>,
    between_records: bool,
    /// Limits records instead of lines, and keeps no `starts`: for files that are larger than memory.
    streaming: bool,
}

/// State of the quotes after the last byte.
#[derive(Clone, Copy, PartialEq)]
enum Quotes {
    Start,
    Bare,
    Inside,
    /// After a quote inside a quoted field: its end, or the first half of an escaped quote.
    Closing,
}

impl<R: BufRead> CheckedBytes<R> {
    pub fn new(source: R, delimiter: u8, path: PathBuf) -> CheckedBytes<R> {
        CheckedBytes {
            source,
            delimiter,
            path,
            line: 1,
            length: 0,
            longest: LONGEST_LINE,
            quotes: Quotes::Start,
            quoted_since: 0,
            started: false,
            starts: Vec::new(),
            between_records: true,
            streaming: false,
        }
    }

    /// Checks for a reader that keeps one record at a time, of at most `longest` bytes.
    pub fn for_records(source: R, delimiter: u8, path: PathBuf, longest: usize) -> CheckedBytes<R> {
        CheckedBytes { longest, streaming: true, ..CheckedBytes::new(source, delimiter, path) }
    }

    fn check(&mut self, bytes: &[u8]) -> Result<()> {
        for &byte in bytes {
            if byte == 0 {
                return Err(nul(self.line).into());
            }
            let line_end = matches!(byte, b'\n' | b'\r');
            if self.between_records && !line_end {
                if self.streaming {
                    self.length = 0;
                } else {
                    self.starts.push(self.line);
                }
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
                self.length = if self.streaming { self.length } else { 0 };
            } else if self.length > self.longest {
                let error = if self.streaming { record_too_long(self.line) } else { too_long(self.line) };
                return Err(error.into());
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for CheckedBytes<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if !self.started {
            self.started = true;
            if self.source.fill_buf()?.starts_with(b"\xef\xbb\xbf") {
                self.source.consume(3);
            }
        }
        let count = self.source.read(out)?;
        // The CSV reader wraps this error in its own; `csv_error` unwraps it.
        self.check(&out[..count]).map_err(std::io::Error::other)?;
        if count == 0 && !out.is_empty() && self.quotes == Quotes::Inside {
            let error = InputError::new("a quote is opened and never closed")
                .expected("a second `\"` at the end of the cell")
                .at(format!("line {}", self.quoted_since))
                .advice("write a quote inside a quoted cell twice: `\"\"`")
                .file(&self.path);
            return Err(std::io::Error::other(Error::from(error)));
        }
        Ok(count)
    }
}

fn record_too_long(line: u64) -> InputError {
    InputError::new("a record is too long for a table")
        .at(format!("line {line}"))
        .advice("check that every quote is closed; save long texts as files in a folder")
}

/// The line on which the record at a position starts.
fn line_of(position: Option<&csv::Position>, starts: &[u64]) -> u64 {
    let record = position.and_then(|position| usize::try_from(position.record()).ok());
    record.and_then(|record| starts.get(record)).copied().unwrap_or(0)
}

pub(super) fn csv_error(error: csv::Error, starts: &[u64]) -> Error {
    let line = |position: &Option<csv::Position>| line_of(position.as_ref(), starts);
    match error.into_kind() {
        csv::ErrorKind::Io(error) => match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) => read_error(error, Path::new("a table")),
        },
        csv::ErrorKind::Utf8 { pos, .. } => not_text(line(&pos)).into(),
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            InputError::new("a row and the header have different numbers of cells")
                .expected(format!("{expected_len} cells"))
                .found(format!("{len} cells"))
                .at(format!("line {}", line(&pos)))
                .advice("put cells that contain the separator in quotes")
                .into()
        }
        other => InputError::new("the table cannot be read")
            .found(format!("{other:?}"))
            .advice("save it again as CSV")
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read_table;

    fn read_file(name: &str, bytes: &[u8]) -> Result<TextTable> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        read_table(&path, &Budget::new(1 << 26))
    }

    fn read(bytes: &[u8]) -> Result<TextTable> {
        read_file("a.csv", bytes)
    }

    fn message(bytes: &[u8]) -> String {
        read(bytes).unwrap_err().to_string()
    }

    #[test]
    fn byte_order_mark_crlf_and_quotes_are_read() {
        let table = read(b"\xef\xbb\xbfa, b\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n,=cmd()\r\n").unwrap();
        assert_eq!(table.header, ["a", "b"]);
        assert_eq!(table.cells, [["1", "x, \"y\"\nz"], ["", "=cmd()"]]);
        assert_eq!(table.lines, [2, 5]);
        assert_eq!((table.column("b"), table.position(1)), (Some(1), "row 1 (line 5)".to_string()));
        assert_eq!(read_file("a.tsv", b"a\tb\n1\t2").unwrap().cells, [["1", "2"]]);
        assert!(read(b"a,b\n").unwrap().cells.is_empty());
    }

    #[test]
    fn an_index_of_pandas_is_named_id() {
        let table = read(b",a,b\n0,1,2\n7,3,4\n").unwrap();
        assert_eq!((table.header.join(" "), table.cells[1].join(" ")), ("id a b".into(), "7 3 4".into()));
        let error = message(b",a\n0,1\nx,2\n");
        assert!(
            error.contains("is not an index") && error.contains("line 3") && error.contains("index=False"),
            "{error}"
        );
        // With another `id` the column stays without a name.
        assert!(message(b",id\n0,1\n").contains("no name"));
    }

    #[test]
    fn bad_csv_is_refused_with_its_line() {
        for (bytes, what, position) in [
            (&b"a,b\n1,2\n3\n"[..], "2 cells", "line 3"),
            (b"a,b\n1,\xff\n", "UTF-8", "line 2"),
            (b"a,b\n1,2\n1,\0\n", "NUL", "line 3"),
            (b"a,a\n1,2\n", "same name", "header"),
            (b"a,\n1,2\n", "no name", "column 2"),
            (b"a,b\n1,\"x\n2,y\n", "never closed", "line 2"),
            (&[b"a\n".as_slice(), &vec![b'x'; LONGEST_LINE + 1]].concat(), "too long", "line 2"),
        ] {
            let error = message(bytes);
            assert!(error.contains(what) && error.contains(position) && error.contains("a.csv"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, text in "[a,\"\\n\\r{}:1]{1,60}") {
            let _ = read(&bytes);
            let _ = read(text.as_bytes());
        }
    }
}
