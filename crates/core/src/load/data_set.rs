//! Conversion of published data sets to the tables that other commands read.

use std::path::Path;

use serde_json::json;

use crate::context::Budget;
use crate::error::{Error, InputError, Result};
use crate::labels::{DataSet, first_letter_prompts, read_coco, read_cub, read_syncoco, read_syncub, read_words};
use crate::store::disk;

/// What [`convert_data_set`] wrote.
pub struct Converted {
    /// Number of images.
    pub images: usize,
    /// Number of concepts.
    pub concepts: usize,
    /// Remarks of the reader.
    pub notes: Vec<String>,
}

/// Converts a data set to `labels.csv` (first column `image`) and, if it has them, `pairs.csv`, `splits.csv` and
/// `prompts.jsonl`. Resumes an interrupted conversion.
pub fn convert_data_set(name: &str, from: &Path, out: &Path, seed: u64, budget: &Budget) -> Result<Converted> {
    if out.exists() && !out.is_dir() {
        return Err(InputError::new("the output is a directory").found("a file of that name").file(out).into());
    }
    let data: DataSet = match name {
        "cub" => read_cub(from, 0, budget)?,
        "coco" => read_coco(from, budget)?,
        "syncub" => read_syncub(from, budget)?,
        "syncoco" => read_syncoco(from, budget)?,
        "words" => read_words(from, budget)?,
        other => return Err(Error::Bug(format!("no loader for `{other}`"))),
    };
    if out.join("labels.csv").exists() {
        return Err(InputError::new("the directory holds a data set already")
            .advice("choose another directory")
            .file(out)
            .into());
    }
    let write = |name: &str, text: String| {
        let path = out.join(name);
        match disk::read(&path) {
            // An interrupted run wrote it.
            Ok(existing) if existing == text.as_bytes() => Ok(()),
            Ok(_) => Err(InputError::new("a different file of that name exists")
                .advice("choose another directory")
                .file(&path)
                .into()),
            Err(_) => disk::write(&path, text.as_bytes()),
        }
    };
    if let Some(pairs) = &data.pairs {
        write("pairs.csv", pairs.to_csv(Some(data.labels.names()))?)?;
    }
    if name == "words" {
        let prompts = first_letter_prompts(&data.images, seed);
        let line = |(word, prompt): (&String, &String)| format!("{}\n", json!({"word": word, "prompt": prompt}));
        write("prompts.jsonl", data.images.iter().zip(&prompts).map(line).collect())?;
    }
    if let Some(splits) = &data.splits {
        write("splits.csv", splits.to_csv(&data.images)?)?;
    }
    // Last, because its presence marks the data set as complete.
    write("labels.csv", data.labels.to_csv(Some(&data.images))?)?;
    Ok(Converted { images: data.images.len(), concepts: data.labels.concepts(), notes: data.notes })
}
