//! Tables that say what rows are: `rows` with images, texts and words, and `boxes` with places in images.

use std::collections::BTreeMap;
use std::path::Path;

use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::input::{Region, Sample, TextTable, read_table};

/// The name of the real rows where there are generators beside them.
pub(super) const REAL: &str = "real";

/// A set ("" for the real rows) and a row.
pub(super) type Place = (String, usize);

/// A row of which nobody said anything.
pub(super) fn empty(row: usize) -> Sample {
    Sample {
        id: row.to_string(),
        set: None,
        text: None,
        words: None,
        image: None,
        columns: None,
        caption: None,
        row: Some(row as u64),
        concepts: None,
        unknown: Vec::new(),
        boxes: Vec::new(),
        codes: None,
        activations: Vec::new(),
    }
}

/// What the lines of a table say about rows, by set ("" for the real rows) and row.
pub(super) fn described(path: &Path, rows: usize, sets: &[&str], budget: &Budget) -> Result<BTreeMap<Place, Sample>> {
    let table = read_table(path, budget)?;
    let read = || -> Result<BTreeMap<Place, Sample>> {
        if !["image", "text", "words", "caption"].iter().any(|name| table.column(name).is_some()) {
            return Err(InputError::new("this table does not say what rows show")
                .expected("a column `image`, `text`, `words` or `caption`")
                .found(table.header.join(", "))
                .into());
        }
        let mut found = BTreeMap::new();
        for (line, cells) in table.cells.iter().enumerate() {
            let cell = |name: &str| {
                let text = table.column(name).map(|column| cells[column].trim()).filter(|text| !text.is_empty());
                text.map(String::from)
            };
            let row = row_of(&table, line, rows)?;
            let set = cell("set").filter(|set| set != REAL).unwrap_or_default();
            if !set.is_empty() && !sets.contains(&set.as_str()) {
                return Err(InputError::new("a set is no generator")
                    .expected(format!("`{REAL}` or one of {sets:?}"))
                    .found(format!("`{}`", set.escape_debug()))
                    .at(table.place(line))
                    .into());
            }
            let mut sample = empty(row);
            sample.id = cell("id").unwrap_or(sample.id);
            (sample.image, sample.text, sample.caption) = (cell("image"), cell("text"), cell("caption"));
            sample.words = cell("words").map(|cell| words(&cell, &table.place(line))).transpose()?;
            if let (None, Some(words)) = (&sample.text, &sample.words) {
                sample.text = Some(words.concat());
            }
            found.insert((set, row), sample);
        }
        Ok(found)
    };
    read().in_file(path)
}

/// Words may begin with spaces and hold commas, so that a cell has them as a list of JSON.
fn words(cell: &str, place: &str) -> Result<Vec<String>> {
    serde_json::from_str(cell).map_err(|_| {
        InputError::new("a cell of `words` is no list of words")
            .expected(r#"a list such as ["a", " bird"]"#)
            .found(format!("`{}`", cell.chars().take(40).collect::<String>().escape_debug()))
            .at(place)
            .into()
    })
}

/// Where in the images of rows something is.
pub(super) fn boxes(path: &Path, rows: usize, budget: &Budget) -> Result<BTreeMap<usize, Vec<Region>>> {
    let table = read_table(path, budget)?;
    let read = || -> Result<BTreeMap<usize, Vec<Region>>> {
        let mut found: BTreeMap<usize, Vec<Region>> = BTreeMap::new();
        for (line, cells) in table.cells.iter().enumerate() {
            let wrong = |found: String| {
                InputError::new("a line is no box")
                    .expected("row, concept, x, y, width and height, the last four as shares of the image")
                    .found(found)
                    .at(table.place(line))
            };
            let cell = |name: &str| table.column(name).map(|column| cells[column].trim());
            let number = |name: &str| cell(name).and_then(|text| text.parse::<f32>().ok());
            let region = (|| {
                let (name, x, y) = (cell("concept")?.to_string(), number("x")?, number("y")?);
                Some(Region { name, x, y, width: number("width")?, height: number("height")? })
            })();
            let region = region.filter(Region::is_inside).ok_or_else(|| wrong(format!("`{}`", cells.join(","))))?;
            found.entry(row_of(&table, line, rows)?).or_default().push(region);
        }
        Ok(found)
    };
    read().in_file(path)
}

/// The column `row`, or the place of the line.
fn row_of(table: &TextTable, line: usize, rows: usize) -> Result<usize> {
    let row = match table.column("row") {
        Some(column) => table.cells[line][column].trim().parse().ok(),
        None => Some(line),
    };
    row.filter(|&row| row < rows).ok_or_else(|| {
        InputError::new("a line is of no row of the codes")
            .expected(format!("a row from 0 to {}", rows.saturating_sub(1)))
            .at(table.place(line))
            .into()
    })
}
