//! GPT-NeoX and Pythia: attention and perceptron side by side, rotary positions of a part of every head, queries, keys and
//! values interleaved head by head.

use etalon::error::Result;

use super::decoder::Family;
use crate::config::Config;
use crate::layer::{Linear, Norm, Rope};
use crate::transformer::{Attention, Block, Order, Point, SiteNames, TransformerConfig};
use crate::weights::{Model, Weights};

pub(super) const NAMES: SiteNames = SiteNames {
    block: "gpt_neox.layers.{}",
    modules: &[
        (Point::AttentionIn, "input_layernorm"),
        (Point::AttentionOut, "attention"),
        (Point::AttentionOut, "attention.dense"),
        (Point::MlpIn, "post_attention_layernorm"),
        (Point::MlpPre, "mlp.dense_h_to_4h"),
        (Point::MlpPost, "mlp.act"),
        (Point::MlpOut, "mlp"),
        (Point::MlpOut, "mlp.dense_4h_to_h"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "gpt_neox.final_layer_norm",
};

#[derive(Clone, Copy)]
struct Sizes {
    width: usize,
    heads: usize,
    hidden: usize,
    eps: f32,
    attention_bias: bool,
}

/// Describes the network of a file.
pub(super) fn describe(model: &Model) -> Result<Family> {
    let config = Config(&model.config);
    let (width, heads) = (config.size(&["hidden_size"])?, config.size(&["num_attention_heads"])?);
    let layers = config.size(&["num_hidden_layers"])?;
    let sizes = Sizes {
        width,
        heads,
        hidden: config.size(&["intermediate_size"])?,
        eps: config.optional_number(&["layer_norm_eps"])?.unwrap_or(1e-5) as f32,
        attention_bias: config.switch(&["attention_bias"], true)?,
    };
    let dim = width / heads;
    let part = match config.table("rope_parameters") {
        Some(table) => table.optional_number(&["partial_rotary_factor"])?,
        None => config.optional_number(&["rotary_pct"])?,
    };
    let rotated = (dim as f64 * part.unwrap_or(0.25)) as usize;
    let (base, scaling) = config.rope(None, "rotary_emb_base", 10_000.0)?;
    let attention = Attention {
        heads,
        kv_heads: heads,
        dim,
        scale: 1.0 / (dim as f32).sqrt(),
        soft_cap: None,
        causal: true,
        window: None,
        rope: Some(0),
    };
    let prefix = if model.weights.has("gpt_neox.embed_in.weight") { "gpt_neox." } else { "" };
    let parallel = config.switch(&["use_parallel_residual"], true)?;
    let tied = config.switch(&["tie_word_embeddings"], false)?;
    Ok(Family {
        name: "gpt_neox",
        config: TransformerConfig {
            width,
            layers,
            hidden: sizes.hidden,
            attention: vec![attention; layers],
            ropes: vec![Rope::new(base, rotated, scaling)],
            gated: false,
            activation: config.activation(&["hidden_act"], "gelu")?,
            order: if parallel { Order::Parallel } else { Order::PreNorm },
        },
        names: NAMES,
        context: config.size(&["max_position_embeddings"])?,
        vocabulary: config.size(&["vocab_size"])?,
        embedding: format!("{prefix}embed_in.weight"),
        embedding_scale: 1.0,
        positions: None,
        last_norm: norm(&model.weights, &format!("{prefix}final_layer_norm"), sizes)?,
        head: (!tied).then(|| "embed_out.weight".to_string()),
        head_bias: None,
        soft_cap: None,
        read: Box::new(move |weights, layer| block(weights, &format!("{prefix}layers.{layer}"), sizes)),
        ignored: |name| {
            [".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq"].iter().any(|end| name.ends_with(end))
        },
    })
}

fn norm(weights: &Weights, name: &str, sizes: Sizes) -> Result<Norm> {
    let tensor = |part: &str| weights.tensor(&format!("{name}.{part}"), &[sizes.width]);
    Ok(Norm::Layer { weight: tensor("weight")?, bias: tensor("bias")?, eps: sizes.eps })
}

/// Rows (head, query / key / value, dim) in the order (query / key / value, head, dim).
fn by_part(rows: &[f32], heads: usize, head: usize) -> Vec<f32> {
    let part = |part: usize| (0..heads).flat_map(move |index| &rows[(index * 3 + part) * head..][..head]);
    (0..3).flat_map(part).copied().collect()
}

fn block(weights: &Weights, prefix: &str, sizes: Sizes) -> Result<Block> {
    let Sizes { width, heads, hidden, attention_bias, .. } = sizes;
    let tensor = |name: &str, shape: &[usize]| weights.tensor(&format!("{prefix}.{name}"), shape);
    let linear = |name: &str, from: usize, to: usize, bias: bool| -> Result<Linear> {
        let weight = tensor(&format!("{name}.weight"), &[to, from])?;
        let bias = bias.then(|| tensor(&format!("{name}.bias"), &[to])).transpose()?;
        Ok(Linear::stacked(from, &[&weight], bias))
    };
    let dim = width / heads;
    let qkv = by_part(&tensor("attention.query_key_value.weight", &[3 * width, width])?, heads, dim * width);
    let bias = attention_bias.then(|| tensor("attention.query_key_value.bias", &[3 * width])).transpose()?;
    Ok(Block {
        norm1: norm(weights, &format!("{prefix}.input_layernorm"), sizes)?,
        qkv: Linear::stacked(width, &[&qkv], bias.map(|bias| by_part(&bias, heads, dim))),
        q_norm: None,
        k_norm: None,
        out: linear("attention.dense", width, width, attention_bias)?,
        attention_norm: None,
        attention_scale: None,
        norm2: norm(weights, &format!("{prefix}.post_attention_layernorm"), sizes)?,
        up: linear("mlp.dense_h_to_4h", width, hidden, true)?,
        down: linear("mlp.dense_4h_to_h", hidden, width, true)?,
        mlp_norm: None,
        mlp_scale: None,
    })
}
