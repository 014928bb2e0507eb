//! Documentation of architectures and baselines, as `etalon archs NAME` prints it.

use serde_json::{Value, json};

use super::param::AnyParam;
use super::preset::Preset;

/// The documentation of an architecture or a baseline.
pub struct ArchCard {
    /// The name on the command line.
    pub name: &'static str,
    /// One-line summary.
    pub summary: &'static str,
    /// The forward pass: from activation to code to reconstruction.
    pub forward: &'static str,
    /// The training loss.
    pub loss: &'static str,
    /// The weights before training.
    pub initialisation: &'static str,
    /// Constraints on the weights, and gradient clipping.
    pub constraint: &'static str,
    /// The most important options and their defaults.
    pub defaults: &'static str,
    /// Parameters besides the settings that every training has.
    pub params: &'static [&'static dyn AnyParam],
    /// What each preset changes.
    pub presets: &'static str,
    /// References.
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

    /// One line per parameter: its option or, if only presets set it, its name.
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

/// The presets that change the default of a parameter, with their values.
fn other_defaults(param: &dyn AnyParam) -> Vec<(&'static str, String)> {
    let default = param.default_text(Preset::Etalon);
    let of_preset = Preset::NAMES.into_iter().map(|(name, preset)| (name, param.default_text(preset)));
    of_preset.filter(|(_, value)| *value != default).collect()
}
