//! Opens a network of any family.

use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use etalon::network::Network;

use crate::config::Config;
use crate::language::{Decoder, TextEncoder};
use crate::vision;
use crate::weights::{Model, NetworkOptions};

/// The part of a model that is wanted, for models with several networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tower {
    /// The only network; of CLIP, the network of images.
    #[default]
    Main,
    /// The network of texts.
    Text,
}

impl Tower {
    /// A path and the part that is wanted: `PATH:text` for the network of texts.
    pub fn split(text: &str) -> (&str, Tower) {
        match text.strip_suffix(":text") {
            Some(path) => (path, Tower::Text),
            None => (text, Tower::Main),
        }
    }
}

/// Opens a language model that can also generate.
pub fn open_language(path: &Path, budget: &Budget) -> Result<Arc<Decoder>> {
    open_language_with(path, NetworkOptions::default(), budget)
}

/// Like [`open_language`], used as the options say.
pub fn open_language_with(path: &Path, options: NetworkOptions, budget: &Budget) -> Result<Arc<Decoder>> {
    Decoder::open(model(path, options, budget)?, budget).map(Arc::new).in_file(path)
}

/// Opens a network from a directory or a file.
pub fn open(path: &Path, tower: Tower, budget: &Budget) -> Result<Arc<dyn Network>> {
    open_with(path, tower, NetworkOptions::default(), budget)
}

/// Like [`open`], used as the options say.
pub fn open_with(path: &Path, tower: Tower, options: NetworkOptions, budget: &Budget) -> Result<Arc<dyn Network>> {
    network(model(path, options, budget)?, tower, budget).in_file(path)
}

fn model(path: &Path, options: NetworkOptions, budget: &Budget) -> Result<Model> {
    Ok(Model::open(path, budget)?.with_options(options))
}

fn network(model: Model, tower: Tower, budget: &Budget) -> Result<Arc<dyn Network>> {
    let kind = Config(&model.config).text(&["model_type"]).unwrap_or_default().to_string();
    if tower == Tower::Text && kind != "clip" {
        return Err(InputError::new("the model has one network only")
            .expected("CLIP, for its network of texts")
            .into());
    }
    if !Decoder::knows(&kind) && !model.options.processing.is_none() {
        return Err(InputError::new("only language models can be processed as TransformerLens does")
            .expected("a language model, or no processing")
            .found(if kind.is_empty() { "a network of images".to_string() } else { format!("`{kind}`") })
            .into());
    }
    match kind.as_str() {
        kind if Decoder::knows(kind) => Ok(Arc::new(Decoder::open(model, budget)?)),
        "bert" => Ok(Arc::new(TextEncoder::bert(model, budget)?)),
        "clip" if tower == Tower::Text => Ok(Arc::new(TextEncoder::clip(model, budget)?)),
        kind => match vision::open(model, budget)? {
            Some(network) => Ok(network),
            None => {
                let known: Vec<&str> = families().collect();
                Err(InputError::new("unknown kind of network").one_of(kind, &known).found(format!("`{kind}`")).into())
            }
        },
    }
}

/// The names of all families.
pub fn families() -> impl Iterator<Item = &'static str> {
    Decoder::families().chain(["bert"]).chain(vision::FAMILIES.iter().copied())
}
