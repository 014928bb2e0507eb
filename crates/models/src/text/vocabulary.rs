//! The vocabulary of a GGUF file.

use etalon::error::{InputError, Result};
use serde_json::{Map, Value};

use super::byte_level::{self, Split};
use super::engine::Engine;
use super::pipeline::Pipeline;
use super::sentencepiece::{Algorithm, Kind, MOST_TOKENS, Model, Piece, SPACE_MARK, SentencePiece};
use super::tokenizer::{SpecialIds, Tokenizer};
use super::word_piece;

/// The values of the keys `tokenizer.*` of a GGUF file.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// `tokenizer.ggml.model`: `gpt2`, `llama`, `gemma…` or `bert`.
    pub model: String,
    /// `tokenizer.ggml.pre`: how a text is split before pairs are merged.
    pub pre: Option<String>,
    /// `tokenizer.ggml.tokens`; the index is the id.
    pub tokens: Vec<String>,
    /// `tokenizer.ggml.scores`, one per token.
    pub scores: Option<Vec<f32>>,
    /// `tokenizer.ggml.token_type`, one per token; empty if the file has none.
    pub kinds: Vec<i32>,
    /// `tokenizer.ggml.merges`: `left right`.
    pub merges: Vec<String>,
    /// `tokenizer.ggml.bos_token_id`.
    pub bos: Option<u32>,
    /// `tokenizer.ggml.eos_token_id`.
    pub eos: Option<u32>,
    /// `tokenizer.ggml.unknown_token_id`.
    pub unk: Option<u32>,
    /// `tokenizer.ggml.padding_token_id`.
    pub pad: Option<u32>,
    /// `tokenizer.ggml.add_bos_token`.
    pub add_bos: Option<bool>,
    /// `tokenizer.ggml.add_eos_token`.
    pub add_eos: Option<bool>,
    /// `tokenizer.ggml.add_space_prefix`: whether a space is added before a text.
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

impl Tokenizer {
    /// The tokenizer of a GGUF file.
    pub fn from_vocabulary(vocabulary: Vocabulary) -> Result<Tokenizer> {
        vocabulary.check()?;
        match vocabulary.model.as_str() {
            "gpt2" => from_merges(vocabulary),
            "bert" => from_word_piece(vocabulary),
            model if model == "llama" || model.starts_with("gemma") => from_scores(vocabulary),
            model => Err(InputError::new(format!("tokenizers of the kind `{model}` are not supported in GGUF files"))
                .expected("gpt2, llama, gemma, bert")
                .advice("use the `tokenizer.json` of the model instead")
                .into()),
        }
    }
}

impl Vocabulary {
    fn check(&self) -> Result<()> {
        let tokens = self.tokens.len();
        let wrong = |what: &str, count: usize| {
            InputError::new(format!("the GGUF file does not have one {what} per token"))
                .expected(tokens)
                .found(count)
                .advice("copy or download the file again")
        };
        if tokens == 0 || tokens > MOST_TOKENS {
            return Err(InputError::new("the vocabulary of the GGUF file is empty or too large")
                .expected(format!("1 to {MOST_TOKENS} tokens"))
                .found(tokens)
                .into());
        }
        if !self.kinds.is_empty() && self.kinds.len() != tokens {
            return Err(wrong("kind", self.kinds.len()).into());
        }
        match &self.scores {
            Some(scores) if scores.len() != tokens => Err(wrong("score", scores.len()).into()),
            _ => Ok(()),
        }
    }

    /// The kind of a token; llama.cpp uses 0 for tokens of no particular kind.
    fn kind(&self, id: usize) -> Kind {
        self.kinds.get(id).and_then(|kind| Kind::new(i64::from(*kind))).unwrap_or(Kind::Normal)
    }

    /// Control tokens and those that are never split: id, text, and whether it is a control token.
    fn added(&self) -> Vec<(u32, String, bool)> {
        let entry = |(id, text): (usize, &String)| match self.kind(id) {
            Kind::Control | Kind::Unknown => Some((id as u32, text.clone(), true)),
            Kind::UserDefined => Some((id as u32, text.clone(), false)),
            _ => None,
        };
        self.tokens.iter().enumerate().filter_map(entry).collect()
    }

