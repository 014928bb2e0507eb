//! SentencePiece models: the tokenizers of Llama 2, Gemma and others, with exactly the tokens of the original library.

mod charsmap;
mod decode;
mod lexicon;
mod merges;
mod normalizer;
mod proto;
mod unigram;
mod wire;

use std::collections::HashMap;

use etalon::error::{InputError, Result};

use super::Span;
use super::engine::Engine;
use super::tokenizer::Encoded;
pub(super) use charsmap::CharsMap;
use lexicon::Lexicon;
use merges::Merged;
use normalizer::Normalizer;
pub(super) use normalizer::SPACE_MARK;
pub(super) use proto::{Algorithm, Kind, MOST_TOKENS, Model, Piece, read};
use unigram::Unigram;

/// A tokenizer of a SentencePiece vocabulary.
#[derive(Debug)]
pub(super) struct SentencePiece {
    pieces: Vec<Piece>,
    /// Pieces that a text can contain.
    textual: HashMap<Box<str>, u32>,
    /// Control, unknown and byte pieces.
    reserved: HashMap<Box<str>, u32>,
    /// The pieces of bytes, if the model has all of them.
    bytes: Option<Box<[u32; 256]>>,
    unknown: u32,
    unknown_text: String,
    /// Control pieces, to be found in texts.
    controls: Lexicon,
    /// User-defined pieces, which are never merged.
    symbols: Lexicon,
    normalizer: Normalizer,
    segmenter: Segmenter,
}

/// The algorithm with its tables.
#[derive(Debug)]
enum Segmenter {
    Merges,
    Unigram(Unigram, Lexicon),
}

impl SentencePiece {
    /// A tokenizer of a model file or of a vocabulary in the same form. Without an unknown piece, `unknown` is used.
    pub fn new(mut model: Model, unknown: Option<u32>) -> Result<SentencePiece> {
        let (mut textual, mut reserved) = (HashMap::new(), HashMap::new());
        let mut bytes: Box<[Option<u32>; 256]> = Box::new([None; 256]);
        let mut unknown_piece = None;
        for (id, piece) in (0..).zip(&mut model.pieces) {
            check(piece, id)?;
            // Equal scores, of which the leftmost is merged first.
            piece.score += 0.0;
            let names = match piece.kind {
                Kind::Normal | Kind::UserDefined | Kind::Unused => &mut textual,
                Kind::Unknown | Kind::Control | Kind::Byte => &mut reserved,
            };
            if let Some(first) = names.insert(piece.text.clone().into_boxed_str(), id) {
                return Err(InputError::new(format!("the token {:?} is twice in the vocabulary", piece.text))
                    .at(format!("tokens {first} and {id}"))
                    .advice("the file is damaged or was made by a faulty converter")
                    .into());
            }
            match piece.kind {
                Kind::Unknown => unknown_piece = unknown_piece.or(Some(id)),
                Kind::Byte => {
                    let slot = byte(&piece.text).and_then(|byte| bytes.get_mut(usize::from(byte)));
                    *slot.ok_or_else(|| not_a_byte(&piece.text, id))? = Some(id);
                }
                _ => {}
            }
        }
        let unknown = unknown_piece.or(unknown).ok_or_else(|| {
            InputError::new("the vocabulary has no token for unknown text").expected("a token of the kind `unknown`")
        })?;
        let of_kind = |wanted: Kind| {
            let pieces = (0..).zip(&model.pieces).filter(move |(_, piece)| piece.kind == wanted);
            Lexicon::new(pieces.map(|(id, piece)| (piece.text.as_str(), id)))
        };
        let segmenter = match model.algorithm {
            Algorithm::Merges => Segmenter::Merges,
            Algorithm::Unigram => {
                let pieces = (0..).zip(&model.pieces).filter(|(_, piece)| textual.contains_key(&*piece.text));
                let lexicon = Lexicon::new(pieces.map(|(id, piece)| (piece.text.as_str(), id)));
                Segmenter::Unigram(Unigram::new(&model.pieces), lexicon)
            }
        };
        let all_bytes = bytes.iter().copied().collect::<Option<Vec<u32>>>().filter(|_| model.byte_fallback);
        let charsmap = (!model.charsmap.is_empty()).then(|| CharsMap::read(&model.charsmap)).transpose()?;
        Ok(SentencePiece {
            textual,
            reserved,
            bytes: all_bytes.and_then(|bytes| bytes.into_boxed_slice().try_into().ok()),
            unknown,
            unknown_text: model.unknown_text,
            controls: of_kind(Kind::Control),
            symbols: of_kind(Kind::UserDefined),
            normalizer: Normalizer {
                charsmap,
                add_dummy_prefix: model.add_dummy_prefix,
                remove_extra_spaces: model.remove_extra_spaces,
                escape_spaces: model.escape_spaces,
                suffix_space: model.suffix_space,
            },
            segmenter,
            pieces: model.pieces,
        })
    }

    /// The unknown piece.
    pub fn unknown(&self) -> u32 {
        self.unknown
    }

