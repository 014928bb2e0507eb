//! Networks of texts: language models, one file per family, and encoders.

mod decoder;
mod gated;
mod gemma;
mod gpt2;
mod gpt_neox;
mod head;
mod llama;
mod processing;
mod qwen;
mod text_encoder;
mod written;

use etalon::error::{Error, InputError, Result};
use etalon::network::NetworkCard;

use crate::transformer::{Order, SiteNames};

pub use decoder::Decoder;
pub use text_encoder::TextEncoder;

/// The sites of the families: their names, how blocks are built, and paths of modules.
pub(crate) const FAMILIES: [(&[&str], Order, SiteNames); 6] = [
    (&["llama", "mistral", "qwen2", "qwen3"], Order::PreNorm, gated::PLAIN),
    (&["gpt2"], Order::PreNorm, gpt2::NAMES),
    (&["gpt_neox"], Order::Parallel, gpt_neox::NAMES),
    (&["gemma2", "gemma3", "gemma3_text"], Order::PreNorm, gemma::NAMES),
    (&["bert"], Order::PostNorm, text_encoder::BERT_SITES),
    (&["clip:text"], Order::PreNorm, text_encoder::CLIP_SITES),
];

/// Checks that tokens are in the vocabulary and that sequences, whose first token is at position `first`, fit the context.
fn check_tokens(card: &NetworkCard, tokens: &[u32], length: usize, first: usize) -> Result<()> {
    if length == 0 || tokens.is_empty() || !tokens.len().is_multiple_of(length) {
        return Err(Error::Bug(format!("{} tokens in sequences of {length}", tokens.len())));
    }
    if first + length > card.context {
        return Err(InputError::new("a sequence is longer than the context of the network")
            .expected(format!("at most {} tokens", card.context))
            .found(format!("{} tokens", first + length))
            .advice("shorten the text")
            .into());
    }
    match tokens.iter().position(|token| *token as usize >= card.vocabulary) {
        None => Ok(()),
        Some(at) => Err(InputError::new("a token is not in the vocabulary of the network")
            .expected(format!("numbers below {}", card.vocabulary))
            .found(tokens[at])
            .at(format!("token {}", at % length))
            .advice("use the tokenizer that belongs to the network")
            .into()),
    }
}
