//! Llama and Mistral: RMS norms, rotary positions, grouped queries, a gated perceptron. SmolLM2 and TinyStories are Llamas.

use etalon::error::Result;

use super::decoder::Family;
use super::gated::{PLAIN, Sizes, Variant, head, prefix};
use crate::config::Config;
use crate::layer::Rope;
use crate::transformer::{Attention, Order, TransformerConfig};
use crate::weights::Model;

/// Describes the network of a file.
pub(super) fn describe(model: &Model) -> Result<Family> {
    let config = Config(&model.config);
    let sizes = Sizes::read(&config)?;
    let attention_bias = config.switch(&["attention_bias"], false)?;
    let variant = Variant {
        qkv_bias: attention_bias,
        out_bias: attention_bias,
        mlp_bias: config.switch(&["mlp_bias"], false)?,
        ..Variant::new(sizes)
    };
    let (base, scaling) = config.rope(None, "rope_theta", 10_000.0)?;
    let attention = Attention { window: config.optional_size(&["sliding_window"])?, ..sizes.attention() };
    let prefix = prefix(&model.weights);
    Ok(Family {
        name: "llama",
        config: TransformerConfig {
            width: sizes.width,
            layers: sizes.layers,
            hidden: sizes.hidden,
            attention: vec![attention; sizes.layers],
            ropes: vec![Rope::new(base, sizes.dim, scaling)],
            gated: true,
            activation: config.activation(&["hidden_act"], "silu")?,
            order: Order::PreNorm,
        },
        names: PLAIN,
        context: sizes.context,
        vocabulary: sizes.vocabulary,
        embedding: format!("{prefix}embed_tokens.weight"),
        embedding_scale: 1.0,
        positions: None,
        last_norm: variant.norm(&model.weights, &format!("{prefix}norm.weight"), sizes.width)?,
        head: head(&config, &model.weights, false)?,
        head_bias: None,
        soft_cap: None,
        read: Box::new(move |weights, layer| variant.block(weights, &format!("{prefix}layers.{layer}"))),
        ignored: |name| name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight",
    })
}
