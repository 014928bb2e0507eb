//! An open input: samples in order, skipped items, and where to continue.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use etalon::context::Budget;
use etalon::error::{Error, InputError, Key, Result};

use super::array::ArraySamples;
use super::drawn::DrawnSamples;
use super::files::FileSamples;
use super::first_letters::{FIRST_LETTERS, FirstLetters, LETTER_EXAMPLES};
use super::folder::{Folder, FolderFiles};
use super::joined::Joined;
use super::layouts::{LAYOUTS, layout_of};
use super::options::{ContentKind, InputOptions};
use super::packaged::resolve;
use super::sample::Sample;
use super::sampled::Sampled;
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
    /// The names of the columns with labels of words.
    fn word_columns(&self) -> Vec<String> {
        Vec::new()
    }
    /// The number of items, if it is known.
    fn count(&self) -> Option<u64>;
    /// What to tell the user about the input.
    fn notes(&self) -> Vec<String>;
    /// The files that all items are in; `None` if there may be others.
    fn files(&self) -> Option<Vec<PathBuf>>;
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
    name: String,
}

impl Input {
    /// Opens a path or a packaged name, or several, separated by commas.
    pub fn open(text: &str, options: &InputOptions, budget: &Budget) -> Result<Input> {
        let names = names(text);
        check_drawn(&names, options)?;
        let several = names.len() > 1;
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let options = InputOptions { any_labels: several, ..options.clone() };
            let every = of_input("every", &options.every, index, names.len())?.unwrap_or(1);
            let limit = of_input("limit", &options.limit, index, names.len())?.unwrap_or(u64::MAX);
            sources.push(Box::new(Sampled::new(named_source(name, &options, budget)?, every, limit)));
        }
        let source = match sources.pop() {
            Some(only) if sources.is_empty() => only,
            last => Box::new(Joined::new(sources.into_iter().chain(last).collect())?),
        };
        if several {
            check_label_columns(&*source, options)?;
        }
        Ok(Input { source, position: 0, good: 0, sought: false, skipped: Vec::new(), name: text.to_string() })
    }

    /// The next sample; `None` at the end. Items that cannot be read are skipped and listed.
    #[allow(clippy::should_implement_trait, reason = "an iterator of results would hide the list of skipped items")]
    pub fn next(&mut self) -> Result<Option<Sample>> {
        while let Some(item) = self.source.read()? {
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
        self.source.seek(position)?;
        (self.position, self.sought) = (position, position > 0);
        Ok(())
    }

    /// The position of the next item: the number of items that were read, skipped ones included.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of items, if it is known without reading them.
    pub fn count(&self) -> Option<u64> {
        self.source.count()
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

    /// The files that all samples are in; `None` if there may be others, such as images that a table names.
    pub(super) fn files(&self) -> Option<Vec<PathBuf>> {
        self.source.files()
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

/// The names of the inputs: a path that exists is one, whatever its name.
pub(super) fn names(text: &str) -> Vec<&str> {
    if Path::new(text).exists() { vec![text] } else { text.split(',').map(str::trim).collect() }
}

/// The number of an option for one of the inputs: one number is that of all.
fn of_input(option: &str, numbers: &[u64], index: usize, inputs: usize) -> Result<Option<u64>> {
    if numbers.len() > 1 && numbers.len() != inputs {
        return Err(InputError::new(format!("{} does not fit the inputs", Key(option)))
            .expected(if inputs == 1 {
                "one number".into()
            } else {
                format!("one number, or one for each of {inputs} inputs")
            })
            .found(format!("{} numbers", numbers.len()))
            .into());
    }
    Ok(numbers.get(index).or(numbers.last()).copied())
}

/// Refuses label columns that none of several inputs has.
fn check_label_columns(source: &dyn Source, options: &InputOptions) -> Result<()> {
    let known: Vec<&str> = source.label_columns().iter().map(String::as_str).collect();
    for name in options.label_columns.iter().flatten() {
        if !known.contains(&name.as_str()) && !source.word_columns().contains(name) {
            return Err(InputError::new(format!("none of the inputs has a column `{name}`"))
                .advice(format!("{} takes names of columns", Key("label-columns")))
                .one_of(name, &known)
                .into());
        }
    }
    Ok(())
}

/// Refuses options of published data sets for other inputs.
fn check_drawn(names: &[&str], options: &InputOptions) -> Result<()> {
    let given = if options.classes.is_empty() { options.per_class.map(|_| "per-class") } else { Some("classes") };
    match given {
        Some(option) if !names.iter().any(|name| layout_of(name).is_some()) => {
            let known: Vec<&str> = LAYOUTS.iter().map(|layout| layout.name).collect();
            Err(InputError::new(format!("{} belongs to published data sets", Key(option)))
                .expected(format!("an input NAME:PATH with one of the names {}", known.join(", ")))
                .found(names.join(","))
                .into())
        }
        _ => Ok(()),
    }
}

/// Opens what a name means: a path wins over the others.
fn named_source(name: &str, options: &InputOptions, budget: &Budget) -> Result<Box<dyn Source>> {
    let is_path = Path::new(name).exists();
    if name == FIRST_LETTERS && !is_path {
        let words = options.letter_words.clone().ok_or_else(|| {
            InputError::new(format!("the input `{FIRST_LETTERS}` needs the vocabulary of a language model"))
                .advice("capture it alone, from a language model")
        })?;
        let examples = options.examples.unwrap_or(LETTER_EXAMPLES);
        return Ok(Box::new(FirstLetters::new(words, examples, options.seed)?));
    }
    if let Some((layout, path)) = layout_of(name).filter(|_| !is_path) {
        let path = resolve(path, options.cache.as_deref())?;
        return Ok(Box::new(DrawnSamples::open(layout, &path, options, budget)?));
    }
    source(&resolve(name, options.cache.as_deref())?, options, budget)
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
