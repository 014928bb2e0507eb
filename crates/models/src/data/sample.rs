//! A sample: a text or an image, with what is known about it.

use std::ops::Range;
use std::path::PathBuf;

use crate::image::Pixels;

/// A text or an image.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The position in the input, counted from 0; skipped items count.
    pub position: u64,
    /// The id: the `id` column, the name of the file, or else the position.
    pub id: String,
    /// The text or the image.
    pub content: Content,
    /// The file that is the sample; `None` if it is a part of a file.
    pub file: Option<PathBuf>,
    /// A description of an image.
    pub caption: Option<String>,
    /// One label per label column of the input.
    pub labels: Vec<Label>,
    /// Words of a text that are annotated.
    pub words: Option<Words>,
    /// The bytes of the word of a text that the sample is about.
    pub marked: Option<Range<usize>>,
}

/// What a network reads.
#[derive(Clone, Debug)]
pub enum Content {
    /// A text; it is not empty.
    Text(String),
    /// The bytes of an image file, not decoded yet.
    Image(Vec<u8>),
    /// A decoded image.
    Pixels(Pixels),
}

/// The value of a label column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Label {
    /// Not annotated.
    Missing,
    /// A class, a number, yes or no.
    Value(String),
    /// Any number of tags.
    Tags(Vec<String>),
}

/// Annotations of the words of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// The bytes of each word in the text, without the space before it; ascending.
    pub spans: Vec<Range<usize>>,
    /// For each list column, its name and one tag per word.
    pub tags: Vec<(String, Vec<String>)>,
}
