//! Annotations from tables and arrays, and back to CSV.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::cells::{cell, text};
use super::{Annotations, Concept, Label};
use crate::error::{Error, InputError, Result};
use crate::input::TextTable;
use crate::store::csv_text;

/// Names of a first column of sample ids. Upper and lower case do not matter. pandas calls an index that it reads back
/// `Unnamed: 0`.
const ID_COLUMNS: [&str; 4] = ["sample", "id", "image", "unnamed: 0"];

impl Annotations {
    /// Reads a table whose header names the concepts. A first column `sample`, `id` or `image` contains unique ids.
    ///
    /// Cells, in upper or lower case: `1 true yes t y` for yes, `0 false no f n` for no; an empty cell or
    /// `? na nan -1 unknown` for not annotated.
    pub fn from_table(table: &TextTable) -> Result<(Annotations, Option<Vec<String>>)> {
        let is_id = |name: &String| ID_COLUMNS.iter().any(|id| name.trim().eq_ignore_ascii_case(id));
        let first = usize::from(table.header.first().is_some_and(is_id));
        let names: Vec<String> = table.header.iter().skip(first).map(|name| name.trim().to_string()).collect();
        if let Some(index) = names.iter().position(String::is_empty) {
            return Err(InputError::new("a concept has no name")
                .expected("a header with the name of a concept above every column")
                .at(format!("the header, column {}", index + first + 1))
                .advice("name the column, or remove it")
                .into());
        }
        if names.is_empty() {
            return Err(InputError::new("the header of the table names no concept")
                .expected("a header with the name of a concept above every column")
                .found(if first == 1 { format!("only `{}`", table.header[0]) } else { "no columns".to_string() })
                .at("the header")
                .advice("add a column per concept")
                .into());
        }
        let ids = (first == 1).then(|| unique_ids(table)).transpose()?;
        let mut cells = Vec::with_capacity(table.cells.len().saturating_mul(names.len()));
        for (row, line) in table.cells.iter().enumerate() {
            if line.len() != table.header.len() {
                return Err(InputError::new("a row of the labels has the wrong number of cells")
                    .expected(format!("{} cells, as in the header", table.header.len()))
                    .found(format!("{} cells", line.len()))
                    .at(table.position(row))
                    .advice("add or remove cells")
                    .into());
            }
            for (column, text) in line.iter().enumerate().skip(first) {
                cells.push(parse_label(text).ok_or_else(|| {
                    InputError::new("a label is neither yes, no nor unknown")
                        .expected("1 or 0, true or false, yes or no; empty, `?`, `na` or `-1` if not annotated")
                        .found(format!("`{}`", text.trim()))
                        .at(cell(table, row, &table.header[column]))
                        .advice(if has_class_names(table, column) {
                            "the column contains names of classes: replace it with a column of 0 and 1 per class, as pandas.get_dummies does"
                        } else {
                            "fix the cell; apply a threshold to scores first"
                        })
                })?);
            }
        }
        let width = names.len();
        let labels = Annotations::new(names, table.cells.len(), |row, concept| cells[row * width + concept])?;
        Ok((labels, ids))
    }

    /// Reads a row-major array of 1 (yes), 0 (no) and −1 or NaN (not annotated), `width` concepts wide.
    ///
    /// Without names, the concepts are called `concept_0`, `concept_1` and so on.
    pub fn from_array(values: &[f32], width: usize, names: Option<Vec<String>>) -> Result<Annotations> {
        if (width == 0 && !values.is_empty()) || (width > 0 && !values.len().is_multiple_of(width)) {
            return Err(InputError::new("labels do not fill whole rows")
                .expected(format!("a multiple of {width}"))
                .found(format!("{} values", values.len()))
                .advice("check the shape of the array")
                .into());
        }
        let names = names.unwrap_or_else(|| (0..width).map(|concept| format!("concept_{concept}")).collect());
        if names.len() != width {
            return Err(InputError::new("the labels do not have one name per column")
                .expected(format!("{width} names"))
                .found(format!("{} names", names.len()))
                .advice("add or remove names")
                .into());
        }
        let wrong = |value: f32| !(value.is_nan() || value == 0.0 || value == 1.0 || value == -1.0);
        if let Some(index) = values.iter().position(|&value| wrong(value)) {
            return Err(InputError::new("a label is neither yes, no nor unknown")
                .expected("1 for yes, 0 for no, -1 or NaN if not annotated")
                .found(values[index])
                .at(format!("row {}, column {} (`{}`)", index / width, index % width, names[index % width]))
                .advice("apply a threshold to scores first")
                .into());
        }
        let rows = values.len().checked_div(width).unwrap_or(0);
        Annotations::new(names, rows, |row, concept| match values[row * width + concept] {
            1.0 => Label::Yes,
            0.0 => Label::No,
            _ => Label::Unknown,
        })
    }

