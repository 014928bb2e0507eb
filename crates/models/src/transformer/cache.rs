//! Keys and values of the tokens that were processed, for generation one token at a time.

/// Keys and values of one sequence, per block.
#[derive(Clone, Debug, Default)]
pub struct Cache {
    /// Keys and values of every block.
    pub(super) layers: Vec<KeysAndValues>,
    /// Tokens in the cache.
    pub(super) length: usize,
}

/// Keys and values of one block, row by row.
#[derive(Clone, Debug, Default)]
pub(super) struct KeysAndValues {
    pub keys: Vec<f32>,
    pub values: Vec<f32>,
}

impl Cache {
    /// An empty cache for this many blocks.
    pub fn new(layers: usize) -> Cache {
        Cache { layers: vec![KeysAndValues::default(); layers], length: 0 }
    }

    /// Tokens in the cache.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Adds the tokens that were just processed.
    pub fn advance(&mut self, tokens: usize) {
        self.length += tokens;
    }
}
