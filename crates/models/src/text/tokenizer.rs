//! The tokenizer of a language model: text to tokens and back.

use etalon::error::{Error, InputError, Result};
use etalon::network::{Message, Tokenize};

use super::chat::ChatTemplate;
use super::engine::Engine;
use super::stream::DecodeStream;
use super::{LONGEST_TEXT, Span};

/// What `encode` does with special tokens, such as `<s>` or `<|endoftext|>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    /// Adds those that the model expects around a text, and recognises those that are written in the text.
    Add,
    /// Adds none, and recognises those that are written in the text, such as those of a chat template.
    Recognise,
    /// Adds none; what looks like a special token is ordinary text.
    Ignore,
}

/// The tokens of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The bytes of the text that each token covers. Tokens of one character's bytes cover the whole character.
    pub spans: Vec<Span>,
}

/// The ids of special tokens and those added around a text.
#[derive(Clone, Debug, Default)]
pub(super) struct SpecialIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub pad: Option<u32>,
    pub unk: Option<u32>,
    /// Added before a text.
    pub before: Vec<u32>,
    /// Added after a text.
    pub after: Vec<u32>,
}

impl SpecialIds {
    /// Adds or removes the beginning- and end-of-text tokens where that is known; `None` leaves them as they are.
    pub fn around(&mut self, add_bos: Option<bool>, add_eos: Option<bool>) {
        if let (Some(add), Some(bos)) = (add_bos, self.bos) {
            self.before.retain(|id| *id != bos);
            if add {
                self.before.insert(0, bos);
            }
        }
        if let (Some(add), Some(eos)) = (add_eos, self.eos) {
            self.after.retain(|id| *id != eos);
            if add {
                self.after.push(eos);
            }
        }
    }
}

/// The tokenizer of a language model.
///
/// ```no_run
/// use etalon_models::text::{Special, Tokenizer};
///
/// let tokenizer = Tokenizer::open("model/tokenizer.json".as_ref())?;
/// let ids = tokenizer.encode("The Eiffel Tower", Special::Add)?;
/// assert_eq!(tokenizer.decode(&ids)?, "The Eiffel Tower");
/// # Ok::<(), etalon::error::Error>(())
/// ```
pub struct Tokenizer {
    engine: Box<dyn Engine>,
    ids: SpecialIds,
    template: Option<ChatTemplate>,
}

impl Tokenizer {
    /// A tokenizer of its parts, with the source of a chat template; refuses special ids outside the vocabulary.
    pub(super) fn new(engine: Box<dyn Engine>, ids: SpecialIds, template: Option<String>) -> Result<Tokenizer> {
        let size = engine.size();
        let named = [("bos", ids.bos), ("eos", ids.eos), ("pad", ids.pad), ("unk", ids.unk)];
        let added = ids.before.iter().chain(&ids.after).map(|id| ("added", Some(*id)));
        for (name, id) in named.into_iter().chain(added) {
            if let Some(id) = id.filter(|id| *id as usize >= size) {
                return Err(InputError::new(format!("the `{name}` token is not in the vocabulary"))
                    .expected(format!("an id below {size}"))
                    .found(id)
                    .advice("the file is damaged, or its parts belong to different models; download it again")
                    .into());
            }
        }
        let spelled = |(name, id): (&str, Option<u32>)| Some((format!("{name}_token"), engine.piece(id?)));
        let names = named.into_iter().filter_map(spelled).map(|(name, text)| Ok((name, text?)));
        let names = names.collect::<Result<Vec<_>>>()?;
        let template = template.map(|source| ChatTemplate::new(source, names));
        Ok(Tokenizer { engine, ids, template })
    }

