//! The tokens behind the rows: metrics that show text to a judge read it here.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::artefact::Artefact;
use crate::context::{Budget, Reservation};
use crate::error::{InFile, InputError, Key, Result};
use crate::input::read_samples;
use crate::network::TextRun;

/// Where the texts of tokens come from.
pub enum TokenSource {
    /// A list of the tokens of every text.
    Texts(Arc<TokenTexts>),
    /// The sequences of a capture.
    Run(Arc<TextRun>),
}

impl TokenSource {
    /// The texts of the tokens behind this many rows.
    pub fn texts(&self, rows: usize, budget: &Budget) -> Result<Arc<TokenTexts>> {
        match self {
            TokenSource::Texts(texts) if texts.rows() == rows => Ok(texts.clone()),
            TokenSource::Texts(texts) => Err(not_fitting(rows).found(format!("{} tokens", texts.rows())).into()),
            TokenSource::Run(run) => TokenTexts::of_run(run, rows, budget).map(Arc::new),
        }
    }
}

fn not_fitting(rows: usize) -> InputError {
    InputError::new("the tokens do not fit the codes")
        .expected(format!("{rows} tokens, one per row of {}", Key("codes")))
        .advice("use codes of the tokens of the same capture, without pooling")
}

impl Artefact for TokenSource {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(match self {
            TokenSource::Texts(texts) => texts.id(),
            TokenSource::Run(run) => run.id(),
        })
    }
}

/// The position of a row that is not evaluated: that of a special token.
const NO_POSITION: u32 = u32::MAX;

/// Sequences of tokens as text, and which rows are theirs.
pub struct TokenTexts {
    /// Every text once.
    texts: Vec<String>,
    /// The number of the text of every position.
    tokens: Vec<u32>,
    /// The first position of every sequence, and the number of positions.
    starts: Vec<usize>,
    /// The position of every row, or [`NO_POSITION`].
    position_of: Vec<u32>,
    _memory: Reservation,
}

impl TokenTexts {
    /// Sequences whose tokens are the rows, in order.
    pub fn new(sequences: &[Vec<String>], budget: &Budget) -> Result<TokenTexts> {
        let count = sequences.iter().map(Vec::len).sum::<usize>();
        let memory = budget.reserve(bytes(count), "texts of tokens")?;
        let (mut texts, mut numbers, mut tokens) =
            (Vec::new(), BTreeMap::<&str, u32>::new(), Vec::with_capacity(count));
        let mut starts = vec![0];
        for sequence in sequences {
            for text in sequence {
                let next = texts.len() as u32;
                let number = *numbers.entry(text).or_insert(next);
                if number == next {
                    texts.push(text.clone());
                }
                tokens.push(number);
            }
            starts.push(tokens.len());
        }
        Ok(TokenTexts { texts, tokens, starts, position_of: (0..count as u32).collect(), _memory: memory })
    }

    /// The sequences of a capture. Its rows are all tokens, or all but special ones.
    pub fn of_run(run: &TextRun, rows: usize, budget: &Budget) -> Result<TokenTexts> {
        let count = run.tokens.len();
        let memory = budget.reserve(bytes(count), "texts of tokens")?;
        let mut special = run.special.clone();
        special.sort_unstable();
        let is_special = |token: &u32| special.binary_search(token).is_ok();
        let plain = run.tokens.iter().filter(|token| !is_special(token)).count();
        if rows != count && rows != plain {
            return Err(not_fitting(rows)
                .found(format!("{count} tokens in the capture, {plain} of them not special"))
                .into());
        }
        let positions = run.tokens.iter().enumerate().filter(|(_, token)| rows == count || !is_special(token));
        let position_of =
            positions.map(|(position, token)| if is_special(token) { NO_POSITION } else { position as u32 }).collect();
        let mut used = run.tokens.clone();
        used.sort_unstable();
        used.dedup();
        let texts = used.iter().map(|token| run.tokenizer.token_text(*token)).collect::<Result<Vec<_>>>()?;
        let number = |token: &u32| used.partition_point(|other| other < token) as u32;
        let tokens = run.tokens.iter().map(number).collect();
        let starts = (0..=run.sequences()).map(|sequence| sequence * run.length).collect();
        Ok(TokenTexts { texts, tokens, starts, position_of, _memory: memory })
    }

