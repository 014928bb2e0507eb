//! The words of a tokenizer with their first letters as concepts, and prompts that ask for the first letter.

use std::io::Read;
use std::path::Path;

use serde::Deserialize;

use super::dataset::DataSet;
use super::{Annotations, Label};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};
use crate::input::open_regular;
use etalon_kernel::random::{index, stream};

/// Examples before the word that a prompt asks about.
const EXAMPLES: usize = 10;

#[derive(Deserialize)]
struct Tokenizer {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    vocab: Vocabulary,
}

/// Tokens with their ids, or with scores in the order of their ids.
#[derive(Deserialize)]
#[serde(untagged)]
enum Vocabulary {
    Numbered(serde_json::Map<String, serde_json::Value>),
    Listed(Vec<(String, f64)>),
}

/// The tokens of a `tokenizer.json` that are words: letters from a to z only, after at most one space. The concepts are
/// the 26 first letters, upper or lower case. The text of a word keeps its space.
pub fn read_words(path: &Path, budget: &Budget) -> Result<DataSet> {
    let (mut file, length) = open_regular(path)?;
    let _memory = budget.reserve(length.saturating_mul(8), "a vocabulary")?;
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(Error::io("read the tokenizer", path))?;
    let tokenizer: Tokenizer = serde_json::from_slice(&text).map_err(|error| {
        InputError::new("the file is not a supported tokenizer")
            .expected("a file tokenizer.json with `model.vocab`")
            .found(error)
            .advice("save the tokenizer with tokenizer.save_pretrained of transformers")
            .file(path)
    })?;
    let mut tokens: Vec<(u64, String)> = match tokenizer.model.vocab {
        Vocabulary::Numbered(map) => {
            map.into_iter().map(|(text, id)| (id.as_u64().unwrap_or(u64::MAX), text)).collect()
        }
        Vocabulary::Listed(list) => list.into_iter().enumerate().map(|(id, (text, _))| (id as u64, text)).collect(),
    };
    tokens.sort();
    let words: Vec<String> = tokens.iter().filter_map(|(_, token)| word(token)).collect();
    if words.is_empty() {
        return Err(InputError::new("the vocabulary has no words")
            .expected("tokens of the letters a to z")
            .found(format!("{} tokens, none of them a word", tokens.len()))
            .advice("use a tokenizer with English words")
            .file(path)
            .into());
    }
    let letter =
        |text: &str| text.trim_start().bytes().next().map(|byte| usize::from(byte.to_ascii_lowercase() - b'a'));
    let names = (b'a'..=b'z').map(|letter| char::from(letter).to_string()).collect();
    let first: Vec<Option<usize>> = words.iter().map(|word| letter(word)).collect();
    let label = |row: usize, class: usize| if first[row] == Some(class) { Label::Yes } else { Label::No };
    let labels = Annotations::new(names, words.len(), label).in_file(path)?;
    let notes = vec![format!("{} of {} tokens are words", words.len(), tokens.len())];
    Ok(DataSet { images: words, labels, classes: None, splits: None, pairs: None, notes })
}

/// The text of a token, if it is a word. Vocabularies write a space as `Ġ` or `▁`.
fn word(token: &str) -> Option<String> {
    let (space, letters) = match token.strip_prefix(['Ġ', '▁', ' ']) {
        Some(letters) => (" ", letters),
        None => ("", token),
    };
    let is_word = !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word.then(|| format!("{space}{letters}"))
}

/// A prompt for every word, after ten examples of other words and their first letters, drawn by the seed. Use the
/// activation of the token of the last word.
pub fn first_letter_prompts(words: &[String], seed: u64) -> Vec<String> {
    let line = |word: &str| format!("{word} has the first letter:");
    let answer = |word: &str| word.trim_start().chars().next().unwrap_or(' ').to_ascii_uppercase();
    let prompt = |(row, word): (usize, &String)| {
        let mut random = stream(seed, "first letter prompts", row as u64);
        let mut text = String::from("\n");
        for _ in 0..EXAMPLES.min(words.len() - 1) {
            // Any word but this one.
            let other = (row + 1 + index(words.len() - 1, &mut random)) % words.len();
            text += &format!("{} {}\n", line(&words[other]), answer(&words[other]));
        }
        text + &line(word)
    };
    words.iter().enumerate().map(prompt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_letters_after_at_most_one_space() {
        let found: Vec<Option<String>> =
            ["Ġshort", "▁Long", "plain", "##ing", "Ġ", "", "ĠĠx", "naïve", "a1", "<s>"].map(word).into();
        let text = |word: &str| Some(word.to_string());
        assert_eq!(found[..3], [text(" short"), text(" Long"), text("plain")]);
        assert!(found[3..].iter().all(Option::is_none), "{found:?}");
    }

    #[test]
    fn both_forms_of_vocabulary_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokenizer.json");
        let budget = Budget::new(1 << 20);
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_words(&path, &budget)
        };
        let data = read(r#"{"model": {"type": "BPE", "vocab": {"Ġbee": 2, "Ant": 0, "!": 1}}}"#).unwrap();
        assert_eq!(data.images, ["Ant", " bee"]);
        let yes = |row: usize| {
            (0..26).filter(|&c| data.labels.label(row, crate::labels::Concept(c)) == Label::Yes).collect::<Vec<_>>()
        };
        assert_eq!((yes(0), yes(1)), (vec![0], vec![1]));
        assert_eq!(read(r#"{"model": {"vocab": [["<unk>", 0.0], ["▁zoo", -3.5]]}}"#).unwrap().images, [" zoo"]);
        assert!(read(r#"{"model": {"vocab": {"!": 0}}}"#).unwrap_err().to_string().contains("no words"));
        assert!(read("{}").unwrap_err().to_string().contains("model.vocab"));
    }

    #[test]
    fn prompts_end_with_the_word_and_do_not_contain_it_before() {
        let words: Vec<String> = ["ant", " bee", "Cat"].map(String::from).into();
        let prompts = first_letter_prompts(&words, 1);
        assert!(prompts[1].ends_with("\n bee has the first letter:"));
        assert_eq!(prompts[1].matches("bee").count(), 1);
        assert!(prompts[1].contains("has the first letter: A\n") || prompts[1].contains("has the first letter: C\n"));
        assert_eq!(prompts, first_letter_prompts(&words, 1));
        assert_eq!(first_letter_prompts(&words[..1], 0), ["\nant has the first letter:"]);
    }
}
