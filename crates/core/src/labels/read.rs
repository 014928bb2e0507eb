//! Annotations and pairs from tables and arrays, and back to CSV.

use std::collections::BTreeMap;

use super::{Annotations, Concept, Label, Pair, PairSet};
use crate::error::{Error, InputError, Result};
use crate::input::TextTable;
use crate::store::csv_text;

/// The names that a first column of sample ids may have, in any case.
const ID_COLUMNS: [&str; 3] = ["sample", "id", "image"];

/// Where a cell is: people count lines in an editor, so the header is line 1.
pub(super) fn cell(row: usize, column: &str) -> String {
    format!("row {row} (line {} of a CSV file), column `{column}`", row + 2)
}

/// The place of a column that the table must have, its name in any case.
pub(super) fn column(table: &TextTable, name: &str) -> Result<usize> {
    table.header.iter().position(|other| other.trim().eq_ignore_ascii_case(name)).ok_or_else(|| {
        InputError::new(format!("the table has no column `{name}`"))
            .expected(format!("a column `{name}`"))
            .found(table.header.join(", "))
            .at("the header")
            .into()
    })
}

/// A cell by place; a row that is too short is refused.
pub(super) fn word(table: &TextTable, row: usize, place: usize) -> Result<&str> {
    table.cells.get(row).and_then(|cells| cells.get(place)).map(|text| text.trim()).ok_or_else(|| {
        InputError::new("a row of the table is too short")
            .expected(format!("{} cells", table.header.len()))
            .found(format!("{} cells", table.cells.get(row).map_or(0, Vec::len)))
            .at(format!("row {row} (line {} of a CSV file)", row + 2))
            .into()
    })
}

impl Annotations {
    /// Reads a table whose header names the concepts. A first column `sample`, `id` or `image` holds unique ids.
    ///
    /// Cells, in any case: `1 true yes t y` for yes, `0 false no f n` for no; an empty cell, `? na nan -1 unknown` for
    /// not annotated.
    pub fn from_table(table: &TextTable) -> Result<(Annotations, Option<Vec<String>>)> {
        let is_id = |name: &String| ID_COLUMNS.iter().any(|id| name.trim().eq_ignore_ascii_case(id));
        let first = usize::from(table.header.first().is_some_and(is_id));
        let names: Vec<String> = table.header.iter().skip(first).map(|name| name.trim().to_string()).collect();
        if let Some(place) = names.iter().position(String::is_empty) {
            return Err(InputError::new("a concept has no name")
                .expected("a header with the name of a concept above every column")
                .at(format!("the header, column {}", place + first + 1))
                .into());
        }
        if names.is_empty() {
            return Err(InputError::new("the table names no concept")
                .expected("a header with the name of a concept above every column")
                .found(if first == 1 { format!("only `{}`", table.header[0]) } else { "no columns".to_string() })
                .at("the header")
                .into());
        }
        let ids = (first == 1).then(|| unique_ids(table)).transpose()?;
        let mut cells = Vec::with_capacity(table.cells.len().saturating_mul(names.len()));
        for (row, found) in table.cells.iter().enumerate() {
            if found.len() != table.header.len() {
                return Err(InputError::new("a row of the labels has the wrong length")
                    .expected(format!("{} cells, as in the header", table.header.len()))
                    .found(format!("{} cells", found.len()))
                    .at(format!("row {row} (line {} of a CSV file)", row + 2))
                    .into());
            }
            for (text, name) in found[first..].iter().zip(&names) {
                cells.push(parse_label(text).ok_or_else(|| {
                    InputError::new("a label is neither yes, no nor unknown")
                        .expected("1 or 0, true or false, yes or no; empty, `?`, `na` or `-1` where nobody looked")
                        .found(format!("`{}`", text.trim()))
                        .at(cell(row, name))
                })?);
            }
        }
        let width = names.len();
        let labels = Annotations::new(names, table.cells.len(), |row, concept| cells[row * width + concept])?;
        Ok((labels, ids))
    }

