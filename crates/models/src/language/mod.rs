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

use etalon::error::{Error, InputError, Result};
use etalon::network::NetworkCard;

pub use decoder::Decoder;
pub use text_encoder::TextEncoder;

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
