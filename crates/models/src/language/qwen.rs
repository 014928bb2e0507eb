//! Qwen 2 (biases of queries, keys and values) and Qwen 3 (norms of query and key heads).

use etalon::error::Result;

use super::decoder::Family;
use super::gated::Variant;
use super::gated::{Sizes, prefix};
use super::llama;
use crate::config::Config;
use crate::transformer::Attention;
use crate::weights::Model;

/// Describes the network of a file.
pub(super) fn describe(model: &Model) -> Result<Family> {
    let config = Config(&model.config);
    let sizes = Sizes::read(&config)?;
    let third = config.text(&["model_type"]) == Some("qwen3");
    let attention_bias = config.switch(&["attention_bias"], false)?;
    let variant = Variant {
        qkv_bias: !third || attention_bias,
        out_bias: third && attention_bias,
        head_norms: third,
        ..Variant::new(sizes)
    };
    let prefix = prefix(&model.weights);
    let mut family = llama::describe(model)?;
    family.name = if third { "qwen3" } else { "qwen2" };
    family.config.attention = windows(&config, &sizes)?;
    family.read = Box::new(move |weights, layer| variant.block(weights, &format!("{prefix}layers.{layer}")));
    Ok(family)
}

/// Attention of every block. Sliding windows are switched on separately, and from some block on.
fn windows(config: &Config<'_>, sizes: &Sizes) -> Result<Vec<Attention>> {
    let used = config.switch(&["use_sliding_window"], false)?;
    let window = config.optional_size(&["sliding_window"])?.filter(|_| used);
    let first = config.optional_size(&["max_window_layers"])?.unwrap_or(0);
    let types = config.texts("layer_types");
    let attention = |layer: usize| {
        let sliding = types.get(layer).map_or(layer >= first, |kind| *kind == "sliding_attention");
        Attention { window: window.filter(|_| sliding), ..sizes.attention() }
    };
    Ok((0..sizes.layers).map(attention).collect())
}
