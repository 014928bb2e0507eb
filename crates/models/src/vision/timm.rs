//! Vision transformers of timm: plain, in the style of CLIP (a norm after the positions), and DINOv2 with layer scale and
//! registers.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::Result;
use etalon::network::NetworkCard;
use serde_json::Value;

use super::positions::Interpolation;
use super::vit::{Family, Pool, VisionTransformer, patch_embedding, reserve};
use crate::config::Config;
use crate::layer::Linear;
use crate::transformer::{Blocks, EncoderNames, EncoderSizes, Order, Point, SiteNames};
use crate::weights::{Model, Weights};

const NAMES: EncoderNames = EncoderNames {
    qkv: &["attn.qkv"],
    out: "attn.proj",
    norms: ["norm1", "norm2"],
    mlp: ["mlp.fc1", "mlp.fc2"],
    scales: None,
};

pub(super) const SITES: SiteNames = SiteNames {
    block: "blocks.{}",
    modules: &[
        (Point::AttentionIn, "norm1"),
        (Point::AttentionOut, "attn"),
        (Point::AttentionOut, "attn.proj"),
        (Point::MlpIn, "norm2"),
        (Point::MlpPre, "mlp.fc1"),
        (Point::MlpPost, "mlp.act"),
        (Point::MlpOut, "mlp"),
        (Point::MlpOut, "mlp.fc2"),
        (Point::ResidualPost, ""),
    ],
    last_norm: "norm",
};

/// Reads a vision transformer with timm's names. Sizes come from the tensors; what they do not show, from the configuration:
/// `num_heads` (64 values per head if it is missing), `norm_eps`, `act`, `global_pool`.
pub(super) fn open(model: Model, budget: &Budget) -> Result<VisionTransformer> {
    let id = model.id()?;
    let Model { config, weights, recognised, .. } = model;
    let (config, weights) = (Config(&config), Arc::new(weights));
    let shape = |name: &str| weights.shape(name).unwrap_or_default();
    let embed = shape("patch_embed.proj.weight");
    let (width, patch) = (embed.first().copied().unwrap_or(0), embed.last().copied().unwrap_or(0));
    let layers = (0..).take_while(|layer| weights.has(&format!("blocks.{layer}.norm1.weight"))).count();
    let first_norm = weights.has("norm_pre.weight");
    let sizes = EncoderSizes {
        width,
        layers,
        heads: config.optional_size(&["num_heads"])?.unwrap_or((width / 64).max(1)),
        hidden: shape("blocks.0.mlp.fc1.weight").first().copied().unwrap_or(0),
        eps: config.optional_number(&["norm_eps"])?.unwrap_or(if first_norm { 1e-5 } else { 1e-6 }) as f32,
        qkv_bias: weights.has("blocks.0.attn.qkv.bias"),
        gated: false,
    };
    let activation = activation(&config, first_norm)?;
    let class = weights.has("cls_token").then(|| weights.tensor("cls_token", &[1, 1, width])).transpose()?;
    let registers = shape("reg_token").get(1).copied().unwrap_or(0);
    let tokens = shape("pos_embed").get(1).copied().unwrap_or(0);
    let side = ((tokens as f64).sqrt().floor()) as usize;
    let class_position = class.is_some() && side * side != tokens;
    let classes = shape("head.weight").first().copied();
    let memory = reserve(width * (3 * patch * patch + tokens + registers + classes.unwrap_or(0)), budget)?;
    let bias = weights.optional("patch_embed.proj.bias", &[width])?;
    let output = classes.map(|classes| linear(&weights, "head", width, classes)).transpose()?;
    let names =
        EncoderNames { scales: weights.has("blocks.0.ls1.gamma").then_some(["ls1.gamma", "ls2.gamma"]), ..NAMES };
    let pool = config.text(&["global_pool"]);
    let card = NetworkCard { weights: recognised, id, parameters: weights.parameters(), ..NetworkCard::new("vit") };
    let shape = sizes.config(activation, Order::PreNorm, false);
    let source = weights.clone();
    let read = move |layer: usize| sizes.block(&source, &format!("blocks.{layer}"), &names);
    let blocks = Blocks::open(&shape, model.options.numbers, Box::new(read), budget)?;
    let family = Family {
        config: shape,
        names: SITES,
        blocks,
        patch,
        image: side * patch,
        embed: patch_embedding(
            &weights.tensor("patch_embed.proj.weight", &[width, 3, patch, patch])?,
            width,
            patch,
            bias,
        ),
        registers: weights.optional("reg_token", &[1, registers, width])?.unwrap_or_default(),
        positions: weights.tensor("pos_embed", &[1, tokens, width])?,
        class_position,
        interpolation: Interpolation::Antialiased,
        first_norm: first_norm.then(|| sizes.norm(&weights, "norm_pre")).transpose()?,
        last_norm: sizes.norm(&weights, "norm")?,
        pool: if pool == Some("avg") || class.is_none() { Pool::Patches } else { Pool::Class },
        class,
        output,
        output_name: "head",
        card,
        memory,
    };
    if family.blocks.are_resident() {
        weights.refuse_unread(|_| false)?;
    }
    Ok(VisionTransformer::new(family))
}

fn activation(config: &Config<'_>, clip: bool) -> Result<etalon_kernel::neural::Activation> {
    // Written as a name, or as a name followed by an explanation.
    let name = config.text(&["act_layer", "act"]).and_then(|text| text.split_whitespace().next());
    let mut map = serde_json::Map::new();
    map.extend(name.map(|name| ("act".to_string(), Value::from(name))));
    Config(&map).activation(&["act"], if clip { "quick_gelu" } else { "gelu" })
}

fn linear(weights: &Weights, name: &str, from: usize, to: usize) -> Result<Linear> {
    let weight = weights.tensor(&format!("{name}.weight"), &[to, from])?;
    let bias = weights.optional(&format!("{name}.bias"), &[to])?;
    Ok(Linear::stacked(from, &[&weight], bias))
}
