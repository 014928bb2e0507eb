//! Serialisation of training settings as one flat object.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::settings::TrainingSettings;

/// The order in which version 0.1.0 stored settings. Recipes hash them, so a finished training is recognised only in
/// this order. Newer parameters follow, sorted by name.
const ORDER: [&str; 52] = [
    "arch",
    "width",
    "latents",
    "k",
    "k_anneal",
    "steps",
    "batch",
    "rate",
    "warmup",
    "warmup_share",
    "decay_start",
    "final_rate",
    "penalty",
    "sparsity_warmup",
    "target_l0",
    "bandwidth",
    "jump",
    "initial_threshold",
    "penalise_lengths",
    "groups",
    "bare",
    "anneal_start",
    "exponents",
    "exponent_updates",
    "queue",
    "rooted",
    "betas",
    "epsilon",
    "weight_decay",
    "clip",
    "constraint",
    "initial_norm",
    "uniform_encoder",
    "encoder_bias",
    "initial_bias",
    "median",
    "per_feature",
    "auxiliary",
    "auxiliary_rule",
    "auxiliary_k",
    "dead_after",
    "reanimation",
    "resample",
    "threshold",
    "candidates",
    "neighbours",
    "radius",
    "multiplier",
    "signed",
    "input",
    "normalise",
    "seed",
];

impl TrainingSettings {
    /// The settings that every training has.
    fn common(&self) -> [(&'static str, Value); 31] {
        [
            ("arch", json!(self.arch)),
            ("width", json!(self.width)),
            ("latents", json!(self.latents)),
            ("k", json!(self.k)),
            ("steps", json!(self.steps)),
            ("batch", json!(self.batch)),
            ("rate", json!(self.rate)),
            ("warmup", json!(self.warmup)),
            ("warmup_share", json!(self.warmup_share)),
            ("decay_start", json!(self.decay_start)),
            ("final_rate", json!(self.final_rate)),
            ("betas", json!(self.betas)),
            ("epsilon", json!(self.epsilon)),
            ("weight_decay", json!(self.weight_decay)),
            ("clip", json!(self.clip)),
            ("constraint", json!(self.constraint)),
            ("initial_norm", json!(self.initial_norm)),
            ("uniform_encoder", json!(self.uniform_encoder)),
            ("encoder_bias", json!(self.encoder_bias)),
            ("initial_bias", json!(self.initial_bias)),
            ("median", json!(self.median)),
            ("per_feature", json!(self.per_feature)),
            ("auxiliary", json!(self.auxiliary)),
            ("auxiliary_rule", json!(self.auxiliary_rule)),
            ("auxiliary_k", json!(self.auxiliary_k)),
            ("dead_after", json!(self.dead_after)),
            ("reanimation", json!(self.reanimation)),
            ("resample", json!(self.resample)),
            ("input", json!(self.input)),
            ("normalise", json!(self.normalise)),
            ("seed", json!(self.seed)),
        ]
    }
}

impl Serialize for TrainingSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (common, params) = (self.common(), self.params.values());
        let mut map = serializer.serialize_map(None)?;
        for name in ORDER {
            let value = common.iter().find(|(other, _)| *other == name).map(|(_, value)| value);
            if let Some(value) = value.or_else(|| params.get(name)) {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in params.iter().filter(|(name, _)| !ORDER.contains(name)) {
            map.serialize_entry(name, value)?;
        }
        // Version 0.1.0 had none of these: its settings keep their text.
        for (name, set) in [("centre", self.centre), ("set_aside", self.set_aside)] {
            if set {
                map.serialize_entry(name, &true)?;
            }
        }
        if let Some(target) = self.control {
            map.serialize_entry("control", &target)?;
        }
        map.end()
    }
}
