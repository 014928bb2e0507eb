//! Finds the pieces that a text starts with.

/// Texts with ids.
#[derive(Debug, Default)]
pub(super) struct Lexicon {
    /// Sorted by text; equal first bytes are adjacent.
    sorted: Vec<(Box<str>, u32)>,
    /// Entries whose text starts with a byte: `starts[byte]..starts[byte + 1]`.
    starts: Vec<u32>,
}

impl Lexicon {
    /// A lexicon of texts that are not empty. Of equal texts the first remains.
    pub fn new<'a>(entries: impl Iterator<Item = (&'a str, u32)>) -> Lexicon {
        let mut sorted: Vec<(Box<str>, u32)> = entries.map(|(text, id)| (text.into(), id)).collect();
        sorted.sort();
        sorted.dedup_by(|second, first| second.0 == first.0);
        let first = |text: &str| text.bytes().next().map_or(0, usize::from);
        let starts = (0..=256).map(|byte| sorted.partition_point(|(text, _)| first(text) < byte) as u32).collect();
        Lexicon { sorted, starts }
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Entries that `text` starts with, shortest first, as length and id.
    pub fn prefixes<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (usize, u32)> + 'a {
        let bytes = text.as_bytes();
        let mut rest = bytes.first().and_then(|byte| self.starting_with(*byte)).unwrap_or_default();
        let mut length = 1;
        std::iter::from_fn(move || {
            // All of `rest` share the first `length` bytes of the text.
            loop {
                let (text, id) = rest.first()?;
                if text.len() == length {
                    rest = rest.get(1..).unwrap_or_default();
                    return Some((length, *id));
                }
                let byte = *bytes.get(length)?;
                let at = |text: &str| text.as_bytes().get(length).copied();
                let from = rest.partition_point(|(text, _)| at(text) < Some(byte));
                let to = from + rest.get(from..)?.partition_point(|(text, _)| at(text) == Some(byte));
                rest = rest.get(from..to)?;
                length += 1;
            }
        })
    }

    /// The longest entry that `text` starts with.
    pub fn longest(&self, text: &str) -> Option<(usize, u32)> {
        self.prefixes(text).last()
    }

    fn starting_with(&self, byte: u8) -> Option<&[(Box<str>, u32)]> {
        let byte = usize::from(byte);
        self.sorted.get(*self.starts.get(byte)? as usize..*self.starts.get(byte + 1)? as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_found_in_order_of_length() {
        let words = ["a", "abc", "abd", "b", "é", "ab", "a"];
        let lexicon = Lexicon::new(words.iter().enumerate().map(|(id, word)| (*word, id as u32)));
        let prefixes = |text: &str| lexicon.prefixes(text).collect::<Vec<_>>();
        assert_eq!(prefixes("abce"), [(1, 0), (2, 5), (3, 1)]);
        assert_eq!(prefixes("abx"), [(1, 0), (2, 5)]);
        assert_eq!(prefixes("éa"), [(2, 4)]);
        assert!(prefixes("").is_empty() && prefixes("c").is_empty() && prefixes("\0").is_empty());
        assert_eq!(lexicon.longest("abd"), Some((3, 2)));
    }
}
