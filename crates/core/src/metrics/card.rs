//! The card of a metric: help, documentation, checks and figures are generated from it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Command, InputError, Key, Result};
use crate::results::Profile;
use crate::run::{AnyRole, CODES, DICTIONARY, EMBEDDINGS, Inputs, PAIR_CODES, PAIR_EMBEDDINGS, find_role};

/// The description of a metric.
pub struct Card {
    /// The name on the command line and in result files.
    pub name: &'static str,
    /// The name in figures.
    pub title: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Increases whenever results change, or the units that a study stores of them.
    pub version: u32,
    /// What it measures, for readers who do not know the paper.
    pub measures: &'static str,
    /// Formula, symbols, tie-breaks, and what happens at 0/0.
    pub definition: &'static str,
    /// Passes, time and memory.
    pub cost: &'static str,
    /// Paper, equation, released code, and every known difference.
    pub source: &'static str,
    /// How the 95 % interval is computed.
    pub interval: &'static str,
    /// Required inputs.
    pub needs: &'static [&'static dyn AnyRole],
    /// Optional inputs.
    pub uses: &'static [&'static dyn AnyRole],
    /// Headline numbers.
    pub headline: &'static [Output],
    /// Parameters.
    pub params: &'static [Param],
}

/// A headline number.
pub struct Output {
    /// Its key in result files.
    pub key: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// Lower and upper bound; infinite if there is none.
    pub range: (f64, f64),
    /// Whether high or low values are good.
    pub better: Better,
}

impl Output {
    /// A headline number.
    pub const fn new(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
        Output { key, doc, range, better }
    }
}

/// Whether high or low values are good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better.
    Higher,
    /// Lower is better.
    Lower,
    /// Descriptive: neither is better.
    Neither,
}

/// A parameter.
pub struct Param {
    /// Its name in study files and recipes; the command line writes it with dashes.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The allowed values.
    pub kind: Kind,
    /// Whether a list of values, separated by commas, is allowed.
    pub several: bool,
    /// The default.
    pub default: &'static str,
    /// The default of the profile `reference`, where it differs.
    pub reference: Option<&'static str>,
}

/// The allowed values of a parameter.
#[non_exhaustive]
pub enum Kind {
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// One of a fixed list of words.
    Word(&'static [&'static str]),
    /// Free text, with a description of it.
    Text(&'static str),
}

impl Kind {
    /// Describes the allowed values.
    pub fn describe(&self) -> String {
        match self {
            Kind::Whole(low, u64::MAX) => format!("a whole number from {low}"),
            Kind::Whole(low, high) => format!("a whole number from {low} to {high}"),
            Kind::Number(low, high) if high.is_infinite() => format!("a number from {low}"),
            Kind::Number(low, high) => format!("a number from {low} to {high}"),
            Kind::Word(words) => words.join(" | "),
            Kind::Text(described) => (*described).into(),
        }
    }

    fn parse(&self, text: &str) -> Option<Value> {
        match self {
            Kind::Whole(low, high) => text.parse::<u64>().ok().filter(|v| (low..=high).contains(&v)).map(|v| json!(v)),
            Kind::Number(low, high) => text.parse::<f64>().ok().filter(|v| (low..=high).contains(&v)).map(|v| json!(v)),
            Kind::Word(words) => words.contains(&text).then(|| json!(text)),
            Kind::Text(_) => Some(json!(text)),
        }
    }
}

impl Param {
    /// A parameter with one value and the same default in both profiles.
    pub const fn new(name: &'static str, doc: &'static str, kind: Kind, default: &'static str) -> Param {
        Param { name, doc, kind, several: false, default, reference: None }
    }

    /// Allows a list of values, separated by commas.
    pub const fn several(mut self) -> Param {
        self.several = true;
        self
    }

    /// Sets another default for the profile `reference`.
    pub const fn reference(mut self, default: &'static str) -> Param {
        self.reference = Some(default);
        self
    }

    /// Parses a value as written on the command line.
    pub fn parse(&self, text: &str) -> Result<Value> {
        let one = |part: &str| {
            self.kind.parse(part.trim()).ok_or_else(|| {
                InputError::new(format!("invalid value for {}", Key(self.name)))
                    .expected(self.kind.describe())
                    .found(format!("`{}`", part.trim()))
                    .advice(self.doc)
                    .into()
            })
        };
        if !self.several || !text.contains(',') {
            return one(text);
        }
        Ok(Value::Array(text.split(',').map(one).collect::<Result<_>>()?))
    }
}

impl Card {
    /// All parameters: the given values, and the defaults of the profile for the rest. An unknown name is an error.
    pub fn params(&self, profile: Profile, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, Value>> {
        if let Some(name) = given.keys().find(|name| !self.params.iter().any(|param| param.name == name.as_str())) {
            let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
            return Err(InputError::new(format!("`{}` has no parameter `{name}`", self.name))
                .advice(format!("{} describes its parameters", Command(format!("metrics {}", self.name))))
                .one_of(name, if known.is_empty() { &["no parameters"] } else { &known })
                .into());
        }
        let value = |param: &Param| {
            let default = match profile {
                Profile::Reference => param.reference.unwrap_or(param.default),
                Profile::Paper => param.default,
            };
            param.parse(given.get(param.name).map_or(default, String::as_str))
        };
        self.params.iter().map(|param| Ok((param.name.to_string(), value(param)?))).collect()
    }

    /// Required and optional inputs.
    pub fn roles(&self) -> Vec<&'static dyn AnyRole> {
        self.needs.iter().chain(self.uses).copied().collect()
    }

    /// The keys of required inputs that are missing. Embeddings are missing if a dictionary has nothing to encode.
    pub fn missing(&self, inputs: &Inputs) -> Vec<&'static str> {
        let inputs = inputs.completed();
        let key = |role: &&'static dyn AnyRole| match role.card().key {
            key if !inputs.has(&DICTIONARY) => key,
            key if key == CODES.card().key => EMBEDDINGS.card().key,
            key if key == PAIR_CODES.card().key => PAIR_EMBEDDINGS.card().key,
            key => key,
        };
        distinct(self.needs.iter().filter(|role| !inputs.has(**role)).map(key))
    }

    /// Returns an error that lists all missing inputs.
    pub fn check_needs(&self, inputs: &Inputs) -> Result<()> {
        let missing = self.missing(inputs);
        if missing.is_empty() {
            return Ok(());
        }
        let needed = distinct(self.needs.iter().map(|role| role.card().key));
        let help = |key: &&str| find_role(key).map(|role| format!("{}: {}", Key(key), role.card().help));
        let error = InputError::new(format!("`{}` lacks an input", self.name))
            .expected(needed.join(", "))
            .found(format!("no {}", missing.join(", no ")))
            .advice(missing.iter().filter_map(help).collect::<Vec<_>>().join("; "));
        Err(missing.into_iter().fold(error, InputError::needs).into())
    }
}

/// The items in order, each once.
pub(super) fn distinct<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items {
        if !distinct.contains(&item) {
            distinct.push(item);
        }
    }
    distinct
}