    /// Reads the file `rows.jsonl` of a capture, or any file with a list `words` per line.
    pub(super) fn read(path: &Path, budget: &Budget) -> Result<TokenTexts> {
        let file = if path.is_dir() { path.join("rows.jsonl") } else { path.to_path_buf() };
        let samples = read_samples(&file, budget)?;
        let words = |(line, words): (usize, Option<Vec<String>>)| -> Result<Vec<String>> {
            words.ok_or_else(|| {
                InputError::new("a text has no list of its tokens")
                    .expected(r#"lines such as {"id": "a", "words": ["A", " cat"]}"#)
                    .at(format!("line {}", line + 1))
                    .advice(format!("capture with {}", Key("rows all")))
                    .file(&file)
                    .into()
            })
        };
        let sequences = samples.into_iter().map(|sample| sample.words).enumerate().map(words);
        TokenTexts::new(&sequences.collect::<Result<Vec<_>>>()?, budget).in_file(&file)
    }

    /// Number of sequences.
    pub fn sequences(&self) -> usize {
        self.starts.len() - 1
    }

    /// The positions of a sequence.
    pub fn sequence(&self, sequence: usize) -> std::ops::Range<usize> {
        self.starts[sequence]..self.starts[sequence + 1]
    }

    /// Number of tokens, those without a row included.
    pub fn positions(&self) -> usize {
        self.tokens.len()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.position_of.len()
    }

    /// The position of a row; none for rows of special tokens, which are not evaluated.
    pub fn position_of(&self, row: usize) -> Option<u32> {
        self.position_of.get(row).copied().filter(|position| *position != NO_POSITION)
    }

    /// The text of the token at a position.
    pub fn text(&self, position: usize) -> &str {
        &self.texts[self.tokens[position] as usize]
    }

    /// The text of a number of [`TokenTexts::token`].
    pub fn text_of(&self, token: u32) -> &str {
        self.texts.get(token as usize).map_or("", String::as_str)
    }

    /// The number of the text at a position: equal texts have equal numbers.
    pub fn token(&self, position: usize) -> u32 {
        self.tokens[position]
    }

    fn id(&self) -> String {
        let mut hash = blake3::Hasher::new_derive_key("etalon token texts v1");
        for text in &self.texts {
            hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
        }
        for start in &self.starts {
            hash.update(&(*start as u64).to_le_bytes());
        }
        hash.update(bytemuck::cast_slice(&self.tokens)).update(bytemuck::cast_slice(&self.position_of));
        format!("blake3:{}", hash.finalize().to_hex())
    }
}

/// Bytes of the lists of this many positions.
fn bytes(positions: usize) -> u64 {
    16 * positions as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_equal_numbers() {
        let budget = Budget::new(1 << 20);
        let sequences = [vec!["a".to_string(), " b".into()], vec![], vec!["a".into()]];
        let texts = TokenTexts::new(&sequences, &budget).unwrap();
        assert_eq!((texts.sequences(), texts.rows(), texts.sequence(2)), (3, 3, 2..3));
        assert_eq!((texts.text(1), texts.token(0), texts.token(2)), (" b", 0, 0));
        assert_eq!((texts.position_of(2), texts.position_of(3)), (Some(2), None));
        let source = TokenSource::Texts(Arc::new(texts));
        assert!(source.texts(3, &budget).is_ok());
        let error = source.texts(4, &budget).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("4 tokens") && error.contains("3 tokens"), "{error}");
    }

    #[test]
    fn a_file_has_a_list_of_words_per_line() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.jsonl");
        std::fs::write(&path, "{\"sample\": 0, \"id\": \"x\", \"text\": \"a b\", \"words\": [\"a\", \" b\"]}\n")
            .unwrap();
        let budget = Budget::new(1 << 20);
        assert_eq!(TokenTexts::read(directory.path(), &budget).unwrap().rows(), 2);
        std::fs::write(&path, "{\"id\": \"x\", \"text\": \"a b\"}\n").unwrap();
        let error = TokenTexts::read(&path, &budget).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("no list of its tokens") && error.contains("line 1"), "{error}");
    }
}
