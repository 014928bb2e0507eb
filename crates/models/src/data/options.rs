//! Settings of an input.

use std::path::PathBuf;
use std::sync::Arc;

use etalon::error::{InputError, Result};

use super::first_letters::LetterWords;

/// Texts or images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// Texts.
    Text,
    /// Images.
    Image,
}

impl ContentKind {
    /// The names of the kinds, for options.
    pub const NAMES: [&'static str; 2] = ["text", "image"];

    /// The kind of a name.
    pub fn parse(name: &str) -> Result<ContentKind> {
        match name {
            "text" => Ok(ContentKind::Text),
            "image" => Ok(ContentKind::Image),
            _ => Err(InputError::new(format!("there is no kind of input `{name}`"))
                .one_of(name, &ContentKind::NAMES)
                .into()),
        }
    }

    /// The plural, for messages.
    pub fn plural(self) -> &'static str {
        match self {
            ContentKind::Text => "texts",
            ContentKind::Image => "images",
        }
    }
}

/// Settings of an input. The default suits tables with the usual column names.
#[derive(Clone, Debug, Default)]
pub struct InputOptions {
    /// Texts or images, where an input has both; otherwise it is recognised.
    pub kind: Option<ContentKind>,
    /// The column of texts [default: `text`, or the only column of text].
    pub text_column: Option<String>,
    /// The column of image bytes or paths [default: `image`, `img` or `file_name`, or the only column of bytes].
    pub image_column: Option<String>,
    /// The column of ids [default: `id`].
    pub id_column: Option<String>,
    /// The column of captions of images [default: `caption`].
    pub caption_column: Option<String>,
    /// The list column of words [default: `words` or `tokens`]; the other list columns annotate them.
    pub words_column: Option<String>,
    /// The columns of labels [default: all others].
    pub label_columns: Option<Vec<String>>,
    /// Columns of labels whose cells are lists of tags, separated by `|`.
    pub tag_columns: Vec<String>,
    /// Every line of a `.txt` file is a sample.
    pub lines: bool,
    /// The folder of a file is its class.
    pub folder_classes: bool,
    /// Maximum number of samples: one number, or one per input; empty for all.
    pub limit: Vec<u64>,
    /// Read every n-th sample: one number, or one per input; empty for every sample.
    pub every: Vec<u64>,
    /// Ignore label columns that the input does not have, because another one may.
    pub any_labels: bool,
    /// Random seed of inputs that are drawn.
    pub seed: u64,
    /// Classes of a published data set, by name or number; empty for the usual ones.
    pub classes: Vec<String>,
    /// Texts of every class of a published data set [default: 2,500].
    pub per_class: Option<u64>,
    /// In-context examples of prompts about first letters [default: 10].
    pub examples: Option<usize>,
    /// The words of prompts about first letters; captures find them in the vocabulary of the network.
    pub letter_words: Option<Arc<LetterWords>>,
    /// The directory of packaged data [default: see [`super::cache_directory`]].
    pub cache: Option<PathBuf>,
}