    /// The CSV table that [`Annotations::from_table`] reads: 1, 0 and empty.
    ///
    /// Without ids, row numbers are written as ids only if the name of the first concept is that of an id column.
    pub fn to_csv(&self, ids: Option<&[String]>) -> Result<String> {
        csv_text(self.csv_records(ids)?)
    }

    /// The records of that table, one at a time.
    pub fn csv_records<'a>(&'a self, ids: Option<&'a [String]>) -> Result<impl Iterator<Item = Vec<Cow<'a, [u8]>>>> {
        if let Some(ids) = ids.filter(|ids| ids.len() != self.rows()) {
            return Err(Error::Bug(format!("{} ids for {} rows of labels", ids.len(), self.rows())));
        }
        let ambiguous =
            self.names().first().is_some_and(|name| ID_COLUMNS.iter().any(|id| name.eq_ignore_ascii_case(id)));
        let with_ids = ids.is_some() || ambiguous;
        let names = self.names().iter().map(|name| Cow::from(name.as_bytes()));
        let text = |text: &'static str| Cow::from(text.as_bytes());
        let header: Vec<Cow<'a, [u8]>> = with_ids.then(|| text("sample")).into_iter().chain(names).collect();
        let line = move |row: usize| {
            let id = || ids.map_or_else(|| row.to_string().into_bytes().into(), |ids| Cow::from(ids[row].as_bytes()));
            let cells = (0..self.concepts()).map(|concept| match self.label(row, Concept(concept as u32)) {
                Label::Yes => text("1"),
                Label::No => text("0"),
                Label::Unknown => text(""),
            });
            with_ids.then(id).into_iter().chain(cells).collect()
        };
        Ok(std::iter::once(header).chain((0..self.rows()).map(line)))
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

/// Whether a column contains words in several rows that are not labels, such as names of classes.
fn has_class_names(table: &TextTable, column: usize) -> bool {
    let cells = table.cells.iter().filter_map(|line| line.get(column));
    let is_word = |text: &&String| parse_label(text).is_none() && text.trim().parse::<f64>().is_err();
    cells.filter(is_word).take(2).count() == 2
}

fn unique_ids(table: &TextTable) -> Result<Vec<String>> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut ids = Vec::with_capacity(table.cells.len());
    for row in 0..table.cells.len() {
        let id = text(table, row, 0)?;
        let name = &table.header[0];
        if id.is_empty() {
            return Err(InputError::new("a sample has no id")
                .expected("an id in every row")
                .at(cell(table, row, name))
                .advice("fill in the id, or remove the column")
                .into());
        }
        if let Some(earlier) = seen.insert(id, row) {
            return Err(InputError::new("two rows have the same id")
                .expected("every id once")
                .found(format!("`{id}`, as in row {earlier}"))
                .at(cell(table, row, name))
                .advice("make the ids unique, or remove the column")
                .into());
        }
        ids.push(id.to_string());
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::cells::test_table as table;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn every_spelling_of_a_label_is_read() {
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
    fn errors_of_tables_state_the_position() {
        let error = |text: &str| Annotations::from_table(&table(text)).unwrap_err().to_string();
        let text = error("id,bird,red\na,1,0\nb,1,2\n");
        assert!(text.contains("row 1 (line 3), column `red`") && text.contains("`2`"), "{text}");
        let text = error("id,bird\na,1\na,0\n");
        assert!(text.contains("`a`, as in row 0") && text.contains("row 1"), "{text}");
        assert!(error("id,bird\n,1\n").contains("no id"));
        assert!(error("id,bird\na,1,1\n").contains("3 cells"));
        assert!(error("id,bird,bird\na,1,1\n").contains("same name"));
        assert!(error("bird,\n1,1\n").contains("no name"));
        let text = error("bird,kind\n1,gull\n0,\n1,tern\n");
        assert!(text.contains("column `kind`") && text.contains("names of classes"), "{text}");
        assert!(error("bird,kind\n1,0.5\n0,0.7\n").contains("threshold"));
    }

    #[test]
    fn a_table_may_have_no_rows() {
        let (labels, ids) = Annotations::from_table(&table("id,bird\n")).unwrap();
        assert_eq!((labels.rows(), labels.concepts(), ids.unwrap().len()), (0, 1, 0));
        let error = Annotations::from_table(&TextTable::default()).unwrap_err().to_string();
        assert!(error.contains("no concept"), "{error}");
    }

    #[test]
    fn arrays_are_read_and_scores_refused() {
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
    fn labels_survive_a_round_trip_through_csv() {
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
}
