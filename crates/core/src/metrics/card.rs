//! A metric's card: everything that help, documentation, checks and figures are made from.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{InputError, Key, Result};
use crate::results::Profile;
use crate::run::{AnyRole, Inputs};

/// What a metric is.
pub struct Card {
    /// The name on the command line.
    pub name: &'static str,
    /// The name in figures.
    pub title: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// Raised whenever results change, or the units that a study keeps of them.
    pub version: u32,
    /// What it measures: for somebody who has not read the paper.
    pub measures: &'static str,
    /// Formula, symbols, tie-breaks, and what happens at 0/0.
    pub definition: &'static str,
    /// Passes, time and memory.
    pub cost: &'static str,
    /// Paper, equation, reference program, and every known difference.
    pub source: &'static str,
    /// How the 95 % interval is made.
    pub interval: &'static str,
    /// What it must be given.
    pub needs: &'static [&'static dyn AnyRole],
    /// What it uses if it is there.
    pub uses: &'static [&'static dyn AnyRole],
    /// Its headline numbers.
    pub headline: &'static [Output],
    /// Its parameters.
    pub params: &'static [Param],
}

/// A headline number.
pub struct Output {
    /// Its key in result files.
    pub key: &'static str,
    /// What it is, in one sentence.
    pub doc: &'static str,
    /// The values it can take.
    pub range: (f64, f64),
    /// Which end is good.
    pub better: Better,
}

/// Which end of the range is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The upper.
    Higher,
    /// The lower.
    Lower,
    /// Neither.
    Neither,
}

/// A parameter.
pub struct Param {
    /// Its name; on the command line with `--` and dashes.
    pub name: &'static str,
    /// What it does, in one sentence.
    pub doc: &'static str,
    /// What it can be.
    pub kind: Kind,
    /// May several values be given, separated by commas?
    pub several: bool,
    /// The default.
    pub default: &'static str,
    /// The default of the profile `reference`, where it differs.
    pub reference: Option<&'static str>,
}

/// What a parameter can be.
pub enum Kind {
    /// A whole number within bounds.
    Whole(u64, u64),
    /// A number within bounds.
    Number(f64, f64),
    /// One of some words.
    Word(&'static [&'static str]),
    /// Words of the user's own, described.
    Text(&'static str),
}

impl Kind {
    /// The allowed values, for people.
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
            Kind::Whole(low, high) => text.parse::<u64>().ok().filter(|v| (*low..=*high).contains(v)).map(|v| json!(v)),
            Kind::Number(low, high) => {
                text.parse::<f64>().ok().filter(|v| (*low..=*high).contains(v)).map(|v| json!(v))
            }
            Kind::Word(words) => words.contains(&text).then(|| json!(text)),
            Kind::Text(_) => Some(json!(text)),
        }
    }
}

impl Param {
    /// Reads a value as it is written on the command line.
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
    /// All parameters: those given, and the defaults of the profile for the rest. Unknown names are refused.
    pub fn params(&self, profile: Profile, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, Value>> {
        if let Some(name) = given.keys().find(|name| !self.params.iter().any(|param| param.name == name.as_str())) {
            let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
            return Err(InputError::new(format!("`{}` has no parameter `{name}`", self.name))
                .expected(if known.is_empty() { "no parameters".into() } else { known.join(", ") })
                .advice(format!("`etalon metrics {}` describes them", self.name))
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

    /// Everything that it may look at.
    pub fn roles(&self) -> Vec<&'static dyn AnyRole> {
        self.needs.iter().chain(self.uses).copied().collect()
    }

    /// An error that lists everything that is missing.
    pub fn check_needs(&self, inputs: &Inputs) -> Result<()> {
        let inputs = inputs.completed();
        let missing: Vec<&str> =
            self.needs.iter().filter(|role| !inputs.has(**role)).map(|role| role.card().key).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let complaint = InputError::new(format!("`{}` lacks an input", self.name))
            .expected(keys(self.needs))
            .found(format!("no {}", missing.join(", no ")));
        Err(missing.into_iter().fold(complaint, InputError::needs).into())
    }
}

/// The keys of some inputs, each once.
pub(super) fn keys(roles: &[&'static dyn AnyRole]) -> String {
    let mut keys: Vec<&str> = Vec::new();
    for role in roles {
        if !keys.contains(&role.card().key) {
            keys.push(role.card().key);
        }
    }
    keys.join(", ")
}
