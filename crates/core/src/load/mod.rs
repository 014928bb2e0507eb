//! From what a user wrote to inputs: every role is read by its own loader; what is made from others is a derivation.

mod derive;
mod given;
#[cfg(test)]
mod tests;
mod tokens;
mod world;

pub use derive::Recognised;
#[cfg(test)]
pub(crate) use derive::pool;
pub use given::Given;
pub use tokens::{Tokens, TokensOfSets};
pub use world::{Converted, GENERATED_PART, convert_data_set, save_world, verify_tables};

pub use crate::run::{load_activations, load_codes, load_directions, load_labels};

use std::path::Path;

use crate::context::Context;
use crate::error::{InFile, InputError, Result};
use crate::input::Finite;
use crate::run::{EMBEDDINGS, Inputs, Loading, Many, ROLES};

/// How inputs are opened.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// Paths are relative to this directory.
    pub base: &'a Path,
    /// What to do with rows of embeddings that are not finite.
    pub finite: Finite,
    /// Keep the codes of tokens that are pooled: what a sample is, token by token. They are the larger part of the memory.
    pub keep_tokens: bool,
}

impl<'a> Opening<'a> {
    /// Refuses rows that are not finite and keeps no tokens.
    pub fn at(base: &'a Path) -> Opening<'a> {
        Opening { base, finite: Finite::Refuse, keep_tokens: false }
    }
}

/// Inputs with what was learnt while they were opened.
#[derive(Debug)]
pub struct Opened {
    /// The inputs, checked.
    pub inputs: Inputs,
    /// What the dictionary turned out to be.
    pub recognised: Option<Recognised>,
    /// The tokens that were pooled, if they were to be kept.
    pub tokens: TokensOfSets,
}

impl Given {
    /// Reads everything that is given, derives what is made from it, and checks that all of it fits together.
    pub fn open(&self, opening: &Opening<'_>, context: &Context) -> Result<Opened> {
        let mut inputs = self.load(opening, context)?;
        let pools = inputs.has(&crate::run::POOLING);
        if !pools {
            inputs.check_axes()?;
        }
        inputs.check_pairs()?;
        let recognised = derive::encode(&mut inputs, context)?;
        let tokens = derive::pool(&mut inputs, opening.keep_tokens)?;
        inputs.check()?;
        Ok(Opened { inputs, recognised, tokens })
    }

    /// Reads everything that is given, as it is.
    fn load(&self, opening: &Opening<'_>, context: &Context) -> Result<Inputs> {
        let given = world::complete(self, opening.base)?;
        let mut inputs = Inputs::default();
        for role in ROLES.iter().filter(|role| role.is_given()) {
            let card = role.card();
            let mut names: Vec<&str> = Vec::new();
            for text in given.get(card.key) {
                let (name, path) = match card.many {
                    Many::Named => name_and_path(text, card.key)?,
                    _ => ("", text.as_str()),
                };
                // Before anything is read or encoded twice.
                if card.many == Many::Named && names.contains(&name) {
                    return Err(InputError::new(format!("two of `{}` are called `{name}`", card.key))
                        .expected("a name of its own for each")
                        .into());
                }
                names.push(name);
                let loading = Loading { base: opening.base, finite: opening.finite, inputs: &inputs, context };
                let item = role.load(name, path, &loading)?;
                inputs.push(item);
            }
        }
        let dropped = inputs.find(&EMBEDDINGS).map(|store| store.dropped_rows().to_vec()).unwrap_or_default();
        let file = inputs.file(&EMBEDDINGS).map(Path::to_path_buf).unwrap_or_default();
        derive::drop_rows(&mut inputs, &dropped).in_file(&file)?;
        Ok(inputs)
    }
}

fn name_and_path<'t>(text: &'t str, key: &str) -> Result<(&'t str, &'t str)> {
    let parts = text.split_once('=').filter(|(name, path)| !name.trim().is_empty() && !path.is_empty());
    parts.ok_or_else(|| {
        InputError::new(format!("`{key}` takes a name and a path"))
            .expected("NAME=PATH")
            .found(format!("`{text}`"))
            .into()
    })
}
