//! Tokenizers of `tokenizer.json` and what can be described in its terms, run by the `tokenizers` crate.

use std::sync::OnceLock;

use etalon::error::{Error, InputError, Result};
use serde_json::{Map, Value};
use tokenizers::{Encoding, Token, Tokenizer as Library};

use super::byte_level::Alphabet;
use super::engine::{Engine, readable};
use super::pipeline_check;
use super::sentencepiece::SPACE_MARK;
use super::tokenizer::Encoded;
use super::{Span, settings};

/// Stands for a text; no vocabulary has this id.
const PROBE: u32 = u32::MAX;

/// A tokenizer of the library.
pub(super) struct Pipeline {
    library: Library,
    /// The same, with special tokens in the text taken as text; made on first use.
    plain: OnceLock<Box<Library>>,
    spelling: Spelling,
    size: usize,
}

/// How tokens are spelled in the vocabulary.
enum Spelling {
    /// Every character is a byte.
    Bytes(Box<Alphabet>),
    /// `▁` is a space.
    SpaceMark,
    /// As in the text; `##` continues a word.
    Text,
}

impl Pipeline {
    /// A tokenizer of the bytes of `tokenizer.json`.
    pub fn read(bytes: &[u8]) -> Result<Pipeline> {
        Pipeline::new(settings::json(bytes)?)
    }

    /// A tokenizer of a description in the terms of `tokenizer.json`.
    pub fn new(mut description: Map<String, Value>) -> Result<Pipeline> {
        pipeline_check::check(&description)?;
        // Length is the concern of whoever makes rows of tokens; some files would cut every text at 128 tokens.
        description.insert("truncation".into(), Value::Null);
        description.insert("padding".into(), Value::Null);
        // Dropout, meant for training, would draw tokens at random.
        if let Some(model) = description.get_mut("model").and_then(Value::as_object_mut) {
            model.remove("dropout");
        }
        let decoder = description.get("decoder").map(Value::to_string).unwrap_or_default();
        let spelling = if decoder.contains("\"ByteLevel\"") {
            Spelling::Bytes(Box::new(Alphabet::new()))
        } else if decoder.contains(SPACE_MARK) || decoder.contains("\"Metaspace\"") {
            Spelling::SpaceMark
        } else {
            Spelling::Text
        };
        let library: Library = serde_json::from_value(Value::Object(description)).map_err(|error| {
            InputError::new("the description of the tokenizer is not valid")
                .expected("a `tokenizer.json` that the tokenizers library of Hugging Face wrote")
                .found(error)
                .advice("copy or download the file again")
        })?;
        let size = library.get_vocab(true).into_values().max().map_or(0, |id| id as usize + 1);
        Ok(Pipeline { library, plain: OnceLock::new(), spelling, size })
    }

    /// Tokens that the post-processor of the file adds before and after a text.
    pub fn around(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let text = Encoding::from_tokens(vec![Token::new(PROBE, "a".into(), (0, 1))], 0);
        let ids = self.library.post_process(text, None, true).map_err(failed)?.get_ids().to_vec();
        let mut parts = ids.splitn(2, |id| *id == PROBE).map(<[u32]>::to_vec);
        Ok((parts.next().unwrap_or_default(), parts.next().unwrap_or_default()))
    }

    /// The library's tokenizer that recognises special tokens, or does not.
    fn library(&self, special: bool) -> &Library {
        if special {
            return &self.library;
        }
        self.plain.get_or_init(|| {
            let mut plain = self.library.clone();
            plain.set_encode_special_tokens(true);
            Box::new(plain)
        })
    }
}

impl Engine for Pipeline {
    fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        Ok(self.library(special).encode_fast(text, false).map_err(failed)?.get_ids().to_vec())
    }

    fn spans(&self, text: &str, special: bool) -> Result<Encoded> {
        let encoding = self.library(special).encode(text, false).map_err(failed)?;
        let spans = encoding.get_offsets().iter().map(|(start, end)| Span { start: *start as u32, end: *end as u32 });
        Ok(Encoded { ids: encoding.get_ids().to_vec(), spans: spans.collect() })
    }

    fn text(&self, ids: &[u32], special: bool) -> Result<String> {
        // Some decoders of the library fail on an empty list.
        let shown = |id: &u32| (special || !self.is_special(*id)) && self.library.id_to_token(*id).is_some();
        if !ids.iter().any(shown) {
            return Ok(String::new());
        }
        self.library.decode(ids, !special).map_err(failed)
    }

    fn piece(&self, id: u32) -> Result<String> {
        // Ids may have gaps.
        let Some(token) = self.library.id_to_token(id) else {
            return Ok(String::new());
        };
        let added = self.library.get_added_vocabulary().simple_id_to_token(id).is_some();
        Ok(match &self.spelling {
            Spelling::Bytes(alphabet) if !added => readable(&alphabet.bytes(&token)),
            Spelling::SpaceMark if !added => space_marked(&token),
            _ => token,
        })
    }

    fn id(&self, token: &str) -> Option<u32> {
        self.library.token_to_id(token)
    }

    fn size(&self) -> usize {
        self.size
    }

    fn is_special(&self, id: u32) -> bool {
        let added = self.library.get_added_vocabulary();
        added.simple_id_to_token(id).is_some_and(|token| added.is_special_token(&token))
    }
}

/// A token in which `▁` is a space and `<0xE2>` a byte.
fn space_marked(token: &str) -> String {
    let digits = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        Some(byte) => readable(&[byte]),
        None => token.replace(SPACE_MARK, " "),
    }
}

/// The error of the library, which fails on a text only if the file asks for impossible things.
fn failed(error: tokenizers::Error) -> Error {
    InputError::new("the tokenizer cannot process the text")
        .found(error)
        .advice("the tokenizer file is damaged or incomplete, for example without its unknown token; download it again")
        .into()
}
