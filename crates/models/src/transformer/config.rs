//! The shape of a transformer's blocks.

use etalon_kernel::neural::Activation;

use super::attention::Attention;
use crate::layer::Rope;

/// How a block combines norms, attention and perceptron with the residual stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// `x += attention(norm(x))`, then `x += mlp(norm(x))`.
    PreNorm,
    /// `x = norm(x + attention(x))`, then `x = norm(x + mlp(x))`.
    PostNorm,
    /// `x += attention(norm(x)) + mlp(norm'(x))`.
    Parallel,
}

/// The shape of a transformer's blocks.
#[derive(Clone, Debug)]
pub struct TransformerConfig {
    /// Width of the residual stream.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Units of the perceptron.
    pub hidden: usize,
    /// Attention of every block.
    pub attention: Vec<Attention>,
    /// Rotary embeddings that blocks refer to.
    pub ropes: Vec<Rope>,
    /// The perceptron multiplies `activation(gate)` with another linear map.
    pub gated: bool,
    /// Its activation function.
    pub activation: Activation,
    /// How a block combines its parts.
    pub order: Order,
}

impl TransformerConfig {
    /// Values of queries, keys and values together, per row.
    pub fn qkv(&self) -> usize {
        self.attention.first().map_or(0, |attention| (attention.heads + 2 * attention.kv_heads) * attention.dim)
    }

    /// Values of all heads together, per row.
    pub fn z(&self) -> usize {
        self.attention.first().map_or(0, |attention| attention.heads * attention.dim)
    }

    /// Outputs of the first linear map of the perceptron.
    pub fn up(&self) -> usize {
        if self.gated { 2 * self.hidden } else { self.hidden }
    }

    /// Values of the buffers that a block needs per row.
    pub fn scratch_per_row(&self) -> usize {
        2 * self.width + self.qkv() + self.z() + self.up() + self.hidden
    }
}
