//! Whose conventions a training follows.

use serde::{Deserialize, Serialize};

use crate::error::{InputError, Result};

/// Whose conventions a training follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Ours: the published definition with what is known to work.
    #[default]
    Etalon,
    /// dictionary_learning 0.1.0, update by update.
    DictionaryLearning,
    /// The program of the concept-annotation paper.
    SaeConceptEval,
    /// SAELens 6, as far as the cards say.
    Saelens,
    /// The recipe of the paper on conceptual blindspots, with the dictionaries of overcomplete 0.3.
    Blindspots,
}

impl Preset {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Preset); 5] = [
        ("etalon", Preset::Etalon),
        ("dictionary-learning", Preset::DictionaryLearning),
        ("sae-concept-eval", Preset::SaeConceptEval),
        ("saelens", Preset::Saelens),
        ("blindspots", Preset::Blindspots),
    ];

    /// Finds a preset.
    pub fn named(name: &str) -> Result<Preset> {
        Preset::NAMES.iter().find(|(other, _)| *other == name).map(|(_, preset)| *preset).ok_or_else(|| {
            InputError::new(format!("there is no preset `{name}`"))
                .expected(Preset::NAMES.map(|(name, _)| name).join(", "))
                .into()
        })
    }
}
