//! Samples for people to look at: some rows of the data with what they show, what is known about them, and which latents
//! fire there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::budget::Budget;
use crate::codes::{Codes, Latent};
use crate::error::{Complaint, Error, InFile, Result};
use crate::input::{Firing, Region, Sample, TextTable, read_picture, read_table};
use crate::labels::{Annotations, Concept, Label};
use crate::run::Inputs;
use crate::store::disk;

/// Tables that say what rows are.
#[derive(Clone, Copy, Debug, Default)]
pub struct SampleTables<'a> {
    /// Columns `image` (a file, from where the table is), `text`, `caption`, `id`; `row`, if lines are not rows in order;
    /// `set`, the generator, if it is not the real row.
    pub rows: Option<&'a Path>,
    /// Columns `row`, `concept`, `x`, `y`, `width`, `height`, as shares of the image.
    pub boxes: Option<&'a Path>,
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenSamples {
    /// Lines of `samples.jsonl`.
    pub samples: usize,
    /// Images, each once.
    pub images: usize,
}

/// The name of the real rows where there are generators beside them.
const REAL: &str = "real";

/// A set ("" for the real rows) and a row.
type Place = (String, usize);

/// Writes `samples.jsonl` and `images/` into a directory: `most` rows, real and generated.
pub fn write_samples(
    inputs: &Inputs,
    tables: &SampleTables<'_>,
    most: usize,
    out: &Path,
    budget: &Budget,
) -> Result<WrittenSamples> {
    let codes = inputs.codes.as_deref().ok_or_else(|| Complaint::new("samples need codes").advice("give --codes"))?;
    let sets: Vec<&str> = inputs.models.iter().map(|model| model.name.as_str()).collect();
    let described =
        tables.rows.map(|path| described(path, codes.rows(), &sets, budget)).transpose()?.unwrap_or_default();
    let boxes = tables.boxes.map(|path| boxes(path, codes.rows(), budget)).transpose()?.unwrap_or_default();
    // Rows of which a table says what they show come before others: there is something to see.
    let seen: BTreeSet<usize> = described.keys().map(|(_, row)| *row).collect();
    let rows = chosen(codes, most, &seen)?;
    let (mut count, mut images) = (0, BTreeSet::new());
    let mut file = disk::NewFile::create(&out.join("samples.jsonl"))?;
    let real = (!sets.is_empty()).then(|| REAL.to_string());
    let sides = [(String::new(), real, codes)].into_iter();
    let sides = sides.chain(inputs.models.iter().map(|m| (m.name.clone(), Some(m.name.clone()), m.codes.as_ref())));
    for (key, set, codes) in sides {
        let all = codes.all()?;
        for &row in rows.iter().filter(|&&row| row < codes.rows()) {
            let (latents, values) = all.row(row);
            let firing = latents.iter().zip(values).map(|(&latent, &value)| Firing {
                latent,
                value: f64::from(value),
                tokens: Vec::new(),
                grid: Vec::new(),
            });
            let mut sample = described.get(&(key.clone(), row)).cloned().unwrap_or_else(|| empty(row));
            if key.is_empty() {
                sample.boxes = boxes.get(&row).cloned().unwrap_or_default();
                if let Some(labels) = inputs.labels.as_deref() {
                    let with = |wanted| named(labels, row, wanted);
                    (sample.concepts, sample.unknown) = (Some(with(Label::Yes)), with(Label::Unknown));
                }
            } else if sample.id == row.to_string() {
                sample.id = format!("{key} {row}");
            }
            (sample.set, sample.activations) = (set.clone(), firing.collect());
            sample.codes = (count == 0).then(|| codes.id()).transpose()?;
            if let (Some(image), Some(table)) = (&sample.image, tables.rows) {
                let (bytes, ending) = read_picture(&table.parent().unwrap_or(Path::new("")).join(image))?;
                let hash = blake3::hash(&bytes).to_hex().to_string();
                if images.insert(hash.clone()) {
                    disk::write(&out.join("images").join(format!("{hash}.{ending}")), &bytes)?;
                }
                sample.image = Some(hash);
            }
            let line = serde_json::to_string(&sample).map_err(|error| Error::Bug(format!("a sample: {error}")))?;
            file.write(format!("{line}\n").as_bytes())?;
            count += 1;
        }
    }
    file.finish()?;
    Ok(WrittenSamples { samples: count, images: images.len() })
}

