//! Presets: whose training conventions to follow.

use serde::{Deserialize, Serialize};

use crate::error::{InputError, Key, Result};

/// The program or paper whose training conventions to follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preset {
    /// The published definition of each architecture, with defaults that work well.
    #[default]
    Etalon,
    /// dictionary_learning 0.1.0, reproduced update by update.
    DictionaryLearning,
    /// The released program of the concept-annotation paper (sae-concept-eval).
    SaeConceptEval,
    /// SAELens 6; the card of each architecture lists the differences.
    Saelens,
    /// The recipe of the paper on conceptual blindspots, with the dictionaries of overcomplete 0.3.
    Blindspots,
}

impl Preset {
    /// All presets by name.
    pub const NAMES: [(&'static str, Preset); 5] = [
        ("etalon", Preset::Etalon),
        ("dictionary-learning", Preset::DictionaryLearning),
        ("sae-concept-eval", Preset::SaeConceptEval),
        ("saelens", Preset::Saelens),
        ("blindspots", Preset::Blindspots),
    ];

    /// The preset of a name.
    pub fn named(name: &str) -> Result<Preset> {
        Preset::NAMES.iter().find(|(other, _)| *other == name).map(|(_, preset)| *preset).ok_or_else(|| {
            InputError::new(format!("invalid value for {}", Key("preset")))
                .expected(Preset::NAMES.map(|(name, _)| name).join(", "))
                .found(name)
                .into()
        })
    }
}
