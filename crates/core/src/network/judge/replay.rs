//! Recorded answers, read again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Judge, Question};
use crate::context::{Budget, Context, Reservation};
use crate::error::{Error, InputError, Result};
use crate::store::disk;

/// The file that marks a directory of answers.
pub(super) const ABOUT: &str = "judge.json";

/// A question with its answer, as files have them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Answered {
    pub system: String,
    pub user: String,
    pub tokens: usize,
    pub answer: String,
}

impl Answered {
    fn question(&self) -> Question {
        Question { system: self.system.clone(), user: self.user.clone(), tokens: self.tokens }
    }
}

/// A judge that repeats recorded answers.
pub struct ReplayJudge {
    answers: BTreeMap<String, String>,
    id: String,
    _memory: Reservation,
}

impl ReplayJudge {
    /// Whether a path holds recorded answers.
    pub fn is_recording(path: &Path) -> bool {
        path.join(ABOUT).is_file() || path.extension().is_some_and(|extension| extension == "jsonl")
    }

    /// Reads a file with an object per line (`system`, `user`, `tokens`, `answer`), or a directory of answers.
    pub fn open(path: &Path, budget: &Budget) -> Result<ReplayJudge> {
        let answers = if path.is_dir() { of_directory(path)? } else { of_file(path, budget)? };
        let bytes = answers.iter().map(|answered| (answered.answer.len() + 128) as u64).sum();
        let memory = budget.reserve(bytes, "recorded answers")?;
        let answers: BTreeMap<String, String> =
            answers.into_iter().map(|answered| (answered.question().key(), answered.answer)).collect();
        let mut hash = blake3::Hasher::new_derive_key("etalon recorded answers v1");
        for text in answers.iter().flat_map(|(key, answer)| [key, answer]) {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        Ok(ReplayJudge { answers, id: format!("recorded answers {}", hash.finalize().to_hex()), _memory: memory })
    }

    /// Number of answers.
    pub fn len(&self) -> usize {
        self.answers.len()
    }

    /// Whether there are no answers.
    pub fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }
}

/// The largest file of answers.
const MAX_BYTES: u64 = 1 << 30;

fn of_file(path: &Path, budget: &Budget) -> Result<Vec<Answered>> {
    let size = fs::metadata(path).map_err(Error::io("read recorded answers", path))?.len();
    if size > MAX_BYTES {
        return Err(InputError::new("the file of recorded answers is too large")
            .expected(format!("at most {MAX_BYTES} bytes"))
            .found(format!("{size} bytes"))
            .file(path)
            .into());
    }
    let _memory = budget.reserve(3 * size, "recorded answers")?;
    let bytes = disk::read(path).map_err(Error::io("read recorded answers", path))?;
    let lines = bytes.split(|byte| *byte == b'\n').enumerate().filter(|(_, line)| !line.trim_ascii().is_empty());
    lines.map(|(number, line)| parse(line, path, Some(number + 1))).collect()
}

fn of_directory(path: &Path) -> Result<Vec<Answered>> {
    let entries = fs::read_dir(path).map_err(Error::io("list recorded answers", path))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(Error::io("list recorded answers", path))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".json") && name != ABOUT && !disk::is_temporary(&name) {
            files.push(file);
        }
    }
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// One file of a directory of answers.
pub(super) fn read(file: &Path) -> Result<Answered> {
    let bytes = disk::read(file).map_err(Error::io("read a recorded answer", file))?;
    parse(&bytes, file, None)
}

fn parse(bytes: &[u8], file: &Path, line: Option<usize>) -> Result<Answered> {
    serde_json::from_slice(bytes).map_err(|error| {
        let wrong = InputError::new("not a recorded answer")
            .expected(r#"{"system": "..", "user": "..", "tokens": 30, "answer": ".."}"#)
            .found(error)
            .file(file);
        match line {
            Some(line) => wrong.at(format!("line {line}")).into(),
            None => wrong.into(),
        }
    })
}

impl Judge for ReplayJudge {
    fn id(&self) -> String {
        self.id.clone()
    }

    fn answer(&self, question: &Question, _: &Context) -> Result<String> {
        let answer = self.answers.get(&question.key()).cloned();
        answer.ok_or_else(|| {
            let start: String = question.user.chars().take(80).collect();
            InputError::new("no answer to a question was recorded")
                .expected(format!("one of the {} recorded questions", self.answers.len()))
                .found(format!("`{start}`"))
                .advice("record with the same inputs, parameters, prompts, profile and seed")
                .into()
        })
    }
}
