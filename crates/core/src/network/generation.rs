//! How text is generated.

/// How tokens are chosen.
#[derive(Clone, Debug)]
pub struct Generation {
    /// Tokens to generate at most.
    pub tokens: usize,
    /// Divides logits before sampling; 0 takes the most probable token.
    pub temperature: f32,
    /// Samples only from this many most probable tokens; 0 for all.
    pub top_k: usize,
    /// Samples only from the most probable tokens that together have this probability.
    pub top_p: f32,
    /// Stops after one of these tokens, which is not part of the result.
    pub stop: Vec<u32>,
    /// The seed.
    pub seed: u64,
}

impl Default for Generation {
    fn default() -> Generation {
        Generation { tokens: 64, temperature: 0.0, top_k: 0, top_p: 1.0, stop: Vec::new(), seed: 0 }
    }
}
