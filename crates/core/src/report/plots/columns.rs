//! Finds the score and label columns of a result's tables.

use super::super::words::tidy;
use crate::results::{Cells, Interval, Stored, Table};

/// The table by concept or, for synthetic data, by true feature.
pub fn concept_table(stored: &Stored) -> Option<&Table> {
    let scores = &stored.result.scores;
    scores.table("concept").or_else(|| scores.table("feature"))
}

/// The score column of a table: one named like a headline number, else one with a common name, else the first with
/// numbers.
pub fn score_column<'a>(table: &'a Table, keys: &[String]) -> Option<(&'a str, &'a Cells)> {
    let common = ["f1", "delta", "score"];
    let names = keys.iter().map(String::as_str).chain(common);
    let find = |key: &str| table.columns.iter().find(|(name, _)| name == key);
    let column = names.filter_map(find).find(|(_, cells)| matches!(cells, Cells::Number(_) | Cells::Whole(_)));
    let column = column.or_else(|| table.columns.iter().find(|(_, cells)| matches!(cells, Cells::Number(_))));
    column.map(|(name, cells)| (name.as_str(), cells))
}

/// The interval of a row's score, if the table has one.
pub fn row_interval(table: &Table, row: usize) -> Option<Interval> {
    let number = |name: &str| table.column(name)?.number(row).filter(|value| value.is_finite());
    Some(Interval { low: number("low")?, high: number("high")? })
}

/// The column with the names of the rows.
pub fn label_column(table: &Table) -> Option<&[String]> {
    let is_text = |cells: &&Cells| matches!(cells, Cells::Text(_));
    let named = ["name", table.axis.as_str()].iter().find_map(|name| table.column(name).filter(is_text));
    match named.or_else(|| table.columns.iter().map(|(_, cells)| cells).find(is_text)) {
        Some(Cells::Text(names)) => Some(names),
        _ => None,
    }
}

/// The name of a row, or its number.
pub fn label(table: &Table, row: usize) -> String {
    let named = label_column(table).and_then(|names| names.get(row));
    named.map_or_else(|| format!("{} {row}", tidy(&table.axis)), |name| tidy(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::main_rows;

    #[test]
    fn rows_of_the_first_strategy_are_shown() {
        let table = Table::new("concept")
            .words("strategy", ["a", "a", "b", "b"])
            .words("name", ["wing", "beak", "wing", "beak"])
            .numbers("f1", [0.1, 0.2, 0.3, 0.4].map(Some))
            .numbers("delta_stay", [None; 4]);
        assert_eq!(main_rows(&table), [0, 1]);
        assert_eq!(label(&table, 1), "beak");
        assert_eq!(score_column(&table, &[]).unwrap().0, "f1");
        assert_eq!(score_column(&table, &["delta_stay".into()]).unwrap().0, "delta_stay");
        assert_eq!(label(&Table::new("feature").numbers("f1", [None]), 0), "feature 0");
    }
}
