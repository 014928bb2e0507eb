//! A language model of this machine as a judge.

use std::sync::Arc;

use super::{Judge, Question};
use crate::context::Context;
use crate::error::{InputError, Result};
use crate::network::{Generation, LanguageModel, Message, Tokenize, Untouched};

/// A language model that answers with its most probable tokens.
pub struct LocalJudge {
    network: Arc<dyn LanguageModel>,
    tokenizer: Arc<dyn Tokenize>,
    /// Control tokens: they end an answer, and are not recognised in quoted texts.
    special: Vec<u32>,
    /// Their texts.
    special_texts: Vec<String>,
}

impl LocalJudge {
    /// A judge of a language model and its tokenizer.
    pub fn new(network: Arc<dyn LanguageModel>, tokenizer: Arc<dyn Tokenize>) -> Result<LocalJudge> {
        let special: Vec<u32> = (0..tokenizer.size() as u32).filter(|token| tokenizer.is_special(*token)).collect();
        let texts = special.iter().map(|token| Ok(tokenizer.token_text(*token)?.trim().to_string()));
        // A text of one character, such as a space, is too common to be replaced.
        let special_texts = texts.collect::<Result<Vec<_>>>()?.into_iter().filter(|text| text.chars().count() > 2);
        Ok(LocalJudge { special_texts: special_texts.collect(), network, tokenizer, special })
    }

    /// The text with control tokens broken up: quoted texts must not end a message.
    fn quoted(&self, text: &str) -> String {
        let mut text = text.to_string();
        for special in self.special_texts.iter().filter(|special| special.starts_with('<') || special.starts_with('['))
        {
            if text.contains(special.as_str()) {
                let (first, rest) = special.split_at(1);
                text = text.replace(special.as_str(), &format!("{first} {rest}"));
            }
        }
        text
    }

    /// The tokens of a question: by the chat template if there is one. Templates without system messages get one message.
    fn prompt(&self, question: &Question) -> Result<(Vec<u32>, bool)> {
        let (system, user) = (self.quoted(&question.system), self.quoted(&question.user));
        let both = format!("{system}\n\n{user}");
        let messages = [Message::new("system", system), Message::new("user", user)];
        let chat = match self.tokenizer.chat(&messages) {
            Ok(chat) => chat,
            Err(_) => self.tokenizer.chat(&[Message::new("user", both.clone())])?,
        };
        match chat {
            Some(text) => Ok((self.tokenizer.encode(&text, false)?, true)),
            None => Ok((self.tokenizer.encode(&format!("{both}\n\nAnswer:"), true)?, false)),
        }
    }
}

impl Judge for LocalJudge {
    fn id(&self) -> String {
        format!("local {}", self.network.card().id)
    }

    fn answer(&self, question: &Question, context: &Context) -> Result<String> {
        let (prompt, is_chat) = self.prompt(question)?;
        let most = self.network.card().context;
        if prompt.len() + question.tokens > most {
            return Err(InputError::new("a question is longer than the context of the judge")
                .expected(format!("at most {most} tokens with the answer"))
                .found(format!("{} tokens and {} of the answer", prompt.len(), question.tokens))
                .advice("show fewer examples or shorter windows, or use another judge")
                .into());
        }
        let settings = Generation { tokens: question.tokens, stop: self.special.clone(), ..Generation::default() };
        let tokens = self.network.generate(&prompt, &settings, &mut Untouched, context)?;
        let answer = self.tokenizer.decode(&tokens)?;
        // A model that was not trained to answer continues with more questions.
        let answer = if is_chat { answer.as_str() } else { answer.trim_start().lines().next().unwrap_or_default() };
        Ok(answer.trim().to_string())
    }
}
