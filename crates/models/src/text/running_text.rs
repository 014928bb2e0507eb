//! The rows of running text that SAEBench uses for automated interpretation, unlearning and its PCA baseline.

use etalon::error::{InputError, Result};

use super::Span;
use super::packing::Row;
use super::tokenizer::{Special, Tokenizer};

/// The joined text is encoded in this many parts.
const PARTS: usize = 20;

/// The settings of [`running_text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningText {
    /// Tokens per row.
    pub context: usize,
    /// The number of tokens; the result has up to one row more. All tokens if absent.
    pub tokens: Option<usize>,
    /// Replaces the first token of every row by the beginning-of-text token.
    pub bos: bool,
}

/// Rows of joined texts, with the quirks of SAEBench: texts are joined by the end-of-text token as it is spelled; the joined
/// text is cut into 20 parts of equally many characters, which may cut words; every padding token is removed, which
/// removes the separators too where both are the same token; and a token per row is lost to the beginning-of-text
/// token. Texts are given in order and numbered from 0. SAEBench takes texts of more than 100 characters until they have
/// five times as many characters as `tokens`.
pub fn running_text(tokenizer: &Tokenizer, texts: &[impl AsRef<str>], settings: RunningText) -> Result<Vec<Row>> {
    let needs = |what: &str| {
        InputError::new(format!("the tokenizer has no {what} token")).advice("pack the texts in another way")
    };
    let eos = tokenizer.eos().ok_or_else(|| needs("end-of-text"))?;
    let bos = tokenizer.bos().filter(|_| settings.bos);
    if settings.context == 0 || (settings.bos && bos.is_none()) {
        return Err(needs("beginning-of-text").into());
    }
    let separator = tokenizer.token_text(eos)?;
    let (mut joined, mut starts) = (String::new(), Vec::with_capacity(texts.len()));
    for (number, text) in texts.iter().enumerate() {
        if number > 0 {
            joined.push_str(&separator);
        }
        starts.push(joined.len());
        joined.push_str(text.as_ref());
    }
    let pad = tokenizer.pad();
    let most = settings.tokens.map_or(usize::MAX, |tokens| tokens + settings.context + 1);
    let (mut rows, mut row, mut count) = (Vec::new(), Row::default(), 0);
    for (offset, part) in parts(&joined) {
        let encoded = tokenizer.encode_spans(part, Special::Add)?;
        for (id, span) in encoded.ids.iter().zip(&encoded.spans).filter(|(id, _)| Some(**id) != pad) {
            if count == most {
                break;
            }
            count += 1;
            let first = row.ids.is_empty();
            let (number, span) = locate(&starts, texts, offset + span.start as usize, offset + span.end as usize);
            let id = bos.filter(|_| first).unwrap_or(*id);
            row.push(id, number, span, (first && bos.is_some()) || tokenizer.is_special(id));
            if row.ids.len() == settings.context {
                rows.push(std::mem::take(&mut row));
            }
        }
    }
    Ok(rows)
}

/// Parts of equally many characters, except the last ones, with their offsets.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let length = text.chars().count().saturating_sub(1) / PARTS + 1;
    let mut offset = 0;
    (0..PARTS).map(move |_| {
        let rest = text.get(offset..).unwrap_or_default();
        let end = rest.char_indices().nth(length).map_or(rest.len(), |(end, _)| end);
        let part = (offset, rest.get(..end).unwrap_or_default());
        offset += end;
        part
    })
}

/// The number of the text at a place of the joined text, and the bytes in it.
fn locate(starts: &[usize], texts: &[impl AsRef<str>], start: usize, end: usize) -> (u64, Span) {
    let number = starts.partition_point(|text| *text <= start).saturating_sub(1);
    let base = starts.get(number).copied().unwrap_or_default();
    let length = texts.get(number).map_or(0, |text| text.as_ref().len());
    let within = |at: usize| at.saturating_sub(base).min(length) as u32;
    (number as u64, Span { start: within(start), end: within(end) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_equally_many_characters() {
        let text: String = "aé".repeat(25);
        let lengths: Vec<usize> = parts(&text).map(|(_, part)| part.chars().count()).collect();
        // 50 characters: (50 - 1) / 20 + 1 = 3 in each of 16 parts, 2 in the next.
        assert_eq!(lengths, [vec![3; 16], vec![2], vec![0; 3]].concat());
        assert_eq!(parts(&text).map(|(_, part)| part).collect::<String>(), text);
        assert_eq!(parts("").count(), PARTS);
    }

    #[test]
    fn places_are_found_in_their_texts() {
        // "abc" + "#" + "" + "#" + "de"
        let (texts, starts) = (["abc", "", "de"], [0, 4, 5]);
        assert_eq!(locate(&starts, &texts, 1, 3), (0, Span { start: 1, end: 3 }));
        assert_eq!(locate(&starts, &texts, 3, 4), (0, Span { start: 3, end: 3 }));
        assert_eq!(locate(&starts, &texts, 5, 7), (2, Span { start: 0, end: 2 }));
    }
}
