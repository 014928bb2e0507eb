//! A metric's card: everything that help, documentation, checks and figures are made from.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Complaint, Result};
use crate::results::Profile;
use crate::run::Inputs;

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
    pub needs: &'static [Need],
    /// What it uses if it is there.
    pub uses: &'static [Need],
    /// Its headline numbers.
    pub headline: &'static [Output],
    /// Its parameters.
    pub params: &'static [Param],
}

/// Something that a metric is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Codes of the rows.
    Codes,
    /// Embeddings of the rows.
    Embeddings,
    /// Concept annotations of the rows.
    Labels,
    /// Pairs that differ in one thing.
    Pairs,
    /// Annotations of the rows that pairs point into.
    PairLabels,
    /// Codes of untrained dictionaries.
    Nulls,
    /// A direction per latent.
    Directions,
    /// The dictionary that made the codes.
    Dictionary,
    /// Dictionaries trained with other seeds.
    Others,
    /// The true features of a world.
    Truth,
    /// The record of a dictionary's training.
    Training,
    /// Generators that are compared with the rows.
    Models,
}

impl Need {
    /// The option of the command line that gives it.
    pub fn option(self) -> &'static str {
        match self {
            Need::Codes => "--codes",
            Need::Embeddings => "--embeddings",
            Need::Labels => "--labels",
            Need::Pairs => "--pairs",
            Need::PairLabels => "--pair-labels",
            Need::Nulls => "--null",
            Need::Directions => "--directions",
            Need::Dictionary => "--sae",
            Need::Others => "--other",
            Need::Truth => "--truth",
            Need::Training => "--sae",
            Need::Models => "--generated",
        }
    }

    /// The inputs behind it, by their names in a recipe.
    pub fn roles(self) -> &'static [&'static str] {
        match self {
            Need::Codes => &["codes"],
            Need::Embeddings => &["embeddings"],
            Need::Labels => &["labels"],
            Need::Pairs => &["pairs", "pair_codes"],
            Need::PairLabels => &["pair_labels"],
            Need::Nulls => &["nulls"],
            Need::Directions => &["directions"],
            Need::Dictionary => &["dictionary"],
            Need::Others => &["others"],
            Need::Truth => &["truth"],
            Need::Training => &["training"],
            Need::Models => &["models", "pooling"],
        }
    }

    /// Is it there?
    pub fn is_met(self, inputs: &Inputs) -> bool {
        match self {
            Need::Codes => inputs.codes.is_some(),
            Need::Embeddings => inputs.embeddings.is_some(),
            Need::Labels => inputs.labels.is_some(),
            Need::Pairs => inputs.pairs.is_some(),
            Need::PairLabels => inputs.labels_of_pairs().is_some(),
            Need::Nulls => !inputs.nulls.is_empty(),
            Need::Directions => inputs.directions.is_some(),
            Need::Dictionary => inputs.dictionary.is_some(),
            Need::Others => !inputs.others.is_empty(),
            Need::Truth => inputs.truth.is_some(),
            Need::Training => inputs.training.is_some(),
            Need::Models => !inputs.models.is_empty(),
        }
    }
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
                Complaint::new(format!("`--{}` has a value it cannot take", self.name.replace('_', "-")))
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
            return Err(Complaint::new(format!("`{}` has no parameter `{name}`", self.name))
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

    /// An error that lists everything that is missing.
    pub fn check_needs(&self, inputs: &Inputs) -> Result<()> {
        let missing: Vec<&str> =
            self.needs.iter().filter(|need| !need.is_met(inputs)).map(|need| need.option()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let all: Vec<&str> = self.needs.iter().map(|need| need.option()).collect();
        Err(Complaint::new(format!("`{}` lacks an input", self.name))
            .expected(all.join(", "))
            .found(format!("no {}", missing.join(", no ")))
            .advice(format!("`etalon metrics {}` says what each input is", self.name))
            .into())
    }
}
