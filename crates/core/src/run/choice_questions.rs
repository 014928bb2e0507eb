//! Multiple-choice questions in the layouts of WMDP and MMLU.

use std::path::Path;

use super::artefact::Artefact;
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::input::{Cell, Column, Record, open_records};

/// Most choices of a question: all their orders are asked.
const MOST_CHOICES: usize = 5;

/// Letters of the choices.
pub const LETTERS: [&str; MOST_CHOICES] = ["A", "B", "C", "D", "E"];

/// Subjects of published files that do not name theirs.
const SUBJECTS: [(&str, &str); 3] =
    [("wmdp-bio", "biology"), ("wmdp-cyber", "cyber security"), ("wmdp-chem", "chemistry")];

/// A question with choices, one of which is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceQuestion {
    /// What it is about, in words.
    pub subject: String,
    /// The question.
    pub question: String,
    /// The choices.
    pub choices: Vec<String>,
    /// The index of the right choice.
    pub answer: usize,
}

/// Questions of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceQuestions {
    /// The questions, in the order of the file.
    pub questions: Vec<ChoiceQuestion>,
}

/// Where the parts of a question are among the columns.
struct Fields {
    question: usize,
    choices: Choices,
    answer: usize,
    subject: Option<usize>,
    /// The names of the columns are a question, too.
    headless: bool,
}

enum Choices {
    /// A column of lists.
    List(usize),
    /// A column per choice.
    Columns(Vec<usize>),
}

impl Fields {
    fn of(columns: &[Column]) -> Result<Fields> {
        let find = |name: &str| columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        // The published CSV files of MMLU have no names: a question, its choices, a letter.
        if let (None, Some(last)) = (find("question"), names.last().filter(|_| (4..=7).contains(&names.len())))
            && LETTERS[..names.len() - 2].contains(last)
        {
            let choices = Choices::Columns((1..names.len() - 1).collect());
            return Ok(Fields { question: 0, choices, answer: names.len() - 1, subject: None, headless: true });
        }
        let letters: Vec<usize> = LETTERS.iter().map_while(|letter| find(letter)).collect();
        let choices = find("choices").map(Choices::List).or((letters.len() > 1).then_some(Choices::Columns(letters)));
        match (find("question"), choices, find("answer")) {
            (Some(question), Some(choices), Some(answer)) => {
                Ok(Fields { question, choices, answer, subject: find("subject"), headless: false })
            }
            _ => Err(InputError::new("the table has no multiple-choice questions")
                .expected("columns question, choices (a list; or A, B, C, D) and answer, as WMDP and MMLU have")
                .found(format!("columns {}", names.join(", ")))
                .into()),
        }
    }

    fn question(&self, cells: &[Cell], subject: &str) -> std::result::Result<ChoiceQuestion, String> {
        let text = |column: usize, name: &str| match cells.get(column) {
            Some(Cell::Text(text)) if !text.trim().is_empty() => Ok(text.trim().to_string()),
            _ => Err(format!("no {name}")),
        };
        let choices: Vec<String> = match &self.choices {
            Choices::List(column) => match cells.get(*column) {
                Some(Cell::List(choices)) => choices.iter().map(|choice| choice.trim().to_string()).collect(),
                _ => return Err("the choices are not a list".into()),
            },
            Choices::Columns(columns) => {
                let choice = |column: &usize| match cells.get(*column) {
                    Some(Cell::Text(text)) => text.trim().to_string(),
                    _ => String::new(),
                };
                columns.iter().map(choice).collect()
            }
        };
        if !(2..=MOST_CHOICES).contains(&choices.len()) || choices.iter().any(String::is_empty) {
            return Err(format!("{} choices, of which some may be empty", choices.len()));
        }
        let answer = text(self.answer, "answer")?;
        let letter = LETTERS.iter().position(|letter| *letter == answer);
        let index = letter.or_else(|| answer.parse().ok()).filter(|index| *index < choices.len());
        let answer = index.ok_or_else(|| format!("the answer `{answer}`"))?;
        let own = self.subject.and_then(|column| text(column, "subject").ok());
        let subject = own.unwrap_or_else(|| subject.to_string()).replace('_', " ");
        Ok(ChoiceQuestion { subject, question: text(self.question, "question")?, choices, answer })
    }
}

