//! Models in directories: the layouts of Hugging Face, timm and torchvision.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{Error, InputError, Result};
use etalon::input::{Map, TensorFile};
use serde_json::{Map as Object, Value};

use super::configuration::{self, WEIGHTS};
use super::file::open_file;
use super::opened::{Opened, insert_all, read_json};

/// Endings of other files with weights.
const ENDINGS: [&str; 7] = ["safetensors", "gguf", "pth", "pt", "ckpt", "bin", "pkl"];

/// Files with one of these endings that contain no weights.
const OTHERS: [&str; 5] = ["tokenizer.bin", "training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt"];

/// Most shards of an index.
const MOST_SHARDS: usize = 4096;

/// Opens a directory.
pub(super) fn open(directory: &Path, budget: &Budget) -> Result<Opened> {
    let model_json = directory.join("model.json");
    if model_json.is_file() {
        return open_file(&model_json, budget);
    }
    let mut opened = match WEIGHTS.iter().map(|name| directory.join(name)).find(|path| path.is_file()) {
        Some(path) if path.extension().is_some_and(|ending| ending == "json") => open_shards(&path, budget)?,
        Some(path) => open_file(&path, budget)?,
        None => open_file(&only_weights(directory)?, budget)?,
    };
    if opened.config.is_empty() {
        opened.config = configuration::in_directory(directory, budget)?;
    }
    Ok(opened)
}

/// The only file with weights in a directory.
fn only_weights(directory: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list a directory", directory))? {
        let path = entry.map_err(Error::io("list a directory", directory))?.path();
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default().to_ascii_lowercase();
        let other = path.file_name().is_some_and(|name| OTHERS.iter().any(|other| name == *other));
        if ENDINGS.contains(&ending.as_str()) && !other && path.is_file() {
            found.push(path);
        }
    }
    found.sort();
    let names = || -> Vec<_> { found.iter().take(10).filter_map(|path| path.file_name()?.to_str()).collect() };
    match &found[..] {
        [only] => Ok(only.clone()),
        [] => Err(InputError::new("the directory contains no weights")
            .expected(format!("{}, or one file that ends in .{}", WEIGHTS.join(", "), ENDINGS.join(", .")))
            .advice("check the path; a model of Hugging Face has to be downloaded completely")
            .file(directory)
            .into()),
        _ => Err(InputError::new("the directory contains several files with weights")
            .expected("one")
            .found(format!("{}{}", names().join(", "), if found.len() > 10 { ", ..." } else { "" }))
            .advice("give the path of one of these files")
            .file(directory)
            .into()),
    }
}

/// Opens the shards of an index, which has the file of every tensor.
fn open_shards(index: &Path, budget: &Budget) -> Result<Opened> {
    let wrong = |what: &str| InputError::new(what).advice("copy or download the model again").file(index);
    let read = read_json(index, budget)?;
    let Some(Value::Object(files)) = read.get("weight_map") else {
        return Err(wrong("the index does not list tensors").expected("an object `weight_map`").into());
    };
    let shards: BTreeSet<&str> = files.values().filter_map(Value::as_str).collect();
    if files.is_empty() || files.values().any(|file| !file.is_string()) {
        return Err(wrong("the index does not name the file of every tensor").expected("names of files").into());
    }
    if shards.len() > MOST_SHARDS {
        return Err(wrong("the index names too many files").expected(MOST_SHARDS).found(shards.len()).into());
    }
    let directory = index.parent().unwrap_or(Path::new(""));
    let (mut tensors, mut maps, mut format) = (BTreeMap::new(), Vec::new(), "");
    for shard in &shards {
        // A name with a folder could lead out of the directory.
        if Path::new(shard).file_name().is_none_or(|name| name != *shard) {
            return Err(wrong("the index names a file outside of its directory").found(shard.escape_debug()).into());
        }
        let path = directory.join(shard);
        if !path.is_file() {
            return Err(wrong("a shard is missing")
                .expected(format!("{} files; `{shard}` is one of them", shards.len()))
                .advice("download the model again, completely")
                .into());
        }
        let file = Arc::new(TensorFile::open(&path, budget)?);
        insert_all(&mut tensors, &file)?;
        maps.push(Arc::new(Map::open_input(&path)?));
        format = file.format();
    }
    for (name, file) in files {
        if !tensors.contains_key(name) {
            let file = file.as_str().unwrap_or_default();
            let error = InputError::new(format!("the tensor `{name}` is not in the file that the index names"))
                .advice("download the model again, completely");
            return Err(error.file(&directory.join(file)).into());
        }
    }
    let count = shards.len();
    let recognised = format!("{format}, {count} shard{}", if count == 1 { "" } else { "s" });
    Ok(Opened { config: Object::new(), tensors, recognised, gguf: None, files: maps })
}
