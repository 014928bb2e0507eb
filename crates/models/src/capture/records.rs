//! What a capture stores about its samples besides activations.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::input::{LARGEST_PICTURE, picture_ending};
use etalon::network::Grid;
use etalon::store::disk::{self, NewFile};
use etalon::store::{csv_text, npy_header};
use serde_json::json;

use super::place;
use super::word_labels::WordLabels;
use crate::data::{ConceptOptions, Concepts, Content, Input, Sample, Words};
use crate::text::Span;

/// Writes the files beside the stores.
pub(super) struct Records {
    out: PathBuf,
    rows: NewFile,
    labels: Concepts,
    token_labels: WordLabels,
    samples: u32,
}

/// What is written about an image.
pub(super) struct ImageLine {
    pub number: u32,
    id: String,
    /// The file, if the explorer can show it.
    file: Option<PathBuf>,
    caption: Option<String>,
}

impl ImageLine {
    /// Describes the sample of a number.
    pub fn new(number: u32, sample: Sample) -> ImageLine {
        let shown = match &sample.content {
            Content::Image(bytes) => bytes.len() as u64 <= LARGEST_PICTURE && picture_ending(bytes).is_some(),
            Content::Pixels(_) | Content::Text(_) => false,
        };
        ImageLine { number, id: sample.id, file: sample.file.filter(|_| shown), caption: sample.caption }
    }
}

/// The tables of labels of a capture.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelFiles {
    /// Of samples.
    pub samples: Option<PathBuf>,
    /// Of rows, one per token.
    pub tokens: Option<PathBuf>,
}

impl Records {
    pub fn create(out: &Path, input: &Input, context: &Context) -> Result<Records> {
        let rows = NewFile::create(&out.join("rows.jsonl"))?;
        let labels = Concepts::new(input.label_columns(), context.budget())?;
        Ok(Records { out: out.to_path_buf(), rows, labels, token_labels: WordLabels::default(), samples: 0 })
    }

    /// Counts a sample and keeps its labels; returns its number.
    pub fn sample(&mut self, sample: &Sample) -> Result<u32> {
        let number = self.samples;
        self.labels.push(&number.to_string(), &sample.labels)?;
        self.samples += 1;
        Ok(number)
    }

    /// Keeps the labels of a stored token: those of its word.
    pub fn token(&mut self, words: Option<&Words>, token: Span, budget: &Budget) -> Result<()> {
        self.token_labels.push(words, token, budget)
    }

    /// The number of samples.
    pub fn count(&self) -> u32 {
        self.samples
    }

    /// Writes the line of a text.
    pub fn text(&mut self, number: u32, id: &str, text: &str, words: Option<Vec<String>>) -> Result<()> {
        let mut line = json!({"sample": number, "id": id, "text": text});
        if let Some(words) = words {
            line["words"] = words.into();
        }
        self.rows.write(format!("{line}\n").as_bytes())
    }

    /// Writes the line of an image. All lines have the same keys, because tables take their columns from the first line.
    pub fn image(&mut self, image: &ImageLine, grid: Option<Grid>) -> Result<()> {
        let file = image.file.as_deref().and_then(|file| place::from_directory(file, &self.out));
        let grid = grid.map(|grid| format!("{}x{}", grid.height, grid.width));
        let (id, caption) = (&image.id, &image.caption);
        let line = json!({"sample": image.number, "id": id, "image": file, "caption": caption, "grid": grid});
        self.rows.write(format!("{line}\n").as_bytes())
    }

    /// Writes the sequences that were run, as an array for NumPy.
    pub fn tokens(&self, tokens: &[u32], context: usize) -> Result<()> {
        let rows = tokens.len().checked_div(context).ok_or_else(|| Error::Bug("sequences without tokens".into()))?;
        let mut bytes = npy_header("<u4", &format!("({rows}, {context})"));
        bytes.extend_from_slice(bytemuck::cast_slice(tokens));
        disk::write(&self.out.join("tokens.npy"), &bytes)
    }

    /// Writes labels and the list of skipped items; returns the paths of the labels. `grouped` puts the column in front of
    /// its classes.
    pub fn finish(self, input: &Input, grouped: bool) -> Result<LabelFiles> {
        let options = ConceptOptions { grouped, ..ConceptOptions::default() };
        self.rows.finish()?;
        let header = ["position", "id", "reason"].map(String::from);
        let skipped =
            input.skipped().iter().map(|item| [item.position.to_string(), item.id.clone(), item.reason.clone()]);
        disk::write(&self.out.join("skipped.csv"), csv_text(std::iter::once(header).chain(skipped))?.as_bytes())?;
        let tokens = self.token_labels.finish(&self.out, &options)?;
        if self.labels.is_empty() {
            return Ok(LabelFiles { samples: None, tokens });
        }
        let path = self.out.join("labels.csv");
        let table = self.labels.finish(&options)?;
        disk::write(&path, table.to_csv()?.as_bytes())?;
        Ok(LabelFiles { samples: Some(path), tokens })
    }
}
