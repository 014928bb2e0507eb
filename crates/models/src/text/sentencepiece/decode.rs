//! From pieces of SentencePiece to text.

use super::super::engine::readable;
use super::{Kind, SPACE_MARK, SentencePiece, byte};

impl SentencePiece {
    /// The text of tokens. The space that encoding adds before the first word is removed.
    pub(super) fn decode(&self, ids: &[u32], special: bool) -> String {
        let (mut text, mut bytes) = (String::new(), Vec::new());
        let mut at_start = self.normalizer.add_dummy_prefix || self.normalizer.remove_extra_spaces;
        for id in ids {
            let Some(piece) = self.pieces.get(*id as usize) else {
                continue;
            };
            if let (Kind::Byte, Some(byte)) = (piece.kind, byte(&piece.text)) {
                bytes.push(byte);
                continue;
            }
            flush(&mut bytes, &mut text);
            match piece.kind {
                Kind::Control if special => text.push_str(&piece.text),
                Kind::Control => {}
                Kind::Unknown => text.push_str(&self.unknown_text),
                _ => {
                    let mut rest = piece.text.as_str();
                    if at_start
                        && text.is_empty()
                        && let Some(stripped) = rest.strip_prefix(SPACE_MARK)
                    {
                        rest = stripped;
                        // Repeated spaces are never at the start of a text whose extra spaces were removed.
                        at_start = self.normalizer.remove_extra_spaces;
                    }
                    text.push_str(&rest.replace(SPACE_MARK, " "));
                }
            }
        }
        flush(&mut bytes, &mut text);
        text
    }

    /// One token in readable form.
    pub(super) fn readable(&self, id: u32) -> String {
        match self.pieces.get(id as usize) {
            None => String::new(),
            Some(piece) if piece.kind == Kind::Byte => {
                byte(&piece.text).map_or_else(String::new, |byte| readable(&[byte]))
            }
            Some(piece) if piece.kind == Kind::Control => piece.text.clone(),
            Some(piece) => piece.text.replace(SPACE_MARK, " "),
        }
    }
}

/// Appends bytes as text; each byte that is not UTF-8 becomes one replacement character.
fn flush(bytes: &mut Vec<u8>, text: &mut String) {
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    bytes.clear();
}
