//! Tables of text cells with a header, and the checks that all their readers share.

use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// Maximum length of a line in bytes.
pub(super) const LONGEST_LINE: usize = 1 << 20;

/// The name given to an index without a name.
const INDEX: &str = "id";

/// Bytes per cell besides its text: the `String` and the overhead of the allocator.
const CELL_BYTES: u64 = 56;

/// A table of text cells with a header.
#[derive(Debug, Default)]
pub struct TextTable {
    /// The names of the columns: unique, and none is empty.
    pub header: Vec<String>,
    /// The cells, row by row; every row has one cell per column.
    pub cells: Vec<Vec<String>>,
    /// The line of each row in the file, counted from 1; empty when the file has no lines (parquet).
    pub lines: Vec<u64>,
    /// The memory reservations of the cells; keep them as long as the cells.
    pub memory: Vec<Reservation>,
}

impl TextTable {
    /// An empty table under a checked header.
    pub(super) fn new(header: Vec<String>) -> Result<TextTable> {
        let mut sorted: Vec<&String> = header.iter().collect();
        sorted.sort();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InputError::new("two columns have the same name")
                .expected("unique names")
                .found(twice[0].escape_debug())
                .at("the header")
                .advice("rename one of them")
                .into());
        }
        if let Some(column) = header.iter().position(|name| name.trim().is_empty()) {
            return Err(InputError::new("a column has no name")
                .expected("a name for every column in the first line")
                .at(format!("the header, column {} of {}", column + 1, header.len()))
                .advice("add the name, or remove the extra separator")
                .into());
        }
        Ok(TextTable { header, cells: Vec::new(), lines: Vec::new(), memory: Vec::new() })
    }

    /// Names a first column without a name, as pandas writes the index of a table, `id`. Returns whether it did.
    pub(super) fn name_index(header: &mut [String]) -> bool {
        let is_index = header.len() > 1 && header[0].trim().is_empty() && !header.iter().any(|name| name == INDEX);
        if is_index {
            header[0] = INDEX.into();
        }
        is_index
    }

    /// Refuses a column without a name that is not an index: one with a cell that is not a whole number.
    pub(super) fn check_index(&self) -> Result<()> {
        let is_number = |cells: &Vec<String>| cells.first().is_some_and(|cell| cell.trim().parse::<u64>().is_ok());
        let Some(row) = self.cells.iter().position(|cells| !is_number(cells)) else { return Ok(()) };
        Err(InputError::new("the first column has no name and is not an index")
            .expected("a name in the header, or a whole number in every row, as pandas writes an index")
            .found(self.cells[row].first().map_or(String::new(), |cell| format!("`{}`", cell.escape_debug())))
            .at(self.position(row))
            .advice("name the column `id`, or write the table with index=False")
            .into())
    }

    /// The index of a column.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.header.iter().position(|other| other == name)
    }

    /// The position of a row for messages: `row 1 (line 3)`. Rows are counted from 0, lines from 1.
    pub fn position(&self, row: usize) -> String {
        self.lines.get(row).map_or_else(|| format!("row {row}"), |line| format!("row {row} (line {line})"))
    }

    /// Adds a row. `pending` counts bytes that are not reserved yet; they are reserved about a megabyte at a time.
    pub(super) fn push(&mut self, cells: Vec<String>, pending: &mut u64, budget: &Budget) -> Result<()> {
        *pending += 24 + cells.iter().map(|cell| CELL_BYTES + cell.len() as u64).sum::<u64>();
        self.cells.push(cells);
        if *pending > 1 << 20 { self.reserve(pending, budget) } else { Ok(()) }
    }

    /// Reserves the pending bytes.
    pub(super) fn reserve(&mut self, pending: &mut u64, budget: &Budget) -> Result<()> {
        self.memory.push(budget.reserve(*pending, "the cells of a table")?);
        *pending = 0;
        Ok(())
    }
}

pub(super) fn too_long(line: u64) -> InputError {
    InputError::new("a line is too long for a table")
        .expected(format!("at most {LONGEST_LINE} bytes"))
        .at(format!("line {line}"))
        .advice("check that this is a table; arrays are read as .npy, .npz, .safetensors or .parquet")
}

pub(super) fn not_text(line: u64) -> InputError {
    InputError::new("the table is not UTF-8 text")
        .expected("UTF-8")
        .at(format!("line {line}"))
        .advice("save it as UTF-8")
}

pub(super) fn nul(line: u64) -> InputError {
    InputError::new("the table contains a NUL byte")
        .expected("UTF-8 text")
        .at(format!("line {line}"))
        .advice("save it as UTF-8; NUL bytes are typical of UTF-16")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read_table;

    #[test]
    fn cells_are_reserved_in_the_budget() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.csv");
        std::fs::write(&path, "a\n".to_string() + &"1\n".repeat(1000)).unwrap();
        assert!(read_table(&path, &Budget::new(20_000)).is_err());
        let budget = Budget::new(200_000);
        let table = read_table(&path, &budget).unwrap();
        assert!(budget.left() < 200_000);
        drop(table);
        assert_eq!(budget.left(), 200_000);
    }
}
