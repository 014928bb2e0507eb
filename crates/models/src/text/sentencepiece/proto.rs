//! Reads `tokenizer.model`, the protocol buffer of SentencePiece. The message has few fields; generated code would
//! bring a runtime library and would not name the offset of damage.

use etalon::error::{InputError, Result};

use super::wire::{Fields, Value};

/// The kind of a piece; the numbers are those of the file and of GGUF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::text) enum Kind {
    Normal,
    Unknown,
    /// Never part of a text: `<s>`, `</s>`.
    Control,
    /// Always one token where it occurs.
    UserDefined,
    /// Never used.
    Unused,
    /// `<0xE2>`: one byte of what has no piece.
    Byte,
}

impl Kind {
    /// The kind of a number; `None` for unknown numbers.
    pub fn new(number: i64) -> Option<Kind> {
        Some(match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => return None,
        })
    }
}

/// An entry of the vocabulary.
#[derive(Clone, Debug)]
pub(in crate::text) struct Piece {
    pub text: String,
    pub score: f32,
    pub kind: Kind,
}

/// How a text is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::text) enum Algorithm {
    /// The most probable sequence of pieces.
    Unigram,
    /// Pairs are merged, those with the highest score first.
    Merges,
}

/// What a model file contains.
#[derive(Debug)]
pub(in crate::text) struct Model {
    pub pieces: Vec<Piece>,
    pub algorithm: Algorithm,
    pub byte_fallback: bool,
    /// The mark of a space follows a word instead of preceding it.
    pub suffix_space: bool,
    /// The text of the unknown piece in decoded text.
    pub unknown_text: String,
    pub bos: String,
    pub eos: String,
    pub pad: String,
    pub charsmap: Vec<u8>,
    pub add_dummy_prefix: bool,
    pub remove_extra_spaces: bool,
    pub escape_spaces: bool,
}

impl Default for Model {
    /// The values of absent fields.
    fn default() -> Model {
        Model {
            pieces: Vec::new(),
            algorithm: Algorithm::Unigram,
            byte_fallback: false,
            suffix_space: false,
            unknown_text: " \u{2047} ".into(),
            bos: "<s>".into(),
            eos: "</s>".into(),
            pad: "<pad>".into(),
            charsmap: Vec::new(),
            add_dummy_prefix: true,
            remove_extra_spaces: true,
            escape_spaces: true,
        }
    }
}

/// The largest accepted vocabulary.
pub(in crate::text) const MOST_TOKENS: usize = 1 << 22;

/// Reads the bytes of a model file.
pub(in crate::text) fn read(bytes: &[u8]) -> Result<Model> {
    let mut model = Model::default();
    let mut fields = Fields::new(bytes, 0);
    while let Some((number, value)) = fields.next()? {
        let Value::Bytes(message) = value else {
            continue;
        };
        let inner = Fields::new(message, fields.offset() - message.len());
        match number {
            1 => {
                if model.pieces.len() == MOST_TOKENS {
                    return Err(fields.wrong("more than four million pieces"));
                }
                model.pieces.push(piece(inner)?);
            }
            2 => trainer(inner, &mut model)?,
            3 => normalizer(inner, &mut model)?,
            // Test samples, and a second normalizer for decoding, which no known language model uses.
            _ => {}
        }
    }
    if model.pieces.is_empty() {
        return Err(InputError::new("the SentencePiece model has no pieces")
            .expected("a vocabulary")
            .advice("is it another kind of file? expected is `tokenizer.model`")
            .into());
    }
    Ok(model)
}

fn piece(mut fields: Fields<'_>) -> Result<Piece> {
    let mut piece = Piece { text: String::new(), score: 0.0, kind: Kind::Normal };
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(text)) => piece.text = string(text, &fields)?,
            (2, Value::Four(bytes)) => piece.score = f32::from_le_bytes(bytes),
            (3, Value::Integer(kind)) => {
                piece.kind = i64::try_from(kind)
                    .ok()
                    .and_then(Kind::new)
                    .ok_or_else(|| fields.wrong(&format!("a piece of unknown kind {kind}")))?;
            }
            _ => {}
        }
    }
    Ok(piece)
}

fn trainer(mut fields: Fields<'_>, model: &mut Model) -> Result<()> {
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (3, Value::Integer(1)) => model.algorithm = Algorithm::Unigram,
            (3, Value::Integer(2)) => model.algorithm = Algorithm::Merges,
            (3, Value::Integer(other)) => {
                let name = match other {
                    3 => "word".into(),
                    4 => "char".into(),
                    _ => other.to_string(),
                };
                return Err(InputError::new("the type of the SentencePiece model is not supported")
                    .expected("unigram or bpe")
                    .found(name)
                    .into());
            }
            (24, Value::Integer(value)) => model.suffix_space = value != 0,
            (35, Value::Integer(value)) => model.byte_fallback = value != 0,
            (44, Value::Bytes(text)) => model.unknown_text = string(text, &fields)?,
            (46, Value::Bytes(text)) => model.bos = string(text, &fields)?,
            (47, Value::Bytes(text)) => model.eos = string(text, &fields)?,
            (48, Value::Bytes(text)) => model.pad = string(text, &fields)?,
            _ => {}
        }
    }
    Ok(())
}

fn normalizer(mut fields: Fields<'_>, model: &mut Model) -> Result<()> {
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (2, Value::Bytes(charsmap)) => model.charsmap = charsmap.to_vec(),
            (3, Value::Integer(value)) => model.add_dummy_prefix = value != 0,
            (4, Value::Integer(value)) => model.remove_extra_spaces = value != 0,
            (5, Value::Integer(value)) => model.escape_spaces = value != 0,
            _ => {}
        }
    }
    Ok(())
}

fn string(bytes: &[u8], fields: &Fields<'_>) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| fields.wrong("a text that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_written_model_is_read() {
        // pieces { piece: "a" score: 1.5 type: CONTROL } trainer_spec { model_type: BPE byte_fallback: true }
        // normalizer_spec { add_dummy_prefix: false }
        let bytes = [
            &[0x0a, 10, 0x0a, 1, b'a', 0x15][..],
            &1.5_f32.to_le_bytes(),
            &[0x18, 3, 0x12, 5, 0x18, 2, 0x98, 0x02, 1, 0x1a, 2, 0x18, 0],
        ]
        .concat();
        let model = read(&bytes).unwrap();
        let piece = &model.pieces[0];
        assert_eq!((piece.text.as_str(), piece.score, piece.kind), ("a", 1.5, Kind::Control));
        assert_eq!((model.algorithm, model.byte_fallback), (Algorithm::Merges, true));
        assert!(!model.add_dummy_prefix && model.remove_extra_spaces);
    }

    #[test]
    fn damaged_models_are_refused() {
        let why = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(why(b"").contains("no pieces"));
        assert!(why(&[0x0a, 4, 0x0a, 1, 0xff, 0x18]).contains("not UTF-8"));
        assert!(why(&[0x0a, 5, 0x0a, 1, b'a', 0x18, 9]).contains("unknown kind 9"));
        assert!(why(&[0x12, 2, 0x18, 3]).contains("word"));
    }
}
