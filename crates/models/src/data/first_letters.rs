//! Prompts that ask for the first letter of a word, made of the words of a vocabulary.
//!
//! A prompt has lines such as ` apple has the first letter: A`, then the same line for the word of the sample, without the answer.
//! Words keep the space that their token begins with.

use std::fmt::Write;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use etalon::error::{InputError, Result};
use etalon_kernel::random::{index, permutation, stream};

use super::input::{Item, Source};
use super::options::ContentKind;
use super::sample::{Content, Label, Sample};

/// The name of this input.
pub const FIRST_LETTERS: &str = "first-letters";

/// What follows a word.
const QUESTION: &str = " has the first letter:";

/// In-context examples of a prompt, unless another number is given.
pub const LETTER_EXAMPLES: usize = 10;

/// Words of letters of ASCII, each a token of its own in a prompt.
#[derive(Debug, PartialEq, Eq)]
pub struct LetterWords {
    /// The words, with the space that their token begins with.
    pub words: Vec<String>,
    /// Tokens of letters that are no words in a prompt.
    pub dropped: usize,
}

/// Prompts in a random order of words.
pub(super) struct FirstLetters {
    words: Arc<LetterWords>,
    /// In-context examples of a prompt.
    examples: usize,
    seed: u64,
    /// The word of every sample.
    order: Vec<usize>,
    next: usize,
    label_columns: Vec<String>,
}

/// The line of a word in its own prompt, which begins with a line break, and where the word is.
pub(crate) fn question(word: &str) -> (String, Range<usize>) {
    let text = format!("\n{word}{QUESTION}");
    let end = 1 + word.len();
    (text, end - word.trim_start().len()..end)
}

impl FirstLetters {
    /// Prompts with this many examples.
    pub fn new(words: Arc<LetterWords>, examples: usize, seed: u64) -> Result<FirstLetters> {
        let count = words.words.len();
        if count <= examples {
            return Err(InputError::new("the vocabulary has too few words for prompts about first letters")
                .expected(format!("more than {examples} tokens that are words of the letters A to Z"))
                .found(format!("{count}, and {} that are no tokens of their own in a prompt", words.dropped))
                .advice("use fewer examples, or another language model")
                .into());
        }
        let order = permutation(count, &mut stream(seed, "first letters/order", 0));
        Ok(FirstLetters { words, examples, seed, order, next: 0, label_columns: vec!["letter".into()] })
    }

    /// The prompt of a word, and where the word is.
    fn prompt(&self, word: usize) -> (String, Range<usize>) {
        let mut random = stream(self.seed, "first letters/examples", word as u64);
        let mut drawn = vec![word];
        let mut text = String::new();
        while drawn.len() <= self.examples {
            let other = index(self.words.words.len(), &mut random);
            if drawn.contains(&other) {
                continue;
            }
            drawn.push(other);
            let example = &self.words.words[other];
            let letter = first_letter(example).to_ascii_uppercase();
            // Writing to a text cannot fail.
            let _ = write!(text, "\n{example}{QUESTION} {letter}");
        }
        let (question, span) = question(&self.words.words[word]);
        let start = text.len();
        (text + &question, start + span.start..start + span.end)
    }
}

/// The first letter of a word, in lower case.
fn first_letter(word: &str) -> char {
    word.trim_start().chars().next().unwrap_or(' ').to_ascii_lowercase()
}

impl Source for FirstLetters {
    fn kind(&self) -> ContentKind {
        ContentKind::Text
    }

    fn label_columns(&self) -> &[String] {
        &self.label_columns
    }

    fn count(&self) -> Option<u64> {
        Some(self.order.len() as u64)
    }

    fn notes(&self) -> Vec<String> {
        let (words, dropped) = (self.words.words.len(), self.words.dropped);
        let mut notes = vec![format!("{words} words of the vocabulary, in prompts with {} examples", self.examples)];
        if dropped > 0 {
            notes.push(format!("{dropped} tokens of letters are left out, because a prompt would split or join them"));
        }
        notes
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        None
    }

    fn read(&mut self) -> Result<Option<Item>> {
        let Some(&word) = self.order.get(self.next) else { return Ok(None) };
        self.next += 1;
        let (text, span) = self.prompt(word);
        let name = &self.words.words[word];
        Ok(Some(Item::Sample(Box::new(Sample {
            position: 0,
            id: name.clone(),
            content: Content::Text(text),
            file: None,
            caption: None,
            labels: vec![Label::Value(first_letter(name).to_string())],
            words: None,
            marked: Some(span),
        }))))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.next = usize::try_from(position).unwrap_or(usize::MAX);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(seed: u64) -> FirstLetters {
        let words = [" apple", "Bird", " cat", "dog", " egg"].map(String::from).to_vec();
        FirstLetters::new(Arc::new(LetterWords { words, dropped: 0 }), 2, seed).unwrap()
    }

    fn samples(mut source: FirstLetters) -> Vec<Sample> {
        let mut samples = Vec::new();
        while let Some(item) = source.read().unwrap() {
            let Item::Sample(sample) = item else { panic!("not a sample") };
            samples.push(*sample);
        }
        samples
    }

    #[test]
    fn prompts_end_with_the_question_about_their_word() {
        let found = samples(source(3));
        assert_eq!(found.len(), 5);
        for sample in &found {
            let Content::Text(text) = &sample.content else { panic!("{sample:?}") };
            let lines: Vec<&str> = text.split('\n').collect();
            assert_eq!((lines.len(), lines[0]), (4, ""), "{text:?}");
            assert_eq!(lines[3], format!("{} has the first letter:", sample.id));
            assert_eq!(text[sample.marked.clone().unwrap()], *sample.id.trim_start());
            for line in &lines[1..3] {
                let (word, answer) = line.split_once(" has the first letter: ").unwrap();
                assert!(word != sample.id && word.trim().to_uppercase().starts_with(answer), "{line}");
            }
            assert_ne!(lines[1], lines[2]);
        }
        let bird = found.iter().find(|sample| sample.id == "Bird").unwrap();
        assert_eq!(bird.labels, [Label::Value("b".into())]);
    }

    #[test]
    fn the_seed_fixes_prompts_and_order() {
        let texts =
            |seed| samples(source(seed)).iter().map(|sample| format!("{:?}", sample.content)).collect::<Vec<_>>();
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
        let mut later = source(1);
        later.seek(3).unwrap();
        assert_eq!(samples(later).len(), 2);
        let few = FirstLetters::new(Arc::new(LetterWords { words: vec![" a".into()], dropped: 7 }), 1, 0);
        assert!(few.map(drop).unwrap_err().to_string().contains("more than 1 tokens"));
    }
}