    /// Ids, with those around a text by default.
    fn ids(&self, add_bos: bool) -> SpecialIds {
        let mut ids =
            SpecialIds { bos: self.bos, eos: self.eos, pad: self.pad, unk: self.unk, ..SpecialIds::default() };
        ids.around(Some(self.add_bos.unwrap_or(add_bos)), self.add_eos);
        ids
    }
}

/// Byte-level BPE.
fn from_merges(mut vocabulary: Vocabulary) -> Result<Tokenizer> {
    let split = Split::named(vocabulary.pre.as_deref().unwrap_or("default"))?;
    let ids = vocabulary.ids(split == Split::Llama3);
    let added = vocabulary.added();
    let mut tokens = Map::with_capacity(vocabulary.tokens.len());
    for (id, token) in vocabulary.tokens.into_iter().enumerate() {
        if let Some(first) = tokens.get(&token) {
            return Err(InputError::new(format!("the token {token:?} is twice in the vocabulary"))
                .at(format!("tokens {first} and {id}"))
                .advice("the file is damaged or was made by a faulty converter")
                .into());
        }
        tokens.insert(token, Value::from(id));
    }
    let merges = std::mem::take(&mut vocabulary.merges);
    let pipeline = Pipeline::new(byte_level::describe(tokens, merges, &added, split))?;
    Tokenizer::new(Box::new(pipeline), ids, vocabulary.chat_template)
}

/// SentencePiece's BPE by scores.
fn from_scores(vocabulary: Vocabulary) -> Result<Tokenizer> {
    let ids = vocabulary.ids(true);
    let Some(scores) = &vocabulary.scores else {
        return Err(InputError::new("the vocabulary of the GGUF file has no scores")
            .expected("`tokenizer.ggml.scores`")
            .advice("use the `tokenizer.json` of the model instead")
            .into());
    };
    let piece = |(id, (text, score)): (usize, (&String, &f32))| {
        let kind = vocabulary.kind(id);
        // Converters write spaces in user-defined tokens, since llama.cpp looks for them before spaces are marked.
        let text = if kind == Kind::UserDefined { text.replace(' ', SPACE_MARK) } else { text.clone() };
        Piece { text, score: *score, kind }
    };
    let model = Model {
        pieces: vocabulary.tokens.iter().zip(scores).enumerate().map(piece).collect(),
        algorithm: Algorithm::Merges,
        byte_fallback: true,
        add_dummy_prefix: vocabulary.add_space_prefix.unwrap_or(true),
        remove_extra_spaces: false,
        ..Model::default()
    };
    let engine = SentencePiece::new(model, vocabulary.unk.or(Some(0)))?;
    Tokenizer::new(Box::new(engine), ids, vocabulary.chat_template)
}

