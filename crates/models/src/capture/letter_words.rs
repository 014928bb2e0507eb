//! The words of a vocabulary that prompts about first letters can have.

use std::path::Path;
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::{InputError, Key, Result};
use rayon::prelude::*;

use super::request::{CaptureRequest, RowChoice};
use crate::data::{FIRST_LETTERS, LetterWords, first_letter_question, resolve};
use crate::open::Tower;
use crate::text::{Special, Tokenizer};
use crate::tokenizer_of::open_tokenizer;

/// The request with what its input needs of the model: the words of prompts about first letters, whose rows are the tokens of words.
pub(super) fn completed(request: &CaptureRequest, context: &Context) -> Result<CaptureRequest> {
    let mut request = request.clone();
    if request.input.trim() == FIRST_LETTERS && !Path::new(FIRST_LETTERS).exists() {
        let (model, _) = Tower::split(&request.model);
        let path = resolve(model, request.options.cache.as_deref())?;
        let tokenizer = open_tokenizer(&path, context.budget())?;
        request.options.letter_words = Some(Arc::new(context.install(|| find(&tokenizer))?));
        if request.settings.rows == RowChoice::All {
            request.settings.rows = RowChoice::Word;
        }
    }
    if request.settings.rows == RowChoice::Word && request.settings.packed {
        return Err(InputError::new("texts with a marked word cannot be packed")
            .expected(format!("one text per sequence with {}", Key("rows word")))
            .advice(format!("leave out {}", Key("pack")))
            .into());
    }
    Ok(request)
}

/// The tokens that are letters of ASCII, possibly behind a space, and that stay one token in a prompt.
fn find(tokenizer: &Tokenizer) -> Result<LetterWords> {
    let tokens: Vec<Option<(String, bool)>> = (0..tokenizer.vocabulary_size() as u32)
        .into_par_iter()
        .map(|token| -> Result<Option<(String, bool)>> {
            if tokenizer.is_special(token) {
                return Ok(None);
            }
            let text = tokenizer.token_text(token)?;
            let word = text.strip_prefix(' ').unwrap_or(&text);
            if word.is_empty() || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                return Ok(None);
            }
            let is_kept = is_one_token(tokenizer, &text, token)?;
            Ok(Some((text, is_kept)))
        })
        .collect::<Result<_>>()?;
    let found: Vec<(String, bool)> = tokens.into_iter().flatten().collect();
    let all = found.len();
    let words: Vec<String> = found.into_iter().filter(|(_, kept)| *kept).map(|(word, _)| word).collect();
    Ok(LetterWords { dropped: all - words.len(), words })
}

/// Whether the word of a token is that token in the last line of a prompt.
fn is_one_token(tokenizer: &Tokenizer, word: &str, token: u32) -> Result<bool> {
    let (text, word) = first_letter_question(word);
    let encoded = tokenizer.encode_spans(&text, Special::Ignore)?;
    let covers = |index: &usize| encoded.spans.get(*index).is_some_and(|span| span.overlaps(&word));
    let covering: Vec<u32> =
        (0..encoded.ids.len()).filter(covers).filter_map(|index| encoded.ids.get(index).copied()).collect();
    Ok(covering == [token])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokenizer(name: &str) -> Tokenizer {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/text").join(name);
        Tokenizer::open(&path).unwrap()
    }

    #[test]
    fn words_are_tokens_of_their_own() {
        for name in ["gpt2", "bpe", "unigram", "byte_level"] {
            let tokenizer = tokenizer(name);
            let found = find(&tokenizer).unwrap();
            assert!(!found.words.is_empty(), "{name}");
            for word in &found.words {
                let letters = word.strip_prefix(' ').unwrap_or(word);
                assert!(
                    !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic()),
                    "{name}: {word:?}"
                );
                // The token of the word is followed by those of the question, as many for every word.
                let ids = |word: &str| tokenizer.encode(&first_letter_question(word).0, Special::Ignore).unwrap();
                let (first, ids) = (ids(&found.words[0]), ids(word));
                let at = first.iter().rposition(|id| tokenizer.token_text(*id).unwrap() == found.words[0]).unwrap();
                let at = ids.len() - (first.len() - at);
                assert_eq!(&tokenizer.token_text(ids[at]).unwrap(), word, "{name}");
            }
        }
    }
}