    /// The token ids of a text.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        check_length(text)?;
        let ids = self.engine.ids(text, special != Special::Ignore)?;
        if special != Special::Add || (self.ids.before.is_empty() && self.ids.after.is_empty()) {
            return Ok(ids);
        }
        Ok([&self.ids.before[..], &ids, &self.ids.after].concat())
    }

    /// The tokens of a text with the bytes that each of them covers.
    pub fn encode_spans(&self, text: &str, special: Special) -> Result<Encoded> {
        check_length(text)?;
        let mut encoded = self.engine.spans(text, special != Special::Ignore)?;
        if special == Special::Add {
            let end = text.len() as u32;
            let end = Span { start: end, end };
            encoded.ids.splice(0..0, self.ids.before.iter().copied());
            encoded.spans.splice(0..0, self.ids.before.iter().map(|_| Span::default()));
            encoded.ids.extend(&self.ids.after);
            encoded.spans.extend(self.ids.after.iter().map(|_| end));
        }
        Ok(encoded)
    }

    /// The text of tokens, without special tokens. Bytes that are not UTF-8 become `\u{fffd}`.
    pub fn decode(&self, ids: &[u32]) -> Result<String> {
        self.check_ids(ids)?;
        self.engine.text(ids, false)
    }

    /// The text of tokens, with special tokens as they are spelled.
    pub fn decode_with_special(&self, ids: &[u32]) -> Result<String> {
        self.check_ids(ids)?;
        self.engine.text(ids, true)
    }

    /// Decodes tokens one at a time, for generation.
    pub fn decode_stream(&self) -> DecodeStream<'_> {
        DecodeStream::new(self)
    }

    /// A token as a person reads it: with its leading space, and with bytes that are not text as `<0xE2>`. A token that
    /// continues a word of WordPiece keeps its `##`.
    pub fn token_text(&self, id: u32) -> Result<String> {
        self.check_ids(&[id])?;
        self.engine.piece(id)
    }

    /// The number of ids: the highest id plus one.
    pub fn vocabulary_size(&self) -> usize {
        self.engine.size()
    }

    /// The id of a token by its spelling in the vocabulary file.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        self.engine.id(token)
    }

    /// The beginning-of-text token.
    pub fn bos(&self) -> Option<u32> {
        self.ids.bos
    }

    /// The end-of-text token.
    pub fn eos(&self) -> Option<u32> {
        self.ids.eos
    }

    /// The padding token.
    pub fn pad(&self) -> Option<u32> {
        self.ids.pad
    }

    /// The token for what the vocabulary cannot spell.
    pub fn unk(&self) -> Option<u32> {
        self.ids.unk
    }

    /// Whether a token is a control token and not text: declared so by the file, or one of those above except `unk`.
    pub fn is_special(&self, id: u32) -> bool {
        [self.ids.bos, self.ids.eos, self.ids.pad].contains(&Some(id)) || self.engine.is_special(id)
    }

    /// Whether [`Special::Add`] puts the beginning-of-text token before a text.
    pub fn adds_bos(&self) -> bool {
        self.ids.bos.is_some_and(|bos| self.ids.before.contains(&bos))
    }

    /// Tokens that [`Special::Add`] puts before a text.
    pub fn added_before(&self) -> &[u32] {
        &self.ids.before
    }

    /// Tokens that [`Special::Add`] puts after a text.
    pub fn added_after(&self) -> &[u32] {
        &self.ids.after
    }

    /// The template for conversations, if the model has one.
    pub fn chat_template(&self) -> Option<&ChatTemplate> {
        self.template.as_ref()
    }

    /// Checks that a network with `embeddings` token embeddings belongs to this tokenizer; returns the number of
    /// embeddings without a token. Every token of text needs an embedding; special tokens may lack one, as the image token
    /// of Gemma 3 does. Networks often round their number up, so that up to 1024 or 5 % may be unused.
    pub fn check_vocabulary(&self, embeddings: usize) -> Result<usize> {
        let tokens = self.vocabulary_size();
        let wrong = |what: &str| {
            InputError::new(what)
                .expected(format!("about {embeddings} tokens, one per token embedding of the network"))
                .found(format!("{tokens} tokens"))
                .advice("use the tokenizer that was published with the network")
        };
        let added = || self.ids.before.iter().chain(&self.ids.after);
        if (embeddings..tokens).any(|id| !self.is_special(id as u32)) || added().any(|id| *id as usize >= embeddings) {
            return Err(wrong("the tokenizer has more tokens than the network").into());
        }
        let unused = embeddings.saturating_sub(tokens);
        if unused > 1024.max(embeddings / 20) {
            return Err(wrong("the tokenizer has far fewer tokens than the network").into());
        }
        Ok(unused)
    }

    fn check_ids(&self, ids: &[u32]) -> Result<()> {
        let size = self.vocabulary_size();
        match ids.iter().position(|id| *id as usize >= size) {
            None => Ok(()),
            Some(index) => Err(InputError::new("token id outside the vocabulary")
                .expected(format!("ids below {size}"))
                .found(ids.get(index).copied().unwrap_or_default())
                .at(format!("token {index}"))
                .advice("use the tokenizer that was published with the network")
                .into()),
        }
    }
}

impl Tokenize for Tokenizer {
    fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>> {
        Tokenizer::encode(self, text, if special { Special::Add } else { Special::Recognise })
    }

    fn decode(&self, tokens: &[u32]) -> Result<String> {
        Tokenizer::decode(self, tokens)
    }

    fn token_text(&self, token: u32) -> Result<String> {
        Tokenizer::token_text(self, token)
    }

    fn bos(&self) -> Option<u32> {
        Tokenizer::bos(self)
    }

    fn eos(&self) -> Option<u32> {
        Tokenizer::eos(self)
    }

    fn pad(&self) -> Option<u32> {
        Tokenizer::pad(self)
    }

    fn is_special(&self, token: u32) -> bool {
        Tokenizer::is_special(self, token)
    }

    fn size(&self) -> usize {
        self.vocabulary_size()
    }

    fn chat(&self, messages: &[Message]) -> Result<Option<String>> {
        self.chat_template().map(|template| template.render(messages, true)).transpose()
    }
}

fn check_length(text: &str) -> Result<()> {
    if text.len() <= LONGEST_TEXT {
        return Ok(());
    }
    Err(Error::from(
        InputError::new("the text is too long to be encoded at once")
            .expected(format!("at most {LONGEST_TEXT} bytes"))
            .found(format!("{} bytes", text.len()))
            .advice("split it into paragraphs or documents"),
    ))
}
