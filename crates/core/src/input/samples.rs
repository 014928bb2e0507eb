//! Samples to show beside a concept: `samples.jsonl`, one object per line.
//!
//! ```json
//! {"id": "s1", "set": "real", "text": "a bird at a feeder", "activations": [{"latent": 17, "value": 2.5, "tokens": [0, 1.2, 0, 0, 2.5]}]}
//! {"id": "s2", "set": "sd15", "image": "<hash>", "caption": "a feeder", "activations": [{"latent": 17, "value": 0.4, "grid": [0, 0.4, 0, 0]}]}
//! ```
//!
//! `tokens` has a value per word of the text (per entry of `words`, if that is given), `grid` one per patch, row by row of a square
//! (of lines of `columns` patches, if that is given). If the file has only a part of the rows, `above` is the share of the rows with
//! this latent that fire more strongly.
//! `row` is the row of the data; `concepts` are those that the labels give it, `unknown` those that are not annotated;
//! `boxes` are regions of the image; `codes` in the first line is the content address of the codes of all activations, so that
//! values of another dictionary are not mixed with them. `etalon samples` writes such files.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::ser::SerializeSeq;
use serde::{Deserialize, Serialize, Serializer};

use super::file::{open_regular, read_error};
use super::words::spaced_words;
use crate::context::Budget;
use crate::error::{Command, InputError, Result};

/// Maximum length of a line in bytes.
pub(crate) const LONGEST_SAMPLE: u64 = 1 << 22;

/// An input of the model, with the latents that fire on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Its name.
    pub id: String,
    /// The set it belongs to: real, or the name of the model that generated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// The sample itself, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The text in pieces, one per value of `tokens`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<Vec<String>>,
    /// The name of its image, which is the hash of the image's bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Patches in a line of its image, where they do not make a square.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<u32>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caption: Option<String>,
    /// The row of the data; for a generated sample, the row whose prompt was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row: Option<u64>,
    /// The concepts that it has; `None` without labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concepts: Option<Vec<String>>,
    /// The concepts that are not annotated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Named regions of the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub boxes: Vec<Region>,
    /// The content address of the codes of the activations; the first sample has it for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codes: Option<String>,
    /// The content address of the codes of the tokens that were pooled to these; the first sample has it for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_codes: Option<String>,
    /// The latents that fire on it.
    #[serde(default)]
    pub activations: Vec<Firing>,
}

/// A rectangle in an image, as shares of its width and height, from the upper left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Distance from the left.
    pub x: f32,
    /// Distance from the top.
    pub y: f32,
    /// Width.
    pub width: f32,
    /// Height.
    pub height: f32,
}

impl Region {
    /// True if it is inside the image, with a tolerance for rounding.
    pub fn is_inside(&self) -> bool {
        let within = |from: f32, length: f32| from >= 0.0 && length > 0.0 && from + length <= 1.0 + 1e-3;
        within(self.x, self.width) && within(self.y, self.height)
    }
}

/// A latent that fires on a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Firing {
    /// The latent.
    pub latent: u32,
    /// The activation of the whole sample.
    pub value: f64,
    /// The share of all rows with this latent that fire more strongly, if not all of them are samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<f32>,
    /// The activation on each word.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "short_zeros")]
    pub tokens: Vec<f32>,
    /// The activation on each patch of the image, row by row.
    #[serde(default, skip_serializing_if = "Vec::is_empty", serialize_with = "short_zeros")]
    pub grid: Vec<f32>,
}

/// Writes `0` for zeros, which most values are: shorter than `0.0`.
fn short_zeros<S: Serializer>(values: &[f32], serializer: S) -> std::result::Result<S::Ok, S::Error> {
    let mut list = serializer.serialize_seq(Some(values.len()))?;
    for value in values {
        if *value == 0.0 { list.serialize_element(&0u8)? } else { list.serialize_element(value)? }
    }
    list.end()
}

/// Reads all samples, in the order of the file.
pub fn read_samples(path: &Path, budget: &Budget) -> Result<Vec<Sample>> {
    let (file, length) = open_regular(path)?;
    // In memory a sample takes a few times the bytes of its text.
    let _memory = budget.reserve(length.saturating_mul(4), "samples")?;
    let mut reader = BufReader::new(file);
    let (mut samples, mut line, mut number) = (Vec::new(), String::new(), 0u64);
    loop {
        line.clear();
        number += 1;
        let read = (&mut reader).take(LONGEST_SAMPLE).read_line(&mut line).map_err(|error| read_error(error, path))?;
        if read == 0 {
            return Ok(samples);
        }
        let wrong = |found: String| {
            InputError::new("a line is not a valid sample")
                .expected(
                    r#"an object such as {"id": "s1", "text": "..", "activations": [{"latent": 17, "value": 2.5}]}"#,
                )
                .found(found)
                .at(format!("line {number}"))
                .advice(format!("write the file with {}, or one such object per line", Command("samples")))
        };
        if read as u64 == LONGEST_SAMPLE && !line.ends_with('\n') {
            return Err(wrong(format!("more than {LONGEST_SAMPLE} bytes")).file(path).into());
        }
        if !line.trim().is_empty() {
            let mut sample: Sample =
                serde_json::from_str(&line).map_err(|error| wrong(error.to_string()).file(path))?;
            sample.words = sample.words.map(|words| spaced_words(words, sample.text.as_deref()));
            if let Some(outside) = sample.boxes.iter().find(|region| !region.is_inside()) {
                return Err(InputError::new("a box is not inside its image")
                    .expected("x, y, width and height as shares of the image, between 0 and 1")
                    .found(format!("{}, {}, {}, {}", outside.x, outside.y, outside.width, outside.height))
                    .at(format!("line {number}"))
                    .advice("divide pixels by the width and height of the image")
                    .file(path)
                    .into());
            }
            samples.push(sample);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<Vec<Sample>> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples.jsonl");
        fs::write(&path, text).unwrap();
        read_samples(&path, &Budget::of_machine())
    }

    #[test]
    fn empty_lines_are_skipped() {
        let samples = read(
            "{\"id\": \"a\", \"text\": \"<b>\", \"activations\": [{\"latent\": 3, \"value\": 1.5}]}\n\n{\"id\": \"b\"}",
        )
        .unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].activations[0].latent, samples[0].text.as_deref()), (3, Some("<b>")));
        let firing = Firing { latent: 3, value: 1.5, above: Some(0.25), tokens: vec![0.0, 1.5], grid: Vec::new() };
        let text = serde_json::to_string(&firing).unwrap();
        assert_eq!(text, r#"{"latent":3,"value":1.5,"above":0.25,"tokens":[0,1.5]}"#);
        assert_eq!(serde_json::from_str::<Firing>(&text).unwrap(), firing);
    }

    #[test]
    fn errors_state_the_line() {
        for text in [
            "{\"id\": 3}\n",
            "{\"id\": \"a\"}\n[",
            "{\"id\": \"a\", \"activations\": [{\"latent\": -1, \"value\": 1}]}",
        ] {
            let error = read(text).unwrap_err();
            assert!(error.is_input() && error.to_string().contains("line "), "{error}");
        }
        let outside = r#"{"id": "a", "boxes": [{"name": "b", "x": 0.5, "y": 0, "width": 0.6, "height": 1}]}"#;
        assert!(read(outside).unwrap_err().to_string().contains("box"));
        assert_eq!(read(&outside.replace("0.6", "0.5")).unwrap()[0].boxes[0].name, "b");
        let long = format!("{{\"id\": \"{}\"}}\n", "a".repeat(1 << 22));
        assert!(read(&long).unwrap_err().to_string().contains("more than"));
    }
}
