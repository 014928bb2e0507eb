//! The arrangement of the tokens of a sample: patches of an image, or words of a text.

use std::str::FromStr;

use crate::error::{Error, InputError, Key, Result};
use crate::input::Sample;

/// A grid of image patches: lines × columns, such as 14x14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchGrid {
    /// Number of lines.
    pub lines: usize,
    /// Number of patches per line.
    pub columns: usize,
}

impl FromStr for PatchGrid {
    type Err = Error;

    fn from_str(text: &str) -> Result<PatchGrid> {
        let side = |text: &str| text.trim().parse::<u16>().ok().filter(|&side| side > 0).map(usize::from);
        let sides = text.split_once(['x', 'X', '×']).and_then(|(lines, columns)| Some((side(lines)?, side(columns)?)));
        let (lines, columns) = sides.ok_or_else(|| {
            InputError::new("invalid grid of patches")
                .expected("lines and columns, such as 14x14")
                .found(format!("`{}`", text.escape_debug()))
        })?;
        Ok(PatchGrid { lines, columns })
    }
}

/// How the tokens of a sample are arranged. The `first` tokens, such as a class token, represent the whole sample and
/// are skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// Patches of an image; `columns` unless the grid is square.
    Patches { first: usize, columns: Option<u32> },
    /// Words of a text.
    Words { first: usize },
}

impl Arrangement {
    /// The arrangement of a sample with some number of tokens; `None` if it cannot be inferred. `grid` is the grid that
    /// the user gave for all images.
    pub fn of(sample: &Sample, tokens: usize, grid: Option<PatchGrid>) -> Result<Option<Arrangement>> {
        let wrong = |what: &str| InputError::new(what).at(format!("sample `{}`", sample.id.escape_debug()));
        if sample.image.is_some() {
            if let Some(PatchGrid { lines, columns }) = grid {
                let first = tokens.checked_sub(lines * columns).ok_or_else(|| {
                    wrong("too few tokens for the grid")
                        .expected(format!("at least {lines} × {columns} = {} tokens", lines * columns))
                        .found(format!("{tokens} tokens"))
                        .advice(format!("use {} only if all images have the same number of patches", Key("grid")))
                })?;
                let columns = (lines != columns).then_some(columns as u32);
                return Ok(Some(Arrangement::Patches { first, columns }));
            }
            let is_square = |count: usize| count >= 4 && count.isqrt().pow(2) == count;
            // One more than a square: the first token is a class token.
            let first = [0, 1].into_iter().find(|&first| tokens.checked_sub(first).is_some_and(is_square));
            return Ok(first.map(|first| Arrangement::Patches { first, columns: None }));
        }
        let Some(text) = &sample.text else { return Ok(None) };
        let words = sample.words.as_ref().map_or_else(|| text.split_inclusive(char::is_whitespace).count(), Vec::len);
        match tokens.checked_sub(words) {
            Some(first @ (0 | 1)) if words > 0 => Ok(Some(Arrangement::Words { first })),
            // A text whose tokens are all left out.
            Some(0) => Ok(None),
            // Given words must match; a split at spaces is only a guess.
            _ if sample.words.is_some() => Err(wrong("the words of a sample do not match its tokens")
                .expected(format!("{tokens} words, or one less if the first token represents the whole text"))
                .found(format!("{words} words"))
                .into()),
            _ => Ok(None),
        }
    }

    /// The number of skipped tokens.
    pub fn first(self) -> usize {
        match self {
            Arrangement::Patches { first, .. } | Arrangement::Words { first } => first,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(text: &str) -> Sample {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn patches_of_an_image() {
        let image = sample(r#"{"id": "a", "image": "b"}"#);
        let of = |tokens, grid: Option<&str>| Arrangement::of(&image, tokens, grid.map(|grid| grid.parse().unwrap()));
        let square = |first| Some(Arrangement::Patches { first, columns: None });
        // 256 = 16²; 257 has a class token; 261 has four registers more, which cannot be inferred.
        for (tokens, expected) in
            [(256, square(0)), (257, square(1)), (261, None), (5, square(1)), (2, None), (1, None)]
        {
            assert_eq!(of(tokens, None).unwrap(), expected, "{tokens}");
        }
        assert_eq!(of(261, Some("16x16")).unwrap(), square(5));
        assert_eq!(of(7, Some("2x3")).unwrap(), Some(Arrangement::Patches { first: 1, columns: Some(3) }));
        let error = of(5, Some("2x3")).unwrap_err().to_string();
        assert!(error.contains("2 × 3 = 6") && error.contains("5 tokens") && error.contains("sample `a`"), "{error}");
        for text in ["14", "0x3", "x", "3x-1", "99999x1"] {
            assert!(text.parse::<PatchGrid>().unwrap_err().to_string().contains("14x14"), "{text}");
        }
    }

    #[test]
    fn words_of_a_text() {
        let of = |text: &str, tokens| Arrangement::of(&sample(text), tokens, None);
        let words = r#"{"id": "a", "text": "a bird", "words": ["a", " bi", "rd"]}"#;
        assert_eq!(of(words, 3).unwrap(), Some(Arrangement::Words { first: 0 }));
        assert_eq!(of(words, 4).unwrap(), Some(Arrangement::Words { first: 1 }));
        let error = of(words, 5).unwrap_err().to_string();
        assert!(error.contains("5 words") && error.contains("3 words"), "{error}");
        // Without words, the text is split at spaces if the number matches.
        let text = r#"{"id": "a", "text": "a bird"}"#;
        assert_eq!(of(text, 2).unwrap(), Some(Arrangement::Words { first: 0 }));
        assert_eq!(of(text, 4).unwrap(), None);
        assert_eq!(of(r#"{"id": "a", "text": ""}"#, 1).unwrap(), None);
        assert_eq!(of(r#"{"id": "a", "text": "b", "words": []}"#, 0).unwrap(), None);
        assert_eq!(of(r#"{"id": "a"}"#, 4).unwrap(), None);
    }
}
