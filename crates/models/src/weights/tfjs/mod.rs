//! Models of TensorFlow.js: a `model.json` with the layers, and files with the numbers.

mod manifest;
mod resnet;
#[cfg(test)]
mod tests;

use std::path::Path;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use serde_json::{Map as Object, Value};

use super::opened::{Opened, read_json};

/// Opens a `model.json`.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Opened> {
    let mut model = read_json(path, budget)?;
    let Some(groups) = model.remove("weightsManifest") else {
        return Err(InputError::new("the JSON file is not a model of TensorFlow.js")
            .expected("an object with `weightsManifest`")
            .advice("give the directory of the model, or the file with its weights")
            .file(path)
            .into());
    };
    let (tensors, files) = manifest::read(&groups, path, budget).in_file(path)?;
    let topology = Topology(model.get("modelTopology").unwrap_or(&Value::Null));
    let count = files.len();
    let recognised = format!("TensorFlow.js, {count} shard{}", if count == 1 { "" } else { "s" });
    let (tensors, config) = match resnet::Resnet::recognise(tensors.keys().map(String::as_str)) {
        Some(resnet) => (resnet.rename(tensors).in_file(path)?, resnet.config(&topology)),
        None => (tensors, topology.config()),
    };
    Ok(Opened { config, tensors, recognised, gguf: None, files })
}

/// The layers of a Keras model.
struct Topology<'a>(&'a Value);

impl<'a> Topology<'a> {
    fn model(&self) -> &'a Value {
        self.0.get("model_config").unwrap_or(self.0).get("config").unwrap_or(&Value::Null)
    }

    /// The name of the model.
    fn name(&self) -> Option<&'a str> {
        self.model().get("name")?.as_str()
    }

    /// The class and the configuration of every layer.
    fn layers(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        let layers = self.model().get("layers").and_then(Value::as_array);
        layers
            .into_iter()
            .flatten()
            .filter_map(|layer| Some((layer.get("class_name")?.as_str()?, layer.get("config")?)))
    }

    /// The configuration of a layer.
    fn layer(&self, name: &str) -> Option<&'a Value> {
        self.layers().map(|(_, config)| config).find(|config| config.get("name").and_then(Value::as_str) == Some(name))
    }

    /// The configuration of a model of which only the name is known.
    fn config(&self) -> Object<String, Value> {
        self.name().into_iter().map(|name| ("model_type".to_string(), Value::from(name))).collect()
    }
}
