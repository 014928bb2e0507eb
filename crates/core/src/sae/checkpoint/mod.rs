//! Checkpoint formats: Etalon's own, and those of other programs. Nothing in a checkpoint is ever executed.
//!
//! A format is one file here and one entry of [`FORMATS`]. Each reader converts its names, orientations and scales to
//! those of [`Linear`].

mod config;
mod dictionary_learning;
mod etalon;
mod fold;
mod gemma_scope;
mod llama_scope;
mod overcomplete;
mod overcomplete_settings;
mod saelens;
mod sparsify;
mod weights;

pub use overcomplete_settings::{parse_settings, split_settings};

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Map, Value};

use super::dictionary::Dictionary;
use super::linear::Linear;
use crate::context::Budget;
use crate::error::{Error, InputError, Key, Result};
use crate::input::{Tensor, Tensors, hub};
use crate::store::disk;

/// A dictionary read from a checkpoint.
#[derive(Debug)]
#[non_exhaustive]
pub struct Loaded {
    /// The dictionary.
    pub dictionary: Box<dyn Dictionary>,
    /// Program, architecture and size, such as "SAELens 6, jumprelu, 24 → 64".
    pub recognised: String,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// Other metadata of the checkpoint.
    pub about: Map<String, Value>,
    /// Size of the files in bytes.
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

/// The files of a checkpoint.
#[derive(Debug)]
struct DetectedCheckpoint {
    weights: PathBuf,
    config: Option<PathBuf>,
    /// Settings that the user gave, which the files do not contain.
    given: Map<String, Value>,
}

impl DetectedCheckpoint {
    /// Two files of fixed names; the path may be either of them, or their directory.
    fn pair(path: &Path, weights: &str, config: &str) -> Option<DetectedCheckpoint> {
        let named = |name: &str| path.is_file() && path.file_name().is_some_and(|actual| actual == name);
        let directory = if named(weights) || named(config) { path.parent()? } else { path };
        let (weights, config) = (directory.join(weights), directory.join(config));
        (weights.is_file() && config.is_file()).then_some(DetectedCheckpoint {
            weights,
            config: Some(config),
            given: Map::new(),
        })
    }

