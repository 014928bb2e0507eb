//! Cards as text and as JSON, from which the documentation is generated.

use serde_json::{Value, json};

use super::card::{Better, Card, Output, Param, distinct};
use crate::run::AnyRole;

/// The line length on a terminal, without the indent.
const COLUMNS: usize = 98;

impl Card {
    /// The card as text under five fixed headings.
    pub fn to_text(&self) -> String {
        let mut text = format!("{} ({}), version {}\n{}\n", self.title, self.name, self.version, self.summary);
        let inputs = self.inputs_text();
        let definition = format!("{}\n\nInterval: {}", self.definition.trim(), self.interval);
        for (heading, body) in [
            ("What it measures", self.measures),
            ("Definition", definition.as_str()),
            ("Inputs", inputs.as_str()),
            ("Cost", self.cost),
            ("Source", self.source),
        ] {
            text += &format!("\n{heading}\n");
            body.trim().lines().for_each(|line| text += &wrapped(line.trim()));
        }
        text.trim_end().to_string()
    }

    /// The section "Inputs": required and optional inputs, parameters and headline numbers.
    fn inputs_text(&self) -> String {
        let options = |roles| options(roles).join(", ");
        let mut text = format!("Needs: {}\n", options(self.needs));
        if !self.uses.is_empty() {
            text += &format!("Uses, if given: {}\n", options(self.uses));
        }
        self.params.iter().for_each(|param| text += &format!("{}\n", param.to_text()));
        self.headline.iter().for_each(|output| text += &format!("{}\n", output.to_text()));
        text
    }

    /// The card as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "title": self.title, "summary": self.summary, "version": self.version,
            "measures": self.measures.trim(), "definition": self.definition.trim(), "cost": self.cost.trim(),
            "source": self.source.trim(), "interval": self.interval,
            "needs": options(self.needs), "uses": options(self.uses),
            "headline": self.headline.iter().map(|output| json!({
                "key": output.key, "doc": output.doc, "range": bounds(output), "better": better(output),
            })).collect::<Vec<_>>(),
            "params": self.params.iter().map(|param| json!({
                "name": param.name, "doc": param.doc, "values": param.kind.describe(), "several": param.several,
                "default": param.default, "reference_default": param.reference,
            })).collect::<Vec<_>>(),
        })
    }
}

/// The command-line options of some inputs, each once.
fn options(roles: &[&'static dyn AnyRole]) -> Vec<String> {
    distinct(roles.iter().map(|role| role.card().option()))
}

/// Indents a line and breaks it between words.
fn wrapped(line: &str) -> String {
    let mut text = String::new();
    let mut length = 0;
    for word in line.split(' ') {
        let width = word.chars().count();
        if length > 0 && length + 1 + width > COLUMNS {
            text.push('\n');
            length = 0;
        }
        text.push_str(if length == 0 { "  " } else { " " });
        text.push_str(word);
        length += 1 + width;
    }
    text.push('\n');
    text
}

fn bounds(output: &Output) -> [Option<f64>; 2] {
    [output.range.0, output.range.1].map(|bound| bound.is_finite().then_some(bound))
}

fn better(output: &Output) -> &'static str {
    match output.better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    }
}

impl Param {
    fn to_text(&self) -> String {
        let option = self.name.replace('_', "-");
        let several = if self.several { ", several with commas" } else { "" };
        let reference = self.reference.map(|value| format!(" (reference: {value})")).unwrap_or_default();
        format!("--{option}: {} [{}{several}; default {}{reference}]", self.doc, self.kind.describe(), self.default)
    }
}

impl Output {
    fn to_text(&self) -> String {
        let better = match self.better {
            Better::Neither => String::new(),
            _ => format!(", {} is better", better(self)),
        };
        let range = match bounds(self) {
            [Some(low), Some(high)] => format!("from {low} to {high}"),
            [Some(low), None] => format!("from {low}"),
            _ => "any number".into(),
        };
        format!("Gives `{}`: {} [{range}{better}]", self.key, self.doc)
    }
}
