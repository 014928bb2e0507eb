//! How questions are put to a network.

use crate::error::{Error, InputError, Key, Result};
use crate::network::{Message, Tokenize};
use crate::run::{ChoiceQuestion, Job, LETTERS, NETWORK};

/// The beginning of a turn in Gemma's conversations.
const GEMMA_TURN: &str = "<start_of_turn>";

/// A sequence that the network runs on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sequence {
    pub tokens: Vec<u32>,
    /// From this token on, tokens are scored; the length of the sequence if the next token is chosen.
    pub scored: usize,
}

/// Turns questions into tokens.
pub(super) struct Wording<'a> {
    tokenizer: &'a dyn Tokenize,
    /// `own`, `gemma` or `plain`.
    format: &'a str,
    /// Choices are compared by their probability as a text, not by letter.
    pub texts: bool,
    /// Tokens of every letter, with and without a leading space.
    pub letters: Vec<Vec<u32>>,
}

impl<'a> Wording<'a> {
    pub fn new(job: &Job<'a>, questions: &[&ChoiceQuestion]) -> Result<Wording<'a>> {
        let tokenizer = &*job.get(&NETWORK)?.tokenizer;
        let texts = job.word("answers")? == "texts";
        let most = questions.iter().map(|question| question.choices.len()).max().unwrap_or(0);
        let letters = if texts { Vec::new() } else { letters(tokenizer, most)? };
        Ok(Wording { tokenizer, format: job.word("prompt_format")?, texts, letters })
    }

    /// Whether the prompt has turns of Gemma that the tokenizer reads as plain text.
    pub fn is_foreign(&self) -> Result<bool> {
        let turn = self.tokenizer.encode(GEMMA_TURN, false)?;
        Ok(self.format == "gemma" && !self.texts && turn.len() != 1)
    }

    /// The sequences of a question with its choices in an order: one, or one per choice.
    pub fn sequences(&self, question: &ChoiceQuestion, order: &[usize]) -> Result<Vec<Sequence>> {
        let choice =
            |index: &usize| question.choices.get(*index).ok_or_else(|| Error::Bug("an order of other choices".into()));
        if self.texts {
            let prompt = self.tokenizer.encode(&question.question, true)?;
            let sequence = |index: &usize| {
                let tokens = self.tokenizer.encode(&format!("{} {}", question.question, choice(index)?), true)?;
                // The end of the question may be joined with the beginning of the choice.
                let same = tokens.iter().zip(&prompt).take_while(|(a, b)| a == b).count();
                Ok(Sequence { scored: same.min(tokens.len().saturating_sub(1)).max(1), tokens })
            };
            return order.iter().map(sequence).collect();
        }
        let mut text = format!(
            "The following are multiple choice questions (with answers) about {}.\n{}",
            question.subject, question.question
        );
        for (letter, index) in LETTERS.iter().zip(order) {
            text.push_str(&format!("\n{letter}. {}", choice(index)?));
        }
        let chat = match self.format {
            "own" => self.tokenizer.chat(&[Message::new("user", &text)])?,
            _ => None,
        };
        let tokens = match (chat, self.format) {
            (Some(chat), _) => self.tokenizer.encode(&format!("{chat}Answer: ("), false)?,
            (None, "gemma") => {
                let turns = format!("<start_of_turn>user\n{text}<end_of_turn>\n<start_of_turn>model\nAnswer: (");
                self.tokenizer.encode(&turns, true)?
            }
            _ => self.tokenizer.encode(&format!("{text}\nAnswer: ("), true)?,
        };
        Ok(vec![Sequence { scored: tokens.len(), tokens }])
    }
}

/// The tokens of the first letters.
fn letters(tokenizer: &dyn Tokenize, count: usize) -> Result<Vec<Vec<u32>>> {
    let mut found: Vec<Vec<u32>> = Vec::new();
    for letter in &LETTERS[..count.min(LETTERS.len())] {
        let mut tokens = Vec::new();
        for text in [letter.to_string(), format!(" {letter}")] {
            if let Ok([token]) = tokenizer.encode(&text, false).as_deref()
                && !tokenizer.is_special(*token)
                && !tokens.contains(token)
            {
                tokens.push(*token);
            }
        }
        if tokens.is_empty() || found.iter().flatten().any(|other| tokens.contains(other)) {
            return Err(InputError::new(format!("the tokenizer has no token of its own for the letter {letter}"))
                .expected("a token for every letter of a choice")
                .advice(format!("set {} to texts, which compares the choices themselves", Key("answers")))
                .into());
        }
        found.push(tokens);
    }
    Ok(found)
}