/// WordPiece. Converters mark the start of a word with `▁` instead of its continuation with `##`.
fn from_word_piece(vocabulary: Vocabulary) -> Result<Tokenizer> {
    let spelled = |(id, token): (usize, &String)| match token.strip_prefix(SPACE_MARK) {
        _ if vocabulary.kind(id) != Kind::Normal => token.clone(),
        Some(start) => start.to_string(),
        None if token.starts_with('[') && token.ends_with(']') => token.clone(),
        None => format!("##{token}"),
    };
    let tokens: Vec<String> = vocabulary.tokens.iter().enumerate().map(spelled).collect();
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    let pipeline = Pipeline::new(word_piece::describe(&tokens, word_piece::is_lower_case(&tokens))?)?;
    let (before, after) = pipeline.around()?;
    let ids = SpecialIds {
        bos: vocabulary.bos,
        eos: vocabulary.eos,
        pad: vocabulary.pad.or_else(|| pipeline.id("[PAD]")),
        unk: vocabulary.unk.or_else(|| pipeline.id("[UNK]")),
        before,
        after,
    };
    Tokenizer::new(Box::new(pipeline), ids, vocabulary.chat_template)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Special;

    fn merged() -> Vocabulary {
        let tokens = ["<|end|>", "a", "b", "ab", "Ġ", "Ġab", "Ã", "©"].map(String::from).to_vec();
        Vocabulary {
            model: "gpt2".into(),
            pre: Some("gpt-2".into()),
            kinds: vec![3, 1, 1, 1, 1, 1, 1, 1],
            merges: ["a b", "Ġ ab"].map(String::from).to_vec(),
            bos: Some(0),
            tokens,
            ..Vocabulary::default()
        }
    }

    fn refused(change: impl FnOnce(&mut Vocabulary)) -> String {
        let mut vocabulary = merged();
        change(&mut vocabulary);
        Tokenizer::from_vocabulary(vocabulary).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn byte_level_tokens_are_merged_and_spelled() {
        let tokenizer = Tokenizer::from_vocabulary(merged()).unwrap();
        assert_eq!(tokenizer.encode("ab ab<|end|>é", Special::Recognise).unwrap(), [3, 5, 0, 6, 7]);
        let spans = tokenizer.encode_spans("ab é", Special::Ignore).unwrap().spans;
        let spans: Vec<_> = spans.iter().map(|span| (span.start, span.end)).collect();
        // Both bytes of é cover the whole character.
        assert_eq!(spans, [(0, 2), (2, 3), (3, 5), (3, 5)]);
        assert_eq!(tokenizer.decode(&[3, 5, 0, 6, 7]).unwrap(), "ab abé");
        assert_eq!(
            (tokenizer.token_text(5).unwrap(), tokenizer.token_text(6).unwrap()),
            (" ab".into(), "<0xC3>".into())
        );
        assert!(tokenizer.is_special(0) && !tokenizer.is_special(1) && !tokenizer.adds_bos());
    }

    #[test]
    fn faulty_vocabularies_are_refused() {
        assert!(refused(|vocabulary| vocabulary.model = "rwkv".into()).contains("`rwkv`"));
        assert!(
            refused(|vocabulary| vocabulary.pre = Some("tekken".into())).contains("unknown pre-tokenizer `tekken`")
        );
        assert!(refused(|vocabulary| vocabulary.kinds = vec![1]).contains("one kind per token"));
        assert!(refused(|vocabulary| vocabulary.tokens.clear()).contains("empty or too large"));
        assert!(refused(|vocabulary| vocabulary.tokens[2] = "a".into()).contains("twice"));
        assert!(refused(|vocabulary| vocabulary.merges.push("a a".into())).contains("merge"));
        assert!(refused(|vocabulary| vocabulary.bos = Some(99)).contains("`bos` token is not in the vocabulary"));
        assert!(refused(|vocabulary| vocabulary.model = "llama".into()).contains("no scores"));
    }

    #[test]
    fn pieces_are_merged_by_score_with_byte_fallback() {
        let mut tokens: Vec<String> = ["<unk>", "<s>", "▁", "a", "b", "▁a", "ab"].map(String::from).to_vec();
        let mut kinds = vec![2, 3, 1, 1, 1, 1, 1];
        tokens.extend((0..=255).map(|byte| format!("<0x{byte:02X}>")));
        kinds.resize(tokens.len(), 6);
        let mut scores = vec![0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0];
        scores.resize(tokens.len(), 0.0);
        let vocabulary = Vocabulary {
            model: "llama".into(),
            tokens,
            kinds,
            scores: Some(scores),
            bos: Some(1),
            ..Vocabulary::default()
        };
        let tokenizer = Tokenizer::from_vocabulary(vocabulary).unwrap();
        // "▁ab": ▁a (-1) before ab (-2). é is the bytes C3 A9, at ids 7 + 195 and 7 + 169.
        assert_eq!(tokenizer.encode("abé", Special::Add).unwrap(), [1, 5, 4, 202, 176]);
        assert_eq!(tokenizer.decode(&[1, 5, 4, 202, 176]).unwrap(), "abé");
        assert_eq!(tokenizer.decode(&[5, 4, 202]).unwrap(), "ab\u{fffd}");
        assert_eq!(tokenizer.encode("<s>", Special::Ignore).unwrap().len(), 4);
        assert_eq!(tokenizer.token_text(202).unwrap(), "<0xC3>");
        assert_eq!(tokenizer.token_text(5).unwrap(), " a");
    }
}
