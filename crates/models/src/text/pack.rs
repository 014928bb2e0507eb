//! Rows of a fixed number of tokens, made of a stream of texts.
//!
//! Every token keeps its text, its bytes and whether it is special, so that labels of words can be joined with rows of
//! activations. Memory is proportional to one text and one row.

use std::ops::Deref;

use etalon::error::{Error, InputError, Key, Result};

use super::Span;
use super::packing::{Packing, Remainder, Row, RowLayout, TooLong};
use super::tokenizer::{Encoded, Special, Tokenizer};

/// Rows of a stream of texts, each with its number; `K` points to a tokenizer. After an error the iterator continues with
/// the next text.
pub struct Pack<K, I> {
    tokenizer: K,
    packing: Packing,
    texts: I,
    row: Row,
    current: Option<Current>,
    ended: bool,
}

/// The text that is being cut into rows.
struct Current {
    number: u64,
    encoded: Encoded,
    /// The index of the next token.
    at: usize,
    /// Whether its start has been written. If only the tokens before it fitted into a row, they are not repeated in
    /// the next one, as in SAELens.
    started: bool,
}

impl<K, I, T> Pack<K, I>
where
    K: Deref<Target = Tokenizer>,
    I: Iterator<Item = Result<(u64, T)>>,
    T: AsRef<str>,
{
    /// Rows of texts. Refuses inserted tokens outside the vocabulary and rows without space for text.
    pub fn new(tokenizer: K, packing: Packing, texts: I) -> Result<Pack<K, I>> {
        let size = tokenizer.vocabulary_size();
        if let Some(id) = packing.inserted().into_iter().flatten().find(|id| *id as usize >= size) {
            return Err(InputError::new("an inserted token is not in the vocabulary")
                .expected(format!("ids below {size}"))
                .found(id)
                .into());
        }
        let added = match packing.special {
            Special::Add => tokenizer.added_before().len() + tokenizer.added_after().len(),
            _ => 0,
        };
        let taken = added + usize::from(packing.row_start.is_some()) + usize::from(packing.text_start.is_some());
        if packing.context <= taken {
            return Err(InputError::new(format!("{} is too small for any text", Key("context")))
                .expected(format!("more than {taken} tokens, which special tokens take"))
                .found(packing.context)
                .into());
        }
        Ok(Pack { tokenizer, packing, texts, row: Row::default(), current: None, ended: false })
    }

    /// The texts that are not read yet.
    pub fn texts(&self) -> &I {
        &self.texts
    }

    /// The number of the text in which the next row begins and the index of its next token, if it does not begin with a new
    /// text. Valid between two rows.
    pub fn inside(&self) -> Option<(u64, usize)> {
        self.current.as_ref().map(|current| (current.number, current.at))
    }

    /// Continues inside of the next text, at an index that [`Pack::inside`] returned for it.
    pub fn continue_at(&mut self, token: usize) -> Result<()> {
        if self.load()?
            && let Some(current) = &mut self.current
        {
            (current.at, current.started) = (token.min(current.encoded.ids.len()), true);
        }
        Ok(())
    }

    /// Encodes the next text; `false` at the end of the stream.
    fn load(&mut self) -> Result<bool> {
        let Some(next) = self.texts.next() else {
            return Ok(false);
        };
        let (number, text) = next?;
        let encoded = self.tokenizer.encode_spans(text.as_ref(), self.packing.special);
        let encoded = encoded.map_err(|error| with_text(error, number))?;
        self.current = Some(Current { number, encoded, at: 0, started: false });
        Ok(true)
    }

    /// Tokens to insert before the next token of a text, in reverse order. None is inserted before its equal.
    fn prefix(&self, current: &Current) -> Vec<u32> {
        let outer = match self.packing.layout {
            _ if self.row.ids.is_empty() => self.packing.row_start,
            RowLayout::Packed { separator } => separator,
            RowLayout::OneText { .. } => None,
        };
        let mut prefix = Vec::new();
        let mut first = current.encoded.ids.get(current.at).copied();
        for wanted in [self.packing.text_start.filter(|_| !current.started), outer].into_iter().flatten() {
            if first.replace(wanted) != Some(wanted) {
                prefix.push(wanted);
            }
        }
        prefix
    }

    /// Continues the row with the current text.
    fn fill(&mut self) {
        let Some(mut current) = self.current.take().filter(|current| current.at < current.encoded.ids.len()) else {
            return;
        };
        let start = current.encoded.spans.get(current.at).map_or(0, |span| span.start);
        for id in self.prefix(&current).into_iter().rev() {
            if self.row.ids.len() < self.packing.context {
                self.row.push(id, current.number, Span { start, end: start }, true);
            }
        }
        current.started = true;
        let free = self.packing.context - self.row.ids.len();
        let tokens = current.encoded.ids.iter().zip(&current.encoded.spans);
        for (id, span) in tokens.skip(current.at).take(free) {
            self.row.push(*id, current.number, *span, self.tokenizer.is_special(*id));
        }
        current.at += free;
        self.current = (current.at < current.encoded.ids.len()).then_some(current);
    }

    /// Shortens the current text to one row.
    fn shorten(&mut self, too_long: TooLong) -> Result<()> {
        let Some(mut current) = self.current.take() else {
            return Ok(());
        };
        let most = self.packing.context - self.prefix(&current).len();
        let Encoded { ids, spans } = &mut current.encoded;
        if ids.is_empty() {
            let error = InputError::new("a text has no tokens").advice("remove empty texts");
            return Err(with_text(error.into(), current.number));
        }
        if ids.len() > most {
            if too_long == TooLong::Refuse {
                let error = InputError::new("a text is longer than a row")
                    .expected(format!("at most {most} tokens"))
                    .found(format!("{} tokens", ids.len()))
                    .advice(format!("raise {}, or cut the texts", Key("context")));
                return Err(with_text(error.into(), current.number));
            }
            let after = if self.packing.special == Special::Add { self.tokenizer.added_after().len() } else { 0 };
            let removed = most - after..ids.len() - after;
            ids.drain(removed.clone());
            spans.drain(removed);
        }
        self.current = Some(current);
        Ok(())
    }

    /// Ends the row: returns it if it is full or may be shorter, padded if it is to be.
    fn complete(&mut self) -> Option<Row> {
        let mut row = std::mem::take(&mut self.row);
        let missing = self.packing.context - row.ids.len();
        match self.packing.remainder {
            _ if missing == 0 => Some(row),
            _ if row.ids.is_empty() => None,
            Remainder::Drop => None,
            Remainder::Keep => Some(row),
            Remainder::Pad(pad) => {
                let (length, text) = (row.length, row.texts.last().copied().unwrap_or_default());
                let end = row.spans.last().map_or(0, |span| span.end);
                (0..missing).for_each(|_| row.push(pad, text, Span { start: end, end }, true));
                row.length = length;
                Some(row)
            }
        }
    }

    /// The next row; `None` at the end.
    fn advance(&mut self) -> Result<Option<Row>> {
        while !self.ended {
            if self.current.is_none() && !self.load()? {
                self.ended = true;
                return Ok(self.complete());
            }
            if let RowLayout::OneText { too_long } = self.packing.layout {
                self.shorten(too_long)?;
                self.fill();
                if let Some(row) = self.complete() {
                    return Ok(Some(row));
                }
            } else {
                self.fill();
                if self.row.ids.len() == self.packing.context {
                    return Ok(self.complete());
                }
            }
        }
        Ok(None)
    }
}

impl<K, I, T> Iterator for Pack<K, I>
where
    K: Deref<Target = Tokenizer>,
    I: Iterator<Item = Result<(u64, T)>>,
    T: AsRef<str>,
{
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.advance().transpose()
    }
}

/// Names the text in an input error.
fn with_text(error: Error, number: u64) -> Error {
    match error {
        Error::Input(input) => input.at(format!("text {number}")).into(),
        other => other,
    }
}
