//! Keeps the answers of a judge: what was answered before is not asked again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use super::replay::{ABOUT, Answered, read};
use super::{Judge, Question, QuestionCost};
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::store::disk;

/// A judge whose answers are files of a directory, one per question. An interrupted evaluation continues from them, and
/// [`ReplayJudge`](super::ReplayJudge) repeats them.
pub struct RecordedJudge {
    judge: Arc<dyn Judge>,
    directory: PathBuf,
}

impl RecordedJudge {
    /// Records into a directory, which belongs to one judge.
    pub fn new(judge: Arc<dyn Judge>, directory: &Path) -> Result<RecordedJudge> {
        disk::make_directory(directory)?;
        let (about, id) = (directory.join(ABOUT), judge.id());
        if about.exists() {
            let bytes = disk::read(&about).map_err(Error::io("read the description of answers", &about))?;
            let found: serde_json::Value = serde_json::from_slice(&bytes)
                .map_err(|error| InputError::new("the description of answers is damaged").found(error).file(&about))?;
            if found["judge"].as_str() != Some(id.as_str()) {
                return Err(InputError::new("the directory has answers of another judge")
                    .expected(&id)
                    .found(&found["judge"])
                    .advice("choose another directory")
                    .file(directory)
                    .into());
            }
        } else {
            disk::write(&about, format!("{}\n", json!({ "judge": id })).as_bytes())?;
        }
        Ok(RecordedJudge { judge, directory: directory.to_path_buf() })
    }

    fn file(&self, question: &Question) -> PathBuf {
        self.directory.join(format!("{}.json", question.key()))
    }
}

impl Judge for RecordedJudge {
    fn id(&self) -> String {
        self.judge.id()
    }

    fn answer(&self, question: &Question, context: &Context) -> Result<String> {
        let file = self.file(question);
        if file.exists() {
            return Ok(read(&file)?.answer);
        }
        let answer = self.judge.answer(question, context)?;
        let Question { system, user, tokens } = question.clone();
        let line = serde_json::to_string(&Answered { system, user, tokens, answer: answer.clone() })
            .map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(&file, format!("{line}\n").as_bytes())?;
        Ok(answer)
    }

    fn announce(&self, cost: &QuestionCost) -> Result<()> {
        self.judge.announce(cost)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::ReplayJudge;
    use super::*;
    use crate::context::Budget;

    /// Answers with the number of questions so far.
    struct Counter(AtomicUsize, &'static str);

    impl Judge for Counter {
        fn id(&self) -> String {
            self.1.into()
        }

        fn answer(&self, _: &Question, _: &Context) -> Result<String> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed).to_string())
        }
    }

    fn question(user: &str) -> Question {
        Question { system: "s".into(), user: user.into(), tokens: 5 }
    }

    #[test]
    fn a_question_is_asked_once_and_can_be_replayed() {
        let (directory, context) = (tempfile::tempdir().unwrap(), Context::silent(1, 1 << 20).unwrap());
        let path = directory.path().join("answers");
        let judge = RecordedJudge::new(Arc::new(Counter(AtomicUsize::new(0), "one")), &path).unwrap();
        let ask = |judge: &dyn Judge, user| judge.answer(&question(user), &context);
        assert_eq!([ask(&judge, "a"), ask(&judge, "b"), ask(&judge, "a")].map(Result::unwrap), ["0", "1", "0"]);
        // The same judge continues; another one is refused.
        let again = RecordedJudge::new(Arc::new(Counter(AtomicUsize::new(7), "one")), &path).unwrap();
        assert_eq!([ask(&again, "b"), ask(&again, "c")].map(Result::unwrap), ["1", "7"]);
        let other = RecordedJudge::new(Arc::new(Counter(AtomicUsize::new(0), "two")), &path);
        assert!(other.map(|_| ()).unwrap_err().to_string().contains("another judge"));
        assert!(ReplayJudge::is_recording(&path) && !ReplayJudge::is_recording(directory.path()));
        let replay = ReplayJudge::open(&path, &Budget::new(1 << 20)).unwrap();
        assert_eq!((replay.len(), ask(&replay, "c").unwrap()), (3, "7".to_string()));
        let error = ask(&replay, "d").unwrap_err().to_string();
        assert!(error.contains("no answer to a question was recorded") && error.contains("`d`"), "{error}");
    }

    #[test]
    fn lines_of_a_file_are_answers() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.jsonl");
        let line = r#"{"system": "s", "user": "a", "tokens": 5, "answer": "yes"}"#;
        std::fs::write(&path, format!("{line}\n\n")).unwrap();
        let budget = Budget::new(1 << 20);
        let context = Context::silent(1, 1 << 20).unwrap();
        let replay = ReplayJudge::open(&path, &budget).unwrap();
        assert_eq!(replay.answer(&question("a"), &context).unwrap(), "yes");
        std::fs::write(&path, format!("{line}\n{{\"answer\": 3}}\n")).unwrap();
        let error = ReplayJudge::open(&path, &budget).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("line 2"), "{error}");
    }
}
