//! Factors: annotations with any number of classes per column, such as the shape of an object or the class of a task.

use super::cells::{cell, text};
use super::{Annotations, Concept, Label};
use crate::error::{InputError, Result};
use crate::input::TextTable;
use crate::store::csv_text;

/// Maximum number of classes of a column: every class is an output of a probe.
pub const MOST_CLASSES: usize = 10_000;

/// Names of a first column of sample ids, which is not a factor. Upper and lower case do not matter.
const ID_COLUMNS: [&str; 4] = ["sample", "id", "image", "unnamed: 0"];

/// Columns of class numbers from 0, each with a name; −1 where a row is not annotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factors {
    rows: usize,
    names: Vec<String>,
    /// One list of classes per column.
    columns: Vec<Vec<i32>>,
}

impl Factors {
    /// Factors from columns of class numbers; −1 is not annotated.
    pub fn new(names: Vec<String>, columns: Vec<Vec<i32>>) -> Result<Factors> {
        let rows = columns.first().map_or(0, Vec::len);
        if names.len() != columns.len() || columns.iter().any(|column| column.len() != rows) {
            return Err(InputError::new("factors do not have one name and the same rows in every column")
                .expected(format!("{} columns of {rows} rows", names.len()))
                .found(format!("{} columns", columns.len()))
                .into());
        }
        for (name, column) in names.iter().zip(&columns) {
            let wrong = |class: i32| class < -1 || class >= MOST_CLASSES as i32;
            if let Some(row) = column.iter().position(|&class| wrong(class)) {
                return Err(unusable(&column[row], name, row).into());
            }
        }
        Ok(Factors { rows, names, columns })
    }

    /// Reads an array of integers, row by row. −1 and NaN are not annotated.
    pub fn from_array(values: &[f32], width: usize) -> Result<Factors> {
        let names: Vec<String> = (0..width).map(|column| format!("factor_{column}")).collect();
        let mut columns = vec![Vec::with_capacity(values.len() / width.max(1)); width];
        for (row, cells) in values.chunks_exact(width.max(1)).enumerate() {
            for ((column, &value), name) in columns.iter_mut().zip(cells).zip(&names) {
                column.push(match value {
                    value if value.is_nan() => -1,
                    value if value.fract() == 0.0 && (-1.0..MOST_CLASSES as f32).contains(&value) => value as i32,
                    value => return Err(unusable(&value, name, row).into()),
                });
            }
        }
        Factors::new(names, columns)
    }

    /// Reads a table with a column per factor. A column of integers has these classes; in any other column the
    /// distinct texts, sorted, are the classes. Empty cells, `?`, `na` and −1 are not annotated.
    pub fn from_table(table: &TextTable) -> Result<Factors> {
        let is_id = |name: &String| ID_COLUMNS.iter().any(|id| name.trim().eq_ignore_ascii_case(id));
        let first = usize::from(table.header.len() > 1 && table.header.first().is_some_and(is_id));
        let names: Vec<String> = table.header.iter().skip(first).map(|name| name.trim().to_string()).collect();
        let mut columns = Vec::with_capacity(names.len());
        for column in first..table.header.len() {
            let cells = (0..table.cells.len()).map(|row| text(table, row, column)).collect::<Result<Vec<_>>>()?;
            columns.push(classes(&cells, table, column)?);
        }
        if names.is_empty() {
            return Err(InputError::new("the table has no column of classes")
                .expected("a column per factor, with a name in the header")
                .found(table.header.join(", "))
                .at("the header")
                .into());
        }
        Factors::new(names, columns)
    }

    /// Factors of two classes from annotations: 1 for yes, 0 for no.
    pub fn of(labels: &Annotations) -> Factors {
        let class = |row, concept| match labels.label(row, Concept(concept as u32)) {
            Label::Yes => 1,
            Label::No => 0,
            Label::Unknown => -1,
        };
        let column = |concept| (0..labels.rows()).map(|row| class(row, concept)).collect();
        let columns = (0..labels.concepts()).map(column).collect();
        Factors { rows: labels.rows(), names: labels.names().to_vec(), columns }
    }

