//! Decoding one token at a time.

use etalon::error::Result;

use super::tokenizer::Tokenizer;

/// Tokens of one character at most, if each of them is a byte.
const MOST_PENDING: usize = 4;

/// Tokens that are kept while only spaces are generated.
const MOST_KEPT: usize = 64;

/// Turns generated tokens into text as they arrive. A character appears when its last byte has arrived.
pub struct DecodeStream<'a> {
    tokenizer: &'a Tokenizer,
    /// Tokens whose text was returned, then tokens that are pending. The first are kept because spaces and bytes depend on
    /// the tokens before.
    ids: Vec<u32>,
    done: usize,
}

impl<'a> DecodeStream<'a> {
    pub(super) fn new(tokenizer: &'a Tokenizer) -> DecodeStream<'a> {
        DecodeStream { tokenizer, ids: Vec::new(), done: 0 }
    }

    /// Adds a token; returns the text that is complete now. Special tokens have no text.
    pub fn push(&mut self, id: u32) -> Result<String> {
        if self.tokenizer.is_special(id) {
            return Ok(String::new());
        }
        self.ids.push(id);
        self.advance(MOST_PENDING)
    }

    /// The text of tokens that are still pending; incomplete characters become `\u{fffd}`.
    pub fn finish(mut self) -> Result<String> {
        self.advance(0)
    }

    fn advance(&mut self, most_pending: usize) -> Result<String> {
        let (done, pending) = self.ids.split_at(self.done);
        let (before, after) = (self.tokenizer.decode(done)?, self.tokenizer.decode(&self.ids)?);
        if after.ends_with(char::REPLACEMENT_CHARACTER) && pending.len() < most_pending {
            return Ok(String::new());
        }
        let new = match after.strip_prefix(before.as_str()) {
            Some(new) => new.to_string(),
            // Bytes that are not UTF-8 can change how some decoders show those before.
            None => self.tokenizer.decode(pending)?,
        };
        if new.contains(|letter: char| !letter.is_whitespace()) {
            self.ids.drain(..self.done);
            self.done = self.ids.len();
        } else if !new.is_empty() || self.ids.len() > MOST_KEPT {
            // Some decoders remove spaces at the start of a text: a token with other text remains before them.
            if self.ids.len() > MOST_KEPT {
                self.ids.drain(1..self.done.max(1));
            }
            self.done = self.ids.len();
        }
        Ok(new)
    }
}
