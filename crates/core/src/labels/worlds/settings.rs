//! The settings of a world: their declaration and their values.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::WorldCard;
use crate::error::{Error, InputError, Key, Result};

/// A setting of a world.
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// The default.
    pub default: &'static str,
    /// The allowed values.
    pub allowed: Allowed,
}

/// The allowed values of a setting.
pub enum Allowed {
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// One of some words.
    Word(&'static [&'static str]),
}

impl Allowed {
    /// The allowed values, for help and messages.
    pub fn describe(&self) -> String {
        match self {
            Allowed::Whole(low, u64::MAX) => format!("a whole number from {low}"),
            Allowed::Whole(low, high) => format!("a whole number from {low} to {high}"),
            Allowed::Number(low, high) if high.is_infinite() => format!("a number from {low}"),
            Allowed::Number(low, high) => format!("a number from {low} to {high}"),
            Allowed::Word(words) => words.join(" | "),
        }
    }
}

impl Setting {
    /// Parses a value.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let text = text.trim();
        let value = match self.allowed {
            Allowed::Whole(low, high) => {
                text.parse::<u64>().ok().filter(|v| (low..=high).contains(v)).map(|v| json!(v))
            }
            Allowed::Number(low, high) => {
                text.parse::<f64>().ok().filter(|v| v.is_finite() && (low..=high).contains(v)).map(|v| json!(v))
            }
            Allowed::Word(words) => words.contains(&text).then(|| json!(text)),
        };
        value.ok_or_else(|| {
            InputError::new(format!("invalid value for {}", Key(self.name)))
                .expected(self.allowed.describe())
                .found(format!("`{text}`"))
                .advice(self.doc)
                .into()
        })
    }
}

/// Every setting of a world with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct WorldSettings {
    values: BTreeMap<String, Value>,
}

impl WorldSettings {
    /// The given values, and the defaults of all others. Unknown names are refused.
    pub fn of(card: &WorldCard, given: &BTreeMap<String, String>) -> Result<WorldSettings> {
        if let Some(name) = given.keys().find(|name| !card.settings.iter().any(|setting| setting.name == *name)) {
            let known: Vec<&str> = card.settings.iter().map(|setting| setting.name).collect();
            return Err(InputError::new(format!("the world `{}` has no setting `{name}`", card.name))
                .expected(known.join(", "))
                .found(format!("`{name}`"))
                .advice("remove it, or check its name")
                .into());
        }
        let value = |setting: &Setting| setting.parse(given.get(setting.name).map_or(setting.default, String::as_str));
        let values = card.settings.iter().map(|setting| Ok((setting.name.to_string(), value(setting)?)));
        Ok(WorldSettings { values: values.collect::<Result<_>>()? })
    }

    /// All values by name, for recipes.
    pub fn values(&self) -> &BTreeMap<String, Value> {
        &self.values
    }

    fn value(&self, name: &str) -> Result<&Value> {
        self.values.get(name).ok_or_else(|| Error::Bug(format!("the world declares no setting `{name}`")))
    }

    /// A whole number.
    pub fn whole(&self, name: &str) -> Result<usize> {
        let value = self.value(name)?.as_u64();
        value.map(|value| value as usize).ok_or_else(|| Error::Bug(format!("setting `{name}` is not a whole number")))
    }

    /// A number.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.value(name)?.as_f64().ok_or_else(|| Error::Bug(format!("setting `{name}` is not a number")))
    }

    /// A word.
    pub fn word(&self, name: &str) -> Result<&str> {
        self.value(name)?.as_str().ok_or_else(|| Error::Bug(format!("setting `{name}` is not a word")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::worlds::WORLDS;

    #[test]
    fn defaults_are_allowed_and_invalid_values_refused() {
        for maker in WORLDS {
            WorldSettings::of(maker.card(), &BTreeMap::new()).unwrap();
            for setting in maker.card().settings {
                for text in ["", "rubbish", "-1", "nan", "inf"] {
                    assert!(setting.parse(text).is_err(), "{}: `{text}`", setting.name);
                }
            }
        }
        // Only as many factors as there are can depend on the one before.
        for (name, most) in [("dsprites", 4), ("shapes3d-like", 5)] {
            let maker = WORLDS.iter().find(|maker| maker.card().name == name).unwrap();
            let with = |lambda: u64| {
                let given = BTreeMap::from([("lambda".to_string(), lambda.to_string())]);
                WorldSettings::of(maker.card(), &given)
            };
            assert_eq!(with(most).unwrap().whole("lambda").unwrap() as u64, most);
            let error = with(most + 1).unwrap_err().to_string();
            assert!(error.contains(&format!("from 0 to {most}")), "{error}");
        }
        let card = WORLDS[0].card();
        let given = BTreeMap::from([("colour".to_string(), "red".to_string())]);
        assert!(WorldSettings::of(card, &given).unwrap_err().to_string().contains("rows"));
        let error = card.settings[0].parse("-5").unwrap_err().to_string();
        assert!(error.contains("`rows`") && error.contains("`-5`") && error.contains("a whole number from"), "{error}");
    }
}
