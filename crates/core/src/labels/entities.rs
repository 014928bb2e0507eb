//! Entities of some kinds, such as cities, with attributes and prompts that ask for them: the files of RAVEL.
//!
//! A directory has four files per kind, `ravel_KIND_….json`: `entity_attributes` (entity → attribute → label),
//! `attribute_to_prompts` (attribute → list of templates with one `%s` for the entity), `entity_to_split` and
//! `prompt_to_split` (→ `train`, `val` or `test`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Result, closest};
use crate::input::{Entries, read_object};

/// The files of a kind.
const PARTS: [&str; 4] = ["entity_attributes", "attribute_to_prompts", "entity_to_split", "prompt_to_split"];

/// What stands for the entity in a template.
pub const PLACEHOLDER: &str = "%s";

/// What an entity or a template is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptSplit {
    /// For training.
    Train,
    /// For evaluation while a method is developed.
    Validation,
    /// For evaluation.
    Test,
}

impl PromptSplit {
    fn parse(text: &str) -> Option<PromptSplit> {
        Some(match text {
            "train" => PromptSplit::Train,
            "val" => PromptSplit::Validation,
            "test" => PromptSplit::Test,
            _ => return None,
        })
    }
}

/// Kinds of entities.
#[derive(Clone, Debug)]
pub struct EntitySet {
    /// The kinds, by name.
    pub kinds: Vec<EntityKind>,
    id: String,
}

/// Entities of one kind.
#[derive(Clone, Debug)]
pub struct EntityKind {
    /// Its name, such as `city`.
    pub name: String,
    directory: PathBuf,
    entities: Vec<(String, Entries<Value>)>,
    templates: Vec<(String, Vec<String>)>,
    entity_splits: BTreeMap<String, String>,
    template_splits: BTreeMap<String, String>,
    _memory: Arc<Vec<Reservation>>,
}

/// An attribute with its templates, and the labels of all entities.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityAttribute {
    /// Its name, such as `Country`.
    pub name: String,
    /// Texts before and after the entity, with their split.
    pub templates: Vec<(String, String, PromptSplit)>,
    /// The label of every entity, in order; empty if it is not known.
    pub labels: Vec<String>,
}

impl EntitySet {
    /// Reads all kinds of a directory, or of its folder `base`, where the released program puts them.
    pub fn read(directory: &Path, budget: &Budget) -> Result<EntitySet> {
        let mut names = file_names(directory)?;
        let mut directory = directory.to_path_buf();
        if !names.iter().any(|name| kind_of(name).is_some()) && directory.join("base").is_dir() {
            directory = directory.join("base");
            names = file_names(&directory)?;
        }
        let kinds: BTreeSet<&str> = names.iter().filter_map(|name| kind_of(name)).collect();
        if kinds.is_empty() {
            return Err(InputError::new("the directory has no entities")
                .expected(format!("files {}", PARTS.map(|part| format!("ravel_KIND_{part}.json")).join(", ")))
                .file(&directory)
                .into());
        }
        let mut hash = blake3::Hasher::new_derive_key("etalon entities v1");
        let mut read = Vec::new();
        for kind in kinds {
            for part in PARTS {
                let file = format!("ravel_{kind}_{part}.json");
                if !names.contains(&file) {
                    let others =
                        PARTS.iter().filter(|other| **other != part).map(|other| format!("ravel_{kind}_{other}.json"));
                    return Err(InputError::new(format!("a file about `{kind}` is missing"))
                        .expected(format!("`{file}` beside {}", others.collect::<Vec<_>>().join(", ")))
                        .file(&directory)
                        .into());
                }
            }
            read.push(EntityKind::read(kind, &directory, budget, &mut hash)?);
        }
        Ok(EntitySet { kinds: read, id: format!("blake3:{}", hash.finalize().to_hex()) })
    }

