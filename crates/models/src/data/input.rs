//! An open input: samples in order, skipped items, and where to continue.

use std::fmt::Display;
use std::path::Path;

use etalon::context::Budget;
use etalon::error::{Error, InputError, Result};

use super::array::ArraySamples;
use super::files::FileSamples;
use super::folder::{Folder, FolderFiles};
use super::options::{ContentKind, InputOptions};
use super::packaged::resolve;
use super::sample::Sample;
use super::table::TableSamples;
use super::text_file::LineSamples;

/// An item of a source.
pub(super) enum Item {
    /// A sample; its position is set by [`Input`].
    Sample(Box<Sample>),
    /// The id, or nothing if it is the position, and the reason why it cannot be read.
    Corrupt(Option<String>, String),
}

/// Samples of one kind of input.
pub(super) trait Source: Send {
    /// Texts or images.
    fn kind(&self) -> ContentKind;
    /// The names of the label columns.
    fn label_columns(&self) -> &[String];
    /// The number of items, if it is known.
    fn count(&self) -> Option<u64>;
    /// What to tell the user about the input.
    fn notes(&self) -> Vec<String>;
    /// The next item.
    fn read(&mut self) -> Result<Option<Item>>;
    /// Moves to an item by its position; the end if there are fewer.
    fn seek(&mut self, position: u64) -> Result<()>;
}

/// An item that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Its position in the input.
    pub position: u64,
    /// Its id.
    pub id: String,
    /// Why it was skipped.
    pub reason: String,
}

/// Samples of a file, a folder or a packaged data set, in a fixed order.
///
/// ```
/// use etalon::context::Budget;
/// use etalon_models::data::{Content, Input, InputOptions};
///
/// let folder = tempfile::tempdir().unwrap();
/// let file = folder.path().join("texts.jsonl");
/// std::fs::write(&file, "{\"text\": \"one\"}\nnot JSON\n{\"text\": \"two\"}\n").unwrap();
/// let mut input = Input::open(file.to_str().unwrap(), &InputOptions::default(), &Budget::new(1 << 20))?;
/// let mut texts = Vec::new();
/// while let Some(sample) = input.next()? {
///     let Content::Text(text) = sample.content else { continue };
///     texts.push((sample.position, text));
/// }
/// assert_eq!(texts, [(0, "one".to_string()), (2, "two".to_string())]);
/// assert_eq!((input.skipped().len(), input.position()), (1, 3));
/// # Ok::<(), etalon::error::Error>(())
/// ```
pub struct Input {
    source: Box<dyn Source>,
    position: u64,
    /// Samples that were returned and not rejected, since the start or the last seek.
    good: u64,
    sought: bool,
    skipped: Vec<Skipped>,
    limit: u64,
    name: String,
}

impl Input {
    /// Opens a path or a packaged name.
    pub fn open(text: &str, options: &InputOptions, budget: &Budget) -> Result<Input> {
        let path = resolve(text, options.cache.as_deref())?;
        let source = source(&path, options, budget)?;
        let limit = options.limit.unwrap_or(u64::MAX);
        Ok(Input { source, position: 0, good: 0, sought: false, skipped: Vec::new(), limit, name: text.to_string() })
    }

    /// The next sample; `None` at the end. Items that cannot be read are skipped and listed.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would hide the list of skipped items")]
    pub fn next(&mut self) -> Result<Option<Sample>> {
        while self.position < self.limit {
            let Some(item) = self.source.read()? else { break };
            let position = self.position;
            self.position += 1;
            match item {
                Item::Sample(mut sample) => {
                    sample.position = position;
                    if sample.id.is_empty() {
                        sample.id = position.to_string();
                    }
                    self.good += 1;
                    return Ok(Some(*sample));
                }
                Item::Corrupt(id, reason) => {
                    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| position.to_string());
                    self.skipped.push(Skipped { position, id, reason });
                }
            }
        }
        if self.good == 0 && !self.sought { Err(self.nothing()) } else { Ok(None) }
    }

    /// Lists a sample as skipped after all, because its image cannot be decoded or its text has no token.
    pub fn reject(&mut self, sample: &Sample, reason: impl Display) {
        self.good = self.good.saturating_sub(1);
        self.skipped.push(Skipped { position: sample.position, id: sample.id.clone(), reason: reason.to_string() });
    }

    /// Moves to a position that [`Input::position`] returned in an earlier run.
    pub fn seek(&mut self, position: u64) -> Result<()> {
        self.source.seek(position.min(self.limit))?;
        (self.position, self.sought) = (position.min(self.limit), position > 0);
        Ok(())
    }

    /// The position of the next item: the number of items that were read, skipped ones included.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of items, if it is known without reading them.
    pub fn count(&self) -> Option<u64> {
        self.source.count().map(|count| count.min(self.limit))
    }

    /// Items that were skipped since the input was opened, in order.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Texts or images.
    pub fn kind(&self) -> ContentKind {
        self.source.kind()
    }

    /// The names of the label columns; every sample has one label for each.
    pub fn label_columns(&self) -> &[String] {
        self.source.label_columns()
    }

    /// What to tell the user: which columns were chosen, which files were left out.
    pub fn notes(&self) -> Vec<String> {
        self.source.notes()
    }

    /// The error of an input without a single sample.
    fn nothing(&self) -> Error {
        let what = self.source.kind().plural();
        let error =
            InputError::new(format!("none of the {what} of the input can be read")).found(match self.skipped.first() {
                Some(first) => format!("{} items; the first is skipped because: {}", self.skipped.len(), first.reason),
                None => "no items".into(),
            });
        error.advice("check that this is the right input").file(Path::new(&self.name)).into()
    }
}

/// Opens what a path is.
fn source(path: &Path, options: &InputOptions, budget: &Budget) -> Result<Box<dyn Source>> {
    if path.is_dir() {
        let folder = Folder::list(path, options, budget)?;
        return match folder.files {
            FolderFiles::Tables(files) => Ok(Box::new(TableSamples::open(&files, folder.notes, options, budget)?)),
            FolderFiles::Samples(kind, files) => {
                Ok(Box::new(FileSamples::new(path, files, kind, folder.notes, options, budget)?))
            }
        };
    }
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    match ending.as_str() {
        "txt" | "md" if options.lines => Ok(Box::new(LineSamples::open(path, budget)?)),
        "txt" | "md" => Ok(Box::new(FileSamples::single(path, budget)?)),
        "npy" => Ok(Box::new(ArraySamples::open(path, options, budget)?)),
        _ => Ok(Box::new(TableSamples::open(&[path.to_path_buf()], Vec::new(), options, budget)?)),
    }
}
