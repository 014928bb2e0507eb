//! The weights of a block, and where blocks are: in memory, or read again whenever they are run.

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, Result};

use super::config::TransformerConfig;
use crate::layer::{Linear, Norm};

/// The weights of a block.
#[derive(Clone, Debug)]
pub struct Block {
    /// Before attention; after it in post-norm networks.
    pub norm1: Norm,
    /// Queries, keys and values side by side.
    pub qkv: Linear,
    /// Norm of every query head.
    pub q_norm: Option<Norm>,
    /// Norm of every key head.
    pub k_norm: Option<Norm>,
    /// From the heads back to the residual stream.
    pub out: Linear,
    /// Norm of the attention's output before it is added.
    pub attention_norm: Option<Norm>,
    /// Multiplies the attention's output before it is added.
    pub attention_scale: Option<Vec<f32>>,
    /// Before the perceptron; after it in post-norm networks.
    pub norm2: Norm,
    /// Into the perceptron: gates first, if there are any.
    pub up: Linear,
    /// Out of the perceptron.
    pub down: Linear,
    /// Norm of the perceptron's output before it is added.
    pub mlp_norm: Option<Norm>,
    /// Multiplies the perceptron's output before it is added.
    pub mlp_scale: Option<Vec<f32>>,
}

/// Reads a block's weights.
pub type ReadBlock = Box<dyn Fn(usize) -> Result<Block> + Send + Sync>;

/// The blocks of a network.
pub enum Blocks {
    /// All in memory.
    Resident {
        /// The blocks.
        blocks: Vec<Block>,
        /// Their memory.
        memory: Reservation,
    },
    /// Read from the file for every use: for networks that are larger than the memory limit.
    Streamed {
        /// Reads a block.
        read: ReadBlock,
        /// Bytes of a block.
        bytes: u64,
        /// The memory limit.
        budget: Budget,
    },
}

impl Blocks {
    /// Reads all blocks, if the memory limit allows that; otherwise they are read when they are used.
    pub fn open(config: &TransformerConfig, read: ReadBlock, budget: &Budget) -> Result<Blocks> {
        let TransformerConfig { width, layers, .. } = config;
        let weights = width * (config.qkv() + config.z() + config.up() + config.hidden);
        let bytes = 4 * (weights + 8 * width + config.qkv() + config.up()) as u64;
        // Half of what is left must remain for activations, codes and results.
        let all = bytes * *layers as u64;
        if all > budget.left() / 2 {
            return Ok(Blocks::Streamed { read, bytes, budget: budget.clone() });
        }
        let memory = budget.reserve(all, "the weights of the network")?;
        let blocks = (0..*layers).map(&read).collect::<Result<Vec<Block>>>()?;
        Ok(Blocks::Resident { blocks, memory })
    }

    /// Uses a block.
    pub fn with<T>(&self, layer: usize, work: impl FnOnce(&Block) -> Result<T>) -> Result<T> {
        match self {
            Blocks::Resident { blocks, .. } => {
                work(blocks.get(layer).ok_or_else(|| Error::Bug(format!("block {layer} of {}", blocks.len())))?)
            }
            Blocks::Streamed { read, bytes, budget } => {
                let _memory = budget.reserve(*bytes, "the weights of one block")?;
                work(&read(layer)?)
            }
        }
    }

    /// Whether all blocks are in memory.
    pub fn are_resident(&self) -> bool {
        matches!(self, Blocks::Resident { .. })
    }
}
