//! The image tower of CLIP, with the names of Hugging Face.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::Result;
use etalon::network::NetworkCard;

use super::positions::Interpolation;
use super::vit::{Family, Pool, VisionTransformer, patch_embedding, reserve};
use crate::config::Config;
use crate::layer::Linear;
use crate::transformer::{Blocks, EncoderNames, EncoderSizes, Order, Point, SiteNames};
use crate::weights::Model;

/// Tensors of a CLIP block; the text tower has the same.
pub(crate) const NAMES: EncoderNames = EncoderNames {
    qkv: &["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    out: "self_attn.out_proj",
    norms: ["layer_norm1", "layer_norm2"],
    mlp: ["mlp.fc1", "mlp.fc2"],
    scales: None,
};

/// Modules of a CLIP block.
pub(crate) const MODULES: &[(Point, &str)] = &[
    (Point::AttentionIn, "layer_norm1"),
    (Point::Query, "self_attn.q_proj"),
    (Point::Key, "self_attn.k_proj"),
    (Point::Value, "self_attn.v_proj"),
    (Point::AttentionOut, "self_attn"),
    (Point::AttentionOut, "self_attn.out_proj"),
    (Point::MlpIn, "layer_norm2"),
    (Point::MlpPre, "mlp.fc1"),
    (Point::MlpPost, "mlp.activation_fn"),
    (Point::MlpOut, "mlp"),
    (Point::MlpOut, "mlp.fc2"),
    (Point::ResidualPost, ""),
];

pub(super) const SITES: SiteNames =
    SiteNames { block: "vision_model.encoder.layers.{}", modules: MODULES, last_norm: "vision_model.post_layernorm" };

/// Sizes of a tower.
pub(crate) fn sizes(config: &Config<'_>) -> Result<EncoderSizes> {
    Ok(EncoderSizes {
        width: config.size(&["hidden_size"])?,
        layers: config.size(&["num_hidden_layers"])?,
        heads: config.size(&["num_attention_heads"])?,
        hidden: config.size(&["intermediate_size"])?,
        eps: config.optional_number(&["layer_norm_eps"])?.unwrap_or(1e-5) as f32,
        qkv_bias: true,
        gated: false,
    })
}

/// Reads the image tower.
pub(super) fn open(model: Model, budget: &Budget) -> Result<VisionTransformer> {
    let id = model.id()?;
    let Model { config, weights, recognised, .. } = model;
    let (whole, weights) = (Config(&config), Arc::new(weights));
    let config = whole.table("vision_config").unwrap_or(whole);
    let sizes = sizes(&config)?;
    let (width, patch) = (sizes.width, config.size(&["patch_size"])?);
    let image = config.size(&["image_size"])?;
    let tokens = 1 + (image / patch) * (image / patch);
    let projection = match weights.has("visual_projection.weight") {
        true => Some(whole.optional_size(&["projection_dim"])?.map_or_else(|| config.size(&["projection_dim"]), Ok)?),
        false => None,
    };
    let memory = reserve(width * (3 * patch * patch + tokens + projection.unwrap_or(0)), budget)?;
    let embedding = "vision_model.embeddings";
    let patches = weights.tensor(&format!("{embedding}.patch_embedding.weight"), &[width, 3, patch, patch])?;
    let output = projection.map(|to| weights.tensor("visual_projection.weight", &[to, width])).transpose()?;
    let card = NetworkCard { weights: recognised, id, parameters: weights.parameters(), ..NetworkCard::new("clip") };
    let shape = sizes.config(config.activation(&["hidden_act"], "quick_gelu")?, Order::PreNorm, false);
    let source = weights.clone();
    let read = move |layer: usize| sizes.block(&source, &format!("vision_model.encoder.layers.{layer}"), &NAMES);
    let blocks = Blocks::open(&shape, model.options.numbers, Box::new(read), budget)?;
    let family = Family {
        config: shape,
        names: SITES,
        blocks,
        patch,
        image,
        embed: patch_embedding(&patches, width, patch, None),
        class: Some(weights.tensor(&format!("{embedding}.class_embedding"), &[width])?),
        registers: Vec::new(),
        positions: weights.tensor(&format!("{embedding}.position_embedding.weight"), &[tokens, width])?,
        class_position: true,
        interpolation: Interpolation::Plain,
        // The name is misspelt in the released files.
        first_norm: Some(sizes.norm(&weights, "vision_model.pre_layrnorm")?),
        last_norm: sizes.norm(&weights, "vision_model.post_layernorm")?,
        pool: Pool::Class,
        output: output.map(|weight| Linear::stacked(width, &[&weight], None)),
        output_name: "visual_projection",
        card,
        memory,
    };
    Ok(VisionTransformer::new(family))
}
