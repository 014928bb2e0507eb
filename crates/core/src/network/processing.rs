//! What TransformerLens does to the weights of a language model before it is run.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

/// Changes of the weights that leave the predictions as they are, but not all activations. The names are those of
/// TransformerLens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Processing {
    /// Factors and summands of norms become part of the linear maps that read them.
    pub fold_ln: bool,
    /// What is written to the residual stream has mean 0: only in networks with layer norms, which subtract the mean.
    pub center_writing_weights: bool,
    /// Logits have mean 0 over the vocabulary.
    pub center_unembed: bool,
    /// Biases of values become part of the bias of the output of attention.
    pub fold_value_biases: bool,
}

/// The names of the parts, in order.
const PARTS: [&str; 4] = ["fold_ln", "center_writing_weights", "center_unembed", "fold_value_biases"];

/// The version of SAELens from which on networks are loaded without processing, unless settings ask for it.
const PLAIN_SINCE: [u32; 3] = [3, 19, 2];

impl Processing {
    /// Weights as they are stored.
    pub const NONE: Processing = Processing::all(false);

    /// The default of TransformerLens' `from_pretrained`.
    pub const TRANSFORMER_LENS: Processing = Processing::all(true);

    const fn all(on: bool) -> Processing {
        Processing { fold_ln: on, center_writing_weights: on, center_unembed: on, fold_value_biases: on }
    }

    /// Whether nothing is changed.
    pub fn is_none(&self) -> bool {
        *self == Processing::NONE
    }

    fn parts(&self) -> [bool; 4] {
        [self.fold_ln, self.center_writing_weights, self.center_unembed, self.fold_value_biases]
    }

    fn of_parts([fold_ln, center_writing_weights, center_unembed, fold_value_biases]: [bool; 4]) -> Processing {
        Processing { fold_ln, center_writing_weights, center_unembed, fold_value_biases }
    }

    /// What the settings of a dictionary of SAELens (`cfg.json`) say about the network that it was trained on; `None` if they
    /// are not those of a language model in TransformerLens.
    ///
    /// Until version 3.19.1, SAELens called `from_pretrained` with its defaults and did not record that. Since 3.19.2 it calls
    /// `from_pretrained_no_processing` with `model_from_pretrained_kwargs`, which it records. Settings without a version are
    /// older than that if they have the key `hook_point`, which later became `hook_name`.
    pub fn of_dictionary(settings: &Map<String, Value>) -> Option<Processing> {
        let inner = settings.get("metadata").and_then(Value::as_object);
        let get = |key: &str| {
            let found = inner.and_then(|inner| inner.get(key)).or_else(|| settings.get(key));
            found.filter(|value| !value.is_null())
        };
        let class = get("model_class_name").and_then(Value::as_str).unwrap_or("HookedTransformer");
        if class != "HookedTransformer" || !(settings.contains_key("d_sae") || settings.contains_key("d_in")) {
            return None;
        }
        let version = get("sae_lens_training_version").or_else(|| get("sae_lens_version")).and_then(Value::as_str);
        let processed = match version {
            Some(version) => is_before(version, PLAIN_SINCE),
            None => settings.contains_key("hook_point"),
        };
        let start = if processed { Processing::TRANSFORMER_LENS } else { Processing::NONE };
        let changes = get("model_from_pretrained_kwargs").and_then(Value::as_object);
        let mut parts = start.parts();
        for (part, name) in parts.iter_mut().zip(PARTS) {
            *part = changes.and_then(|changes| changes.get(name)).and_then(Value::as_bool).unwrap_or(*part);
        }
        Some(Processing::of_parts(parts))
    }
}

/// Whether a version is older than another. What follows the numbers is ignored.
fn is_before(version: &str, other: [u32; 3]) -> bool {
    let number = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap_or(0);
    let mut numbers = [0; 3];
    numbers.iter_mut().zip(version.split('.')).for_each(|(into, part)| *into = number(part));
    numbers < other
}

