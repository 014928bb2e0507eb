//! Images with the classes of their factors in one `.npz` file, as dSprites are published: to a directory with the parts of a world.

use std::path::Path;

use super::data_set::Converted;
use crate::context::Context;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::{self, Finite, RowReader, Shape, Source};
use crate::labels::{Factors, worlds};
use crate::store::{ImportOptions, StoredNumber, csv_text, disk, import};

/// A factor: its name, its number of classes, and the threshold below which its concept is present.
type FactorLayout = (&'static str, usize, usize);

/// A data set that is read.
struct FactorFile {
    name: &'static str,
    factors: &'static [FactorLayout],
    /// The class of the task, from the factors; true for the labels of the released program.
    task: fn(&[usize], bool) -> u32,
}

const LAYOUTS: [FactorFile; 2] = [
    FactorFile {
        name: "dsprites-file",
        factors: &[("shape", 3, 2), ("scale", 6, 3), ("orientation", 40, 20), ("x", 32, 16), ("y", 32, 16)],
        task: worlds::dsprites_task,
    },
    FactorFile {
        name: "3dshapes-file",
        factors: &[
            ("floor_hue", 10, 5),
            ("wall_hue", 10, 5),
            ("object_hue", 10, 5),
            ("scale", 8, 4),
            ("shape", 4, 2),
            ("orientation", 15, 7),
        ],
        task: worlds::shapes3d_task,
    },
];

/// Whose definition of the task a file is labelled with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskVariant {
    /// That of the purity paper.
    #[default]
    Paper,
    /// That of its released program.
    Code,
}

impl TaskVariant {
    /// The names of the variants.
    pub const NAMES: [&'static str; 2] = ["paper", "code"];

    /// A variant by name.
    pub fn find(name: &str) -> Option<TaskVariant> {
        [TaskVariant::Paper, TaskVariant::Code]
            .into_iter()
            .zip(Self::NAMES)
            .find(|(_, own)| *own == name)
            .map(|(v, _)| v)
    }
}

/// Whether a name is that of such a data set.
pub fn is_factor_file(name: &str) -> bool {
    LAYOUTS.iter().any(|layout| layout.name == name)
}

/// Rows of several lines of an image each.
struct WholeImages {
    lines: Box<dyn RowReader>,
    rows: usize,
    width: usize,
}

impl RowReader for WholeImages {
    fn shape(&self) -> Shape {
        Shape { rows: self.rows, width: self.width, rows_per_sample: None }
    }

    fn kind(&self) -> &str {
        self.lines.kind()
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let per_row = self.width / self.lines.shape().width.max(1);
        // A reader may return fewer lines than asked for: fill whole images.
        let line = self.lines.shape().width.max(1);
        let mut filled = 0;
        while filled < out.len() {
            let lines = self.lines.read(&mut out[filled..])?;
            if lines == 0 {
                break;
            }
            filled += lines * line;
        }
        Ok(filled / line / per_row.max(1))
    }
}

/// The factors of the file, without the first column if it has one more than the data set.
fn read_factors(layout: &FactorFile, from: &Path, context: &Context) -> Result<Factors> {
    let count = layout.factors.len();
    let source = Source::parse(&format!("{}:latents_classes", from.display()))?;
    let classes = input::read_rows(&source, Finite::Refuse, context.budget())?;
    let first = classes.width.checked_sub(count).filter(|&first| first <= 1).ok_or_else(|| {
        InputError::new("the factors of the file are not those of the data set")
            .expected(format!("{count} columns of `latents_classes`, or one more for the colour"))
            .found(format!("{} columns", classes.width))
            .file(from)
    })?;
    let kept: Vec<f32> =
        classes.values.chunks_exact(classes.width.max(1)).flat_map(|row| row[first..].iter().copied()).collect();
    let unnamed = Factors::from_array(&kept, count).in_file(from)?;
    let names = layout.factors.iter().map(|(name, ..)| name.to_string()).collect();
    let columns: Vec<Vec<i32>> = (0..count).map(|column| unnamed.column(column).to_vec()).collect();
    for (column, (name, classes, _)) in columns.iter().zip(layout.factors) {
        let wrong = |&class: &i32| !(0..*classes as i32).contains(&class);
        if let Some(row) = column.iter().position(wrong) {
            return Err(InputError::new("a class of the file is not one of the data set")
                .expected(format!("an integer from 0 to {}", classes - 1))
                .found(column[row])
                .at(format!("row {row} of `latents_classes`, factor `{name}`"))
                .advice("check that the file is that of the data set")
                .file(from)
                .into());
        }
    }
    Factors::new(names, columns)
}

/// Converts the file to a store of images, `factors.csv`, `labels.csv` (the concepts of the purity paper) and `task-labels.csv`.
///
/// The file needs an array `imgs`, one image per row, and `latents_classes`, the class of every factor per image; a first column
/// of constant classes, the colour of dSprites, is left out. Bytes are stored as 16-bit numbers, which is exact.
pub fn convert_factor_file(
    name: &str,
    from: &Path,
    out: &Path,
    variant: TaskVariant,
    context: &Context,
) -> Result<Converted> {
    let layout = LAYOUTS
        .iter()
        .find(|layout| layout.name == name)
        .ok_or_else(|| Error::Bug(format!("no layout of the data set `{name}`")))?;
    if out.join("labels.csv").exists() {
        return Err(InputError::new("the directory holds a data set already")
            .advice("choose another directory")
            .file(out)
            .into());
    }
    let factors = read_factors(layout, from, context)?;
    let lines = input::open_rows(&Source::parse(&format!("{}:imgs", from.display()))?, context.budget())?;
    let shape = lines.shape();
    let per_image = shape.rows_per_sample.unwrap_or(1);
    let images = shape.rows / per_image.max(1);
    if images != factors.rows() {
        return Err(InputError::new("images and factors differ in number")
            .expected(format!("{} images, one per row of `latents_classes`", factors.rows()))
            .found(format!("{images} images in `imgs`"))
            .file(from)
            .into());
    }
    let dtype = if lines.kind().contains("uint8") { StoredNumber::F16 } else { StoredNumber::F32 };
    let mut reader = WholeImages { lines, rows: images, width: shape.width * per_image };
    let options = ImportOptions { dtype, ..ImportOptions::default() };
    import(&mut reader, &out.join("activations"), &options, context)?;
    disk::write(&out.join("factors.csv"), factors.to_csv()?.as_bytes())?;
    let concepts = |row: usize| -> Vec<u32> {
        let bits = layout.factors.iter().enumerate();
        bits.map(|(column, (_, _, threshold))| u32::from(factors.column(column)[row] < *threshold as i32)).collect()
    };
    let task = |row: usize| {
        let classes: Vec<usize> =
            (0..factors.count()).map(|column| factors.column(column)[row].max(0) as usize).collect();
        vec![(layout.task)(&classes, variant == TaskVariant::Code).to_string()]
    };
    let tasks = std::iter::once(vec!["task".to_string()]).chain((0..images).map(task));
    disk::write(&out.join("task-labels.csv"), csv_text(tasks)?.as_bytes())?;
    let header = layout.factors.iter().map(|(name, ..)| format!("low_{name}")).collect::<Vec<_>>();
    let line = |row: usize| concepts(row).into_iter().map(|bit| bit.to_string()).collect::<Vec<_>>();
    let labels = std::iter::once(header).chain((0..images).map(line));
    // Last, because its presence marks the data set as complete.
    disk::write(&out.join("labels.csv"), csv_text(labels)?.as_bytes())?;
    Ok(Converted { images, concepts: layout.factors.len(), notes: Vec::new() })
}
