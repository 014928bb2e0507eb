//! What a capture stores about its samples besides activations.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::store::disk::{self, NewFile};
use etalon::store::{csv_text, npy_header};
use serde_json::{Map, Value, json};

use super::word_labels::WordLabels;
use crate::data::{ConceptOptions, Concepts, Input, Sample, Words};
use crate::text::Span;

/// Writes the files beside the stores.
pub(super) struct Records {
    out: PathBuf,
    rows: NewFile,
    labels: Concepts,
    token_labels: WordLabels,
    samples: u32,
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

    /// Writes the line of a sample.
    pub fn line(
        &mut self,
        number: u32,
        id: &str,
        text: Option<&str>,
        words: Option<Vec<String>>,
        caption: Option<&str>,
    ) -> Result<()> {
        let mut line = Map::new();
        line.insert("sample".into(), json!(number));
        line.insert("id".into(), json!(id));
        let fields =
            [("text", text.map(Value::from)), ("words", words.map(Value::from)), ("caption", caption.map(Value::from))];
        line.extend(fields.into_iter().filter_map(|(key, value)| value.map(|value| (key.to_string(), value))));
        self.rows.write(format!("{}\n", Value::Object(line)).as_bytes())
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
