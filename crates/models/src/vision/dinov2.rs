//! DINOv2 with or without registers, with the names of Hugging Face.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InputError, Result};
use etalon::network::NetworkCard;

use super::positions::Interpolation;
use super::vit::{Family, Pool, VisionTransformer, patch_embedding, reserve};
use crate::config::Config;
use crate::transformer::{Blocks, EncoderNames, EncoderSizes, Order, Point, SiteNames};
use crate::weights::Model;

const NAMES: EncoderNames = EncoderNames {
    qkv: &["attention.attention.query", "attention.attention.key", "attention.attention.value"],
    out: "attention.output.dense",
    norms: ["norm1", "norm2"],
    mlp: ["mlp.fc1", "mlp.fc2"],
    scales: Some(["layer_scale1.lambda1", "layer_scale2.lambda1"]),
};

pub(super) const SITES: SiteNames = SiteNames {
    block: "encoder.layer.{}",
    modules: &[
        (Point::AttentionIn, "norm1"),
        (Point::Query, "attention.attention.query"),
        (Point::Key, "attention.attention.key"),
        (Point::Value, "attention.attention.value"),
        (Point::AttentionRaw, "attention"),
        (Point::AttentionRaw, "attention.output.dense"),
        (Point::AttentionOut, "layer_scale1"),
        (Point::MlpIn, "norm2"),
        (Point::MlpPre, "mlp.fc1"),
        (Point::MlpPost, "mlp.activation"),
        (Point::MlpRaw, "mlp"),
        (Point::MlpRaw, "mlp.fc2"),
        (Point::MlpOut, "layer_scale2"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "layernorm",
};

/// Reads the network.
pub(super) fn open(model: Model, budget: &Budget) -> Result<VisionTransformer> {
    let id = model.id()?;
    let Model { config, weights, recognised, .. } = model;
    let (config, weights) = (Config(&config), Arc::new(weights));
    if config.switch(&["use_swiglu_ffn"], false)? {
        return Err(InputError::new("DINOv2 with a gated perceptron is not supported")
            .expected("`use_swiglu_ffn`: false, as in the sizes small, base and large")
            .into());
    }
    let width = config.size(&["hidden_size"])?;
    let sizes = EncoderSizes {
        width,
        layers: config.size(&["num_hidden_layers"])?,
        heads: config.size(&["num_attention_heads"])?,
        hidden: (width as f64 * config.optional_number(&["mlp_ratio"])?.unwrap_or(4.0)) as usize,
        eps: config.optional_number(&["layer_norm_eps"])?.unwrap_or(1e-6) as f32,
        qkv_bias: config.switch(&["qkv_bias"], true)?,
        gated: false,
    };
    let (patch, image) = (config.size(&["patch_size"])?, config.size(&["image_size"])?);
    let tokens = 1 + (image / patch) * (image / patch);
    let registers = config.optional_size(&["num_register_tokens"])?.unwrap_or(0);
    let memory = reserve(width * (3 * patch * patch + tokens + registers), budget)?;
    let projection = "embeddings.patch_embeddings.projection";
    let patches = weights.tensor(&format!("{projection}.weight"), &[width, 3, patch, patch])?;
    let bias = weights.tensor(&format!("{projection}.bias"), &[width])?;
    let card = NetworkCard { weights: recognised, id, parameters: weights.parameters(), ..NetworkCard::new("dinov2") };
    let shape = sizes.config(config.activation(&["hidden_act"], "gelu")?, Order::PreNorm, false);
    let source = weights.clone();
    let read = move |layer: usize| sizes.block(&source, &format!("encoder.layer.{layer}"), &NAMES);
    let blocks = Blocks::open(&shape, model.options.numbers, Box::new(read), budget)?;
    let family = Family {
        config: shape,
        names: SITES,
        blocks,
        patch,
        image,
        embed: patch_embedding(&patches, width, patch, Some(bias)),
        class: Some(weights.tensor("embeddings.cls_token", &[1, 1, width])?),
        registers: match registers {
            0 => Vec::new(),
            count => weights.tensor("embeddings.register_tokens", &[1, count, width])?,
        },
        positions: weights.tensor("embeddings.position_embeddings", &[1, tokens, width])?,
        class_position: true,
        interpolation: if registers > 0 { Interpolation::Antialiased } else { Interpolation::Plain },
        first_norm: None,
        last_norm: sizes.norm(&weights, "layernorm")?,
        pool: Pool::Class,
        output: None,
        output_name: "",
        card,
        memory,
    };
    if family.blocks.are_resident() {
        weights.refuse_unread(|name| name == "embeddings.mask_token" || name.starts_with("classifier."))?;
    }
    Ok(VisionTransformer::new(family))
}
