//! The activations between two stages.

use crate::context::{Context, Reservation};
use crate::error::Result;

/// What a network is run on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Batch<'a> {
    /// Token sequences of the same length, one after the other.
    Tokens {
        /// The tokens.
        tokens: &'a [u32],
        /// Tokens per sequence.
        length: usize,
    },
    /// Preprocessed images of the same size: height × width × 3 values each, channels last.
    Images {
        /// The values.
        values: &'a [f32],
        /// Rows of pixels.
        height: usize,
        /// Pixels per row.
        width: usize,
    },
}

/// Positions of the rows of a sample in its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Rows of the sample before the first position: class token and registers.
    pub prefix: usize,
    /// Positions from top to bottom.
    pub height: usize,
    /// Positions from left to right.
    pub width: usize,
}

/// The shape of activations: `samples · rows` rows of `width` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Samples of the batch.
    pub samples: usize,
    /// Rows per sample.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// Positions of the rows, for images.
    pub grid: Option<Grid>,
}

impl Layout {
    /// Number of values.
    pub fn values(&self) -> usize {
        self.samples * self.rows * self.width
    }

    /// The same rows with another width.
    #[must_use]
    pub fn with_width(self, width: usize) -> Layout {
        Layout { width, ..self }
    }
}

/// A copy of the activations of a [`State`], without its buffers.
#[derive(Debug)]
pub struct Snapshot {
    values: Vec<f32>,
    layout: Layout,
    marked: Vec<u32>,
    tokens: Vec<u32>,
    _memory: Reservation,
}

/// The activations between two stages, and memory that stages use again.
#[derive(Debug)]
pub struct State {
    /// The activations, row by row.
    pub values: Vec<f32>,
    /// Their shape.
    pub layout: Layout,
    /// One row of every sample that stands for it, such as the end of a text, for networks that need it.
    pub marked: Vec<u32>,
    /// The tokens of the rows, for networks that show their embeddings to taps.
    pub tokens: Vec<u32>,
    /// Buffers of the network; their content has no meaning between stages.
    pub scratch: Vec<Vec<f32>>,
    memory: Reservation,
}

impl State {
    /// A state with its memory: `scratch` values are reserved for buffers.
    pub fn new(values: Vec<f32>, layout: Layout, scratch: usize, context: &Context) -> Result<State> {
        let bytes = 4 * (values.len() + scratch) as u64;
        let memory = context.budget().reserve(bytes, "the activations of a batch")?;
        Ok(State { values, layout, marked: Vec::new(), tokens: Vec::new(), scratch: Vec::new(), memory })
    }

    /// A copy from which the run can be continued; buffers are not copied.
    pub fn fork(&self, context: &Context) -> Result<State> {
        let scratch = (self.memory.bytes() / 4).saturating_sub(self.values.len() as u64) as usize;
        let mut state = State::new(self.values.clone(), self.layout, scratch, context)?;
        state.marked.clone_from(&self.marked);
        state.tokens.clone_from(&self.tokens);
        Ok(state)
    }

    /// The activations alone, to continue from here later.
    pub fn snapshot(&self, context: &Context) -> Result<Snapshot> {
        let bytes = 4 * (self.values.len() + self.marked.len() + self.tokens.len()) as u64;
        let memory = context.budget().reserve(bytes, "activations that are used again")?;
        let (marked, tokens) = (self.marked.clone(), self.tokens.clone());
        Ok(Snapshot { values: self.values.clone(), layout: self.layout, marked, tokens, _memory: memory })
    }

    /// Continues from a snapshot; keeps the buffers.
    pub fn restore(&mut self, snapshot: Snapshot) {
        (self.values, self.layout) = (snapshot.values, snapshot.layout);
        (self.marked, self.tokens) = (snapshot.marked, snapshot.tokens);
    }

    /// Makes this state equal to another; keeps the buffers.
    pub fn copy_from(&mut self, other: &State) {
        self.values.clear();
        self.values.extend_from_slice(&other.values);
        self.marked.clone_from(&other.marked);
        self.tokens.clone_from(&other.tokens);
        self.layout = other.layout;
    }
}
