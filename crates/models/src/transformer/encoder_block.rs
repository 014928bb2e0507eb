//! Blocks of encoders: layer norms, biases everywhere, queries, keys and values fused or separate. Families differ in names
//! only.

use etalon::error::Result;
use etalon_kernel::neural::Activation;

use super::attention::Attention;
use super::block::Block;
use super::config::{Order, TransformerConfig};
use crate::layer::{Linear, Norm};
use crate::weights::Weights;

/// The names of an encoder block's tensors, without `.weight` and `.bias`.
#[derive(Clone, Copy, Debug)]
pub struct EncoderNames {
    /// Queries, keys and values: one name if they are fused, else three.
    pub qkv: &'static [&'static str],
    /// The output of attention.
    pub out: &'static str,
    /// The norms.
    pub norms: [&'static str; 2],
    /// Into and out of the perceptron.
    pub mlp: [&'static str; 2],
    /// Factors of the outputs of attention and perceptron, as whole names.
    pub scales: Option<[&'static str; 2]>,
}

/// The sizes of an encoder.
#[derive(Clone, Copy, Debug)]
pub struct EncoderSizes {
    /// Width of the residual stream.
    pub width: usize,
    /// Blocks.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Units of the perceptron.
    pub hidden: usize,
    /// Added to variances.
    pub eps: f32,
    /// Queries, keys and values have biases.
    pub qkv_bias: bool,
    /// The perceptron is gated.
    pub gated: bool,
}

impl EncoderSizes {
    /// The shape of the blocks.
    pub fn config(&self, activation: Activation, order: Order, causal: bool) -> TransformerConfig {
        let dim = self.width / self.heads;
        let attention = Attention {
            heads: self.heads,
            kv_heads: self.heads,
            dim,
            scale: 1.0 / (dim as f32).sqrt(),
            soft_cap: None,
            causal,
            window: None,
            rope: None,
        };
        TransformerConfig {
            width: self.width,
            layers: self.layers,
            hidden: self.hidden,
            attention: vec![attention; self.layers],
            ropes: Vec::new(),
            gated: self.gated,
            activation,
            order,
        }
    }

    /// Reads a layer norm.
    pub fn norm(&self, weights: &Weights, name: &str) -> Result<Norm> {
        let tensor = |part: &str| weights.tensor(&format!("{name}.{part}"), &[self.width]);
        Ok(Norm::Layer { weight: tensor("weight")?, bias: tensor("bias")?, eps: self.eps })
    }

    /// Reads the block whose tensors start with `prefix`.
    pub fn block(&self, weights: &Weights, prefix: &str, names: &EncoderNames) -> Result<Block> {
        let (width, hidden) = (self.width, self.hidden);
        let tensor = |name: &str, shape: &[usize]| weights.tensor(&format!("{prefix}.{name}"), shape);
        let linear = |name: &str, from: usize, to: usize| -> Result<Linear> {
            let weight = tensor(&format!("{name}.weight"), &[to, from])?;
            Ok(Linear::stacked(from, &[&weight], Some(tensor(&format!("{name}.bias"), &[to])?)))
        };
        let part = 3 * width / names.qkv.len().max(1);
        let (mut qkv, mut bias) = (Vec::new(), Vec::new());
        for name in names.qkv {
            qkv.extend(tensor(&format!("{name}.weight"), &[part, width])?);
            if self.qkv_bias {
                bias.extend(tensor(&format!("{name}.bias"), &[part])?);
            }
        }
        let scale = |index: usize| names.scales.map(|names| tensor(names[index], &[width])).transpose();
        Ok(Block {
            norm1: self.norm(weights, &format!("{prefix}.{}", names.norms[0]))?,
            qkv: Linear::stacked(width, &[&qkv], self.qkv_bias.then_some(bias)),
            q_norm: None,
            k_norm: None,
            out: linear(names.out, width, width)?,
            attention_norm: None,
            attention_scale: scale(0)?,
            norm2: self.norm(weights, &format!("{prefix}.{}", names.norms[1]))?,
            up: linear(names.mlp[0], width, if self.gated { 2 * hidden } else { hidden })?,
            down: linear(names.mlp[1], hidden, width)?,
            mlp_norm: None,
            mlp_scale: scale(1)?,
        })
    }
}
