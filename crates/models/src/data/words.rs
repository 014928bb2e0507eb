//! Words of a text and where they are in it.

use std::ops::Range;

use super::sample::Words;

/// Finds words in a text, one after the other. Words may contain the space before them, as in `["a", " bird"]`.
pub(super) fn find(text: &str, words: &[String]) -> Result<Vec<Range<usize>>, String> {
    let mut spans = Vec::with_capacity(words.len());
    let mut at = 0;
    for (index, word) in words.iter().enumerate() {
        let word = word.trim();
        let rest = text.get(at..).unwrap_or_default();
        let skipped = rest.len() - rest.trim_start().len();
        let start = at + skipped;
        if !rest.trim_start().starts_with(word) {
            return Err(format!("word {index} (`{word}`) does not continue the text at byte {start}"));
        }
        at = start + word.len();
        spans.push(start..at);
    }
    Ok(spans)
}

/// Joins words to a text: as they are if they contain their spaces, otherwise with spaces between them.
pub(super) fn join(words: &[String]) -> (String, Vec<Range<usize>>) {
    let has_spaces =
        words.iter().any(|word| word.starts_with(char::is_whitespace) || word.ends_with(char::is_whitespace));
    let mut text = String::new();
    let mut spans = Vec::with_capacity(words.len());
    for word in words {
        if !has_spaces && !text.is_empty() {
            text.push(' ');
        }
        let start = text.len() + (word.len() - word.trim_start().len());
        text.push_str(word);
        spans.push(start..start + word.trim().len());
    }
    (text, spans)
}

/// Checks that every list of tags has one per word.
pub(super) fn annotate(spans: Vec<Range<usize>>, tags: Vec<(String, Vec<String>)>) -> Result<Words, String> {
    match tags.iter().find(|(_, tags)| tags.len() != spans.len()) {
        Some((name, tags)) => Err(format!("{} words and {} values in the column `{name}`", spans.len(), tags.len())),
        None => Ok(Words { spans, tags }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| word.to_string()).collect()
    }

    #[test]
    fn words_are_found_with_and_without_spaces() {
        assert_eq!(find("A bird, here", &words(&["A", " bird", ",", " here"])).unwrap(), [0..1, 2..6, 6..7, 8..12]);
        assert_eq!(find("A bird", &words(&["A", "bird"])).unwrap(), [0..1, 2..6]);
        let error = find("A bird", &words(&["A", "dog"])).unwrap_err();
        assert!(error.contains("word 1 (`dog`)") && error.contains("byte 2"), "{error}");
        assert!(find("é", &words(&["é", "x"])).is_err());
    }

    #[test]
    fn words_are_joined() {
        assert_eq!(join(&words(&["A", "bird"])), ("A bird".into(), vec![0..1, 2..6]));
        assert_eq!(join(&words(&["A", " bird", "."])), ("A bird.".into(), vec![0..1, 2..6, 6..7]));
        assert_eq!(join(&[]), (String::new(), vec![]));
    }

    #[test]
    fn every_word_needs_a_tag() {
        assert!(annotate(vec![0..1; 1], vec![("pos".into(), words(&["n", "v"]))]).unwrap_err().contains("`pos`"));
    }
}