fn empty(row: usize) -> Sample {
    Sample {
        id: row.to_string(),
        set: None,
        text: None,
        words: None,
        image: None,
        caption: None,
        row: Some(row as u64),
        concepts: None,
        unknown: Vec::new(),
        boxes: Vec::new(),
        codes: None,
        activations: Vec::new(),
    }
}

fn named(labels: &Annotations, row: usize, wanted: Label) -> Vec<String> {
    let has = |concept: &usize| labels.label(row, Concept(*concept as u32)) == wanted;
    (0..labels.concepts()).filter(has).map(|concept| labels.names()[concept].clone()).collect()
}

/// All rows (of `seen`, unless it is empty), ascending; or, if there are more than `most`, the strongest of every latent, then
/// the second strongest, and so on.
fn chosen(codes: &Codes, most: usize, seen: &BTreeSet<usize>) -> Result<Vec<usize>> {
    let all: BTreeSet<usize> = if seen.is_empty() { (0..codes.rows()).collect() } else { seen.clone() };
    if all.len() <= most {
        return Ok(all.into_iter().collect());
    }
    let columns = codes.columns()?;
    let strongest = |latent: usize| {
        let (rows, values) = columns.latent(Latent(latent as u32));
        let entries = values.iter().copied().zip(rows.iter().copied());
        let mut order: Vec<(f32, u32)> = entries.filter(|(_, row)| all.contains(&(*row as usize))).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        // No more than this many of one latent can be among them.
        order.truncate(most);
        order
    };
    let lists: Vec<Vec<(f32, u32)>> = (0..codes.latents()).map(strongest).collect();
    let mut found = BTreeSet::new();
    for round in 0..lists.iter().map(Vec::len).max().unwrap_or(0) {
        for (_, row) in lists.iter().filter_map(|list| list.get(round)) {
            if found.len() >= most {
                return Ok(found.into_iter().collect());
            }
            found.insert(*row as usize);
        }
    }
    Ok(found.into_iter().collect())
}

fn described(path: &Path, rows: usize, sets: &[&str], budget: &Budget) -> Result<BTreeMap<Place, Sample>> {
    let table = read_table(path, budget)?;
    let read = || -> Result<BTreeMap<Place, Sample>> {
        if !["image", "text", "caption"].iter().any(|name| table.column(name).is_some()) {
            return Err(Complaint::new("this table does not say what rows show")
                .expected("a column `image`, `text` or `caption`")
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
                return Err(Complaint::new("a set is no generator")
                    .expected(format!("`{REAL}` or one of {sets:?}"))
                    .found(format!("`{}`", set.escape_debug()))
                    .at(table.place(line))
                    .into());
            }
            let mut sample = empty(row);
            sample.id = cell("id").unwrap_or(sample.id);
            (sample.image, sample.text, sample.caption) = (cell("image"), cell("text"), cell("caption"));
            found.insert((set, row), sample);
        }
        Ok(found)
    };
    read().in_file(path)
}

