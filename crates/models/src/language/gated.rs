//! Blocks with separate queries, keys and values and a gated perceptron, as Llama, Gemma and Qwen name them.

use etalon::error::Result;

use crate::config::Config;
use crate::layer::{Linear, Norm};
use crate::transformer::{Attention, Block, Point, SiteNames};
use crate::weights::Weights;

/// Sizes that these families state in the same words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    pub width: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub dim: usize,
    pub hidden: usize,
    pub vocabulary: usize,
    pub context: usize,
    pub eps: f32,
}

impl Sizes {
    pub fn read(config: &Config<'_>) -> Result<Sizes> {
        let (width, heads) = (config.size(&["hidden_size"])?, config.size(&["num_attention_heads"])?);
        Ok(Sizes {
            width,
            layers: config.size(&["num_hidden_layers"])?,
            heads,
            kv_heads: config.optional_size(&["num_key_value_heads"])?.unwrap_or(heads),
            dim: config.optional_size(&["head_dim"])?.unwrap_or(width / heads),
            hidden: config.size(&["intermediate_size"])?,
            vocabulary: config.size(&["vocab_size"])?,
            context: config.optional_size(&["max_position_embeddings"])?.unwrap_or(2048),
            eps: config.optional_number(&["rms_norm_eps"])?.unwrap_or(1e-6) as f32,
        })
    }

    /// Causal attention with the usual scale.
    pub fn attention(&self) -> Attention {
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            dim: self.dim,
            scale: 1.0 / (self.dim as f32).sqrt(),
            soft_cap: None,
            causal: true,
            window: None,
            rope: Some(0),
        }
    }
}

/// What differs between the blocks of these families.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    pub sizes: Sizes,
    /// Queries, keys and values have biases.
    pub qkv_bias: bool,
    /// The output of attention has a bias.
    pub out_bias: bool,
    /// The perceptron has biases.
    pub mlp_bias: bool,
    /// Query and key heads are normalised.
    pub head_norms: bool,
    /// Norms multiply by 1 + weight, and there are norms after attention and perceptron.
    pub gemma: bool,
}

impl Variant {
    pub fn new(sizes: Sizes) -> Variant {
        Variant { sizes, qkv_bias: false, out_bias: false, mlp_bias: false, head_norms: false, gemma: false }
    }

    /// A norm of the given width.
    pub fn norm(&self, weights: &Weights, name: &str, width: usize) -> Result<Norm> {
        let mut weight = weights.tensor(name, &[width])?;
        if self.gemma {
            weight.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Ok(Norm::Rms { weight, eps: self.sizes.eps })
    }

    /// Reads a block whose tensors start with `prefix`.
    pub fn block(&self, weights: &Weights, prefix: &str) -> Result<Block> {
        let Sizes { width, heads, kv_heads, dim, hidden, .. } = self.sizes;
        let tensor = |name: &str, shape: &[usize]| weights.tensor(&format!("{prefix}.{name}"), shape);
        let norm = |name: &str, width| self.norm(weights, &format!("{prefix}.{name}.weight"), width);
        let parts = [("q_proj", heads), ("k_proj", kv_heads), ("v_proj", kv_heads)];
        let mut qkv = Vec::new();
        let mut qkv_bias = Vec::new();
        for (name, heads) in parts {
            qkv.push(tensor(&format!("self_attn.{name}.weight"), &[heads * dim, width])?);
            if self.qkv_bias {
                qkv_bias.extend(tensor(&format!("self_attn.{name}.bias"), &[heads * dim])?);
            }
        }
        let slices: Vec<&[f32]> = qkv.iter().map(Vec::as_slice).collect();
        let stacked = Linear::stacked(width, &slices, self.qkv_bias.then_some(qkv_bias));
        // The tensors of one map are in memory at a time, besides the maps.
        drop(qkv);
        let qkv = stacked;
        let bias = |wanted: bool, name: &str, width: usize| wanted.then(|| tensor(name, &[width])).transpose();
        let up_bias = match (
            bias(self.mlp_bias, "mlp.gate_proj.bias", hidden)?,
            bias(self.mlp_bias, "mlp.up_proj.bias", hidden)?,
        ) {
            (Some(gate), Some(up)) => Some([gate, up].concat()),
            _ => None,
        };
        let gate = tensor("mlp.gate_proj.weight", &[hidden, width])?;
        let up = Linear::stacked(width, &[&gate, &tensor("mlp.up_proj.weight", &[hidden, width])?], up_bias);
        drop(gate);
        let output = |name: &str| self.gemma.then(|| norm(name, width)).transpose();
        let (second, after) = if self.gemma {
            ("pre_feedforward_layernorm", "post_feedforward_layernorm")
        } else {
            ("post_attention_layernorm", "")
        };
        Ok(Block {
            norm1: norm("input_layernorm", width)?,
            qkv,
            q_norm: self.head_norms.then(|| norm("self_attn.q_norm", dim)).transpose()?,
            k_norm: self.head_norms.then(|| norm("self_attn.k_norm", dim)).transpose()?,
            out: Linear::stacked(
                heads * dim,
                &[&tensor("self_attn.o_proj.weight", &[width, heads * dim])?],
                bias(self.out_bias, "self_attn.o_proj.bias", width)?,
            ),
            attention_norm: output("post_attention_layernorm")?,
            attention_scale: None,
            norm2: norm(second, width)?,
            up,
            down: Linear::stacked(
                hidden,
                &[&tensor("mlp.down_proj.weight", &[width, hidden])?],
                bias(self.mlp_bias, "mlp.down_proj.bias", width)?,
            ),
            mlp_norm: output(after)?,
            mlp_scale: None,
        })
    }
}

/// Modules of a block without norms after attention and perceptron.
pub(super) const PLAIN: SiteNames = SiteNames {
    block: "model.layers.{}",
    modules: &[
        (Point::AttentionIn, "input_layernorm"),
        (Point::Query, "self_attn.q_proj"),
        (Point::Key, "self_attn.k_proj"),
        (Point::Value, "self_attn.v_proj"),
        (Point::AttentionOut, "self_attn"),
        (Point::AttentionOut, "self_attn.o_proj"),
        (Point::MlpIn, "post_attention_layernorm"),
        (Point::MlpPre, "mlp.gate_proj"),
        (Point::MlpOut, "mlp"),
        (Point::MlpOut, "mlp.down_proj"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "model.norm",
};

/// The prefix of all tensors but the head: files of a network without head lack it.
pub(super) fn prefix(weights: &Weights) -> &'static str {
    if weights.has("model.embed_tokens.weight") { "model." } else { "" }
}

/// The head's weights, unless they are the embeddings.
pub(super) fn head(config: &Config<'_>, weights: &Weights, tied: bool) -> Result<Option<String>> {
    let name = "lm_head.weight";
    Ok((!config.switch(&["tie_word_embeddings"], tied)? && weights.has(name)).then(|| name.to_string()))
}