    /// Reads a row-major array of 1 (yes), 0 (no) and −1 or NaN (not annotated), `width` concepts wide.
    ///
    /// Without names the concepts are `concept_0`, `concept_1` and so on.
    pub fn from_array(values: &[f32], width: usize, names: Option<Vec<String>>) -> Result<Annotations> {
        if (width == 0 && !values.is_empty()) || (width > 0 && !values.len().is_multiple_of(width)) {
            return Err(InputError::new("labels do not fill whole rows")
                .expected(format!("a multiple of {width}"))
                .found(format!("{} values", values.len()))
                .into());
        }
        let names = names.unwrap_or_else(|| (0..width).map(|place| format!("concept_{place}")).collect());
        if names.len() != width {
            return Err(InputError::new("labels have another number of columns than names")
                .expected(format!("{width} names, one per column"))
                .found(format!("{} names", names.len()))
                .into());
        }
        let wrong = |value: f32| !(value.is_nan() || value == 0.0 || value == 1.0 || value == -1.0);
        if let Some(place) = values.iter().position(|&value| wrong(value)) {
            return Err(InputError::new("a label is neither yes, no nor unknown")
                .expected("1 for yes, 0 for no, -1 or NaN where nobody looked")
                .found(values[place])
                .at(format!("row {}, column {} (`{}`)", place / width, place % width, names[place % width]))
                .advice("scores must be cut at a threshold first")
                .into());
        }
        let rows = values.len().checked_div(width).unwrap_or(0);
        Annotations::new(names, rows, |row, concept| match values[row * width + concept] {
            1.0 => Label::Yes,
            0.0 => Label::No,
            _ => Label::Unknown,
        })
    }

    /// The table that [`Annotations::from_table`] reads back: 1, 0 and empty.
    ///
    /// Without ids there is a column of them only where the first concept would otherwise be taken for one.
    pub fn to_csv(&self, ids: Option<&[String]>) -> Result<String> {
        if let Some(ids) = ids.filter(|ids| ids.len() != self.rows()) {
            return Err(Error::Bug(format!("{} ids for {} rows of labels", ids.len(), self.rows())));
        }
        let confusing =
            self.names().first().is_some_and(|name| ID_COLUMNS.iter().any(|id| name.eq_ignore_ascii_case(id)));
        let with_ids = ids.is_some() || confusing;
        let header = with_ids.then(|| "sample".to_string()).into_iter().chain(self.names().to_vec());
        let mut lines = vec![header.collect::<Vec<String>>()];
        for row in 0..self.rows() {
            let id = with_ids.then(|| ids.map_or_else(|| row.to_string(), |ids| ids[row].clone()));
            let cells = (0..self.concepts()).map(|concept| match self.label(row, Concept(concept as u32)) {
                Label::Yes => "1".to_string(),
                Label::No => "0".to_string(),
                Label::Unknown => String::new(),
            });
            lines.push(id.into_iter().chain(cells).collect());
        }
        csv_text(lines)
    }
}

impl PairSet {
    /// Reads a table with columns `before`, `after`, `added`, `removed`; others are ignored.
    ///
    /// Rows are counted from 0. A concept is given by its name, if there are names, or by its number from 0; a name
    /// that looks like a number is a name first. Either of `added` and `removed` may be empty or not be there at all.
    pub fn from_table(table: &TextTable, names: Option<&[String]>) -> Result<PairSet> {
        let sides = [("before", column(table, "before")?), ("after", column(table, "after")?)];
        let changes = [("added", column(table, "added").ok()), ("removed", column(table, "removed").ok())];
        if changes.iter().all(|(_, place)| place.is_none()) {
            column(table, "added")?;
        }
        let by_name: Option<BTreeMap<&str, u32>> =
            names.map(|names| names.iter().enumerate().map(|(place, name)| (name.trim(), place as u32)).collect());
        let row_number = |row: usize, (name, place): (&str, usize)| -> Result<usize> {
            let text = word(table, row, place)?;
            text.parse().map_err(|_| {
                InputError::new("a pair does not say which row it means")
                    .expected("a row number, counted from 0")
                    .found(format!("`{text}`"))
                    .at(cell(row, name))
                    .into()
            })
        };
        let concept = |row: usize, (name, place): (&str, Option<usize>)| -> Result<Option<Concept>> {
            let Some(place) = place else { return Ok(None) };
            let text = word(table, row, place)?;
            if text.is_empty() {
                return Ok(None);
            }
            if let Some(&place) = by_name.as_ref().and_then(|by_name| by_name.get(text)) {
                return Ok(Some(Concept(place)));
            }
            let number = text.parse::<u32>().ok();
            if let Some(number) = number.filter(|&number| names.is_none_or(|names| (number as usize) < names.len())) {
                return Ok(Some(Concept(number)));
            }
            let expected = match names {
                None => "the number of a concept, counted from 0".to_string(),
                Some(names) => format!("the name of a concept of the labels, or its number below {}", names.len()),
            };
            Err(InputError::new("a pair names a concept that the labels do not have")
                .expected(expected)
                .found(format!("`{text}`"))
                .at(cell(row, name))
                .advice("give the labels of the same data, or concepts by number")
                .into())
        };
        let mut pairs = Vec::with_capacity(table.cells.len());
        for row in 0..table.cells.len() {
            let (before, after) = (row_number(row, sides[0])?, row_number(row, sides[1])?);
            let (added, removed) = (concept(row, changes[0])?, concept(row, changes[1])?);
            let wrong = match (added, removed) {
                (None, None) => Some("a pair changes nothing"),
                (Some(added), Some(removed)) if added == removed => Some("a pair adds what it removes"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(InputError::new(wrong)
                    .expected("a concept in `added`, in `removed`, or two different ones in both")
                    .at(cell(row, "added"))
                    .into());
            }
            pairs.push(Pair { before, after, added, removed });
        }
        Ok(PairSet { pairs })
    }

    /// The table that [`PairSet::from_table`] reads back.
    pub fn to_csv(&self, names: Option<&[String]>) -> Result<String> {
        let mut lines = vec![["before", "after", "added", "removed"].map(String::from).to_vec()];
        for pair in &self.pairs {
            let concept = |concept: Option<Concept>| {
                let name = |concept: Concept| names.and_then(|names| names.get(concept.0 as usize)).cloned();
                concept.map_or_else(String::new, |concept| name(concept).unwrap_or_else(|| concept.0.to_string()))
            };
            let rows = [pair.before.to_string(), pair.after.to_string()];
            lines.push(rows.into_iter().chain([concept(pair.added), concept(pair.removed)]).collect());
        }
        csv_text(lines)
    }
}

fn parse_label(text: &str) -> Option<Label> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "1.0" | "true" | "yes" | "t" | "y" => Some(Label::Yes),
        "0" | "0.0" | "false" | "no" | "f" | "n" => Some(Label::No),
        "" | "?" | "na" | "nan" | "-1" | "-1.0" | "unknown" => Some(Label::Unknown),
        _ => None,
    }
}

