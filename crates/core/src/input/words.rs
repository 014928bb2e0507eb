//! Spaces between the words or tokens of a text. Lists of words often lack them, and tokenizers mark them in different ways.

/// Marks of tokenizers for a space before a token.
const SPACE_MARKS: [char; 2] = ['Ġ', '▁'];

/// The mark of tokenizers for a token that continues a word.
const CONTINUES: &str = "##";

/// Words whose concatenation is the text: adds the spaces between them where they are missing. Spaces follow `text` if it
/// contains the words in order, else the marks of the tokenizer, else the punctuation.
pub fn spaced_words(words: Vec<String>, text: Option<&str>) -> Vec<String> {
    if let Some(found) = text.and_then(|text| along(&words, text)) {
        return found;
    }
    if words.iter().any(|word| word.starts_with(SPACE_MARKS)) {
        return words.into_iter().map(|word| word.replace(SPACE_MARKS, " ")).collect();
    }
    let has_space = |word: &String| word.starts_with(char::is_whitespace) || word.ends_with(char::is_whitespace);
    if words.iter().any(has_space) {
        return words;
    }
    let mut spaced: Vec<String> = Vec::with_capacity(words.len());
    for word in words {
        let after_opening = spaced.last().is_none_or(|last| last.ends_with(['(', '[', '{', '“', '‘', '¿', '¡']));
        let is_closing =
            |c: char| c.is_ascii_punctuation() && !matches!(c, '(' | '[' | '{' | '"' | '&' | '@' | '#' | '$');
        let closes = !word.is_empty() && word.chars().all(|c| is_closing(c) || matches!(c, '”' | '’' | '…'));
        let apostrophe = word.starts_with(['\'', '’']);
        spaced.push(match word.strip_prefix(CONTINUES) {
            Some(rest) if !rest.is_empty() => rest.to_string(),
            _ if after_opening || closes || apostrophe => word,
            _ => format!(" {word}"),
        });
    }
    spaced
}

/// The words with the spaces of the text before them; `None` if the text does not consist of them.
fn along(words: &[String], text: &str) -> Option<Vec<String>> {
    let (mut rest, mut spaced) = (text, Vec::with_capacity(words.len()));
    for word in words {
        let own = word.trim();
        let space = rest.len() - rest.trim_start().len();
        if !rest[space..].starts_with(own) {
            return None;
        }
        spaced.push(rest[..space + own.len()].to_string());
        rest = &rest[space + own.len()..];
    }
    if rest.trim().is_empty() {
        spaced.last_mut().into_iter().for_each(|last| last.push_str(rest));
        return Some(spaced);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(words: &[&str], text: Option<&str>) -> String {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let (count, spaced) = (words.len(), spaced_words(words, text));
        assert_eq!(spaced.len(), count, "one value per word");
        // A second time changes nothing.
        assert_eq!(spaced_words(spaced.clone(), text), spaced);
        spaced.concat()
    }

    #[test]
    fn spaces_are_added_where_they_are_missing() {
        assert_eq!(joined(&["a", "bird", ",", "a", "wall"], None), "a bird, a wall");
        assert_eq!(joined(&["it", "'s", "(", "very", ")", "good", "!"], None), "it's (very) good!");
        assert_eq!(joined(&["a", " bird", " s"], None), "a bird s");
        assert_eq!(joined(&["▁a", "▁bi", "rd"], None), " a bird");
        assert_eq!(joined(&["a", "Ġbird", "s"], None), "a birds");
        assert_eq!(joined(&["a", "bi", "##rd"], None), "a bird");
        assert_eq!(joined(&["word"], None), "word");
        assert_eq!(joined(&[], None), "");
    }

    #[test]
    fn spaces_are_those_of_the_text() {
        assert_eq!(joined(&["a", "bi", "rd", "-", "house"], Some("a bird-house")), "a bird-house");
        // Another text: the words decide.
        assert_eq!(joined(&["a", "bird"], Some("a wall")), "a bird");
    }
}
