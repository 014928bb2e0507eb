//! Records of a CSV file.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use ::csv::{ByteRecord, Reader};

use super::{Cell, CellKind, Column, LONGEST_RECORD, Record, RecordReader, all, check_names, text_cell};
use crate::context::{Budget, Reservation};
use crate::error::{InFile, Result};
use crate::input::TextTable;
use crate::input::csv::{CheckedBytes, csv_error};
use crate::input::file::Regular;

struct CsvRecords {
    reader: Reader<CheckedBytes<BufReader<File>>>,
    columns: Vec<Column>,
    selected: Vec<usize>,
    record: ByteRecord,
    /// The largest record so far.
    memory: Reservation,
    path: PathBuf,
}

/// Opens a CSV file.
pub(super) fn open(path: &Path, delimiter: u8, budget: &Budget) -> Result<Box<dyn RecordReader>> {
    let file = BufReader::with_capacity(1 << 16, Regular::open(path)?.file);
    let checked = CheckedBytes::for_records(file, delimiter, path.to_path_buf(), LONGEST_RECORD);
    let mut settings = ::csv::ReaderBuilder::new();
    settings.delimiter(delimiter).trim(::csv::Trim::Headers).flexible(true);
    let mut reader = settings.from_reader(checked);
    let mut header: Vec<String> = match reader.headers() {
        Ok(header) => header.iter().map(str::to_string).collect(),
        Err(error) => return Err(csv_error(error, &[1])),
    };
    TextTable::name_index(&mut header);
    let columns: Vec<Column> = header.into_iter().map(|name| Column { name, kind: CellKind::Text }).collect();
    check_names(&columns)?;
    let selected = all(&columns);
    let memory = budget.reserve(0, "a record of a table")?;
    Ok(Box::new(CsvRecords { reader, columns, selected, record: ByteRecord::new(), memory, path: path.to_path_buf() }))
}

impl CsvRecords {
    /// Reads the next record into `self.record`; false at the end.
    fn advance(&mut self) -> Result<bool> {
        let path = &self.path;
        let more = self.reader.read_byte_record(&mut self.record).map_err(|error| csv_error(error, &[]));
        let more = more.in_file(path)?;
        let length = self.record.as_slice().len();
        // The reader keeps what it parses, and the cells are copies.
        let bytes = 2 * length as u64;
        if bytes > self.memory.bytes() {
            self.memory.resize(bytes, "a record of a table")?;
        }
        Ok(more)
    }
}

impl RecordReader for CsvRecords {
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
        if !self.advance()? {
            return Ok(None);
        }
        if self.record.len() != self.columns.len() {
            let reason = format!("{} cells instead of {}", self.record.len(), self.columns.len());
            return Ok(Some(Record::Corrupt(reason)));
        }
        let cell = |&index: &usize| -> std::result::Result<Cell, String> {
            match (self.record.get(index), self.columns.get(index)) {
                (Some(bytes), Some(column)) => text_cell(bytes, &column.name),
                _ => Ok(Cell::Null),
            }
        };
        let cells = self.selected.iter().map(cell).collect::<std::result::Result<_, String>>();
        Ok(Some(cells.map_or_else(Record::Corrupt, Record::Cells)))
    }

    fn skip(&mut self, records: u64) -> Result<u64> {
        let mut skipped = 0;
        while skipped < records && self.advance()? {
            skipped += 1;
        }
        Ok(skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{records, text};
    use super::*;

    #[test]
    fn damaged_records_are_reported_and_the_next_one_is_read() {
        let (columns, read) =
            records("a.csv", b"\xef\xbb\xbfid,text\r\na,one\r\nb\r\n\nc,\"\xff\"\n\"d\",\"x,\"\"y\"\"\nz\"\n").unwrap();
        assert_eq!(columns[1], Column { name: "text".into(), kind: CellKind::Text });
        let corrupt = |record: &Record| matches!(record, Record::Corrupt(_));
        assert_eq!(read[0], Record::Cells(vec![text("a"), text("one")]));
        assert_eq!(read[1], Record::Corrupt("1 cells instead of 2".into()));
        assert!(corrupt(&read[2]) && format!("{:?}", read[2]).contains("column `text` is not UTF-8"));
        assert_eq!(read[3], Record::Cells(vec![text("d"), text("x,\"y\"\nz")]));
        assert_eq!(read.len(), 4);
    }

    #[test]
    fn columns_are_selected_in_any_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.tsv");
        std::fs::write(&path, "a\tb\tc\n1\t2\t\n").unwrap();
        let mut reader = super::super::open_records(&path, &Budget::new(1 << 20)).unwrap();
        reader.select(&[2, 0]);
        assert_eq!(reader.read().unwrap(), Some(Record::Cells(vec![text(""), text("1")])));
        assert_eq!(reader.read().unwrap(), None);
    }

    #[test]
    fn a_file_that_is_no_table_is_refused() {
        for (bytes, what) in [
            (&b"a,a\n1,2\n"[..], "same name"),
            (b"a,,b\n1,2,3\n", "no name"),
            (b"a,b\n1,\"2\n3,4\n", "never closed"),
            (b"a\0\nb\0\n", "NUL"),
        ] {
            let error = records("a.csv", bytes).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("a.csv"), "{error}");
        }
    }
}
