//! The character map of a SentencePiece model: a double-array trie of byte sequences and their replacements.

use etalon::error::{Error, InputError, Result};

/// Replacements of byte sequences, such as compatibility characters by their NFKC form.
#[derive(Debug)]
pub(in crate::text) struct CharsMap {
    units: Vec<u32>,
    /// Replacements, each ended by a zero byte.
    replacements: String,
}

impl CharsMap {
    /// Reads the length of the trie, the trie, and the replacements.
    pub fn read(bytes: &[u8]) -> Result<CharsMap> {
        let (length, rest) = bytes.split_first_chunk().ok_or_else(|| damaged("it is shorter than its header"))?;
        let length = u32::from_le_bytes(*length) as usize;
        let (trie, replacements) =
            rest.split_at_checked(length).ok_or_else(|| damaged("its trie is longer than the map"))?;
        if !length.is_multiple_of(4) || length == 0 {
            return Err(damaged("the length of its trie is not a multiple of 4"));
        }
        let replacements = std::str::from_utf8(replacements).ok().filter(|text| text.ends_with('\0'));
        let replacements = replacements.ok_or_else(|| damaged("its replacements are not text"))?;
        let (units, _) = trie.as_chunks();
        let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let map = CharsMap { units, replacements: replacements.to_string() };
        if !(0..map.units.len()).all(|index| map.is_closed(index)) {
            return Err(damaged("its trie refers to places outside of it"));
        }
        Ok(map)
    }

    /// Whether what can be reached from a unit exists.
    fn is_closed(&self, index: usize) -> bool {
        // Units with the highest bit are values; only the root is entered without comparing it with a byte.
        let Some(unit) = self.units.get(index).filter(|unit| **unit >> 31 == 0 || index == 0) else {
            return true;
        };
        let children = index ^ offset(*unit);
        let value = || self.units.get(children).map(|value| (value & (u32::MAX >> 1)) as usize);
        let ends = unit >> 8 & 1 == 1;
        (children | 0xff) < self.units.len()
            && (!ends
                || value().is_some_and(|value| self.replacements.get(value..).is_some_and(|text| !text.is_empty())))
    }

    /// The longest replaced prefix of a text: its length and its replacement.
    pub fn longest(&self, text: &str) -> Option<(usize, &str)> {
        let mut node = offset(*self.units.first()?);
        let mut found = None;
        for (index, byte) in text.bytes().enumerate() {
            node ^= byte as usize;
            let Some(&unit) = self.units.get(node) else {
                break;
            };
            if unit & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if unit >> 8 & 1 == 1 {
                // The sequence ends here; the unit at its offset has the position of the replacement.
                let value = self.units.get(node).map(|unit| unit & (u32::MAX >> 1));
                found = value.map(|value| (index + 1, value as usize)).or(found);
            }
        }
        let (length, at) = found?;
        let replacement = self.replacements.get(at..)?.split('\0').next()?;
        // In a damaged map a sequence may end inside of a character.
        text.is_char_boundary(length).then_some((length, replacement))
    }
}

/// The offset of the children of a unit.
fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

fn damaged(found: &str) -> Error {
    InputError::new("the character map of the tokenizer is damaged")
        .found(found)
        .advice("copy or download the file again")
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A trie of the single sequence "a" with a replacement: the root's children start at 256, so "a" (97) is unit 353;
    /// its value is at 353 ^ 1 = 352.
    fn map(replacement: &str) -> Vec<u8> {
        let mut units = vec![0_u32; 512];
        units[0] = 256 << 10;
        units[256 ^ 97] = 1 << 10 | 1 << 8 | 97;
        units[256 ^ 97 ^ 1] = 1 << 31;
        let mut bytes = 2048_u32.to_le_bytes().to_vec();
        units.iter().for_each(|unit| bytes.extend(unit.to_le_bytes()));
        bytes.extend(replacement.as_bytes());
        bytes.push(0);
        bytes
    }

    #[test]
    fn the_longest_prefix_is_replaced() {
        let map = CharsMap::read(&map("é")).unwrap();
        assert_eq!(map.longest("ab"), Some((1, "é")));
        assert_eq!((map.longest("b"), map.longest("")), (None, None));
    }

    #[test]
    fn damaged_maps_are_refused() {
        let bytes = map("é");
        let why = |bytes: &[u8]| CharsMap::read(bytes).unwrap_err().to_string();
        assert!(why(&bytes[..3]).contains("header"));
        assert!(why(&bytes[..100]).contains("longer than the map"));
        assert!(why(&bytes[..bytes.len() - 1]).contains("not text"));
        assert!(why(&[3, 0, 0, 0, 0, 0, 0, 0]).contains("multiple of 4"));
    }
}
