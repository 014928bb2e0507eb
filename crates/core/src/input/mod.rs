//! The gate: the only code that parses foreign bytes.

use std::path::Path;

use crate::budget::Budget;
use crate::error::{Complaint, Result};

/// A table of words: a header and rows of the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextTable {
    /// The names of the columns.
    pub header: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<String>>,
}

/// Reads a table of words.
pub fn read_table(path: &Path, _budget: &Budget) -> Result<TextTable> {
    let wrong = |error: csv::Error| Complaint::new("this is not a table").found(error).file(path);
    let mut reader = csv::Reader::from_path(path).map_err(wrong)?;
    let header = reader.headers().map_err(wrong)?.iter().map(String::from).collect();
    let row = |record: csv::Result<csv::StringRecord>| Ok(record.map_err(wrong)?.iter().map(String::from).collect());
    let cells = reader.records().map(row).collect::<Result<_>>()?;
    Ok(TextTable { header, cells })
}
