//! Loads inputs from the values that a user gave: calls the loader of every role, then derives inputs from others
//! (codes from a dictionary, one row per sample), then checks that all of them fit together.

mod data_set;
mod derive;
mod factor_images;
mod given;
mod given_network;
mod label_ids;
mod network_source;
mod sample_numbers;
#[cfg(test)]
mod tests;
mod tokens;
mod world;

pub use data_set::{Converted, convert_data_set};
pub use derive::Recognised;
#[cfg(test)]
pub(crate) use derive::pool;
pub use factor_images::{TaskVariant, convert_factor_file, is_factor_file};
pub use given::Given;
pub(crate) use given::setting_text;
pub use network_source::{CapturedInputs, NetworkSource};
pub use tokens::{Tokens, TokensOfSets};
pub use world::{GENERATED_PART, save_world, verify_tables};

pub use crate::run::{load_activations, load_codes, load_directions, load_labels};

use std::cell::RefCell;
use std::path::Path;

use crate::context::Context;
use crate::error::{Error, InFile, InputError, Key, Result};
use crate::input::Finite;
use crate::labels::Annotations;
use crate::run::{Axis, EMBEDDINGS, FromFile, Inputs, LABELS, Loading, Many, PAIR_LABELS, POOLING, ROLES, SAE};
use crate::store::ActivationStore;

/// Options of [`Given::open`].
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Paths are relative to this directory.
    pub base: &'a Path,
    /// How to treat rows of embeddings that are not finite.
    pub finite: Finite,
    /// Keep the codes of the tokens after pooling, for [`crate::samples`]. They need more memory than the pooled codes.
    pub keep_tokens: bool,
    /// Inputs that are in memory already: nothing is loaded for them.
    pub present: Option<&'a Inputs>,
}

impl<'a> Opening<'a> {
    /// Paths below `base`; refuses rows that are not finite and keeps no tokens.
    pub fn at(base: &'a Path) -> Opening<'a> {
        Opening { base, finite: Finite::Refuse, keep_tokens: false, present: None }
    }
}

/// The inputs, and what [`Given::open`] learnt about them.
#[derive(Debug)]
pub struct Opened {
    /// The inputs, derived ones included, checked.
    pub inputs: Inputs,
    /// The detected format of the dictionary.
    pub recognised: Option<Recognised>,
    /// What was changed in the inputs to make them fit together.
    pub notes: Vec<String>,
    /// The codes before pooling, with [`Opening::keep_tokens`].
    pub tokens: TokensOfSets,
}

impl Opened {
    /// Lines for the user: the detected format of the dictionary, and notes.
    pub fn messages(&self) -> Vec<String> {
        let dictionary = self.recognised.iter().map(|recognised| format!("dictionary: {}", recognised.text));
        let notes = self.recognised.iter().flat_map(|recognised| &recognised.notes).chain(&self.notes);
        dictionary.chain(notes.map(|note| format!("note: {note}"))).collect()
    }
}

impl Given {
    /// Loads all inputs, derives inputs from them, and checks that they fit together.
    pub fn open(&self, opening: &Opening<'_>, context: &Context) -> Result<Opened> {
        if self.network()?.is_some() {
            return Err(Error::Bug("the network was not run before its activations were loaded".into()));
        }
        let mut notes = Vec::new();
        let mut inputs = self.load(opening, context, &mut notes)?;
        // With pooling, labels have one row per sample while the other inputs still have one per token.
        inputs.check_axes_except(inputs.has(&POOLING).then_some(Axis::Rows))?;
        label_ids::check_order(&inputs)?;
        inputs.check_pairs()?;
        let recognised = derive::encode(&mut inputs, context)?;
        let tokens = derive::pool(&mut inputs, opening.keep_tokens, &mut notes)?;
        inputs.check()?;
        label_ids::note_unused(&mut inputs);
        Ok(Opened { inputs, recognised, notes, tokens })
    }

    /// Loads the given inputs and drops rows that are not finite, if [`Opening::finite`] allows it.
    fn load(&self, opening: &Opening<'_>, context: &Context, notes: &mut Vec<String>) -> Result<Inputs> {
        let given = world::complete(self, opening.base)?;
        let mut inputs = opening.present.cloned().unwrap_or_default();
        for role in ROLES.iter().filter(|role| role.is_given()) {
            let card = role.card();
            let mut names: Vec<&str> = Vec::new();
            for text in given.get(card.key) {
                let (name, path) = match card.many {
                    Many::Named => name_and_path(text, card.key)?,
                    _ => ("", text.as_str()),
                };
                // Checked here, before the second one is read and encoded.
                if card.many == Many::Named && names.contains(&name) {
                    return Err(InputError::new(format!("two of {} are called `{name}`", Key(card.key)))
                        .expected("a different name for each")
                        .into());
                }
                names.push(name);
                let labels = inputs.find(&LABELS).or(inputs.find(&PAIR_LABELS));
                let (sae, embeddings) = (inputs.find(&SAE), inputs.find(&EMBEDDINGS));
                let loading = Loading {
                    base: opening.base,
                    finite: opening.finite,
                    concepts: labels.map(Annotations::names),
                    dictionary: sae.map(|sae| FromFile { value: &*sae.dictionary, file: inputs.file(&SAE) }),
                    embeddings: embeddings.map(|value| FromFile { value, file: inputs.file(&EMBEDDINGS) }),
                    context,
                    notes: RefCell::default(),
                };
                let item = role.load(name, path, &loading)?;
                inputs.push(item);
            }
        }
        label_ids::align(&mut inputs, notes)?;
        let dropped = inputs.find(&EMBEDDINGS).map(|store| store.dropped_rows().to_vec()).unwrap_or_default();
        let file = inputs.file(&EMBEDDINGS).map(Path::to_path_buf).unwrap_or_default();
        derive::drop_rows(&mut inputs, &dropped).in_file(&file)?;
        if !dropped.is_empty() {
            let rows = inputs.find(&EMBEDDINGS).map_or(0, ActivationStore::rows) + dropped.len();
            notes.push(format!("{} of {rows} rows with NaN or infinity were dropped from all inputs", dropped.len()));
        }
        Ok(inputs)
    }
}

fn name_and_path<'t>(text: &'t str, key: &str) -> Result<(&'t str, &'t str)> {
    let parts = text.split_once('=').filter(|(name, path)| !name.trim().is_empty() && !path.is_empty());
    parts.ok_or_else(|| {
        InputError::new(format!("{} takes a name and a path", Key(key)))
            .expected("NAME=PATH")
            .found(format!("`{text}`"))
            .into()
    })
}
