//! Gemma 2 and 3: norms before and after attention and perceptron that multiply by 1 + weight, scaled embeddings, sliding
//! windows in most blocks; Gemma 2 caps scores and logits, Gemma 3 normalises query and key heads.

use etalon::error::Result;

use super::decoder::Family;
use super::gated::{Sizes, Variant, head, prefix};
use crate::config::Config;
use crate::layer::Rope;
use crate::transformer::{Attention, Order, Point, SiteNames, TransformerConfig};
use crate::weights::Model;

pub(super) const NAMES: SiteNames = SiteNames {
    block: "model.layers.{}",
    modules: &[
        (Point::AttentionIn, "input_layernorm"),
        (Point::Query, "self_attn.q_proj"),
        (Point::Key, "self_attn.k_proj"),
        (Point::Value, "self_attn.v_proj"),
        (Point::AttentionRaw, "self_attn"),
        (Point::AttentionRaw, "self_attn.o_proj"),
        (Point::AttentionOut, "post_attention_layernorm"),
        (Point::MlpIn, "pre_feedforward_layernorm"),
        (Point::MlpPre, "mlp.gate_proj"),
        (Point::MlpRaw, "mlp"),
        (Point::MlpRaw, "mlp.down_proj"),
        (Point::MlpOut, "post_feedforward_layernorm"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "model.norm",
};

/// Describes the network of a file.
pub(super) fn describe(model: &Model) -> Result<Family> {
    let whole = Config(&model.config);
    // Networks of images and text keep the part for text in a table.
    let config = whole.table("text_config").unwrap_or(whole);
    let second = config.text(&["model_type"]) == Some("gemma2");
    let sizes = Sizes::read(&config)?;
    let variant = Variant { gemma: true, head_norms: !second, ..Variant::new(sizes) };
    let scalar = config.optional_number(&["query_pre_attn_scalar"])?.unwrap_or(sizes.dim as f64);
    let window = config.optional_size(&["sliding_window"])?;
    let sliding = sliding_layers(&config, &sizes, second)?;
    let attention = |layer: usize| Attention {
        scale: (1.0 / scalar.sqrt()) as f32,
        soft_cap: None,
        window: window.filter(|_| sliding[layer]),
        rope: Some(usize::from(sliding[layer] && !second)),
        ..sizes.attention()
    };
    let mut attention: Vec<Attention> = (0..sizes.layers).map(attention).collect();
    let cap = config.optional_number(&["attn_logit_softcapping"])?;
    attention.iter_mut().for_each(|attention| attention.soft_cap = cap.map(|cap| cap as f32));
    let full = second.then_some(()).map_or(Some("full_attention"), |()| None);
    let (base, scaling) = config.rope(full, "rope_theta", if second { 10_000.0 } else { 1_000_000.0 })?;
    let mut ropes = vec![Rope::new(base, sizes.dim, scaling)];
    if !second {
        ropes.push(local_rope(&config, sizes.dim)?);
    }
    let prefix = prefix(&model.weights);
    Ok(Family {
        name: if second { "gemma2" } else { "gemma3" },
        config: TransformerConfig {
            width: sizes.width,
            layers: sizes.layers,
            hidden: sizes.hidden,
            attention,
            ropes,
            gated: true,
            activation: config.activation(&["hidden_activation"], "gelu_pytorch_tanh")?,
            order: Order::PreNorm,
        },
        names: NAMES,
        context: sizes.context,
        vocabulary: sizes.vocabulary,
        embedding: format!("{prefix}embed_tokens.weight"),
        embedding_scale: (sizes.width as f64).sqrt() as f32,
        positions: None,
        last_norm: variant.norm(&model.weights, &format!("{prefix}norm.weight"), sizes.width)?,
        head: head(&config, &model.weights, true)?,
        head_bias: None,
        soft_cap: config.optional_number(&["final_logit_softcapping"])?.map(|cap| cap as f32),
        read: Box::new(move |weights, layer| variant.block(weights, &format!("{prefix}layers.{layer}"))),
        ignored: |name| name.ends_with("rotary_emb.inv_freq") || name == "lm_head.weight",
    })
}

/// The rotary embedding of sliding blocks. Its frequencies are never scaled in files with the older keys.
fn local_rope(config: &Config<'_>, dim: usize) -> Result<Rope> {
    if config.table("rope_parameters").is_some() {
        let (base, scaling) = config.rope(Some("sliding_attention"), "", 10_000.0)?;
        return Ok(Rope::new(base, dim, scaling));
    }
    let base = config.optional_number(&["rope_local_base_freq"])?.unwrap_or(10_000.0);
    Ok(Rope::new(base, dim, crate::layer::RopeScaling::None))
}

/// Which blocks have a sliding window. Without a list: every other block from the first on in Gemma 2; in Gemma 3 all but
/// every n-th.
fn sliding_layers(config: &Config<'_>, sizes: &Sizes, second: bool) -> Result<Vec<bool>> {
    let types = config.texts("layer_types");
    let period = if second {
        2
    } else {
        config.optional_size(&["sliding_window_pattern", "_sliding_window_pattern"])?.unwrap_or(6)
    };
    let sliding = |layer: usize| match types.get(layer) {
        Some(kind) => *kind == "sliding_attention",
        None => !(layer + 1).is_multiple_of(period),
    };
    Ok((0..sizes.layers).map(sliding).collect())
}
