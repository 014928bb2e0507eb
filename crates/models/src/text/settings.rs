//! The settings beside a tokenizer: `tokenizer_config.json`, `special_tokens_map.json` and the chat template.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use etalon::error::{Error, InFile, InputError, Result};
use etalon::input::open_regular;
use serde_json::{Map, Value};

use super::tokenizer::SpecialIds;

/// The largest accepted file, in bytes. The largest published ones have 60 MB.
pub(super) const LARGEST_FILE: u64 = 1 << 27;

/// What the files beside a tokenizer say. Everything is optional.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenizerSettings {
    /// The name of the class in transformers.
    pub class: Option<String>,
    pub bos: Option<String>,
    pub eos: Option<String>,
    pub pad: Option<String>,
    pub unk: Option<String>,
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub lower_case: Option<bool>,
    /// Further tokens: id, text, and whether it is a control token. In the order of ids.
    pub added: Vec<(u32, String, bool)>,
    pub template: Option<String>,
}

impl TokenizerSettings {
    /// Reads the files of a directory that exist.
    pub fn read(directory: &Path) -> Result<TokenizerSettings> {
        let mut settings = TokenizerSettings::default();
        if let Some(config) = object(directory, "tokenizer_config.json")? {
            settings.class = config.get("tokenizer_class").and_then(Value::as_str).map(str::to_string);
            settings.add_bos = config.get("add_bos_token").and_then(Value::as_bool);
            settings.add_eos = config.get("add_eos_token").and_then(Value::as_bool);
            settings.lower_case = config.get("do_lower_case").and_then(Value::as_bool);
            settings.template = config.get("chat_template").and_then(template);
            settings.added = added(&config);
            settings.names(&config);
        }
        if let Some(map) = object(directory, "special_tokens_map.json")? {
            settings.names(&map);
        }
        let jinja = directory.join("chat_template.jinja");
        if jinja.is_file() {
            let text = String::from_utf8(read(&jinja)?);
            let text = text.map_err(|_| Error::from(InputError::new("the chat template is not UTF-8")));
            settings.template = Some(text.in_file(&jinja)?);
        } else if let Some(file) = object(directory, "chat_template.json")? {
            settings.template = file.get("chat_template").and_then(template).or(settings.template);
        }
        Ok(settings)
    }

    /// Fills the names of special tokens that are not known yet.
    fn names(&mut self, values: &Map<String, Value>) {
        for (key, name) in [
            ("bos_token", &mut self.bos),
            ("eos_token", &mut self.eos),
            ("pad_token", &mut self.pad),
            ("unk_token", &mut self.unk),
        ] {
            if name.is_none() {
                *name = values.get(key).and_then(token);
            }
        }
    }

    /// Ids of the named tokens; names that the vocabulary does not have are left out.
    pub fn ids(&self, id: impl Fn(&str) -> Option<u32>) -> SpecialIds {
        let find = |name: &Option<String>| name.as_deref().and_then(&id);
        SpecialIds {
            bos: find(&self.bos),
            eos: find(&self.eos),
            pad: find(&self.pad),
            unk: find(&self.unk),
            ..SpecialIds::default()
        }
    }

    /// Whether transformers adds the beginning-of-text token without being told to: the tokenizers of Llama and Gemma do.
    pub fn class_adds_bos(&self) -> bool {
        let class = self.class.as_deref().unwrap_or_default();
        ["LlamaTokenizer", "GemmaTokenizer", "CodeLlamaTokenizer"].iter().any(|name| class.starts_with(name))
    }
}

/// A token is a text, or an object with the text as `content`.
fn token(value: &Value) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_string)
}

/// A template is a text, or a list of named ones, of which `default` is used.
fn template(value: &Value) -> Option<String> {
    let named = || {
        let templates = value.as_array()?;
        let default = templates.iter().find(|entry| entry.get("name").and_then(Value::as_str) == Some("default"));
        default?.get("template")?.as_str()
    };
    value.as_str().or_else(named).map(str::to_string)
}

fn added(config: &Map<String, Value>) -> Vec<(u32, String, bool)> {
    let entries = config.get("added_tokens_decoder").and_then(Value::as_object);
    let entry = |(id, value): (&String, &Value)| {
        let special = value.get("special").and_then(Value::as_bool).unwrap_or(false);
        Some((id.parse().ok()?, token(value)?, special))
    };
    let mut added: Vec<_> = entries.into_iter().flatten().filter_map(entry).collect();
    added.sort();
    added
}

/// A JSON object; `None` if there is no such file.
fn object(directory: &Path, name: &str) -> Result<Option<Map<String, Value>>> {
    let path = directory.join(name);
    if !path.is_file() {
        return Ok(None);
    }
    json(&read(&path)?).in_file(&path).map(Some)
}

/// Parses a JSON object.
pub(super) fn json(bytes: &[u8]) -> Result<Map<String, Value>> {
    serde_json::from_slice(bytes).map_err(|error| {
        InputError::new("the file is not a valid JSON object")
            .found(&error)
            .at(format!("line {}, column {}", error.line(), error.column()))
            .advice("copy or download the file again")
            .into()
    })
}

/// The bytes of a file that is not too large.
pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    let (mut file, length): (File, u64) = open_regular(path)?;
    if length > LARGEST_FILE {
        return Err(InputError::new("the file is too large for a tokenizer")
            .expected(format!("at most {LARGEST_FILE} bytes"))
            .found(format!("{length} bytes"))
            .file(path)
            .into());
    }
    let mut bytes = Vec::with_capacity(length as usize);
    // The file may grow while it is read.
    file.by_ref().take(LARGEST_FILE).read_to_end(&mut bytes).map_err(Error::io("read the file", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn tokens_and_templates_have_two_spellings() {
        let directory = tempfile::tempdir().unwrap();
        let config = r#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "pad_token": null, "add_bos_token": true,
            "tokenizer_class": "LlamaTokenizerFast", "added_tokens_decoder": {"10": {"content": "x"}, "9": {"content": "y", "special": true}},
            "chat_template": [{"name": "tool_use", "template": "a"}, {"name": "default", "template": "b"}]}"#;
        fs::write(directory.path().join("tokenizer_config.json"), config).unwrap();
        fs::write(directory.path().join("special_tokens_map.json"), r#"{"eos_token": "no", "pad_token": "<pad>"}"#)
            .unwrap();
        let settings = TokenizerSettings::read(directory.path()).unwrap();
        assert_eq!((settings.bos.as_deref(), settings.eos.as_deref()), (Some("<s>"), Some("</s>")));
        assert_eq!((settings.pad.as_deref(), settings.unk.as_deref()), (Some("<pad>"), None));
        assert_eq!(settings.added, [(9, "y".into(), true), (10, "x".into(), false)]);
        assert_eq!((settings.template.as_deref(), settings.add_bos), (Some("b"), Some(true)));
        assert!(settings.class_adds_bos());
        fs::write(directory.path().join("chat_template.jinja"), "c").unwrap();
        assert_eq!(TokenizerSettings::read(directory.path()).unwrap().template.as_deref(), Some("c"));
    }

    #[test]
    fn damaged_settings_are_refused_with_their_place() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tokenizer_config.json"), "{\n\"bos_token\": ").unwrap();
        let error = TokenizerSettings::read(directory.path()).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("tokenizer_config.json"), "{error}");
    }
}
