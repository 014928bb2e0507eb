//! The tokenizer that belongs to a model.

use std::path::Path;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};

use crate::text::{Tokenizer, Vocabulary};
use crate::weights::Model;
use crate::weights::gguf::Metadata;

/// Opens the tokenizer of a model: that of a GGUF file is in the file, others are in the directory of the weights.
pub fn open_tokenizer(model: &Path, budget: &Budget) -> Result<Tokenizer> {
    let opened = Model::open(model, budget)?;
    match (&opened.gguf, &opened.directory) {
        (Some(metadata), _) => Tokenizer::from_vocabulary(vocabulary(metadata)).in_file(model),
        (None, Some(directory)) => Tokenizer::open(directory),
        (None, None) => Err(InputError::new("a model in memory has no tokenizer").into()),
    }
}

/// The vocabulary of a GGUF file.
fn vocabulary(metadata: &Metadata) -> Vocabulary {
    let key = |name: &str| format!("tokenizer.ggml.{name}");
    let id = |name: &str| metadata.integer(&key(name)).and_then(|id| u32::try_from(id).ok());
    Vocabulary {
        model: metadata.text(&key("model")).unwrap_or_default().to_string(),
        pre: metadata.text(&key("pre")).map(str::to_string),
        tokens: metadata.texts(&key("tokens")).unwrap_or_default().to_vec(),
        scores: metadata.numbers(&key("scores")).map(<[f32]>::to_vec),
        kinds: metadata.integers(&key("token_type")).unwrap_or_default().iter().map(|kind| *kind as i32).collect(),
        merges: metadata.texts(&key("merges")).unwrap_or_default().to_vec(),
        bos: id("bos_token_id"),
        eos: id("eos_token_id"),
        unk: id("unknown_token_id"),
        pad: id("padding_token_id"),
        add_bos: metadata.flag(&key("add_bos_token")),
        add_eos: metadata.flag(&key("add_eos_token")),
        add_space_prefix: metadata.flag(&key("add_space_prefix")),
        chat_template: metadata.text("tokenizer.chat_template").map(str::to_string),
    }
}
