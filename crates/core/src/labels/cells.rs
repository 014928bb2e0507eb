//! Columns and cells of tables, with errors that state their position.

use crate::error::{InputError, Result};
use crate::input::TextTable;

/// The position of a cell for messages.
pub(super) fn cell(table: &TextTable, row: usize, column: &str) -> String {
    format!("{}, column `{column}`", table.position(row))
}

/// The index of a column that the table must have. Case and spaces of its name do not matter.
pub(super) fn column(table: &TextTable, name: &str) -> Result<usize> {
    table.header.iter().position(|other| other.trim().eq_ignore_ascii_case(name)).ok_or_else(|| {
        InputError::new(format!("the table has no column `{name}`"))
            .expected(format!("a column `{name}`"))
            .found(table.header.join(", "))
            .at("the header")
            .advice("add or rename the column")
            .into()
    })
}

/// The text of a cell, trimmed.
pub(super) fn text(table: &TextTable, row: usize, column: usize) -> Result<&str> {
    table.cells.get(row).and_then(|cells| cells.get(column)).map(|text| text.trim()).ok_or_else(|| {
        InputError::new("a row of the table is too short")
            .expected(format!("{} cells", table.header.len()))
            .found(format!("{} cells", table.cells.get(row).map_or(0, Vec::len)))
            .at(table.position(row))
            .advice("add the missing cells")
            .into()
    })
}

/// A table from lines of comma-separated cells, for tests.
#[cfg(test)]
pub(super) fn test_table(text: &str) -> TextTable {
    let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
    let (header, cells) = (lines.next().unwrap_or_default(), lines.collect::<Vec<_>>());
    let lines = (2..).take(cells.len()).collect();
    TextTable { header, cells, lines, ..TextTable::default() }
}
