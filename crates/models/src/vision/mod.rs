//! Networks of images.

mod adapter;
mod builder;
mod clip;
mod convnet;
mod dinov2;
mod dists;
mod dreamsim;
mod efficientnet;
mod features;
mod layer_types;
mod lpips;
mod positions;
mod resnet;
mod timm;
mod unit;
mod vit;

use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InputError, Result};
use etalon::network::Network;

use crate::config::Config;
use crate::layer::WeightNumber;
use crate::transformer::SiteNames;
use crate::weights::Model;
use features::Pooling;

pub(crate) use clip::{MODULES as CLIP_MODULES, NAMES as CLIP_NAMES, sizes as clip_sizes};
pub use convnet::ConvNet;
pub use dists::Dists;
pub use dreamsim::DreamSim;
pub use features::Stack;
pub use lpips::Lpips;
pub use vit::VisionTransformer;

/// The families, by `model_type` or by what their tensors are called.
pub(crate) const FAMILIES: &[&str] =
    &["clip", "dinov2", "dinov2_with_registers", "vit (timm)", "resnet", "efficientnet_lite", "vgg16", "alexnet"];

/// The sites of the vision transformers: their names, and paths of modules.
pub(crate) const TRANSFORMERS: [(&[&str], SiteNames); 3] =
    [(&["clip"], clip::SITES), (&["dinov2", "dinov2_with_registers"], dinov2::SITES), (&["vit (timm)"], timm::SITES)];

/// Opens a network of images; `None` if the model is no known one. Files of torchvision and timm have no configuration:
/// the names of their tensors tell the family.
pub(crate) fn open(model: Model, budget: &Budget) -> Result<Option<Arc<dyn Network>>> {
    let kind = Config(&model.config).text(&["model_type"]).unwrap_or_default().to_string();
    Ok(Some(match kind.as_str() {
        "clip" | "clip_vision_model" => Arc::new(clip::open(model, budget)?),
        "dinov2" | "dinov2_with_registers" => Arc::new(dinov2::open(model, budget)?),
        _ if model.weights.has("patch_embed.proj.weight") => Arc::new(timm::open(model, budget)?),
        _ if resnet::knows(&model.weights) => Arc::new(resnet::open(convolutions(&model)?, budget)?),
        _ if efficientnet::knows(&model.weights) => Arc::new(efficientnet::open(convolutions(&model)?, budget)?),
        _ => match Stack::of(&model.weights) {
            Some(stack) => Arc::new(stack.open(convolutions(&model)?, Pooling::Max, budget)?),
            None => return Ok(None),
        },
    }))
}

/// Refuses weights of fewer bits: they exist for linear maps only.
fn convolutions(model: &Model) -> Result<&Model> {
    match model.options.numbers {
        WeightNumber::F32 => Ok(model),
        other => Err(InputError::new("a network of convolutions cannot use weights of fewer bits")
            .expected("f32")
            .found(other.name())
            .into()),
    }
}
