//! Text for networks: tokenizers, chat templates, and rows of a fixed length.
//!
//! [`Tokenizer`] reads every layout in which language models are published. [`ChatTemplate`] turns a conversation into
//! a prompt. [`Pack`] cuts a stream of texts into rows of tokens and remembers the text and the bytes of every token.

mod byte_level;
mod chat;
mod engine;
mod llama2c;
mod open;
mod pack;
mod packing;
mod pipeline;
mod pipeline_check;
mod running_text;
mod sentencepiece;
mod settings;
mod stream;
mod tokenizer;
mod vocabulary;
mod word_piece;

use etalon::error::{InputError, Result};

pub use chat::ChatTemplate;
pub use pack::Pack;
pub use packing::{Packing, Remainder, Row, RowLayout, TooLong};
pub use running_text::{RunningText, running_text};
pub use stream::DecodeStream;
pub use tokenizer::{Encoded, Special, Tokenizer};
pub use vocabulary::Vocabulary;

/// Bytes of a text: `start..end`. Tokens that are not part of the text have an empty span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The byte after the last one.
    pub end: u32,
}

impl Span {
    /// Whether the token covers no byte.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether the token covers one of these bytes.
    pub fn overlaps(self, bytes: &std::ops::Range<usize>) -> bool {
        (self.start as usize) < bytes.end && self.end as usize > bytes.start
    }
}

/// The longest text that is encoded at once, in bytes; spans have 32 bits, and memory is proportional to the text.
pub const LONGEST_TEXT: usize = 1 << 28;

/// The bytes as text; refuses bytes that are not UTF-8.
///
/// ```
/// let error = etalon_models::text::utf8(b"caf\xe9").unwrap_err().to_string();
/// assert!(error.contains("byte 3"), "{error}");
/// ```
pub fn utf8(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        let found = bytes.get(at).map_or_else(|| "nothing".to_string(), |byte| format!("0x{byte:02X}"));
        InputError::new("the text is not UTF-8")
            .expected("UTF-8")
            .found(found)
            .at(format!("byte {at}"))
            .advice("convert the text, for example with `iconv -t UTF-8`")
            .into()
    })
}
