//! The settings of an overcomplete dictionary, which a state dict does not contain: from the attributes of a whole module,
//! from `config.json`, and from the user.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::config::Config;
use crate::error::{Error, InputError, Key, Result};
use crate::input::TorchModule;

/// The architectures of the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Relu,
    TopK,
    BatchTopK,
    Jump,
    MatchingPursuit,
}

/// The names of the architectures in settings.
const NAMES: [(&str, Class); 5] = [
    ("relu", Class::Relu),
    ("topk", Class::TopK),
    ("batch_topk", Class::BatchTopK),
    ("jump", Class::Jump),
    ("mp", Class::MatchingPursuit),
];

/// The classes of whole modules.
const CLASSES: [(&str, Class); 6] = [
    ("TopKSAE", Class::TopK),
    ("RATopKSAE", Class::TopK),
    ("BatchTopKSAE", Class::BatchTopK),
    ("JumpSAE", Class::Jump),
    ("RAJumpSAE", Class::Jump),
    ("MpSAE", Class::MatchingPursuit),
];

/// The keys that settings may have; the first of a row is the name that Etalon uses.
const KEYS: [&[&str]; 4] = [&["arch"], &["k", "top_k"], &["delta"], &["threshold", "running_threshold"]];

/// Settings as the user writes them, `KEY=VALUE` each.
pub fn parse_settings(texts: &[String]) -> Result<Map<String, Value>> {
    let mut settings = Map::new();
    for text in texts {
        let (key, value) = text.split_once('=').ok_or_else(|| {
            InputError::new(format!("invalid value for {}", Key("settings"))).expected("KEY=VALUE").found(text)
        })?;
        let number = value.trim().parse::<f64>().ok().and_then(serde_json::Number::from_f64);
        settings.insert(key.trim().into(), number.map_or_else(|| value.trim().into(), Value::Number));
    }
    Ok(settings)
}

/// Splits a path with settings behind a colon, `sae.pt:arch=mp,k=6`, into the path and the settings.
pub fn split_settings(path: &Path) -> (PathBuf, Vec<String>) {
    let whole = (path.to_path_buf(), Vec::new());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let Some((name, settings)) = name.split_once(':').filter(|_| !path.exists()) else { return whole };
    let settings: Vec<String> = settings.split(',').map(str::to_string).collect();
    if name.is_empty() || settings.iter().any(|setting| !setting.contains('=')) {
        return whole;
    }
    (path.with_file_name(name), settings)
}

/// Settings from all sources.
pub(super) struct OvercompleteSettings<'a> {
    module: &'a TorchModule,
    config: &'a Config,
    given: &'a Map<String, Value>,
}