fn unique_ids(table: &TextTable) -> Result<Vec<String>> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = Vec::with_capacity(table.cells.len());
    for row in 0..table.cells.len() {
        let id = word(table, row, 0)?;
        let name = &table.header[0];
        if id.is_empty() {
            return Err(InputError::new("a sample has no id").expected("an id").at(cell(row, name)).into());
        }
        if let Some(earlier) = seen.insert(id, row) {
            return Err(InputError::new("two rows have the same id")
                .expected("every id once")
                .found(format!("`{id}`, as in row {earlier}"))
                .at(cell(row, name))
                .into());
        }
        ids.push(id.to_string());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> TextTable {
        let mut lines = text.lines().map(|line| line.split(',').map(String::from).collect::<Vec<_>>());
        TextTable { header: lines.next().unwrap_or_default(), cells: lines.collect(), ..TextTable::default() }
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn every_spelling_of_a_label() {
        let text = "Image,bird,red\na,1,0\nb,TRUE,False\nc,Yes,no\nd,t,F\ne,y,n\nf,,?\ng,NA,nan\nh,-1,Unknown\n";
        let (labels, ids) = Annotations::from_table(&table(text)).unwrap();
        assert_eq!(ids.unwrap()[7], "h");
        assert_eq!(labels.names(), ["bird", "red"]);
        for row in 0..5 {
            assert_eq!(labels.label(row, Concept(0)), Label::Yes, "row {row}");
            assert_eq!(labels.label(row, Concept(1)), Label::No, "row {row}");
        }
        for row in 5..8 {
            assert_eq!(labels.label(row, Concept(0)), Label::Unknown, "row {row}");
            assert_eq!(labels.label(row, Concept(1)), Label::Unknown, "row {row}");
        }
    }

    #[test]
    fn only_the_first_column_holds_ids() {
        let (labels, ids) = Annotations::from_table(&table("bird,sample\n1,0\n")).unwrap();
        assert_eq!((labels.concepts(), ids), (2, None));
    }

    #[test]
    fn wrong_tables_say_where() {
        let error = |text: &str| Annotations::from_table(&table(text)).unwrap_err().to_string();
        let text = error("id,bird,red\na,1,0\nb,1,2\n");
        assert!(text.contains("row 1 (line 3 of a CSV file), column `red`") && text.contains("`2`"), "{text}");
        let text = error("id,bird\na,1\na,0\n");
        assert!(text.contains("`a`, as in row 0") && text.contains("row 1"), "{text}");
        assert!(error("id,bird\n,1\n").contains("no id"));
        assert!(error("id,bird\na,1,1\n").contains("3 cells"));
        assert!(error("id,bird,bird\na,1,1\n").contains("same name"));
        assert!(error("bird,\n1,1\n").contains("no name"));
    }

    #[test]
    fn a_table_without_rows_is_fine() {
        let (labels, ids) = Annotations::from_table(&table("id,bird\n")).unwrap();
        assert_eq!((labels.rows(), labels.concepts(), ids.unwrap().len()), (0, 1, 0));
        let error = Annotations::from_table(&TextTable::default()).unwrap_err().to_string();
        assert!(error.contains("no concept"), "{error}");
    }

    #[test]
    fn arrays_and_their_errors() {
        let labels = Annotations::from_array(&[1.0, 0.0, -1.0, f32::NAN], 2, None).unwrap();
        assert_eq!(labels.names(), ["concept_0", "concept_1"]);
        assert_eq!(labels.label(0, Concept(0)), Label::Yes);
        assert_eq!(labels.label(0, Concept(1)), Label::No);
        assert_eq!(labels.label(1, Concept(0)), Label::Unknown);
        assert_eq!(labels.label(1, Concept(1)), Label::Unknown);
        let error = Annotations::from_array(&[1.0, 0.0, 0.5, 0.0], 2, None).unwrap_err().to_string();
        assert!(error.contains("row 1, column 0") && error.contains("0.5"), "{error}");
        assert!(Annotations::from_array(&[1.0], 2, None).is_err());
        assert!(Annotations::from_array(&[1.0], 0, None).is_err());
        assert!(Annotations::from_array(&[1.0], 1, Some(names(&["a", "b"]))).is_err());
        assert_eq!(Annotations::from_array(&[], 0, None).unwrap().rows(), 0);
    }

    #[test]
    fn labels_come_back_from_csv() {
        let cells = [Label::Yes, Label::No, Label::Unknown];
        for first in ["a, quoted", "Image"] {
            let labels = Annotations::new(names(&[first, "b"]), 3, |row, concept| cells[(row + concept) % 3]).unwrap();
            let text = labels.to_csv(None).unwrap();
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let header = reader.headers().unwrap().iter().map(String::from).collect();
            let cells = reader.records().map(|row| row.unwrap().iter().map(String::from).collect()).collect();
            let (again, ids) = Annotations::from_table(&TextTable { header, cells, ..TextTable::default() }).unwrap();
            assert_eq!(again, labels);
            assert_eq!(ids.is_some(), first == "Image");
        }
    }

    #[test]
    fn pairs_by_name_and_by_number() {
        let concepts = names(&["bird", "red", "0"]);
        let text = "note,before,after,added,removed\nx,0,1,red,\ny,2,3,1,bird\nz,4,5,,0\n";
        let pairs = PairSet::from_table(&table(text), Some(&concepts)).unwrap();
        let pair = |place: usize| (pairs.pairs[place].added, pairs.pairs[place].removed);
        assert_eq!(pair(0), (Some(Concept(1)), None));
        assert_eq!(pair(1), (Some(Concept(1)), Some(Concept(0))));
        // `0` is the name of concept 2 before it is a number.
        assert_eq!(pair(2), (None, Some(Concept(2))));
        let text = pairs.to_csv(Some(&concepts)).unwrap();
        assert_eq!(PairSet::from_table(&table(&text), Some(&concepts)).unwrap(), pairs);
        let only = PairSet::from_table(&table("after,before,removed\n1,0,7\n"), None).unwrap();
        assert_eq!(only.pairs[0], Pair { before: 0, after: 1, added: None, removed: Some(Concept(7)) });
    }

    #[test]
    fn wrong_pairs_say_where() {
        let concepts = names(&["bird", "red"]);
        let error = |text: &str| PairSet::from_table(&table(text), Some(&concepts)).unwrap_err().to_string();
        assert!(error("before,added\n0,bird\n").contains("`after`"));
        assert!(error("before,after\n0,1\n").contains("`added`"));
        for (text, part) in [
            ("before,after,added,removed\n0,1,bird,\n0,-1,bird,\n", "line 3"),
            ("before,after,added,removed\n0,1,fish,\n", "`fish`"),
            ("before,after,added,removed\n0,1,2,\n", "`2`"),
            ("before,after,added,removed\n0,1,,\n", "changes nothing"),
            ("before,after,added,removed\n0,1,red,red\n", "adds what it removes"),
            ("before,after,added,removed\n0,1\n", "too short"),
        ] {
            let found = error(text);
            assert!(found.contains(part) && found.contains("line "), "{found}");
        }
    }
}