impl fmt::Display for Processing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Processing::NONE => f.write_str("none"),
            Processing::TRANSFORMER_LENS => f.write_str("transformer-lens"),
            _ => {
                let names = PARTS.into_iter().zip(self.parts()).filter(|(_, on)| *on).map(|(name, _)| name);
                f.write_str(&names.collect::<Vec<_>>().join("+"))
            }
        }
    }
}

impl FromStr for Processing {
    type Err = String;

    /// `none`, `transformer-lens`, or some parts with `+` between them.
    fn from_str(text: &str) -> Result<Processing, String> {
        match text {
            "none" => return Ok(Processing::NONE),
            "transformer-lens" => return Ok(Processing::TRANSFORMER_LENS),
            _ => {}
        }
        let mut parts = [false; 4];
        for name in text.split('+') {
            let index = PARTS.iter().position(|part| *part == name).ok_or_else(|| {
                format!("`{name}` is not none, transformer-lens, or some of {} with + between them", PARTS.join(", "))
            })?;
            parts[index] = true;
        }
        Ok(Processing::of_parts(parts))
    }
}

impl Serialize for Processing {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Processing> {
        Processing::of_dictionary(serde_json::from_str::<Value>(text).unwrap().as_object().unwrap())
    }

    #[test]
    fn names_and_parts() {
        let some = Processing { center_writing_weights: true, fold_ln: true, ..Processing::NONE };
        assert_eq!(some.to_string(), "fold_ln+center_writing_weights");
        for processing in [some, Processing::NONE, Processing::TRANSFORMER_LENS] {
            assert_eq!(processing.to_string().parse(), Ok(processing));
        }
        assert!("fold_ln+centre".parse::<Processing>().unwrap_err().contains("`centre`"));
        assert_eq!(serde_json::to_string(&some).unwrap(), r#""fold_ln+center_writing_weights""#);
    }

    #[test]
    fn settings_of_saelens_by_version() {
        let center = Processing { center_writing_weights: true, ..Processing::NONE };
        // Before 3.19.2: processed, with or without a record; without a version, by the old key.
        assert_eq!(of(r#"{"d_in": 8, "sae_lens_training_version": "3.19.1"}"#), Some(Processing::TRANSFORMER_LENS));
        assert_eq!(of(r#"{"d_in": 8, "hook_point": "blocks.1.hook_resid_pre"}"#), Some(Processing::TRANSFORMER_LENS));
        assert_eq!(of(r#"{"d_in": 8, "hook_name": "blocks.1.hook_resid_pre"}"#), Some(Processing::NONE));
        // Afterwards: what is recorded.
        let recorded = r#""model_from_pretrained_kwargs": {"center_writing_weights": true}"#;
        assert_eq!(of(&format!(r#"{{"d_in": 8, "sae_lens_training_version": "3.19.2", {recorded}}}"#)), Some(center));
        assert_eq!(
            of(
                r#"{"d_in": 8, "sae_lens_version": "5.10.0", "model_from_pretrained_kwargs": {"center_writing_weights": false}}"#
            ),
            Some(Processing::NONE)
        );
        // Version 6 has a section for it.
        assert_eq!(
            of(&format!(r#"{{"d_in": 8, "metadata": {{"sae_lens_version": "6.0.0", {recorded}}}}}"#)),
            Some(center)
        );
        assert_eq!(of(r#"{"d_in": 8, "metadata": {"sae_lens_version": "6.0.0"}}"#), Some(Processing::NONE));
        // The versions of checkpoints without a training version.
        assert_eq!(
            of(r#"{"d_in": 8, "sae_lens_training_version": null, "sae_lens_version": "2.1"}"#),
            Some(Processing::TRANSFORMER_LENS)
        );
        // Other networks, other programs.
        assert_eq!(of(r#"{"d_in": 8, "model_class_name": "HookedMamba"}"#), None);
        assert_eq!(of(r#"{"k": 32}"#), None);
        assert!(is_before("3.9.0", [3, 19, 2]) && !is_before("3.19.2rc1", [3, 19, 2]) && !is_before("10.0", [6, 0, 0]));
    }
}
