//! The configuration beside the files with weights.

use std::path::Path;

use etalon::context::Budget;
use etalon::error::Result;
use serde_json::{Map as Object, Value};

use super::opened::read_json;

/// The files of a Hugging Face model, in the order in which its library looks for them.
pub(super) const WEIGHTS: [&str; 5] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.pth",
];

/// Configurations: of Hugging Face, and of models of other libraries.
const CONFIGURATIONS: [&str; 2] = ["config.json", "architecture.json"];

/// The configuration in a directory; empty if there is none.
pub(super) fn in_directory(directory: &Path, budget: &Budget) -> Result<Object<String, Value>> {
    let path = CONFIGURATIONS.iter().map(|name| directory.join(name)).find(|path| path.is_file());
    path.map_or(Ok(Object::new()), |path| read_json(&path, budget))
}

/// The configuration beside a file, if the file has a name that belongs to one.
pub(super) fn beside(path: &Path, budget: &Budget) -> Result<Object<String, Value>> {
    let belongs = path.file_name().is_some_and(|name| WEIGHTS.iter().any(|known| name == *known));
    match path.parent() {
        Some(directory) if belongs => in_directory(directory, budget),
        _ => Ok(Object::new()),
    }
}
