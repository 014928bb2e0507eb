//! What is found in the files of a model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use etalon::input::{Map, TensorFile, open_regular};
use serde_json::{Map as Object, Value};

use super::gguf;
use super::source::Source;
use super::tensors::Stored;

/// The content of the files.
pub(super) struct Opened {
    pub config: Object<String, Value>,
    pub tensors: BTreeMap<String, Stored>,
    /// The format, for people.
    pub recognised: String,
    pub gguf: Option<gguf::Metadata>,
    /// The files with tensors, for hashes.
    pub files: Vec<Arc<Map>>,
}

/// Longest JSON file, in bytes. The index of a large model has some hundred thousand.
const LONGEST_JSON: u64 = 1 << 26;

/// Memory per byte of a JSON text.
const JSON_BYTES: u64 = 16;

/// Adds a tensor; its name must be new.
pub(super) fn insert(tensors: &mut BTreeMap<String, Stored>, name: String, stored: Stored) -> Result<()> {
    if tensors.contains_key(&name) {
        return Err(InputError::new(format!("two tensors have the name `{name}`"))
            .expected("unique names")
            .advice("copy or download the files again")
            .into());
    }
    tensors.insert(name, stored);
    Ok(())
}

/// Adds every tensor of a file.
pub(super) fn insert_all(tensors: &mut BTreeMap<String, Stored>, file: &Arc<TensorFile>) -> Result<()> {
    for name in file.names() {
        let (shape, number) = (file.shape(name).unwrap_or_default(), file.number(name).unwrap_or_default());
        let stored = Stored::new(Source::File(file.clone(), name.to_string()), shape, number);
        insert(tensors, name.to_string(), stored).in_file(file.path())?;
    }
    Ok(())
}

/// Opens a single file of tensors.
pub(super) fn tensor_file(path: &Path, budget: &Budget) -> Result<Opened> {
    let file = Arc::new(TensorFile::open(path, budget)?);
    let mut tensors = BTreeMap::new();
    insert_all(&mut tensors, &file)?;
    let files = vec![Arc::new(Map::open_input(path)?)];
    Ok(Opened { config: Object::new(), tensors, recognised: file.format().to_string(), gguf: None, files })
}

/// Reads a JSON file that contains an object.
pub(super) fn read_json(path: &Path, budget: &Budget) -> Result<Object<String, Value>> {
    let (file, length) = open_regular(path)?;
    let wrong = |what: &str| InputError::new(what).advice("copy or download the file again").file(path);
    if length > LONGEST_JSON {
        let error = wrong("the JSON file is too long").expected(format!("at most {LONGEST_JSON} bytes"));
        return Err(error.found(format!("{length} bytes")).into());
    }
    let _memory = budget.reserve(length * JSON_BYTES, "a JSON file")?;
    match serde_json::from_reader(std::io::BufReader::new(file)) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(other) => Err(wrong("the JSON file does not contain an object").found(kind(&other)).into()),
        Err(error) => Err(wrong("the JSON file is invalid").found(error).into()),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