    /// One concept per class, `name=class`; a factor of the classes 0 and 1 is one concept with its name.
    pub fn to_annotations(&self) -> Result<Annotations> {
        let concepts: Vec<(usize, i32, String)> = (0..self.columns.len())
            .flat_map(|column| {
                let (name, classes) = (&self.names[column], self.classes(column) as i32);
                match classes {
                    0..=2 => vec![(column, 1, name.clone())],
                    _ => (0..classes).map(|class| (column, class, format!("{name}={class}"))).collect(),
                }
            })
            .collect();
        let names = concepts.iter().map(|(_, _, name)| name.clone()).collect();
        Annotations::new(names, self.rows, |row, concept| {
            let (column, class, _) = concepts[concept];
            match self.columns[column][row] {
                -1 => Label::Unknown,
                found if found == class => Label::Yes,
                _ => Label::No,
            }
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn count(&self) -> usize {
        self.columns.len()
    }

    /// The names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The classes of a column, by row; −1 where a row is not annotated.
    pub fn column(&self, column: usize) -> &[i32] {
        &self.columns[column]
    }

    /// The number of classes of a column: one more than its largest class.
    pub fn classes(&self, column: usize) -> usize {
        self.columns[column].iter().copied().max().map_or(0, |largest| (largest + 1) as usize)
    }

    /// The classes below the largest that no row has.
    pub fn unused(&self, column: usize) -> Vec<usize> {
        let mut seen = vec![false; self.classes(column)];
        self.columns[column].iter().filter(|&&class| class >= 0).for_each(|&class| seen[class as usize] = true);
        (0..seen.len()).filter(|&class| !seen[class]).collect()
    }

    /// The factors of some rows, in the order given.
    pub fn select(&self, rows: &[usize]) -> Factors {
        let pick = |column: &Vec<i32>| rows.iter().map(|&row| column[row]).collect();
        Factors { rows: rows.len(), names: self.names.clone(), columns: self.columns.iter().map(pick).collect() }
    }

    /// The CSV table that [`Factors::from_table`] reads.
    pub fn to_csv(&self) -> Result<String> {
        csv_text(self.csv_records())
    }

    /// The records of that table, one at a time.
    pub fn csv_records(&self) -> impl Iterator<Item = Vec<String>> + '_ {
        let cell = |class: i32| if class < 0 { String::new() } else { class.to_string() };
        let line = move |row: usize| self.columns.iter().map(|column| cell(column[row])).collect::<Vec<String>>();
        std::iter::once(self.names.clone()).chain((0..self.rows).map(line))
    }

    /// The content address of names and cells.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new_derive_key("etalon factors v1");
        hash.update(&(self.rows as u64).to_le_bytes());
        for (name, column) in self.names.iter().zip(&self.columns) {
            hash.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            hash.update(bytemuck::cast_slice(column));
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }
}

fn unusable(value: &dyn std::fmt::Display, name: &str, row: usize) -> InputError {
    InputError::new("a class is not a usable number")
        .expected(format!("an integer from 0 to {}, or -1 if the row is not annotated", MOST_CLASSES - 1))
        .found(value)
        .at(format!("row {row}, column `{name}`"))
        .advice("number the classes from 0; cut a continuous factor into classes first")
}

/// The classes of the cells of one column.
fn classes(cells: &[&str], table: &TextTable, column: usize) -> Result<Vec<i32>> {
    let unknown = |cell: &str| matches!(cell.to_ascii_lowercase().as_str(), "" | "?" | "na" | "nan" | "-1");
    let numbers: Option<Vec<i32>> = cells
        .iter()
        .map(|cell| if unknown(cell) { Some(-1) } else { cell.parse().ok().filter(|&class: &i32| class >= 0) })
        .collect();
    if let Some(numbers) = numbers {
        return Ok(numbers);
    }
    let mut words: Vec<&str> = cells.iter().copied().filter(|cell| !unknown(cell)).collect();
    words.sort_unstable();
    words.dedup();
    if let Some(row) = cells.iter().position(|cell| cell.parse::<f64>().is_ok_and(|number| number.fract() != 0.0)) {
        return Err(InputError::new("a factor has a number that is not an integer")
            .expected("classes: integers from 0, or words")
            .found(format!("`{}`", cells[row]))
            .at(cell(table, row, &table.header[column]))
            .advice("cut a continuous factor into classes first")
            .into());
    }
    Ok(cells.iter().map(|cell| words.binary_search(cell).map_or(-1, |class| class as i32)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::cells::test_table as table;

    #[test]
    fn tables_have_numbers_or_words() {
        let factors = Factors::from_table(&table("id,shape,size\na,heart,0\nb,?,2\nc,ellipse,2\n")).unwrap();
        assert_eq!(factors.names(), ["shape", "size"]);
        assert_eq!((factors.column(0), factors.column(1)), (&[1, -1, 0][..], &[0, 2, 2][..]));
        assert_eq!((factors.classes(0), factors.classes(1), factors.unused(1)), (2, 3, vec![1]));
        let labels = factors.to_annotations().unwrap();
        assert_eq!(labels.names(), ["shape", "size=0", "size=1", "size=2"]);
        assert_eq!(labels.label(1, Concept(0)), Label::Unknown);
        assert_eq!(labels.label(1, Concept(3)), Label::Yes);
    }

    #[test]
    fn wrong_classes_are_refused() {
        for (text, found) in [("a\n0.5\n", "0.5"), ("a\n99999\n", "99999")] {
            let error = Factors::from_table(&table(text)).unwrap_err().to_string();
            assert!(error.contains(found) && error.contains("column `a`"), "{error}");
        }
        let error = Factors::from_array(&[0.0, 0.5], 2).unwrap_err().to_string();
        assert!(error.contains("row 0, column `factor_1`"), "{error}");
        assert_eq!(Factors::from_array(&[1.0, f32::NAN], 1).unwrap().column(0), [1, -1]);
        assert_eq!(Factors::of(&Annotations::from_array(&[1.0, -1.0], 1, None).unwrap()).column(0), [1, -1]);
    }
}
