//! What an implementation of a tokenizer provides.

use etalon::error::Result;

use super::tokenizer::Encoded;

/// Encodes and decodes without adding special tokens. Ids passed in are below [`Engine::size`].
pub(super) trait Engine: Send + Sync {
    /// Token ids of a text. Special tokens written in it are recognised if `special` is set.
    fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>>;
    /// Tokens of a text with the bytes that they cover.
    fn spans(&self, text: &str, special: bool) -> Result<Encoded>;
    /// The text of tokens; special tokens are left out unless `special` is set.
    fn text(&self, ids: &[u32], special: bool) -> Result<String>;
    /// One token in readable form.
    fn piece(&self, id: u32) -> Result<String>;
    /// The id of a token by its spelling in the file.
    fn id(&self, token: &str) -> Option<u32>;
    /// The highest id plus one.
    fn size(&self) -> usize;
    /// Whether a token is declared as a control token.
    fn is_special(&self, id: u32) -> bool;
}

/// Bytes in readable form: UTF-8 as text, other bytes as `<0xE2>`.
pub(super) fn readable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("<0x{byte:02X}>")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_spelled() {
        assert_eq!(readable("é".as_bytes()), "é");
        assert_eq!(readable(b"a\xe2\x96b"), "a<0xE2><0x96>b");
    }
}
