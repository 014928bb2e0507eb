//! Text to tokens and back.

use crate::error::{InputError, Result};

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// The tokenizer of a language model, as metrics that bring their own prompts use it.
pub trait Tokenize: Send + Sync {
    /// The tokens of a text. With `special`, those that the model expects around a text are added. Special tokens that are
    /// written in the text are recognised in both cases.
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>>;

    /// The text of tokens, without special tokens.
    fn decode(&self, tokens: &[u32]) -> Result<String>;

    /// One token as a person reads it, with its leading space.
    fn token_text(&self, token: u32) -> Result<String>;

    /// The beginning-of-text token.
    fn bos(&self) -> Option<u32>;

    /// The end-of-text token.
    fn eos(&self) -> Option<u32>;

    /// The padding token.
    fn pad(&self) -> Option<u32>;

    /// Whether a token is a control token and not text.
    fn is_special(&self, token: u32) -> bool;

    /// The number of tokens: the highest id plus one.
    fn size(&self) -> usize;

    /// The prompt of a conversation, which ends where the answer starts; `None` for models without a chat template.
    fn chat(&self, messages: &[Message]) -> Result<Option<String>>;
}

/// The tokenizer of a network without one: a text is a list of token numbers, separated by spaces. Other words are refused.
#[derive(Clone, Copy, Debug)]
pub struct NumberTokenizer {
    /// Tokens of the vocabulary.
    pub size: usize,
    /// The beginning-of-text token, which is added before a text.
    pub bos: Option<u32>,
}

impl Tokenize for NumberTokenizer {
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let number = |word: &str| {
            let token = word.parse().ok().filter(|token| (*token as usize) < self.size);
            token.ok_or_else(|| {
                InputError::new("a network without a tokenizer reads numbers only")
                    .expected(format!("numbers below {}, separated by spaces", self.size))
                    .found(format!("`{word}`"))
                    .into()
            })
        };
        let bos = self.bos.filter(|_| special).map(Ok);
        bos.into_iter().chain(text.split_whitespace().map(number)).collect()
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        let words: Vec<String> =
            tokens.iter().filter(|token| !self.is_special(**token)).map(ToString::to_string).collect();
        Ok(words.join(" "))
    }

    fn token_text(&self, token: u32) -> Result<String> {
        Ok(format!(" {token}"))
    }

    fn bos(&self) -> Option<u32> {
        self.bos
    }

    fn eos(&self) -> Option<u32> {
        None
    }

    fn pad(&self) -> Option<u32> {
        None
    }

    fn is_special(&self, token: u32) -> bool {
        self.bos == Some(token)
    }

    fn size(&self) -> usize {
        self.size
    }

    fn chat(&self, _: &[Message]) -> Result<Option<String>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_tokens() {
        let tokenizer = NumberTokenizer { size: 10, bos: Some(1) };
        assert_eq!(tokenizer.encode("3 4", true).unwrap(), [1, 3, 4]);
        assert_eq!(tokenizer.encode(" 3  4\n", false).unwrap(), [3, 4]);
        assert_eq!(tokenizer.decode(&[1, 3, 4]).unwrap(), "3 4");
        for wrong in ["3 10", "three", "-1"] {
            assert!(tokenizer.encode(wrong, false).unwrap_err().to_string().contains("numbers below 10"));
        }
    }
}
