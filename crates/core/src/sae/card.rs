//! What an architecture or a baseline is, for people.

use serde_json::{Value, json};

use super::param::AnyParam;
use super::preset::Preset;

/// The card of an architecture: `etalon archs NAME` shows it.
pub struct ArchCard {
    /// Its name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// From activation to code to reconstruction.
    pub forward: &'static str,
    /// What training makes small.
    pub loss: &'static str,
    /// The weights before training.
    pub initialisation: &'static str,
    /// What is kept true of the weights.
    pub constraint: &'static str,
    /// The options that matter, with defaults.
    pub defaults: &'static str,
    /// The parameters that it has beside the settings of every training.
    pub params: &'static [&'static dyn AnyParam],
    /// What the presets change.
    pub presets: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

impl ArchCard {
    fn parts(&self) -> [(&'static str, &'static str); 7] {
        [
            ("forward", self.forward),
            ("loss", self.loss),
            ("initialisation", self.initialisation),
            ("constraint", self.constraint),
            ("defaults", self.defaults),
            ("presets", self.presets),
            ("source", self.source),
        ]
    }

    /// The card as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.summary);
        for (name, part) in self.parts() {
            text += &format!("\n{name}\n  {}\n", part.replace('\n', "\n  "));
            if name == "defaults" && !self.params.is_empty() {
                text += &format!("\nparameters\n  {}\n", self.params_text().join("\n  "));
            }
        }
        text.trim_end().to_string()
    }

    /// A line per parameter: its option or, if only presets choose it, its name.
    fn params_text(&self) -> Vec<String> {
        let line = |param: &&dyn AnyParam| {
            let card = param.card();
            let name = match card.option {
                Some(option) => format!("--{option} {}", card.value),
                None => format!("{} (by preset)", card.name),
            };
            let mut defaults = format!("default: {}", param.default_text(Preset::Etalon));
            for (preset, value) in other_defaults(*param) {
                defaults += &format!("; {preset}: {value}");
            }
            format!("{name}: {} [{defaults}]", card.doc)
        };
        self.params.iter().map(line).collect()
    }

    /// The card as JSON.
    pub fn to_json(&self) -> Value {
        let mut json = json!({"name": self.name, "summary": self.summary});
        for (name, part) in self.parts() {
            json[name] = part.into();
        }
        let param = |param: &&dyn AnyParam| {
            let card = param.card();
            let presets: serde_json::Map<String, Value> =
                other_defaults(*param).into_iter().map(|(preset, value)| (preset.into(), value.into())).collect();
            json!({
                "name": card.name, "option": card.option, "doc": card.doc,
                "default": param.default_text(Preset::Etalon), "presets": presets,
            })
        };
        json["params"] = self.params.iter().map(param).collect();
        json
    }
}

/// The presets under which a parameter has another default, with that.
fn other_defaults(param: &dyn AnyParam) -> Vec<(&'static str, String)> {
    let usual = param.default_text(Preset::Etalon);
    let of_preset = Preset::NAMES.into_iter().map(|(name, preset)| (name, param.default_text(preset)));
    of_preset.filter(|(_, value)| *value != usual).collect()
}