impl ChoiceQuestions {
    /// Reads a table of questions.
    pub(super) fn read(path: &Path, budget: &Budget) -> Result<ChoiceQuestions> {
        let mut reader = open_records(path, budget)?;
        let columns = reader.columns().to_vec();
        let fields = Fields::of(&columns).in_file(path)?;
        let subject = subject_of(path);
        let names = columns.iter().map(|column| Cell::Text(column.name.clone())).collect();
        let mut next = fields.headless.then_some(Record::Cells(names));
        let mut found = ChoiceQuestions::default();
        loop {
            let record = match next.take() {
                Some(record) => record,
                None => match reader.read().in_file(path)? {
                    Some(record) => record,
                    None => break,
                },
            };
            let question = match record {
                Record::Cells(cells) => fields.question(&cells, &subject),
                Record::Corrupt(reason) => Err(reason),
            };
            let number = found.questions.len() + 1;
            found.questions.push(question.map_err(|reason| {
                InputError::new("a question cannot be used")
                    .expected(format!(
                        "a question, 2 to {MOST_CHOICES} choices, and the letter or the index (from 0) of the right one"
                    ))
                    .found(reason)
                    .at(format!("record {number}"))
                    .file(path)
            })?);
        }
        if found.questions.is_empty() {
            return Err(InputError::new("the file has no questions").file(path).into());
        }
        Ok(found)
    }
}

/// The subject of a file without a column for it: that of a published file, or its name in words.
fn subject_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let known = |name: &str| SUBJECTS.iter().find(|(file, _)| name.starts_with(file)).map(|(_, subject)| *subject);
    let published = known(&stem).or_else(|| known(&folder.unwrap_or_default()));
    published.map_or_else(|| stem.trim_end_matches("_test").replace(['_', '-'], " "), str::to_string)
}

impl Artefact for ChoiceQuestions {
    fn sizes(&self) -> Vec<usize> {
        vec![self.questions.len()]
    }

    fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new_derive_key("etalon choice questions v1");
        for question in &self.questions {
            let texts = [&question.subject, &question.question];
            for text in texts.into_iter().chain(&question.choices) {
                hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
            hash.update(&(question.answer as u64).to_le_bytes());
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<ChoiceQuestions> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        ChoiceQuestions::read(&path, &Budget::new(1 << 24))
    }

    #[test]
    fn published_layouts_are_read() {
        let expected = |subject: &str| ChoiceQuestion {
            subject: subject.into(),
            question: "What is 1 + 1?".into(),
            choices: ["0", "1", "2", "3"].map(String::from).to_vec(),
            answer: 2,
        };
        let jsonl = r#"{"question": "What is 1 + 1?", "choices": ["0", "1", "2", "3"], "answer": 2"#;
        for (name, text, subject) in [
            ("wmdp-bio_test.jsonl", format!("{jsonl}}}\n"), "biology"),
            ("test.jsonl", format!("{jsonl}, \"subject\": \"abstract_algebra\"}}\n"), "abstract algebra"),
            ("abstract_algebra_test.csv", "What is 1 + 1?,0,1,2,3,C\n".into(), "abstract algebra"),
            ("sums.csv", "subject,question,A,B,C,D,answer\n,What is 1 + 1?,0,1,2,3,2\n".into(), "sums"),
        ] {
            assert_eq!(read(name, &text).unwrap().questions, [expected(subject)], "{name}");
        }
    }

    #[test]
    fn unusable_questions_are_refused() {
        for (text, part) in [
            (r#"{"question": "a", "answer": 0}"#, "columns question, answer"),
            (r#"{"question": "a", "choices": ["b"], "answer": 0}"#, "1 choices"),
            (r#"{"question": "a", "choices": ["b", "c"], "answer": 2}"#, "the answer `2`"),
            (r#"{"question": " ", "choices": ["b", "c"], "answer": 1}"#, "no question"),
            (r#"{"question": "a", "choices": "b", "answer": 1}"#, "not a list"),
        ] {
            let error = read("q.jsonl", &format!("{text}\n")).unwrap_err();
            assert!(error.is_input() && error.to_string().contains(part), "{error}");
        }
    }
}
