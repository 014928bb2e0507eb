//! GPT-2: layer norms, learned positions, weights stored (in, out).

use etalon::error::Result;

use super::decoder::Family;
use crate::config::Config;
use crate::layer::{Linear, Norm};
use crate::transformer::{Attention, Block, Order, Point, SiteNames, TransformerConfig};
use crate::weights::{Model, Weights};

pub(super) const NAMES: SiteNames = SiteNames {
    block: "transformer.h.{}",
    modules: &[
        (Point::AttentionIn, "ln_1"),
        (Point::AttentionOut, "attn"),
        (Point::AttentionOut, "attn.c_proj"),
        (Point::MlpIn, "ln_2"),
        (Point::MlpPre, "mlp.c_fc"),
        (Point::MlpPost, "mlp.act"),
        (Point::MlpOut, "mlp"),
        (Point::MlpOut, "mlp.c_proj"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "transformer.ln_f",
};

#[derive(Clone, Copy)]
struct Sizes {
    width: usize,
    hidden: usize,
    eps: f32,
}

/// Describes the network of a file.
pub(super) fn describe(model: &Model) -> Result<Family> {
    let config = Config(&model.config);
    let width = config.size(&["n_embd", "hidden_size"])?;
    let layers = config.size(&["n_layer", "num_hidden_layers"])?;
    let heads = config.size(&["n_head", "num_attention_heads"])?;
    let context = config.size(&["n_positions", "n_ctx", "max_position_embeddings"])?;
    let vocabulary = config.size(&["vocab_size"])?;
    let hidden = config.optional_size(&["n_inner", "intermediate_size"])?.unwrap_or(4 * width);
    let eps = config.optional_number(&["layer_norm_epsilon", "layer_norm_eps"])?.unwrap_or(1e-5) as f32;
    let sizes = Sizes { width, hidden, eps };
    let dim = width / heads;
    let scaled = config.switch(&["scale_attn_weights"], true)?;
    let by_layer = config.switch(&["scale_attn_by_inverse_layer_idx"], false)?;
    let attention = |layer: usize| Attention {
        heads,
        kv_heads: heads,
        dim,
        scale: if scaled { 1.0 / (dim as f32).sqrt() } else { 1.0 } / if by_layer { (layer + 1) as f32 } else { 1.0 },
        soft_cap: None,
        causal: true,
        window: None,
        rope: None,
    };
    let prefix = if model.weights.has("transformer.wte.weight") { "transformer." } else { "" };
    let tied = config.switch(&["tie_word_embeddings"], true)?;
    let head = (!tied && model.weights.has("lm_head.weight")).then(|| "lm_head.weight".to_string());
    Ok(Family {
        name: "gpt2",
        config: TransformerConfig {
            width,
            layers,
            hidden,
            attention: (0..layers).map(attention).collect(),
            ropes: Vec::new(),
            gated: false,
            activation: config.activation(&["activation_function"], "gelu_new")?,
            order: Order::PreNorm,
        },
        names: NAMES,
        context,
        vocabulary,
        embedding: format!("{prefix}wte.weight"),
        embedding_scale: 1.0,
        positions: Some(format!("{prefix}wpe.weight")),
        last_norm: norm(&model.weights, &format!("{prefix}ln_f"), sizes)?,
        head,
        head_bias: None,
        soft_cap: None,
        read: Box::new(move |weights, layer| block(weights, &format!("{prefix}h.{layer}"), sizes)),
        ignored: |name| name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight",
    })
}

fn norm(weights: &Weights, name: &str, sizes: Sizes) -> Result<Norm> {
    let tensor = |part: &str| weights.tensor(&format!("{name}.{part}"), &[sizes.width]);
    Ok(Norm::Layer { weight: tensor("weight")?, bias: tensor("bias")?, eps: sizes.eps })
}

fn block(weights: &Weights, prefix: &str, sizes: Sizes) -> Result<Block> {
    let Sizes { width, hidden, .. } = sizes;
    let linear = |name: &str, from: usize, to: usize| -> Result<Linear> {
        let weight = weights.tensor(&format!("{prefix}.{name}.weight"), &[from, to])?;
        let bias = weights.tensor(&format!("{prefix}.{name}.bias"), &[to])?;
        Ok(Linear::new(from, to, &weight, Some(bias)))
    };
    Ok(Block {
        norm1: norm(weights, &format!("{prefix}.ln_1"), sizes)?,
        qkv: linear("attn.c_attn", width, 3 * width)?,
        q_norm: None,
        k_norm: None,
        out: linear("attn.c_proj", width, width)?,
        attention_norm: None,
        attention_scale: None,
        norm2: norm(weights, &format!("{prefix}.ln_2"), sizes)?,
        up: linear("mlp.c_fc", width, hidden)?,
        down: linear("mlp.c_proj", hidden, width)?,
        mlp_norm: None,
        mlp_scale: None,
    })
}