    /// The content hash.
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The names of the files of a directory, sorted.
fn file_names(directory: &Path) -> Result<BTreeSet<String>> {
    if !directory.is_dir() {
        return Err(InputError::new("entities are files in a directory")
            .expected("a directory with files `ravel_KIND_entity_attributes.json` and others")
            .found(if directory.exists() { "a file" } else { "nothing of that name" })
            .file(directory)
            .into());
    }
    let entries = fs::read_dir(directory).map_err(Error::io("list a directory", directory))?;
    let name = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.map_err(Error::io("list a directory", directory))?;
        Ok(entry.file_name().to_string_lossy().into_owned())
    };
    entries.map(name).collect()
}

/// The kind of entities that a file is about.
fn kind_of(file: &str) -> Option<&str> {
    let name = file.strip_prefix("ravel_")?.strip_suffix(".json")?;
    let kind = PARTS.iter().find_map(|part| name.strip_suffix(part)?.strip_suffix('_'))?;
    (!kind.is_empty()).then_some(kind)
}

impl EntityKind {
    fn read(kind: &str, directory: &Path, budget: &Budget, hash: &mut blake3::Hasher) -> Result<EntityKind> {
        let path = |part: usize| directory.join(format!("ravel_{kind}_{}.json", PARTS[part]));
        let mut memory = Vec::new();
        let (entities, reserved) =
            read_object::<Entries<Value>>(&path(0), "an object {entity: {attribute: label}}", budget)?;
        memory.push(reserved);
        let (templates, reserved) =
            read_object::<Vec<String>>(&path(1), "an object {attribute: [template, …]}", budget)?;
        memory.push(reserved);
        let mut splits = |part: usize, key: &str| -> Result<BTreeMap<String, String>> {
            let expected = format!("an object {{{key}: split}} with split `train`, `val` or `test`");
            let (entries, reserved) = read_object::<String>(&path(part), &expected, budget)?;
            memory.push(reserved);
            Ok(entries.into_iter().collect())
        };
        let (entity_splits, template_splits) = (splits(2, "entity")?, splits(3, "template")?);
        for (what, list, part) in [("entities", entities.is_empty(), 0), ("attributes", templates.is_empty(), 1)] {
            if list {
                return Err(InputError::new(format!("there are no {what}")).file(&path(part)).into());
            }
        }
        let mut text = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        };
        text(kind);
        text(&entities.len().to_string());
        for (entity, labels) in &entities {
            text(entity);
            labels.0.iter().for_each(|(attribute, label)| text(&format!("{attribute}\n{label}")));
        }
        for (attribute, templates) in &templates {
            text(attribute);
            templates.iter().for_each(|template| text(template));
        }
        for (key, split) in entity_splits.iter().chain(&template_splits) {
            text(key);
            text(split);
        }
        Ok(EntityKind {
            name: kind.into(),
            directory: directory.to_path_buf(),
            entities,
            templates,
            entity_splits,
            template_splits,
            _memory: Arc::new(memory),
        })
    }

    /// The names of the attributes that have templates, in the order of the file.
    pub fn attributes(&self) -> impl Iterator<Item = &str> {
        self.templates.iter().map(|(attribute, _)| attribute.as_str())
    }

    /// The entities with their splits, in the order of the file.
    pub fn entities(&self) -> Result<Vec<(&str, PromptSplit)>> {
        let split = |(entity, _): &'_ (String, _)| self.split(&self.entity_splits, entity, "entity", 2);
        self.entities.iter().map(|entity| Ok((entity.0.as_str(), split(entity)?))).collect()
    }

    fn file(&self, part: usize) -> PathBuf {
        self.directory.join(format!("ravel_{}_{}.json", self.name, PARTS[part]))
    }

    fn split(&self, splits: &BTreeMap<String, String>, key: &str, what: &str, part: usize) -> Result<PromptSplit> {
        let word = splits.get(key).ok_or_else(|| {
            let error = InputError::new(format!("the split of the {what} `{key}` is not stated"));
            let error = match closest(key, splits.keys().map(String::as_str)) {
                Some(meant) => error.advice(format!("did you mean `{meant}`?")),
                None => error.expected("an entry for it"),
            };
            error.file(&self.file(part))
        })?;
        PromptSplit::parse(word).ok_or_else(|| {
            InputError::new(format!("unknown split of the {what} `{key}`"))
                .expected("train, val or test")
                .found(format!("`{word}`"))
                .file(&self.file(part))
                .into()
        })
    }

    /// An attribute, checked: it has templates with one placeholder and a split, and every entity has a label of it. Attributes
    /// that are not used are not checked.
    pub fn attribute(&self, name: &str) -> Result<EntityAttribute> {
        let Some((_, templates)) = self.templates.iter().find(|(attribute, _)| attribute == name) else {
            let known: Vec<&str> = self.attributes().collect();
            return Err(InputError::new(format!("`{}` has no attribute `{name}`", self.name))
                .one_of(name, &known)
                .file(&self.file(1))
                .into());
        };
        if templates.is_empty() {
            return Err(InputError::new(format!("the attribute `{name}` has no prompts"))
                .expected("a list of templates")
                .file(&self.file(1))
                .into());
        }
        let template = |template: &String| {
            let parts: Vec<&str> = template.split(PLACEHOLDER).collect();
            let [before, after] = parts.as_slice() else {
                return Err(Error::from(
                    InputError::new(format!("a template of `{name}` does not have one place for the entity"))
                        .expected(format!("`{PLACEHOLDER}` once"))
                        .found(format!("{} times in `{template}`", parts.len() - 1))
                        .file(&self.file(1)),
                ));
            };
            let split = self.split(&self.template_splits, template, "template", 3)?;
            Ok((before.to_string(), after.to_string(), split))
        };
        let label = |(entity, labels): &(String, Entries<Value>)| {
            let found = labels.0.iter().find(|(attribute, _)| attribute == name).map(|(_, label)| label);
            let wrong = |error: InputError| Error::from(error.at(format!("entity `{entity}`")).file(&self.file(0)));
            match found {
                Some(Value::String(label)) => Ok(label.clone()),
                Some(Value::Number(label)) => Ok(label.to_string()),
                Some(Value::Null) => Ok(String::new()),
                Some(other) => Err(wrong(
                    InputError::new(format!("the label of `{name}` is not text")).expected("a string").found(other),
                )),
                None => Err(wrong(
                    InputError::new(format!("an entity has no attribute `{name}`"))
                        .expected("a label of every attribute, empty if it is not known"),
                )),
            }
        };
        Ok(EntityAttribute {
            name: name.into(),
            templates: templates.iter().map(template).collect::<Result<_>>()?,
            labels: self.entities.iter().map(label).collect::<Result<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILES: [(&str, &str); 4] = [
        (
            "entity_attributes",
            r#"{"Rome": {"Country": "Italy", "Age": 7}, "Oslo": {"Country": "Norway", "Age": null}}"#,
        ),
        ("attribute_to_prompts", r#"{"Country": ["%s is in", "In %s, say"], "Age": ["%s is as old as"]}"#),
        ("entity_to_split", r#"{"Rome": "train", "Oslo": "val"}"#),
        ("prompt_to_split", r#"{"%s is in": "train", "In %s, say": "test", "%s is as old as": "val"}"#),
    ];

    /// The files of a kind, one of them changed; an empty text removes it.
    fn read(changed: &str, text: &str) -> Result<EntitySet> {
        let directory = tempfile::tempdir().unwrap();
        for (part, own) in FILES {
            let text = if part == changed { text } else { own };
            if !text.is_empty() {
                fs::write(directory.path().join(format!("ravel_city_{part}.json")), text).unwrap();
            }
        }
        EntitySet::read(directory.path(), &Budget::new(1 << 20))
    }

    #[test]
    fn attributes_have_templates_and_labels() {
        let set = read("", "").unwrap();
        let [city] = set.kinds.as_slice() else { panic!("one kind") };
        assert_eq!(city.name, "city");
        assert_eq!(city.attributes().collect::<Vec<_>>(), ["Country", "Age"]);
        assert_eq!(city.entities().unwrap(), [("Rome", PromptSplit::Train), ("Oslo", PromptSplit::Validation)]);
        let country = city.attribute("Country").unwrap();
        assert_eq!(country.labels, ["Italy", "Norway"]);
        assert_eq!(country.templates[1], ("In ".into(), ", say".into(), PromptSplit::Test));
        assert_eq!(city.attribute("Age").unwrap().labels, ["7", ""]);
        // Another content is another set.
        let other = read("entity_to_split", r#"{"Rome": "train", "Oslo": "train"}"#).unwrap();
        assert_ne!(set.id(), other.id());
        assert_eq!(set.id(), read("", "").unwrap().id());
    }

    #[test]
    fn files_may_be_in_a_folder_of_the_released_program() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("base")).unwrap();
        for (part, text) in FILES {
            fs::write(directory.path().join(format!("base/ravel_a_city_{part}.json")), text).unwrap();
        }
        let set = EntitySet::read(directory.path(), &Budget::new(1 << 20)).unwrap();
        assert_eq!(set.kinds[0].name, "a_city");
    }

    #[test]
    fn wrong_files_are_refused() {
        let all = |set: &EntitySet| {
            set.kinds[0].entities()?;
            set.kinds[0].attributes().try_for_each(|name| set.kinds[0].attribute(name).map(drop))
        };
        let cases = [
            ("prompt_to_split", "", "`ravel_city_prompt_to_split.json` beside"),
            ("entity_attributes", "[1]", "{entity: {attribute: label}}"),
            ("entity_attributes", "{}", "there are no entities"),
            ("entity_attributes", r#"{"Rome": {"Country": "x", "Age": 1}, "Rome": {}}"#, "`Rome` appears twice"),
            ("entity_attributes", r#"{"Rome": {"Age": 1}}"#, "no attribute `Country`"),
            ("entity_attributes", r#"{"Rome": {"Country": ["Italy"], "Age": 1}}"#, "not text"),
            ("attribute_to_prompts", r#"{"Country": []}"#, "has no prompts"),
            ("attribute_to_prompts", r#"{"Country": ["Rome is in"]}"#, "0 times in `Rome is in`"),
            ("attribute_to_prompts", r#"{"Country": ["%s and %s"]}"#, "2 times"),
            ("attribute_to_prompts", r#"{"Country": ["%s was in"]}"#, "did you mean `%s is in`?"),
            ("attribute_to_prompts", r#"{"Country": "%s is in"}"#, "[template, …]"),
            ("entity_to_split", r#"{"Rome": "train"}"#, "the split of the entity `Oslo` is not stated"),
            ("entity_to_split", r#"{"Rome": "train", "Oslo": "dev"}"#, "found: `dev`"),
            ("prompt_to_split", r#"{"%s is in": "train", "In %s, say": 1}"#, "split"),
        ];
        for (part, text, expected) in cases {
            let error = read(part, text).and_then(|set| all(&set)).unwrap_err().to_string();
            assert!(error.contains(expected), "{part} {text}: {error}");
            assert!(error.contains("file: "), "{error}");
        }
        let set = read("", "").unwrap();
        let error = set.kinds[0].attribute("Contry").unwrap_err().to_string();
        assert!(error.contains("did you mean `Country`?"), "{error}");
        let directory = tempfile::tempdir().unwrap();
        let none = EntitySet::read(directory.path(), &Budget::new(1 << 20)).unwrap_err().to_string();
        assert!(none.contains("has no entities"), "{none}");
        let none = EntitySet::read(&directory.path().join("x"), &Budget::new(1 << 20)).unwrap_err().to_string();
        assert!(none.contains("nothing of that name"), "{none}");
    }
}
