//! Tables that describe rows: images, texts and words (`rows`), and regions of images (`boxes`).

use std::collections::BTreeMap;
use std::path::Path;

use super::arrangement::PatchGrid;
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::{Region, Sample, TextTable, read_table, read_table_with_lists, spaced_words};

/// The name of the real rows, where there are generators too.
pub(super) const REAL: &str = "real";

/// A set ("" for the real rows) and a row.
pub(super) type SetRow = (String, usize);

/// A row without description.
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
        token_codes: None,
        activations: Vec::new(),
    }
}

/// What a table says about a row.
#[derive(Clone, Debug)]
pub(super) struct Description {
    pub sample: Sample,
    /// The grid of its patches.
    pub grid: Option<PatchGrid>,
}

/// The descriptions of rows in a table.
pub(super) fn described(
    path: &Path,
    rows: usize,
    sets: &[&str],
    budget: &Budget,
) -> Result<BTreeMap<SetRow, Description>> {
    let table = read_table_with_lists(path, &["words"], budget)?;
    let read = || -> Result<BTreeMap<SetRow, Description>> {
        if !["image", "text", "words", "caption"].iter().any(|name| table.column(name).is_some()) {
            return Err(InputError::new("the table does not describe rows")
                .expected("a column `image`, `text`, `words` or `caption`")
                .found(table.header.join(", "))
                .into());
        }
        let mut samples = BTreeMap::new();
        for (line, cells) in table.cells.iter().enumerate() {
            let cell = |name: &str| {
                let text = table.column(name).map(|column| cells[column].trim()).filter(|text| !text.is_empty());
                text.map(String::from)
            };
            let row = row_of(&table, line, rows)?;
            let set = cell("set").filter(|set| set != REAL).unwrap_or_default();
            if !set.is_empty() && !sets.contains(&set.as_str()) {
                return Err(InputError::new("unknown set")
                    .expected(format!("`{REAL}` or one of {sets:?}"))
                    .found(format!("`{}`", set.escape_debug()))
                    .at(table.position(line))
                    .into());
            }
            let mut sample = empty(row);
            sample.id = cell("id").unwrap_or(sample.id);
            (sample.image, sample.text, sample.caption) = (cell("image"), cell("text"), cell("caption"));
            let words = cell("words").map(|cell| words(&cell, &table.position(line))).transpose()?;
            sample.words = words.map(|words| spaced_words(words, sample.text.as_deref()));
            if let (None, Some(words)) = (&sample.text, &sample.words) {
                sample.text = Some(words.concat());
            }
            let grid = cell("grid").map(|grid| grid.parse::<PatchGrid>()).transpose().map_err(|error| match error {
                Error::Input(error) => error.at(table.position(line)).into(),
                other => other,
            })?;
            samples.insert((set, row), Description { sample, grid });
        }
        Ok(samples)
    };
    read().in_file(path)
}

/// Words of a cell, a JSON list: words may begin with spaces and contain commas.
fn words(cell: &str, position: &str) -> Result<Vec<String>> {
    serde_json::from_str(cell).map_err(|_| {
        InputError::new("a cell of `words` is not a list of words")
            .expected(r#"a list such as ["a", " bird"]"#)
            .found(format!("`{}`", cell.chars().take(40).collect::<String>().escape_debug()))
            .at(position)
            .into()
    })
}

/// Regions of the images of rows.
pub(super) fn boxes(path: &Path, rows: usize, budget: &Budget) -> Result<BTreeMap<usize, Vec<Region>>> {
    let table = read_table(path, budget)?;
    let read = || -> Result<BTreeMap<usize, Vec<Region>>> {
        let mut regions: BTreeMap<usize, Vec<Region>> = BTreeMap::new();
        for (line, cells) in table.cells.iter().enumerate() {
            let wrong = |found: String| {
                InputError::new("invalid box")
                    .expected("row, concept, x, y, width and height, the last four as fractions of the image")
                    .found(found)
                    .at(table.position(line))
            };
            let cell = |name: &str| table.column(name).map(|column| cells[column].trim());
            let number = |name: &str| cell(name).and_then(|text| text.parse::<f32>().ok());
            let region = (|| {
                let (name, x, y) = (cell("concept")?.to_string(), number("x")?, number("y")?);
                Some(Region { name, x, y, width: number("width")?, height: number("height")? })
            })();
            let region = region.filter(Region::is_inside).ok_or_else(|| wrong(format!("`{}`", cells.join(","))))?;
            regions.entry(row_of(&table, line, rows)?).or_default().push(region);
        }
        Ok(regions)
    };
    read().in_file(path)
}

/// The value of the column `row`; without that column, the index of the line.
fn row_of(table: &TextTable, line: usize, rows: usize) -> Result<usize> {
    let row = match table.column("row") {
        Some(column) => table.cells[line][column].trim().parse().ok(),
        None => Some(line),
    };
    row.filter(|&row| row < rows).ok_or_else(|| {
        InputError::new("row number out of range")
            .expected(format!("a row from 0 to {}", rows.saturating_sub(1)))
            .at(table.position(line))
            .into()
    })
}
