//! Parameters of architectures: one typed static each. Command-line options, cards and stored settings are generated
//! from them.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::preset::Preset;
use crate::error::{Error, InputError, Key, Result};

/// A parameter of type `T`, with a default per preset.
pub struct ArchParam<T: 'static> {
    card: ParamCard,
    default: fn(Preset) -> T,
}

/// The name, option and documentation of a parameter.
#[derive(Clone, Copy, Debug)]
pub struct ParamCard {
    /// Key in stored settings.
    pub name: &'static str,
    /// Command-line option without its dashes; none if only presets set the parameter.
    pub option: Option<&'static str>,
    /// Name of the option's value in help texts.
    pub value: &'static str,
    /// One-sentence documentation.
    pub doc: &'static str,
}

impl<T: ParamValue> ArchParam<T> {
    /// A parameter with a command-line option; the texts are name, option, value and documentation.
    pub const fn new(texts: [&'static str; 4], default: fn(Preset) -> T) -> ArchParam<T> {
        let [name, option, value, doc] = texts;
        ArchParam { card: ParamCard { name, option: Some(option), value, doc }, default }
    }

    /// A parameter that only presets set; the texts are name and documentation.
    pub const fn of_presets(texts: [&'static str; 2], default: fn(Preset) -> T) -> ArchParam<T> {
        let [name, doc] = texts;
        ArchParam { card: ParamCard { name, option: None, value: "", doc }, default }
    }
}

/// A type that a parameter can have.
pub trait ParamValue: Serialize + DeserializeOwned + 'static {
    /// Whether the value is a comma-separated list.
    const LIST: bool = false;
    /// The allowed values, for error messages.
    fn describe() -> &'static str;
    /// Parses a value from the command line.
    fn parse(text: &str) -> Option<Self>;
    /// Formats a value as [`ParamValue::parse`] reads it.
    fn to_text(&self) -> String;
}

macro_rules! number {
    ($type:ty, $describe:literal) => {
        impl ParamValue for $type {
            fn describe() -> &'static str {
                $describe
            }

            fn parse(text: &str) -> Option<$type> {
                text.parse().ok()
            }

            fn to_text(&self) -> String {
                self.to_string()
            }
        }
    };
}

number!(usize, "a whole number from 0");
number!(u64, "a whole number from 0");
number!(f64, "a number");
number!(f32, "a number");
number!(bool, "true or false");

impl ParamValue for Vec<f64> {
    const LIST: bool = true;

    fn describe() -> &'static str {
        "numbers, separated by commas"
    }

    fn parse(text: &str) -> Option<Vec<f64>> {
        text.split(',').map(|part| part.trim().parse().ok()).collect()
    }

    fn to_text(&self) -> String {
        self.iter().map(f64::to_string).collect::<Vec<_>>().join(",")
    }
}

impl ParamValue for (f64, f64) {
    const LIST: bool = true;

    fn describe() -> &'static str {
        "two numbers, separated by a comma"
    }

    fn parse(text: &str) -> Option<(f64, f64)> {
        match Vec::parse(text)?[..] {
            [first, second] => Some((first, second)),
            _ => None,
        }
    }

    fn to_text(&self) -> String {
        format!("{},{}", self.0, self.1)
    }
}

/// A parameter of any type, for lists of parameters.
pub trait AnyParam: Sync {
    /// Name, option and documentation.
    fn card(&self) -> &ParamCard;
    /// Whether the value is a comma-separated list.
    fn is_list(&self) -> bool;
    /// The default under a preset, as text.
    fn default_text(&self, preset: Preset) -> String;
    /// The default under a preset, as stored settings hold it.
    fn default_json(&self, preset: Preset) -> Value;
    /// Parses a value from the command line.
    fn parse(&self, text: &str) -> Result<Value>;
}

impl<T: ParamValue> AnyParam for ArchParam<T> {
    fn card(&self) -> &ParamCard {
        &self.card
    }

    fn is_list(&self) -> bool {
        T::LIST
    }

    fn default_text(&self, preset: Preset) -> String {
        (self.default)(preset).to_text()
    }

    fn default_json(&self, preset: Preset) -> Value {
        json!((self.default)(preset))
    }

    fn parse(&self, text: &str) -> Result<Value> {
        let name = self.card.option.unwrap_or(self.card.name);
        T::parse(text.trim()).map(|value| json!(value)).ok_or_else(|| {
            InputError::new(format!("invalid value for {}", Key(name)))
                .expected(T::describe())
                .found(format!("`{text}`"))
                .advice(self.card.doc)
                .into()
        })
    }
}

/// The parameters of a training and their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(BTreeMap<&'static str, Value>);

impl Params {
    /// Adds the missing parameters with their defaults.
    pub fn complete(&mut self, params: &[&'static dyn AnyParam], preset: Preset) {
        for param in params {
            self.0.entry(param.card().name).or_insert_with(|| param.default_json(preset));
        }
    }

    /// The value of a parameter.
    pub fn get<T: ParamValue>(&self, param: &ArchParam<T>) -> Result<T> {
        let name = param.card.name;
        let value = self.0.get(name).ok_or_else(|| Error::Bug(format!("unknown parameter `{name}`")))?;
        serde_json::from_value(value.clone()).map_err(|error| Error::Bug(format!("parameter `{name}`: {error}")))
    }

    /// Sets a parameter; ignores parameters that the training does not have.
    pub fn set<T: ParamValue>(&mut self, param: &ArchParam<T>, value: T) {
        self.replace(param.card.name, json!(value));
    }

    /// Sets a parameter to a parsed value; ignores parameters that the training does not have.
    pub fn replace(&mut self, name: &str, value: Value) {
        if let Some(current) = self.0.get_mut(name) {
            *current = value;
        }
    }

    /// The values by name.
    pub fn values(&self) -> &BTreeMap<&'static str, Value> {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static COUNT: ArchParam<usize> = ArchParam::new(["count", "count", "N", "How many"], |preset| match preset {
        Preset::Saelens => 7,
        _ => 3,
    });
    static PAIR: ArchParam<(f64, f64)> = ArchParam::new(["pair", "both-ends", "A,B", "Both ends"], |_| (1.0, 0.5));
    static WIDTH: ArchParam<f32> = ArchParam::of_presets(["width", "How wide"], |_| 0.1);

    #[test]
    fn values_keep_their_type() {
        let mut params = Params::default();
        params.complete(&[&COUNT, &WIDTH], Preset::Saelens);
        params.complete(&[&COUNT], Preset::Etalon);
        assert_eq!(params.get(&COUNT).unwrap(), 7);
        assert_eq!(params.get(&WIDTH).unwrap(), 0.1f32);
        params.set(&COUNT, 9);
        params.set(&PAIR, (0.0, 1.0));
        assert_eq!(params.get(&COUNT).unwrap(), 9);
        assert!(params.get(&PAIR).is_err());
    }

    #[test]
    fn values_are_parsed_or_refused() {
        assert_eq!(PAIR.parse("2, 0.25").unwrap(), json!([2.0, 0.25]));
        assert_eq!(PAIR.default_text(Preset::Etalon), "1,0.5");
        let error = PAIR.parse("2").unwrap_err().to_string();
        assert!(error.contains("`both-ends`") && error.contains("two numbers") && error.contains("`2`"), "{error}");
        assert!(COUNT.parse("-1").is_err() && COUNT.parse("x").is_err());
        assert_eq!(COUNT.parse("12").unwrap(), json!(12));
    }
}
