//! Dictionaries on disk: Etalon's own, and those of other programs. Nothing in a checkpoint is ever executed.
//!
//! A format is one file here and one entry of [`FORMATS`]. Each reader turns its own names, orientations and scales into
//! the one form that [`Linear`] has.

mod config;
mod dictionary_learning;
mod etalon;
mod fold;
mod gemma_scope;
mod llama_scope;
mod saelens;
mod sparsify;
mod weights;

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value};

use super::dictionary::Dictionary;
use super::linear::Linear;
use crate::context::Budget;
use crate::error::{Error, InputError, Result};
use crate::store::disk;

/// A dictionary from a file.
#[derive(Debug)]
pub struct Loaded {
    /// The dictionary.
    pub dictionary: Box<dyn Dictionary>,
    /// What was recognised, such as "SAELens 6, jumprelu, 24 → 64".
    pub recognised: String,
    /// What the user should know.
    pub notes: Vec<String>,
    /// What else the checkpoint says about itself.
    pub about: Map<String, Value>,
    /// How many bytes its files have.
    pub bytes: u64,
}

impl Loaded {
    fn new(format: &str, dictionary: impl Dictionary) -> Loaded {
        let card = dictionary.card();
        let k = card.k.map_or(String::new(), |k| format!(", k {k}"));
        let recognised = format!("{format}, {}, {} → {}{k}", card.arch, card.width, card.latents);
        Loaded { recognised, dictionary: Box::new(dictionary), notes: Vec::new(), about: Map::new(), bytes: 0 }
    }
}

/// Where a checkpoint lies.
#[derive(Debug)]
struct DetectedCheckpoint {
    weights: PathBuf,
    config: Option<PathBuf>,
}

impl DetectedCheckpoint {
    /// Two files of fixed names; the path may be either of them, or their directory.
    fn pair(path: &Path, weights: &str, config: &str) -> Option<DetectedCheckpoint> {
        let named = |name: &str| path.is_file() && path.file_name().is_some_and(|there| there == name);
        let directory = if named(weights) || named(config) { path.parent()? } else { path };
        let (weights, config) = (directory.join(weights), directory.join(config));
        (weights.is_file() && config.is_file()).then_some(DetectedCheckpoint { weights, config: Some(config) })
    }

    /// One file: of a fixed name in a directory, or any that is named itself and has the right ending.
    fn file(path: &Path, names: &[&str], fits: impl Fn(&str) -> bool) -> Option<DetectedCheckpoint> {
        let weights = if path.is_file() {
            Some(path.to_path_buf()).filter(|path| path.file_name().is_some_and(|name| fits(&name.to_string_lossy())))
        } else {
            names.iter().map(|name| path.join(name)).find(|path| path.is_file())
        };
        weights.map(|weights| DetectedCheckpoint { weights, config: None })
    }
}

type Writer = fn(&dyn Dictionary, &Map<String, Value>, &Path) -> Result<()>;

/// A checkpoint format.
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whose it is.
    pub program: &'static str,
    /// The files that it is recognised by.
    pub files: &'static str,
    find: fn(&Path) -> Option<DetectedCheckpoint>,
    read: fn(&DetectedCheckpoint, &Budget) -> Result<Loaded>,
    write: Option<Writer>,
}

impl Format {
    /// Can dictionaries be written in this format?
    pub fn is_written(&self) -> bool {
        self.write.is_some()
    }
}

/// All formats, in the order in which they are tried.
pub const FORMATS: &[Format] = &[
    Format {
        name: "etalon",
        program: "Etalon",
        files: "sae.json + weights.safetensors",
        find: etalon::find,
        read: etalon::read,
        write: Some(etalon::write),
    },
    Format {
        name: "saelens",
        program: "SAELens",
        files: "cfg.json + sae_weights.safetensors",
        find: saelens::find,
        read: saelens::read,
        write: Some(saelens::write),
    },
    Format {
        name: "sparsify",
        program: "sparsify",
        files: "cfg.json + sae.safetensors",
        find: sparsify::find,
        read: sparsify::read,
        write: None,
    },
    Format {
        name: "llama_scope",
        program: "Llama Scope",
        files: "hyperparams.json + checkpoints/final.safetensors",
        find: llama_scope::find,
        read: llama_scope::read,
        write: None,
    },
    Format {
        name: "dictionary_learning",
        program: "dictionary_learning",
        files: "ae.pt + config.json",
        find: dictionary_learning::find,
        read: dictionary_learning::read,
        write: None,
    },
    Format {
        name: "gemma_scope",
        program: "Gemma Scope",
        files: "params.npz",
        find: gemma_scope::find,
        read: gemma_scope::read,
        write: None,
    },
];

/// Reads a dictionary: a directory, or the file of weights in it. It holds a reservation of the memory that it needs.
pub fn load(path: &Path, budget: &Budget) -> Result<Loaded> {
    let found = FORMATS.iter().find_map(|format| Some((format, (format.find)(path)?)));
    let Some((format, found)) = found else { return Err(unknown(path).into()) };
    let mut loaded = (format.read)(&found, budget)?;
    let files = [Some(&found.weights), found.config.as_ref()].into_iter().flatten();
    loaded.bytes = files.filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
    let card = loaded.dictionary.card();
    let bytes = Linear::bytes(card.latents, card.width);
    let memory = budget.reserve(bytes, format!("a dictionary of {} latents", card.latents))?;
    loaded.dictionary.hold(memory);
    Ok(loaded)
}

