//! How texts become rows of tokens, with the settings that published programs use.

use super::Span;
use super::tokenizer::{Special, Tokenizer};

/// What happens to a text with more tokens than a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooLong {
    /// Its first tokens are kept; tokens that the tokenizer adds after a text stay at the end.
    Cut,
    /// An input error for this text; the next call continues with the next text.
    Refuse,
}

/// What happens to a row that is not full: a short text, or the end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remainder {
    /// The row is left out.
    Drop,
    /// The row is filled with a token at its end.
    Pad(u32),
    /// The row is shorter than the others.
    Keep,
}

/// How texts become rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLayout {
    /// A row for every text.
    OneText {
        /// Texts with too many tokens.
        too_long: TooLong,
    },
    /// Texts one after the other; a row may have several, and a text may continue in the next row.
    Packed {
        /// Inserted between two texts of a row.
        separator: Option<u32>,
    },
}

/// The settings of [`Pack`](super::Pack).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Tokens per row.
    pub context: usize,
    /// One text per row, or packed.
    pub layout: RowLayout,
    /// Special tokens when a text is encoded.
    pub special: Special,
    /// The first token of every row; not repeated if the row starts with it anyway.
    pub row_start: Option<u32>,
    /// The first token of every text; not repeated if the text starts with it anyway.
    pub text_start: Option<u32>,
    /// Rows that are not full.
    pub remainder: Remainder,
}

impl Packing {
    /// The rows of SAELens and of SAEBench's `core`: texts without special tokens, joined by the beginning-of-text token,
    /// which also starts every row; the last row is dropped. `row_start` is `prepend_bos` of a dictionary's configuration.
    pub fn saelens(tokenizer: &Tokenizer, context: usize, row_start: bool) -> Packing {
        let bos = tokenizer.bos();
        Packing {
            context,
            layout: RowLayout::Packed { separator: bos },
            special: Special::Recognise,
            row_start: bos.filter(|_| row_start),
            text_start: None,
            remainder: Remainder::Drop,
        }
    }

    /// The rows of SAEBench's labelled texts: one text per row with the special tokens of the tokenizer, cut or padded
    /// at the end. The end-of-text token pads where the tokenizer has no other.
    pub fn labelled(tokenizer: &Tokenizer, context: usize) -> Packing {
        let pad = tokenizer.pad().or(tokenizer.eos());
        Packing {
            context,
            layout: RowLayout::OneText { too_long: TooLong::Cut },
            special: Special::Add,
            row_start: None,
            text_start: None,
            remainder: pad.map_or(Remainder::Keep, Remainder::Pad),
        }
    }
}

impl Packing {
    /// Tokens that rows may contain beside those of texts.
    pub(super) fn inserted(&self) -> [Option<u32>; 4] {
        let separator = match self.layout {
            RowLayout::Packed { separator } => separator,
            RowLayout::OneText { .. } => None,
        };
        let pad = match self.remainder {
            Remainder::Pad(pad) => Some(pad),
            Remainder::Drop | Remainder::Keep => None,
        };
        [self.row_start, self.text_start, separator, pad]
    }
}

/// A row of tokens. The lists have the same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Token ids.
    pub ids: Vec<u32>,
    /// The text of each token: for inserted tokens that of the next one, for padding that of the last one.
    pub texts: Vec<u64>,
    /// The bytes that each token covers in its text; empty for inserted tokens.
    pub spans: Vec<Span>,
    /// Whether a token is special: inserted, or a control token of the vocabulary.
    pub special: Vec<bool>,
    /// Tokens before the padding.
    pub length: usize,
}

impl Row {
    pub(super) fn push(&mut self, id: u32, text: u64, span: Span, special: bool) {
        self.ids.push(id);
        self.texts.push(text);
        self.spans.push(span);
        self.special.push(special);
        self.length = self.ids.len();
    }
}