    /// The control piece of a name.
    pub fn control(&self, name: &str) -> Option<u32> {
        let id = *self.reserved.get(name)?;
        (self.kind(id) == Some(Kind::Control)).then_some(id)
    }

    fn kind(&self, id: u32) -> Option<Kind> {
        self.pieces.get(id as usize).map(|piece| piece.kind)
    }

    /// Calls `add` with the id and the span of every token.
    fn tokens(&self, text: &str, special: bool, mut add: impl FnMut(u32, Span)) {
        let (mut start, mut at) = (0, 0);
        while special && !self.controls.is_empty() && at < text.len() {
            match text.get(at..).and_then(|rest| self.controls.longest(rest)) {
                None => at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8),
                Some((length, id)) => {
                    self.plain(text.get(start..at).unwrap_or_default(), start, &mut add);
                    add(id, span(at, at + length));
                    at += length;
                    start = at;
                }
            }
        }
        self.plain(text.get(start..).unwrap_or_default(), start, &mut add);
    }

    /// Tokens of a text without control tokens; `base` is its offset.
    fn plain(&self, text: &str, base: usize, add: &mut impl FnMut(u32, Span)) {
        if text.is_empty() {
            return;
        }
        let normalized = self.normalizer.normalize(text, &self.symbols);
        let mut after_unknown: Option<Span> = None;
        for (start, end, id) in self.segments(&normalized.text) {
            let covered = normalized.span(start, end, base, self.normalizer.prefix_length());
            let pending = after_unknown.take();
            if id != self.unknown {
                if let Some(unknown) = pending {
                    add(self.unknown, unknown);
                }
                add(id, covered);
            } else if let Some(bytes) = &self.bytes {
                for byte in normalized.text.get(start..end).unwrap_or_default().bytes() {
                    add(bytes.get(usize::from(byte)).copied().unwrap_or(id), covered);
                }
            } else {
                // Adjacent unknown parts are one token.
                let start = pending.map_or(covered.start, |pending| pending.start);
                after_unknown = Some(Span { start, end: covered.end });
            }
        }
        if let Some(unknown) = after_unknown {
            add(self.unknown, unknown);
        }
    }

    /// Parts of a normalised text with their ids.
    fn segments(&self, text: &str) -> Vec<(usize, usize, u32)> {
        match &self.segmenter {
            Segmenter::Merges => {
                let find = |text: &str| {
                    let piece = self.pieces.get(*self.textual.get(text)? as usize)?;
                    Some(Merged { score: piece.score, unused: piece.kind == Kind::Unused })
                };
                let symbol = |text: &str| self.symbols.longest(text).map(|(length, _)| length);
                let parts = merges::segment(text, find, symbol).into_iter();
                let id = |part: Option<&str>| part.and_then(|part| self.id(part)).unwrap_or(self.unknown);
                parts.map(|(start, end)| (start, end, id(text.get(start..end)))).collect()
            }
            Segmenter::Unigram(unigram, lexicon) => {
                let parts = unigram.segment(text, &self.pieces, lexicon).into_iter();
                parts.map(|(start, end, id)| (start, end, id.unwrap_or(self.unknown))).collect()
            }
        }
    }
}

impl Engine for SentencePiece {
    fn ids(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        let mut ids = Vec::with_capacity(text.len() / 3);
        self.tokens(text, special, |id, _| ids.push(id));
        Ok(ids)
    }

    fn spans(&self, text: &str, special: bool) -> Result<Encoded> {
        let mut encoded = Encoded::default();
        self.tokens(text, special, |id, span| {
            encoded.ids.push(id);
            encoded.spans.push(span);
        });
        Ok(encoded)
    }

    fn text(&self, ids: &[u32], special: bool) -> Result<String> {
        Ok(self.decode(ids, special))
    }

    fn piece(&self, id: u32) -> Result<String> {
        Ok(self.readable(id))
    }

    fn id(&self, token: &str) -> Option<u32> {
        self.reserved.get(token).or_else(|| self.textual.get(token)).copied()
    }

    fn size(&self) -> usize {
        self.pieces.len()
    }

    fn is_special(&self, id: u32) -> bool {
        self.kind(id) == Some(Kind::Control)
    }
}

fn span(start: usize, end: usize) -> Span {
    Span { start: start as u32, end: end as u32 }
}

/// The byte of a piece such as `<0xE2>`.
fn byte(text: &str) -> Option<u8> {
    let digits = text.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

fn check(piece: &Piece, id: u32) -> Result<()> {
    let found = if piece.text.is_empty() {
        "an empty token".to_string()
    } else if piece.score.is_nan() {
        "a score that is not a number".to_string()
    } else {
        return Ok(());
    };
    Err(InputError::new("the vocabulary is damaged")
        .found(found)
        .at(format!("token {id}"))
        .advice("copy or download the file again")
        .into())
}

fn not_a_byte(text: &str, id: u32) -> InputError {
    InputError::new("the vocabulary is damaged")
        .expected("byte tokens from `<0x00>` to `<0xFF>`")
        .found(format!("{text:?}"))
        .at(format!("token {id}"))
}
