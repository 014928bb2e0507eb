//! Tables that are read record by record, in bounded memory: texts and images, with columns that describe them.
//!
//! A record that cannot be read does not end the reading: it comes out as [`Record::Corrupt`], with the reason, and counts.

mod arrow;
mod arrow_batch;
mod arrow_messages;
mod arrow_schema;
mod csv;
mod flatbuffer;
mod jsonl;
mod parquet;

use std::path::Path;

use super::format::Format;
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};

/// Maximum length of a record in bytes.
const LONGEST_RECORD: usize = 1 << 26;

/// A value of a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// Text, or a number or a boolean in decimal.
    Text(String),
    /// Bytes that are not declared as text.
    Bytes(Vec<u8>),
    /// A list of texts or numbers; an empty text where a value is missing.
    List(Vec<String>),
    /// Any other value: an object, a list of lists.
    Nested,
}

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellKind {
    /// Text, or unknown until it is read (a CSV file does not declare types).
    Text,
    /// Numbers.
    Number,
    /// Booleans.
    Bool,
    /// Bytes.
    Bytes,
    /// Lists of texts or numbers.
    List,
    /// Anything else; it is read as [`Cell::Nested`].
    Nested,
}

impl CellKind {
    /// The kind, for messages.
    pub fn name(self) -> &'static str {
        match self {
            CellKind::Text => "text",
            CellKind::Number => "numbers",
            CellKind::Bool => "booleans",
            CellKind::Bytes => "bytes",
            CellKind::List => "lists",
            CellKind::Nested => "nested values",
        }
    }
}

/// A column. A field of a structure has both names, joined by a dot: `image.bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name: unique in the table, and not empty.
    pub name: String,
    /// What it contains.
    pub kind: CellKind,
}

/// A record, or the reason why it cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// One cell per selected column.
    Cells(Vec<Cell>),
    /// The record cannot be read; the next one can.
    Corrupt(String),
}

/// Records of a table, read in order, in bounded memory.
pub trait RecordReader: Send {
    /// The columns.
    fn columns(&self) -> &[Column];
    /// The number of records, if the file states it.
    fn count(&self) -> Option<u64>;
    /// Selects the columns of the records that are read from now on, by index, in any order. All are selected at first.
    fn select(&mut self, columns: &[usize]);
    /// The next record; `None` at the end.
    fn read(&mut self) -> Result<Option<Record>>;
    /// Skips records, corrupt ones included. Returns how many there were, fewer only at the end.
    fn skip(&mut self, records: u64) -> Result<u64>;
}

/// Opens a table (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.arrow`, `.feather`) whose records are read one at a time.
pub fn open_records(path: &Path, budget: &Budget) -> Result<Box<dyn RecordReader>> {
    let format = Format::of(path)?;
    let reader = match format {
        Format::Csv { delimiter } => csv::open(path, delimiter, budget),
        Format::Jsonl => jsonl::open(path, budget),
        Format::Parquet => parquet::open(path, budget),
        Format::Arrow => arrow::open(path, budget),
        _ => Err(InputError::new("the file is not a table")
            .expected("a table as .csv, .tsv, .jsonl, .parquet, .arrow or .feather")
            .found(format.name())
            .advice("save the table as JSONL, one object per line")
            .into()),
    };
    reader.in_file(path)
}

/// Refuses columns without a name, or with the same name.
fn check_names(columns: &[Column]) -> Result<()> {
    let names = columns.iter().map(|column| column.name.clone()).collect();
    super::TextTable::new(names).map(drop)
}

/// The selection of all columns.
fn all(columns: &[Column]) -> Vec<usize> {
    (0..columns.len()).collect()
}

