//! The values that a user gave for roles: from options, a study file or Python.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::network_source;
use crate::error::closest;
use crate::run::{CODES, EMBEDDINGS, Many, NETWORK, POOLING, ROLES, RoleCard, SAE, find_role};
use crate::sae::checkpoint::split_settings;

/// Values by key of the role, unread. [`Given::open`] loads them.
///
/// ```
/// use etalon::load::Given;
///
/// let given = Given::default().with("codes", "codes.npy").with("labels", "labels.csv");
/// assert_eq!(given.first("labels"), Some("labels.csv"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    values: Vec<(&'static str, String)>,
    /// A network that gives the embeddings.
    pub(super) network: network_source::Written,
}

impl Given {
    /// Adds a value; see [`Given::add`]. Ignores unknown keys: check them with [`find_role`].
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<String>) -> Given {
        self.add(key, value);
        self
    }

    /// Adds a value; returns false if the key is unknown.
    pub fn add(&mut self, key: &str, value: impl Into<String>) -> bool {
        let role = find_role(key);
        if let Some(role) = role {
            self.values.push((role.card().key, value.into()));
        }
        role.is_some()
    }

    /// Sets the value of a key and drops those it had.
    pub fn set(&mut self, key: &str, value: impl Into<String>) {
        self.values.retain(|(other, _)| *other != key);
        self.add(key, value);
    }

    /// The values of a key.
    pub fn get(&self, key: &str) -> impl Iterator<Item = &String> {
        self.values.iter().filter(move |(other, _)| *other == key).map(|(_, value)| value)
    }

    /// The first value of a key.
    pub fn first(&self, key: &str) -> Option<&str> {
        self.get(key).next().map(String::as_str)
    }

    /// Whether a key has a value.
    pub fn has(&self, key: &str) -> bool {
        self.first(key).is_some()
    }

    /// The files and directories among the values, with their keys and without settings behind them. Paths are relative to
    /// `base`.
    pub fn paths(&self, base: &Path) -> Vec<(&'static str, PathBuf)> {
        let path = |(key, value): &(&'static str, String)| {
            let named = find_role(key).is_some_and(|role| role.card().many == Many::Named);
            let path = if named { value.split_once('=').map_or("", |(_, path)| path) } else { value };
            (*key, split_settings(&base.join(path)).0)
        };
        self.values.iter().filter(|(key, _)| *key != POOLING.card().key).map(path).collect()
    }

    /// Fills keys without a value from `other`.
    #[must_use]
    pub fn or(mut self, other: &Given) -> Given {
        self.or_network(other);
        // Codes and a dictionary exclude each other, so a value of either one here overrides both there.
        let codes = [CODES.card().key, SAE.card().key];
        let has_codes = codes.iter().any(|key| self.has(key));
        let missing: Vec<&'static str> = ROLES
            .iter()
            .filter(|role| role.is_given())
            .map(|role| role.card().key)
            .filter(|key| !(self.has(key) || has_codes && codes.contains(key)))
            // A network is another source of embeddings.
            .filter(|key| !(self.has_network() && *key == EMBEDDINGS.card().key))
            .collect();
        self.values.extend(other.values.iter().filter(|(key, _)| missing.contains(key)).cloned());
        self
    }
}

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_map(GivenVisitor)
    }
}

struct GivenVisitor;

/// One value, or a list for roles that take several.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    One(String),
    Several(Vec<String>),
    /// The settings of a capture.
    Settings(BTreeMap<String, toml::Value>),
}

impl<'de> Visitor<'de> for GivenVisitor {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a table of inputs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let mut given = Given::default();
        while let Some(key) = map.next_key()? {
            match key {
                GivenKey::Network(key) => {
                    let value = map.next_value::<String>()?;
                    given.network.field(key).map(|field| field.replace(value));
                }
                GivenKey::Role(card) => match map.next_value_seed(Values(card))? {
                    Value::Role(values) => given.values.extend(values.into_iter().map(|value| (card.key, value))),
                    Value::Settings(settings) => given.network.settings = Some(settings),
                },
            }
        }
        Ok(given)
    }
}

/// A key of a role or of a network. An unknown key is an error of the parser, which adds the line.
enum GivenKey {
    Role(&'static RoleCard),
    Network(&'static str),
}

impl<'de> Deserialize<'de> for GivenKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<GivenKey, D::Error> {
        let key = String::deserialize(deserializer)?;
        if let Some(key) = network_source::KEYS.into_iter().find(|other| *other == key) {
            return Ok(GivenKey::Network(key));
        }
        find_role(&key).map(|role| GivenKey::Role(role.card())).ok_or_else(|| {
            let roles = ROLES.iter().filter(|role| role.is_given()).map(|role| role.card().key);
            let known: Vec<&str> = roles.chain(network_source::KEYS).collect();
            let meant = closest(&key, known.iter().copied());
            let meant = meant.map_or(String::new(), |meant| format!("; did you mean `{meant}`?"));
            de::Error::custom(format!("unknown field `{key}`, expected one of {}{meant}", known.join(", ")))
        })
    }
}

/// Reads the values of a role.
struct Values(&'static RoleCard);

/// The values of a role, or settings of a capture.
enum Value {
    Role(Vec<String>),
    Settings(BTreeMap<String, String>),
}

impl<'de> DeserializeSeed<'de> for Values {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let one = self.0.many == Many::One;
        match Written::deserialize(deserializer) {
            Ok(Written::One(value)) if one => Ok(Value::Role(vec![value])),
            Ok(Written::Several(values)) if !one => Ok(Value::Role(values)),
            Ok(Written::Settings(settings)) if self.0.key == NETWORK.card().key => {
                Ok(Value::Settings(settings.into_iter().map(|(name, value)| (name, setting_text(&value))).collect()))
            }
            _ => {
                let expected = if one { "a string" } else { "a list of strings" };
                Err(de::Error::custom(format!("`{}` takes {expected}", self.0.key)))
            }
        }
    }
}

/// A value of a study file as it is written on the command line.
pub(crate) fn setting_text(value: &toml::Value) -> String {
    let single = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match value {
        toml::Value::Array(values) => values.iter().map(single).collect::<Vec<_>>().join(","),
        other => single(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_override_a_dictionary_and_vice_versa() {
        let sae = Given::default().with("sae", "a").with("labels", "l");
        let codes = Given::default().with("codes", "b");
        assert_eq!(codes.clone().or(&sae), codes.clone().with("labels", "l"));
        assert_eq!(sae.clone().or(&codes), sae);
        assert_eq!(Given::default().or(&sae), sae);
    }

    #[test]
    fn study_files_name_roles_by_key() {
        let given: Given = toml::from_str("codes = \"a.npy\"\nnull = [\"b\", \"c\"]\npool = \"max\"\n").unwrap();
        assert_eq!(given.get("null").collect::<Vec<_>>(), ["b", "c"]);
        let paths = given.with("generated", "sd=g=1.npy").paths(Path::new("base"));
        let expected = [("codes", "a.npy"), ("null", "b"), ("null", "c"), ("generated", "g=1.npy")];
        assert_eq!(paths, expected.map(|(key, path)| (key, Path::new("base").join(path))));
        let wrong = |text: &str| toml::from_str::<Given>(text).unwrap_err().to_string();
        assert!(wrong("code = \"a\"").contains("unknown field `code`, expected one of world, codes"));
        assert!(wrong("null = \"a\"").contains("a list of strings"));
        assert!(wrong("codes = [\"a\"]").contains("a string"));
        assert!(wrong("dictionary = \"a\"").contains("unknown field"));
    }
}
