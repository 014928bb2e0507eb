//! Normalises a text as SentencePiece does, and remembers where every byte comes from.

use super::super::Span;
use super::charsmap::CharsMap;
use super::lexicon::Lexicon;

/// The mark of a space.
pub(in crate::text) const SPACE_MARK: &str = "\u{2581}";

/// The rules of a model.
#[derive(Debug, Default)]
pub(super) struct Normalizer {
    pub charsmap: Option<CharsMap>,
    /// Adds a space before the text, or after it with `suffix_space`.
    pub add_dummy_prefix: bool,
    /// Removes spaces at both ends and repeated ones.
    pub remove_extra_spaces: bool,
    /// Writes spaces as [`SPACE_MARK`].
    pub escape_spaces: bool,
    /// The mark of a space follows a word.
    pub suffix_space: bool,
}

/// A normalised text.
#[derive(Debug, Default)]
pub(super) struct Normalized {
    pub text: String,
    /// For every byte of the text, and for its end, the byte of the original.
    pub origin: Vec<u32>,
}

impl Normalized {
    fn push(&mut self, text: &str, origin: usize) {
        self.text.push_str(text);
        self.origin.resize(self.text.len(), origin as u32);
    }

    /// The bytes of the original that a part covers. `base` is the offset of the original, `added` the length of the space
    /// before it. Where one character became several, each of them covers it.
    pub fn span(&self, start: usize, end: usize, base: usize, added: usize) -> Span {
        let at = |index: usize| self.origin.get(index).copied().unwrap_or_default();
        let (first, mut last) = (at(start), at(end));
        if first == last && end > added {
            let rest = self.origin.get(end..).unwrap_or_default();
            last = rest.iter().copied().find(|origin| *origin > first).unwrap_or(last);
        }
        Span { start: first + base as u32, end: last + base as u32 }
    }
}

impl Normalizer {
    /// Bytes that are added before every text.
    pub fn prefix_length(&self) -> usize {
        match self.add_dummy_prefix && !self.suffix_space {
            true if self.escape_spaces => SPACE_MARK.len(),
            added => usize::from(added),
        }
    }

    /// Normalises a text; `symbols` are never changed.
    pub fn normalize(&self, text: &str, symbols: &Lexicon) -> Normalized {
        let mut at = 0;
        if self.remove_extra_spaces {
            while let Some((length, " ")) = self.prefix(text.get(at..).unwrap_or_default(), symbols) {
                at += length;
            }
        }
        let mut normalized = Normalized::default();
        if at == text.len() {
            normalized.origin.push(0);
            return normalized;
        }
        let space = if self.escape_spaces { SPACE_MARK } else { " " };
        if self.add_dummy_prefix && !self.suffix_space {
            normalized.push(space, at);
        }
        let mut after_space = self.remove_extra_spaces;
        while let Some((length, mut part)) = self.prefix(text.get(at..).unwrap_or_default(), symbols) {
            if after_space {
                part = part.trim_start_matches(' ');
            }
            if !part.is_empty() {
                for (index, word) in part.split(' ').enumerate() {
                    if index > 0 {
                        normalized.push(space, at);
                    }
                    normalized.push(word, at);
                }
                after_space = self.remove_extra_spaces && part.ends_with(' ');
            }
            at += length;
        }
        let mut end = at as u32;
        if self.remove_extra_spaces {
            while normalized.text.ends_with(space) {
                normalized.text.truncate(normalized.text.len() - space.len());
                end = normalized.origin.get(normalized.text.len()).copied().unwrap_or(end);
                normalized.origin.truncate(normalized.text.len());
            }
        }
        if self.add_dummy_prefix && self.suffix_space {
            normalized.push(space, end as usize);
        }
        normalized.origin.push(end);
        normalized
    }

    /// The length of the next unit of a text, and what it becomes; `None` at the end.
    fn prefix<'a>(&'a self, text: &'a str, symbols: &Lexicon) -> Option<(usize, &'a str)> {
        let length = text.chars().next()?.len_utf8();
        if let Some((length, _)) = symbols.longest(text) {
            return text.get(..length).map(|symbol| (length, symbol));
        }
        let mapped = self.charsmap.as_ref().and_then(|map| map.longest(text));
        mapped.or_else(|| text.get(..length).map(|character| (length, character)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normalized(rules: &Normalizer, text: &str) -> (String, Vec<u32>) {
        let normalized = rules.normalize(text, &Lexicon::default());
        assert_eq!(normalized.origin.len(), normalized.text.len() + 1);
        (normalized.text, normalized.origin)
    }

    #[test]
    fn spaces_are_marked() {
        let rules = Normalizer { add_dummy_prefix: true, escape_spaces: true, ..Normalizer::default() };
        assert_eq!(normalized(&rules, "a b"), ("▁a▁b".into(), vec![0, 0, 0, 0, 1, 1, 1, 2, 3]));
        assert_eq!(normalized(&rules, " "), ("▁▁".into(), vec![0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(normalized(&rules, ""), (String::new(), vec![0]));
    }

    #[test]
    fn extra_spaces_are_removed() {
        let rules = Normalizer { remove_extra_spaces: true, escape_spaces: true, ..Normalizer::default() };
        // The text ends at byte 5, where the first of the removed spaces was.
        assert_eq!(normalized(&rules, " a  b  "), ("a▁b".into(), vec![1, 2, 2, 2, 4, 5]));
        assert_eq!(normalized(&rules, "   ").0, "");
        let suffix = Normalizer { add_dummy_prefix: true, suffix_space: true, ..rules };
        assert_eq!(normalized(&suffix, "a b ").0, "a▁b▁");
    }

    #[test]
    fn symbols_are_kept() {
        let rules = Normalizer { escape_spaces: true, remove_extra_spaces: true, ..Normalizer::default() };
        let symbols = Lexicon::new([("<b>", 0)].into_iter());
        assert_eq!(rules.normalize("<b>  <b>", &symbols).text, "<b>▁<b>");
    }
}
