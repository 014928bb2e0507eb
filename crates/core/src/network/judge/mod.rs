//! Judges: language models that answer questions about texts. The library reaches no network; programs may bring judges
//! that do.

mod local;
mod recorded;
mod replay;

use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use local::LocalJudge;
pub use recorded::RecordedJudge;
pub use replay::ReplayJudge;

use crate::context::Context;
use crate::error::{InputError, Result};

/// A question to a judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What the judge is told to do.
    pub system: String,
    /// What it is asked.
    pub user: String,
    /// Tokens of the answer at most.
    pub tokens: usize,
}

impl Question {
    /// A hash of the question: recorded answers are found by it.
    pub fn key(&self) -> String {
        let mut hash = blake3::Hasher::new_derive_key("etalon question v1");
        for text in [&self.system, &self.user] {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        hash.update(&(self.tokens as u64).to_le_bytes());
        hash.finalize().to_hex()[..32].to_string()
    }
}

/// What the questions of a metric amount to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuestionCost {
    /// Number of questions.
    pub questions: u64,
    /// Characters of all questions together.
    pub characters: u64,
    /// Tokens of all answers together, at most.
    pub answer_tokens: u64,
}

/// A judge.
pub trait Judge: Send + Sync {
    /// What answers depend on: model and settings, for recipes and recordings. Never a secret.
    fn id(&self) -> String;

    /// Answers a question. Blocks; is called from several threads.
    fn answer(&self, question: &Question, context: &Context) -> Result<String>;

    /// Is told the cost before the first question, and may refuse it.
    fn announce(&self, _cost: &QuestionCost) -> Result<()> {
        Ok(())
    }
}

/// Opens a judge from what a user wrote, with paths relative to a directory.
pub type OpenJudge = fn(&str, &Path, &Context) -> Result<Arc<dyn Judge>>;

static OPEN: OnceLock<OpenJudge> = OnceLock::new();

/// Makes language models available as judges. A program that has some calls this once, before it loads inputs.
pub fn provide_judges(open: OpenJudge) {
    OPEN.get_or_init(|| open);
}

/// Opens a judge: recorded answers (a `.jsonl` file, or a directory that [`RecordedJudge`] wrote), or a language model of
/// the program.
pub(crate) fn open_judge(text: &str, base: &Path, context: &Context) -> Result<Arc<dyn Judge>> {
    let path = base.join(text);
    if ReplayJudge::is_recording(&path) {
        return Ok(Arc::new(ReplayJudge::open(&path, context.budget())?));
    }
    let open = OPEN.get().ok_or_else(|| {
        InputError::new("this program has no language models")
            .expected("recorded answers: a `.jsonl` file, or a directory of answers")
            .advice("use a program that was built with networks")
            .file(&path)
    })?;
    open(text, base, context)
}