/// Does it look like a dictionary in one of the formats?
pub fn is_known(path: &Path) -> bool {
    FORMATS.iter().any(|format| (format.find)(path).is_some())
}

/// Is this a finished dictionary of Etalon's own?
pub fn is_etalon(directory: &Path) -> bool {
    directory.is_dir() && etalon::find(directory).is_some()
}

/// Writes a dictionary in a format, with whatever is known about it. The directory must be new or empty, or hold this
/// very dictionary.
pub fn save(dictionary: &dyn Dictionary, about: &Map<String, Value>, format: &str, directory: &Path) -> Result<()> {
    let writer = FORMATS.iter().find(|known| known.name == format).and_then(|known| known.write);
    let Some(write) = writer else {
        let names: Vec<&str> = FORMATS.iter().filter(|format| format.is_written()).map(|format| format.name).collect();
        return Err(InputError::new("dictionaries cannot be written in this format")
            .expected(names.join(" or "))
            .found(format)
            .into());
    };
    if let Some(other) = names_in(directory).into_iter().next() {
        let same = |loaded: Loaded| loaded.dictionary.id() == dictionary.id();
        let whole = directory.join(etalon::SETTINGS).is_file();
        if whole && format == "etalon" && load(directory, &Budget::new(u64::MAX)).is_ok_and(same) {
            return Ok(());
        }
        // Settings come last: weights without them are the remains of a run that was stopped.
        if whole || other != "weights.safetensors" {
            return Err(InputError::new("the output directory holds other files")
                .expected("a new or empty directory")
                .found(format!("`{other}`"))
                .advice("choose another directory")
                .file(directory)
                .into());
        }
    }
    write(dictionary, about, directory)
}

/// The names in a directory, sorted; none if it cannot be listed.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn unknown(path: &Path) -> InputError {
    let expected: Vec<String> = FORMATS.iter().map(|format| format!("{} ({})", format.program, format.files)).collect();
    let complaint = InputError::new("this is not a dictionary that Etalon can read").expected(expected.join("; or "));
    if !path.exists() {
        return complaint.found("nothing of this name").file(path);
    }
    let names = names_in(path);
    let found = match (path.is_file(), names.is_empty()) {
        (true, _) => "a file of another name, or without its settings beside it".into(),
        (_, true) => "an empty directory".into(),
        _ => names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let below = checkpoints_below(path, 4);
    let complaint = complaint.found(found).file(path);
    match below.is_empty() {
        true => complaint,
        false => complaint.advice(format!("name one of the dictionaries in it: {}", below.join(", "))),
    }
}

/// Directories below that hold a checkpoint, for advice; a few are enough.
fn checkpoints_below(path: &Path, depth: usize) -> Vec<String> {
    let mut found = Vec::new();
    for name in names_in(path).into_iter().take(100) {
        let inner = path.join(&name);
        if depth == 0 || found.len() >= 5 || !inner.is_dir() || inner.is_symlink() {
            continue;
        }
        if FORMATS.iter().any(|format| (format.find)(&inner).is_some()) {
            found.push(name);
        } else {
            found.extend(checkpoints_below(&inner, depth - 1).into_iter().map(|below| format!("{name}/{below}")));
        }
    }
    found.truncate(5);
    found
}

/// The site of a network that a dictionary reads, from what its checkpoint says about itself.
fn site(about: &Map<String, Value>) -> Option<&str> {
    let inner = about.get("metadata").or(about.get("config")).and_then(Value::as_object);
    inner.and_then(|inner| inner.get("hook_name")).or(about.get("hook_name")).and_then(Value::as_str)
}

/// A dictionary as what other programs know.
fn linear<'a>(dictionary: &'a dyn Dictionary, program: &str) -> Result<&'a Linear> {
    dictionary.downcast_ref().ok_or_else(|| {
        InputError::new(format!("{program} has no dictionaries that choose latents in this way"))
            .advice("choose another format, such as etalon")
            .into()
    })
}

/// What cannot be read yet.
fn transcoder(file: &Path) -> InputError {
    InputError::new("this is a transcoder: it reads one place of a network and writes another")
        .expected("a dictionary that reconstructs what it reads")
        .file(file)
}

/// Names, shapes and values.
type Tensors = Vec<(&'static str, Vec<usize>, Vec<f32>)>;

fn write_tensors(file: &Path, tensors: Tensors) -> Result<()> {
    let bug = |error: safetensors::SafeTensorError| Error::Bug(format!("tensors cannot be written: {error}"));
    let mut views = Vec::new();
    for (name, shape, values) in &tensors {
        let bytes = bytemuck::cast_slice(values);
        views.push((*name, TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(bug)?));
    }
    let bytes = safetensors::serialize(views, None).map_err(bug)?;
    disk::write(file, &bytes)
}

fn write_settings(file: &Path, settings: &Map<String, Value>) -> Result<()> {
    let text = serde_json::to_string_pretty(settings).map_err(|error| Error::Bug(format!("settings: {error}")))?;
    disk::write(file, format!("{text}\n").as_bytes())
}