fn boxes(path: &Path, rows: usize, budget: &Budget) -> Result<BTreeMap<usize, Vec<Region>>> {
    let table = read_table(path, budget)?;
    let read = || -> Result<BTreeMap<usize, Vec<Region>>> {
        let mut found: BTreeMap<usize, Vec<Region>> = BTreeMap::new();
        for (line, cells) in table.cells.iter().enumerate() {
            let wrong = |found: String| {
                Complaint::new("a line is no box")
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
        Complaint::new("a line is of no row of the codes")
            .expected(format!("a row from 0 to {}", rows.saturating_sub(1)))
            .at(table.place(line))
            .into()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use super::*;
    use crate::input::read_samples;

    /// Rows × latents: 1 0 | 3 2 | 0 4.
    fn inputs() -> Inputs {
        let codes = Codes::from_dense(&[1.0, 0.0, 3.0, 2.0, 0.0, 4.0], 2).unwrap();
        let label = |row: usize, _| if row == 1 { Label::Yes } else { Label::Unknown };
        let labels = Annotations::new(vec!["striped".into()], 3, label).unwrap();
        Inputs { codes: Some(Arc::new(codes)), labels: Some(Arc::new(labels)), ..Inputs::default() }
    }

    #[test]
    fn rows_with_what_is_known_of_them() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("bird.png"), b"\x89PNG\r\n\x1a\n0000").unwrap();
        let (rows, boxes) = (room.path().join("rows.csv"), room.path().join("boxes.csv"));
        fs::write(&rows, "row,image,caption\n1,bird.png,a bird\n2,bird.png,another\n").unwrap();
        fs::write(&boxes, "row,concept,x,y,width,height\n1,striped,0.1,0.2,0.3,0.4\n").unwrap();
        let (out, budget) = (room.path().join("out"), Budget::of_machine());
        let tables = SampleTables { rows: Some(&rows), boxes: Some(&boxes) };
        let written = write_samples(&inputs(), &tables, 10, &out, &budget).unwrap();
        // Two rows share one image.
        assert_eq!(written, WrittenSamples { samples: 2, images: 1 });
        let samples = read_samples(&out.join("samples.jsonl"), &budget).unwrap();
        assert_eq!(samples[0].codes, inputs().codes.map(|codes| codes.id().unwrap()));
        assert_eq!((samples[0].caption.as_deref(), &samples[1].codes), (Some("a bird"), &None));
        assert_eq!(samples[0].concepts.as_deref(), Some(&["striped".to_string()][..]));
        assert_eq!((samples[1].unknown.len(), samples[0].boxes[0].width), (1, 0.3));
        assert_eq!(samples[0].activations.iter().map(|f| f.value).collect::<Vec<_>>(), [3.0, 2.0]);
        assert!(out.join("images").join(format!("{}.png", samples[1].image.as_deref().unwrap())).exists());
    }

    #[test]
    fn few_rows_are_the_strongest_of_every_latent() {
        // Latent 0 is strongest in row 1, latent 1 in row 2.
        let inputs = inputs();
        let codes = inputs.codes.as_deref().unwrap();
        let none = BTreeSet::new();
        assert_eq!(chosen(codes, 2, &none).unwrap(), [1, 2]);
        assert_eq!(chosen(codes, 3, &none).unwrap(), [0, 1, 2]);
        assert_eq!(chosen(codes, 0, &none).unwrap(), [0usize; 0]);
        // Only rows that can be seen, if there are any: of 0 and 2 latent 0 is strongest in row 0.
        assert_eq!(chosen(codes, 9, &BTreeSet::from([0, 2])).unwrap(), [0, 2]);
        assert_eq!(chosen(codes, 1, &BTreeSet::from([0, 2])).unwrap(), [0]);
    }

    #[test]
    fn wrong_tables_are_named() {
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("rows.csv");
        for text in ["row,width\n0,3\n", "row,text\n3,a\n", "set,text\nother,a\n", "image\nnowhere.png\n"] {
            fs::write(&path, text).unwrap();
            let tables = SampleTables { rows: Some(&path), boxes: None };
            let error =
                write_samples(&inputs(), &tables, 9, &room.path().join("o"), &Budget::of_machine()).unwrap_err();
            assert!(error.is_input(), "{text}: {error}");
        }
        for text in ["row,concept,x,y,width,height\n0,a,0.9,0,0.9,1\n", "row,concept\n0,a\n"] {
            fs::write(&path, text).unwrap();
            let tables = SampleTables { rows: None, boxes: Some(&path) };
            let error =
                write_samples(&inputs(), &tables, 9, &room.path().join("o"), &Budget::of_machine()).unwrap_err();
            assert!(error.to_string().contains("box"), "{error}");
        }
    }
}
