//! The weights of a block, and where blocks are: in memory, or read again whenever they are run.

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, Result};

use super::config::TransformerConfig;
use crate::layer::{Linear, Norm, WeightNumber};

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

impl Block {
    /// Whether the output of attention is changed before it is added: its gradient then needs that output.
    pub fn changes_attention(&self) -> bool {
        self.attention_norm.is_some() || self.attention_scale.is_some()
    }

    /// The same block with weights of another number type.
    #[must_use]
    pub fn with_numbers(self, numbers: WeightNumber) -> Block {
        Block {
            qkv: self.qkv.with_numbers(numbers),
            out: self.out.with_numbers(numbers),
            up: self.up.with_numbers(numbers),
            down: self.down.with_numbers(numbers),
            ..self
        }
    }
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
        /// Bytes of the tensors that are in memory besides it while it is read.
        reading: u64,
        /// The memory limit.
        budget: Budget,
    },
}

impl Blocks {
    /// Reads all blocks, if the memory limit allows that; otherwise they are read when they are used. The weights of linear
    /// maps are used as `numbers`.
    pub fn open(config: &TransformerConfig, numbers: WeightNumber, read: ReadBlock, budget: &Budget) -> Result<Blocks> {
        let TransformerConfig { width, layers, .. } = config;
        let weights = (width * (config.qkv() + config.z() + config.up() + config.hidden)) as u64;
        let weights = match numbers {
            WeightNumber::F32 => 4 * weights,
            WeightNumber::Bf16 => 2 * weights,
            // A step per group of 128, and groups that are not full.
            WeightNumber::Int8 => weights + weights / 4,
        };
        let bytes = weights + 4 * (8 * width + config.qkv() + config.up()) as u64;
        // A block is read as f32, tensor by tensor.
        let reading = 4 * (width * config.qkv().max(config.up()).max(config.hidden)) as u64;
        let read: ReadBlock = match numbers {
            WeightNumber::F32 => read,
            _ => Box::new(move |layer| Ok(read(layer)?.with_numbers(numbers))),
        };
        // Half of what is left must remain for activations, codes and results.
        let all = bytes * *layers as u64;
        if all > budget.left() / 2 {
            return Ok(Blocks::Streamed { read, bytes, reading, budget: budget.clone() });
        }
        let memory = budget.reserve(all, "the weights of the network")?;
        let _reading = budget.reserve(reading, "the tensors of one block")?;
        let blocks = (0..*layers).map(&read).collect::<Result<Vec<Block>>>()?;
        Ok(Blocks::Resident { blocks, memory })
    }

    /// Uses a block.
    pub fn with<T>(&self, layer: usize, work: impl FnOnce(&Block) -> Result<T>) -> Result<T> {
        match self {
            Blocks::Resident { blocks, .. } => {
                work(blocks.get(layer).ok_or_else(|| Error::Bug(format!("block {layer} of {}", blocks.len())))?)
            }
            Blocks::Streamed { read, bytes, reading, budget } => {
                let what = "the weights of one block";
                let mut memory = budget.reserve(bytes + reading, what)?;
                let block = read(layer)?;
                memory.resize(*bytes, what)?;
                work(&block)
            }
        }
    }

    /// Whether all blocks are in memory.
    pub fn are_resident(&self) -> bool {
        matches!(self, Blocks::Resident { .. })
    }
}
