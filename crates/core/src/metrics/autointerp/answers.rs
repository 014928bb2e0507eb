//! Asks a judge about a latent.

use serde::{Deserialize, Serialize};

use super::LatentTexts;
use super::questions::Questions;
use super::replies::explanation;
use crate::context::Context;
use crate::error::Result;
use crate::network::{Judge, Question};

/// What a judge answered, as it wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Answers {
    /// The explanation.
    pub explanation: String,
    /// In which windows the latent is active.
    pub detection: String,
    /// Which marks are right, if there are windows with marks.
    pub marks: Option<String>,
}

/// Asks all questions about a latent.
pub(super) fn ask(judge: &dyn Judge, texts: &LatentTexts, questions: &Questions, context: &Context) -> Result<Answers> {
    let raw = judge.answer(&questions.explain(&texts.explaining), context)?;
    let said = explanation(&raw);
    let detection = judge.answer(&questions.detect(&said, &texts.scored, &texts.sample), context)?;
    let marks = (!texts.marked.is_empty())
        .then(|| judge.answer(&questions.marks(&said, &texts.marked, &texts.sample), context))
        .transpose()?;
    Ok(Answers { explanation: raw, detection, marks })
}

/// Characters of an explanation per token, for the estimate.
const CHARACTERS: usize = 4;

/// The number of questions about a latent, their characters, and the tokens of the answers at most.
pub(super) fn cost(texts: &LatentTexts, questions: &Questions) -> (u64, u64, u64) {
    let explain = questions.explain(&texts.explaining);
    let said = "x".repeat(CHARACTERS * explain.tokens);
    let detect = questions.detect(&said, &texts.scored, &texts.sample);
    let marks = (!texts.marked.is_empty()).then(|| questions.marks(&said, &texts.marked, &texts.sample));
    let all: Vec<Question> = [explain, detect].into_iter().chain(marks).collect();
    let characters = |question: &Question| (question.system.chars().count() + question.user.chars().count()) as u64;
    (all.len() as u64, all.iter().map(characters).sum(), all.iter().map(|question| question.tokens as u64).sum())
}
