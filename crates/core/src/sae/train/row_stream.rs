//! Activations that are computed while dictionaries train.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::Result;

/// Rows of activations in chunks, in a fixed order. A pass ends when the input ends; the next pass begins with
/// [`RowStream::seek`] to the start and has the same rows.
pub trait RowStream: Send {
    /// Width of the rows.
    fn width(&self) -> usize;
    /// A hash of everything that the rows depend on.
    fn id(&self) -> &str;
    /// What is recorded about the stream in a trained dictionary.
    fn about(&self) -> Map<String, Value>;
    /// Appends the rows of the next chunk, of which there may be none; `false` at the end of the pass.
    fn read(&mut self, rows: &mut Vec<f32>) -> Result<bool>;
    /// The position of the next chunk.
    fn position(&self) -> StreamPosition;
    /// Moves to the start, or to a position that [`RowStream::position`] returned in this or an earlier run: the chunks that
    /// follow are the same.
    fn seek(&mut self, position: StreamPosition) -> Result<()>;
    /// How much was computed since the stream was opened.
    fn work(&self) -> StreamWork;
}

/// A position between two chunks of a stream; the default is the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamPosition {
    /// The item of the input that the next chunk begins with.
    pub item: u64,
    /// The token of that item, if the chunk begins inside of it.
    pub token: Option<u64>,
}

/// How much a stream has computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamWork {
    /// The number of tokens or images.
    pub done: u64,
    /// What is counted.
    pub unit: &'static str,
}
