//! The nouns of WordNet: synsets, what they are called, and what is above them.

use std::collections::{BTreeMap, BTreeSet};

use etalon::error::Result;

use super::unexpected;

/// A synset.
pub(super) struct Synset {
    /// Its words, with underscores for spaces; the most usual one first.
    pub words: Vec<String>,
    /// Its hypernyms.
    pub above: Vec<u32>,
    /// Its definition.
    pub gloss: String,
}

/// Synsets by their offset in `data.noun`, which is the number in the identifiers of ImageNet.
pub(super) type Synsets = BTreeMap<u32, Synset>;

/// Parses `data.noun`.
pub(super) fn parse(bytes: &[u8]) -> Result<Synsets> {
    let text = std::str::from_utf8(bytes).map_err(|error| unexpected("data.noun", error))?;
    let mut synsets = Synsets::new();
    // The licence is at the start, indented.
    for line in text.lines().filter(|line| !line.starts_with("  ") && !line.trim().is_empty()) {
        let (offset, synset) =
            synset(line).ok_or_else(|| unexpected("data.noun", line.chars().take(60).collect::<String>()))?;
        synsets.insert(offset, synset);
    }
    Ok(synsets)
}

/// A line: offset, file, kind, number of words (hexadecimal), words with an id each, number of pointers, pointers of four
/// fields each, `|` and the gloss.
fn synset(line: &str) -> Option<(u32, Synset)> {
    let (fields, gloss) = line.split_once(" | ")?;
    let mut fields = fields.split(' ');
    let offset = fields.next()?.parse().ok()?;
    let words = usize::from_str_radix(fields.nth(2)?, 16).ok()?;
    let mut synset = Synset { words: Vec::new(), above: Vec::new(), gloss: gloss.trim().to_string() };
    for _ in 0..words {
        synset.words.push(fields.next()?.to_string());
        fields.next()?;
    }
    let pointers: usize = fields.next()?.parse().ok()?;
    for _ in 0..pointers {
        let (symbol, target) = (fields.next()?, fields.next()?);
        fields.nth(1)?;
        // `@` is a hypernym, `@i` the class of an instance.
        if symbol == "@" || symbol == "@i" {
            synset.above.push(target.parse().ok()?);
        }
    }
    Some((offset, synset))
}

/// The identifier of ImageNet.
pub(super) fn wnid(offset: u32) -> String {
    format!("n{offset:08}")
}

/// Everything above a synset, and itself.
pub(super) fn ancestors(synsets: &Synsets, offset: u32) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut left = vec![offset];
    while let Some(offset) = left.pop() {
        if found.insert(offset) {
            left.extend(synsets.get(&offset).into_iter().flat_map(|synset| &synset.above));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(in super::super) const NOUNS: &[u8] = b"  1 This software and database is being provided  \n\
        00001740 03 n 01 entity 0 001 ~ 00001930 n 0000 | that which is perceived  \n\
        00001930 03 n 02 animal 0 beast 0 002 @ 00001740 n 0000 ~ 00002137 n 0000 | a living thing; \"a | b\"  \n\
        00002137 03 n 01 domestic_cat 0 001 @ 00001930 n 0000 | a cat  \n\
        00002452 03 n 01 dog 0 002 @ 00001930 n 0000 + 00692347 v 0101 | a dog  \n";

    #[test]
    fn hypernyms_are_followed_to_the_top() {
        let synsets = parse(NOUNS).unwrap();
        assert_eq!(synsets.len(), 4);
        assert_eq!(
            (synsets[&1930].words.join(" "), synsets[&1930].gloss.as_str()),
            ("animal beast".into(), "a living thing; \"a | b\"")
        );
        assert_eq!(ancestors(&synsets, 2137), BTreeSet::from([1740, 1930, 2137]));
        assert_eq!(wnid(2137), "n00002137");
        assert!(parse(b"00001740 03 n 02 entity 0 | x").is_err());
    }
}
