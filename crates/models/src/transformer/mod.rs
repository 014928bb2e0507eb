//! The transformer that all families share: blocks of attention and a multilayer perceptron on a residual stream.
//!
//! A family describes its blocks with [`TransformerConfig`] and [`Block`], and gives the stream its first values; the rest
//! is here.

mod attention;
mod backward;
mod block;
mod cache;
mod config;
mod encoder_block;
mod forward;
mod points;

pub use attention::Attention;
pub use block::{Block, Blocks};
pub use cache::Cache;
pub use config::{Order, TransformerConfig};
pub use encoder_block::{EncoderNames, EncoderSizes};
pub use points::{Point, Points, SiteNames};

use crate::layer::Norm;

/// Blocks and the last norm.
pub struct Transformer {
    /// The shape of a block.
    pub config: TransformerConfig,
    /// The blocks.
    pub blocks: Blocks,
    /// The norm after the last block.
    pub norm: Option<Norm>,
    /// Which sites there are.
    pub points: Points,
}

impl Transformer {
    /// Stages: one per block and one for the last norm.
    pub fn stages(&self) -> usize {
        self.config.layers + 1
    }
}