    /// One file: the first of `names` in a directory, or the path itself if it is a file whose name `fits`.
    fn file(path: &Path, names: &[&str], fits: impl Fn(&str) -> bool) -> Option<DetectedCheckpoint> {
        let weights = if path.is_file() {
            Some(path.to_path_buf()).filter(|path| path.file_name().is_some_and(|name| fits(&name.to_string_lossy())))
        } else {
            names.iter().map(|name| path.join(name)).find(|path| path.is_file())
        };
        weights.map(|weights| DetectedCheckpoint { weights, config: None, given: Map::new() })
    }
}

type Writer = fn(&dyn Dictionary, &Map<String, Value>, &Path) -> Result<()>;

/// A checkpoint format.
pub struct CheckpointFormat {
    /// The name on the command line.
    pub name: &'static str,
    /// The program that defines it.
    pub program: &'static str,
    /// The files that identify it.
    pub files: &'static str,
    find: fn(&Path) -> Option<DetectedCheckpoint>,
    read: fn(&DetectedCheckpoint, &Budget) -> Result<Loaded>,
    write: Option<Writer>,
}

impl CheckpointFormat {
    /// Whether dictionaries can be written in this format.
    pub fn is_written(&self) -> bool {
        self.write.is_some()
    }
}

/// All formats, in the order in which they are tried.
pub const FORMATS: &[CheckpointFormat] = &[
    CheckpointFormat {
        name: "etalon",
        program: "Etalon",
        files: "sae.json + weights.safetensors",
        find: etalon::find,
        read: etalon::read,
        write: Some(etalon::write),
    },
    CheckpointFormat {
        name: "saelens",
        program: "SAELens",
        files: "cfg.json + sae_weights.safetensors",
        find: saelens::find,
        read: saelens::read,
        write: Some(saelens::write),
    },
    CheckpointFormat {
        name: "sparsify",
        program: "sparsify",
        files: "cfg.json + sae.safetensors",
        find: sparsify::find,
        read: sparsify::read,
        write: None,
    },
    CheckpointFormat {
        name: "llama_scope",
        program: "Llama Scope",
        files: "hyperparams.json + checkpoints/final.safetensors",
        find: llama_scope::find,
        read: llama_scope::read,
        write: None,
    },
    CheckpointFormat {
        name: "overcomplete",
        program: "overcomplete",
        files: "sae.pt, state_dict.pt or another .pt or .pth file, and settings in config.json",
        find: overcomplete::find,
        read: overcomplete::read,
        write: None,
    },
    CheckpointFormat {
        name: "dictionary_learning",
        program: "dictionary_learning",
        files: "ae.pt + config.json",
        find: dictionary_learning::find,
        read: dictionary_learning::read,
        write: None,
    },
    CheckpointFormat {
        name: "gemma_scope",
        program: "Gemma Scope",
        files: "params.npz",
        find: gemma_scope::find,
        read: gemma_scope::read,
        write: None,
    },
];

/// The settings that the files of a checkpoint contain, without its weights; empty if it is no checkpoint of SAELens.
pub fn settings(path: &Path) -> Result<Map<String, Value>> {
    let (path, _) = located(path)?;
    let found = FORMATS.iter().find_map(|format| Some((format.name, (format.find)(&path)?)));
    match found {
        Some(("saelens", detected)) => Ok(config::Config::read_optional(detected.config.as_deref())?.fields().clone()),
        _ => Ok(Map::new()),
    }
}

/// Reads a dictionary from a directory, or from the file of weights in it. Settings that the files do not contain may follow
/// the path: `sae.pt:k=6`. If there is nothing at the path, it may be the name of a repository of the Hugging Face hub that is in
/// the user's cache, `org/name[/path][@revision]`. The dictionary holds a reservation of its memory.
pub fn load(path: &Path, budget: &Budget) -> Result<Loaded> {
    load_with(path, Map::new(), budget)
}

/// Reads a dictionary, with settings that its files do not contain.
pub fn load_with(path: &Path, mut given: Map<String, Value>, budget: &Budget) -> Result<Loaded> {
    let (path, settings) = located(path)?;
    let path = path.as_path();
    given.extend(parse_settings(&settings)?);
    let detected = FORMATS.iter().find_map(|format| Some((format, (format.find)(path)?)));
    let Some((format, mut detected)) = detected else { return Err(unknown(path).into()) };
    if !given.is_empty() && format.name != "overcomplete" {
        return Err(InputError::new("only dictionaries of overcomplete take settings")
            .found(format!("a dictionary of {}, whose files contain its settings", format.program))
            .advice(format!("leave out {}, or what follows the path", Key("settings")))
            .file(path)
            .into());
    }
    detected.given = given;
    let mut loaded = (format.read)(&detected, budget)?;
    let files = [Some(&detected.weights), detected.config.as_ref()].into_iter().flatten();
    loaded.bytes = files.filter_map(|file| fs::metadata(file).ok()).map(|file| file.len()).sum();
    let card = loaded.dictionary.card();
    let bytes = Linear::bytes(card.latents, card.width);
    let memory = budget.reserve(bytes, format!("a dictionary of {} latents", card.latents))?;
    loaded.dictionary.hold(memory);
    Ok(loaded)
}

/// Whether a path has the files of one of the formats.
pub fn is_known(path: &Path) -> bool {
    located(path).is_ok_and(|(path, _)| FORMATS.iter().any(|format| (format.find)(&path).is_some()))
}

/// Where a dictionary is, and the settings that follow its path.
fn located(path: &Path) -> Result<(PathBuf, Vec<String>)> {
    let (path, settings) = split_settings(path);
    let in_cache = if path.exists() { None } else { hub::in_cache(&path.to_string_lossy()) };
    Ok((in_cache.transpose()?.unwrap_or(path), settings))
}

/// Whether a directory has a complete dictionary in Etalon's format.
pub fn is_etalon(directory: &Path) -> bool {
    directory.is_dir() && etalon::find(directory).is_some()
}

/// Writes a dictionary in a format, with its metadata. The directory must be new or empty, or contain the same
/// dictionary.
pub fn save(dictionary: &dyn Dictionary, about: &Map<String, Value>, format: &str, directory: &Path) -> Result<()> {
    let writer = FORMATS.iter().find(|known| known.name == format).and_then(|known| known.write);
    let Some(write) = writer else {
        let names: Vec<&str> = FORMATS.iter().filter(|format| format.is_written()).map(|format| format.name).collect();
        return Err(InputError::new("Etalon cannot write dictionaries in this format")
            .expected(names.join(" or "))
            .found(format)
            .into());
    };
    let same = |loaded: Loaded| loaded.dictionary.id() == dictionary.id();
    if format == "etalon" && is_etalon(directory) && load(directory, &Budget::new(u64::MAX)).is_ok_and(same) {
        return Ok(());
    }
    check_vacant(directory)?;
    write(dictionary, about, directory)
}

/// Refuses an output directory that contains anything but the rest of an interrupted [`save`].
pub fn check_vacant(directory: &Path) -> Result<()> {
    let refuse = |found: String| {
        InputError::new("the output directory holds other files")
            .expected("a new or empty directory")
            .found(found)
            .advice("choose another directory")
            .file(directory)
    };
    if directory.exists() && !directory.is_dir() {
        return Err(refuse("a file of that name".into()).into());
    }
    // Settings are written last: weights without settings are left over from an interrupted run.
    let complete = directory.join(etalon::SETTINGS).exists();
    let left_over = |name: &String| disk::is_temporary(name) || (name == etalon::WEIGHTS && !complete);
    match names_in(directory).into_iter().find(|name| !left_over(name)) {
        Some(other) => Err(refuse(format!("`{other}`")).into()),
        None => Ok(()),
    }
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
    let error =
        InputError::new("this is not a dictionary that Etalon can read").expected(expected.join("; or ")).file(path);
    if !path.exists() {
        let error = error.found("nothing of this name");
        return match hub::download_command(&path.to_string_lossy()) {
            Some(download) => error
                .advice(format!("check the path; a repository of the Hugging Face hub is downloaded with {download}")),
            None => error,
        };
    }
    let names = names_in(path);
    let found = match (path.is_file(), names.is_empty()) {
        (true, _) => "a file of another name, or without its settings in the same directory".into(),
        (_, true) => "an empty directory".into(),
        _ => names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", "),
    };
    let below = checkpoints_below(path, 4);
    let error = error.found(found);
    match below.is_empty() {
        true => error,
        false => error.advice(format!("pass one of the dictionaries in it: {}", below.join(", "))),
    }
}