/// Text as a cell; the reason if it is not UTF-8.
fn text_cell(bytes: &[u8], column: &str) -> std::result::Result<Cell, String> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cell::Text(text.to_string())),
        Err(error) => Err(format!("column `{column}` is not UTF-8 text (byte {})", error.valid_up_to())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records of a file of this name and content.
    pub(super) fn records(name: &str, bytes: &[u8]) -> Result<(Vec<Column>, Vec<Record>)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let mut reader = open_records(&path, &Budget::new(1 << 28))?;
        let columns = reader.columns().to_vec();
        let mut records = Vec::new();
        while let Some(record) = reader.read().in_file(&path)? {
            records.push(record);
        }
        for from in 0..records.len() {
            // Skipping arrives where reading does.
            let mut reader = open_records(&path, &Budget::new(1 << 28))?;
            assert_eq!(reader.skip(from as u64).unwrap(), from as u64);
            assert_eq!(reader.read().unwrap().as_ref(), records.get(from), "{name} from {from}");
        }
        let mut reader = open_records(&path, &Budget::new(1 << 28))?;
        assert_eq!(reader.skip(u64::MAX).unwrap(), records.len() as u64);
        assert!(reader.count().is_none_or(|count| count == records.len() as u64));
        Ok((columns, records))
    }

    pub(super) fn text(text: &str) -> Cell {
        Cell::Text(text.to_string())
    }

    /// The records of the golden tables, as `tests/golden/records/make.py` writes them.
    fn expected() -> Vec<Record> {
        let list = |texts: &[&str]| Cell::List(texts.iter().map(|text| text.to_string()).collect());
        let (bytes, null, nested) = (|| Cell::Bytes(vec![0xff, 0]), || Cell::Null, || Cell::Nested);
        let rows = [
            ["a", "one", "1", "0.5", "true"],
            ["b", "", "-2", "1.5", "false"],
            ["c", "", "", "", ""],
            ["d", "a text of more than twelve bytes", "4", "-2", "true"],
            ["e", "żółw", "5", "1000000000", "true"],
        ];
        let mut lists = [
            [list(&["x", "y"]), list(&["1"]), bytes(), text("a.png"), text("cat")],
            [list(&[]), list(&["2", "3"]), null(), null(), text("dog")],
            [null(), list(&[]), null(), text("c"), text("cat")],
            [list(&["z", ""]), null(), bytes(), text("a.png"), null()],
            [list(&["x"]), list(&["4"]), null(), null(), text("dog")],
        ]
        .into_iter();
        let mut records = Vec::new();
        for (row, cells) in rows.iter().enumerate() {
            // An empty cell is null, but for the text of the third record.
            let is_null = |column: usize, cell: &str| cell.is_empty() && (row, column) != (2, 1);
            let cell = |(column, cell): (usize, &&str)| if is_null(column, cell) { Cell::Null } else { text(cell) };
            let plain = cells.iter().enumerate().map(cell);
            let rest = [nested(), null(), if row == 2 { null() } else { nested() }];
            records.push(Record::Cells(plain.chain(lists.next().unwrap()).chain(rest).collect()));
        }
        records
    }

    #[test]
    fn binary_formats_give_the_same_records() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/records");
        for name in ["lz4.feather", "zstd.feather", "stream.arrow", "table.parquet"] {
            let (columns, mut read) = records(name, &std::fs::read(golden.join(name)).unwrap()).unwrap();
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).take(11).collect();
            let image = ["image.bytes", "image.path"];
            assert_eq!(
                names,
                [&["id", "text", "n", "score", "yes", "tags", "ids"][..], &image, &["class", "day"]].concat()
            );
            let kinds: Vec<CellKind> = columns.iter().map(|column| column.kind).collect();
            assert_eq!(
                kinds[1..9],
                [
                    CellKind::Text,
                    CellKind::Number,
                    CellKind::Number,
                    CellKind::Bool,
                    CellKind::List,
                    CellKind::List,
                    CellKind::Bytes,
                    CellKind::Text
                ]
            );
            // What is nested or of an unknown type is only passed over, and formats differ in where it is null.
            let expected = expected();
            for record in &mut read {
                let Record::Cells(cells) = record else { panic!("{name}: {record:?}") };
                cells.truncate(10);
            }
            for (read, expected) in read.iter().zip(&expected) {
                let (Record::Cells(read), Record::Cells(expected)) = (read, expected) else { panic!("{name}") };
                assert_eq!(read[..], expected[..10], "{name}");
            }
            assert_eq!(read.len(), expected.len());
        }
    }

    #[test]
    fn columns_of_binary_formats_are_selected() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/records");
        for name in ["lz4.feather", "zstd.feather", "stream.arrow", "table.parquet"] {
            let mut reader = open_records(&golden.join(name), &Budget::new(1 << 24)).unwrap();
            reader.read().unwrap();
            reader.select(&[9, 1]);
            assert_eq!(reader.skip(2).unwrap(), 2);
            let cells = Record::Cells(vec![Cell::Null, text("a text of more than twelve bytes")]);
            assert_eq!(reader.read().unwrap(), Some(cells), "{name}");
            assert_eq!(reader.count(), Some(5));
            let error = open_records(&golden.join(name), &Budget::new(10)).and_then(|mut reader| reader.read());
            assert!(matches!(error, Err(crate::error::Error::Memory { .. })), "{name}");
        }
    }

    #[test]
    fn damaged_binary_tables_never_panic() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/records");
        for name in ["lz4.feather", "zstd.feather", "stream.arrow", "table.parquet"] {
            let bytes = std::fs::read(golden.join(name)).unwrap();
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join(name);
            let mut random = 12345u64;
            for _ in 0..1500 {
                let mut damaged = bytes.clone();
                for _ in 0..3 {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let at = (random >> 33) as usize % damaged.len();
                    damaged[at] = (random >> 20) as u8;
                }
                damaged.truncate(bytes.len() - (random >> 60) as usize % 7 * 50);
                std::fs::write(&path, &damaged).unwrap();
                let Ok(mut reader) = open_records(&path, &Budget::new(1 << 24)) else { continue };
                for _ in 0..100 {
                    match reader.read() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(error) => {
                            assert!(error.is_input(), "{error}");
                            break;
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn arrays_are_not_tables() {
        let error = records("x.npy", b"\x93NUMPY").unwrap_err().to_string();
        assert!(error.contains("not a table") && error.contains("x.npy"), "{error}");
    }
}