impl<'a> OvercompleteSettings<'a> {
    /// Refuses settings of the user that are unknown.
    pub fn new(
        module: &'a TorchModule,
        config: &'a Config,
        given: &'a Map<String, Value>,
    ) -> Result<OvercompleteSettings<'a>> {
        let known = |key: &str| KEYS.iter().any(|names| names.contains(&key));
        if let Some(key) = given.keys().find(|key| !known(key)) {
            return Err(InputError::new(format!("unknown setting `{key}`"))
                .expected(KEYS.map(|names| names[0]).join(", "))
                .at(Key("settings"))
                .into());
        }
        Ok(OvercompleteSettings { module, config, given })
    }

    /// A setting of the user or of `config.json`. Two different values are refused.
    fn written(&self, names: &[&str]) -> Result<Option<Value>> {
        let mut values: Vec<Value> =
            names.iter().flat_map(|name| [self.given.get(*name), self.config.get(name)]).flatten().cloned().collect();
        let first = values.pop();
        match values.into_iter().find(|value| Some(value) != first.as_ref()) {
            Some(other) => Err(self.contradiction(names[0], &other, &first.unwrap_or_default())),
            None => Ok(first),
        }
    }

    fn contradiction(&self, name: &str, one: &Value, other: &Value) -> Error {
        InputError::new(format!("two values for the setting `{name}`"))
            .found(format!("{one} and {other}"))
            .advice("leave one of them out")
            .into()
    }

    /// A number: an attribute of the module, or written.
    fn number(&self, attribute: &str, key: usize) -> Result<Option<f64>> {
        let names = KEYS[key];
        let written = self.written(names)?;
        let wrong = |value: &Value| {
            Error::from(InputError::new(format!("the setting `{}` is not a number", names[0])).found(value))
        };
        let written = written.map(|value| value.as_f64().ok_or_else(|| wrong(&value))).transpose()?;
        let tensor = self.module.tensors.get(attribute).and_then(|tensor| tensor.values.first());
        let stored = self.module.numbers.get(attribute).copied().or(tensor.map(|&value| f64::from(value)));
        match (stored, written) {
            // A threshold is stored in f32.
            (Some(stored), Some(written)) if stored as f32 != written as f32 => {
                Err(self.contradiction(names[0], &stored.into(), &written.into()))
            }
            (stored, written) => Ok(stored.or(written)),
        }
    }

    /// The architecture: the class of the module, written, or what the tensors and settings leave possible.
    pub fn class(&self, has_encoder: bool, has_thresholds: bool) -> Result<Class> {
        let stored = self.module.classes.get("").map(|name| {
            CLASSES.iter().find(|(known, _)| known == name).map(|(_, class)| *class).ok_or_else(|| {
                let known: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
                let error = InputError::new("unsupported class of overcomplete");
                Error::from(error.expected(known.join(", ")).found(name))
            })
        });
        let written = self.written(KEYS[0])?.map(|value| {
            let known = NAMES.iter().find(|(name, _)| value.as_str() == Some(name)).map(|(_, class)| *class);
            known.ok_or_else(|| {
                let names = NAMES.map(|(name, _)| name).join(", ");
                let error = InputError::new("unknown architecture in the setting `arch`");
                Error::from(error.expected(names).found(&value))
            })
        });
        let (stored, written) = (stored.transpose()?, written.transpose()?);
        let class = match (stored, written) {
            (Some(stored), Some(written)) if stored != written => {
                let name = |class: Class| NAMES.iter().find(|known| known.1 == class).map_or("", |known| known.0);
                return Err(self.contradiction("arch", &name(stored).into(), &name(written).into()));
            }
            (Some(class), _) | (_, Some(class)) => class,
            (None, None) if has_thresholds => Class::Jump,
            // MP and OMP have the same tensors.
            (None, None) if !has_encoder => {
                return Err(missing("arch", "arch=mp, if the dictionary is a matching pursuit (MpSAE)"));
            }
            (None, None) => match (self.number("top_k", 1)?, self.number("running_threshold", 3)?) {
                (Some(_), None) => Class::TopK,
                (None, Some(_)) => Class::BatchTopK,
                _ => {
                    let options =
                        "k=.. (TopKSAE), threshold=.. (BatchTopKSAE), or arch=relu; they have the same tensors";
                    return Err(missing("arch", options));
                }
            },
        };
        if has_encoder == (class == Class::MatchingPursuit) || has_thresholds != (class == Class::Jump) {
            return Err(InputError::new("the architecture does not match the tensors of the file")
                .expected("an encoder unless it is mp, and `thresholds` if it is jump")
                .into());
        }
        Ok(class)
    }

    /// The number of active latents, or of choices.
    pub fn k(&self) -> Result<usize> {
        let attribute = if self.module.numbers.contains_key("k") { "k" } else { "top_k" };
        let k = self.number(attribute, 1)?.ok_or_else(|| missing("k", "k=.., the number of active latents per row"))?;
        if k >= 1.0 && k.fract() == 0.0 && k < 1e9 {
            return Ok(k as usize);
        }
        Err(InputError::new("the setting `k` is out of range").expected("a whole number from 1").found(k).into())
    }

    /// The threshold of a BatchTopK dictionary.
    pub fn threshold(&self) -> Result<f32> {
        let threshold = self.number("running_threshold", 3)?;
        threshold
            .map(|number| number as f32)
            .filter(|number| number.is_finite())
            .ok_or_else(|| missing("threshold", "threshold=..: the file was saved in training, before there was one"))
    }

    /// The maximum norm of the relaxation of archetypal directions.
    pub fn delta(&self) -> Result<f64> {
        let delta = self.number("dictionary.delta", 2)?;
        let delta = delta.ok_or_else(|| missing("delta", "delta=.., the maximum norm of the relaxation"))?;
        if delta.is_finite() && delta >= 0.0 {
            return Ok(delta);
        }
        Err(InputError::new("the setting `delta` is out of range").expected("a number from 0").found(delta).into())
    }
}

fn missing(name: &str, expected: &str) -> Error {
    InputError::new(format!("the file does not contain the setting `{name}`"))
        .expected(expected)
        .advice(format!("append it to the path, as in FILE:{name}=.., or write it to config.json beside the file"))
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_may_follow_a_path() {
        let split = |text: &str| {
            let (path, settings) = split_settings(Path::new(text));
            (path.to_string_lossy().into_owned(), settings)
        };
        assert_eq!(split("a/sae.pt:arch=mp,k=6"), ("a/sae.pt".into(), vec!["arch=mp".into(), "k=6".into()]));
        // Keys of arrays and plain paths stay as they are.
        for text in ["a/x.npz:codes", "a/sae.pt", "a:k=1/sae.pt", ":k=1", "..", "sae.pt:k=1,x"] {
            assert_eq!(split(text), (text.into(), vec![]));
        }
    }
}