/// Up to five directories below a path that contain a checkpoint, for advice.
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

/// The network site that a dictionary reads, from the metadata of its checkpoint.
fn site(about: &Map<String, Value>) -> Option<&str> {
    let inner = about.get("metadata").or(about.get("config")).and_then(Value::as_object);
    inner.and_then(|inner| inner.get("hook_name")).or(about.get("hook_name")).and_then(Value::as_str)
}

/// The dictionary as a [`Linear`], which is what other programs support.
fn linear<'a>(dictionary: &'a dyn Dictionary, program: &str) -> Result<&'a Linear> {
    dictionary.downcast_ref().ok_or_else(|| {
        InputError::new(format!("{program} does not support dictionaries with random codes"))
            .advice("choose another format, such as etalon")
            .into()
    })
}

/// The error of a transcoder, which cannot be read.
fn transcoder(file: &Path) -> InputError {
    InputError::new("this is a transcoder: it reads one site of a network and writes another")
        .expected("a dictionary that reconstructs what it reads")
        .file(file)
}

/// Writes tensors as a safetensors file and returns the hash of its bytes.
pub(super) fn write_tensors(file: &Path, tensors: &Tensors) -> Result<blake3::Hash> {
    let bug = |error: safetensors::SafeTensorError| Error::Bug(format!("tensors cannot be written: {error}"));
    let mut views = Vec::new();
    for (name, tensor) in tensors {
        let bytes = bytemuck::cast_slice(&tensor.values);
        views.push((name.as_str(), TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).map_err(bug)?));
    }
    let bytes = safetensors::serialize(views, None).map_err(bug)?;
    disk::write(file, &bytes)?;
    Ok(blake3::hash(&bytes))
}

/// Adds a tensor under a name.
fn insert(tensors: &mut Tensors, name: &str, shape: &[usize], values: Vec<f32>) {
    tensors.insert(name.into(), Tensor { shape: shape.to_vec(), values });
}

fn write_settings(file: &Path, settings: &Map<String, Value>) -> Result<()> {
    let text = serde_json::to_string_pretty(settings).map_err(|error| Error::Bug(format!("settings: {error}")))?;
    disk::write(file, format!("{text}\n").as_bytes())
}
