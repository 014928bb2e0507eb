//! EfficientNet-Lite 0 to 4 with the names of the package `efficientnet-lite-pytorch`.

use etalon::context::Budget;
use etalon::error::{InputError, Result};
use etalon::network::NetworkCard;
use etalon_kernel::neural::Clip;
use serde_json::Value;

use super::builder::{Builder, card};
use super::convnet::{ConvNet, Layer, Shortcut};
use super::unit::{Unit, UnitSites};
use crate::config::Config;
use crate::layer::Slide;
use crate::weights::{Model, Weights};

/// A published network: its name, the channels of its third group and its blocks by which it is recognised, the side of
/// its images.
struct Variant {
    name: &'static str,
    channels: usize,
    repeats: [usize; 7],
    image: usize,
}

const VARIANTS: [Variant; 5] = [
    Variant { name: "lite0", channels: 40, repeats: [1, 2, 2, 3, 3, 4, 1], image: 224 },
    Variant { name: "lite1", channels: 40, repeats: [1, 3, 3, 4, 4, 5, 1], image: 240 },
    Variant { name: "lite2", channels: 48, repeats: [1, 3, 3, 4, 4, 5, 1], image: 260 },
    Variant { name: "lite3", channels: 48, repeats: [1, 3, 3, 5, 5, 6, 1], image: 280 },
    Variant { name: "lite4", channels: 56, repeats: [1, 4, 4, 6, 6, 8, 1], image: 300 },
];

/// The strides of the groups of blocks; only the first block of a group has it.
const STRIDES: [usize; 7] = [1, 2, 2, 2, 1, 2, 1];

/// Whether tensors have the names of an EfficientNet-Lite.
pub(super) fn knows(weights: &Weights) -> bool {
    weights.has("_conv_stem.weight") && weights.has("_blocks.0._depthwise_conv.weight")
}

/// Reads a network. Widths come from the tensors. Strides and the image size, which fixes the padding, are those of the
/// published network with these widths; a configuration may state others: `blocks`, a list of groups with `num_repeat` and `stride`;
/// in `global` or at the top, `image_size` and `batch_norm_epsilon`.
///
/// Sites: the paths of the package. Its module `_swish`, which is ReLU6 here, is called several times per block: the
/// second call is `_swish#1`.
pub(super) fn open(model: &Model, budget: &Budget) -> Result<ConvNet> {
    let config = Config(&model.config);
    let global = config.table("global").unwrap_or(config);
    let blocks =
        (0..).take_while(|block| model.weights.has(&format!("{}.weight", path(*block, "_project_conv")))).count();
    let (strides, image) = geometry(config, global, &model.weights, blocks)?;
    let eps = global.optional_number(&["batch_norm_epsilon"])?.unwrap_or(1e-3) as f32;
    let mut builder = Builder::new(&model.weights, eps, budget)?;
    let mut side = image;
    let mut width = builder.size("_conv_stem.weight", 0);
    let sites = UnitSites {
        conv: Some(builder.map("_conv_stem", width)),
        norm: Some(builder.map_before("_bn0", width)),
        sum: None,
        output: Some(builder.map("_swish", width)),
    };
    let kernel = builder.conv("_conv_stem", Slide::same(3, 2, side), [3, width])?;
    let norm = Some(builder.norm("_bn0", width)?);
    builder.stage(vec![Layer::Unit(Unit { kernel, norm, clip: Clip::RELU6, sites })], Shortcut::None);
    side = side.div_ceil(2);
    for (block, stride) in strides.into_iter().enumerate() {
        width = inverted(&mut builder, block, width, stride, side)?;
        side = side.div_ceil(stride);
    }
    let head = builder.size("_conv_head.weight", 0);
    let sites = UnitSites {
        conv: Some(builder.map("_conv_head", head)),
        norm: Some(builder.map_before("_bn1", head)),
        sum: None,
        output: Some(builder.map("_swish#1", head)),
    };
    let kernel = builder.conv("_conv_head", Slide::padded(1, 1, 0), [width, head])?;
    let norm = Some(builder.norm("_bn1", head)?);
    builder.stage(vec![Layer::Unit(Unit { kernel, norm, clip: Clip::RELU6, sites })], Shortcut::None);
    builder.head(["_avg_pooling", "_dropout"], "_fc", head)?;
    let card = NetworkCard { layers: blocks, width: head, context: image, ..card("efficientnet_lite", model)? };
    builder.finish(card, |name| name.ends_with(".num_batches_tracked"))
}

fn path(block: usize, module: &str) -> String {
    format!("_blocks.{block}.{module}")
}

/// The stride of every block, and the side of the images.
fn geometry(config: Config<'_>, global: Config<'_>, weights: &Weights, blocks: usize) -> Result<(Vec<usize>, usize)> {
    let stated = config.value(&["blocks"]).and_then(Value::as_array);
    let image = global.optional_size(&["image_size"])?;
    if let Some(groups) = stated {
        let groups = groups.iter().filter_map(Value::as_object).map(|group| {
            let group = Config(group);
            Ok((group.size(&["num_repeat"])?, group.size(&["stride"])?))
        });
        let groups = groups.collect::<Result<Vec<_>>>()?;
        let count = groups.iter().fold(0usize, |sum, (repeats, _)| sum.saturating_add(*repeats));
        if count != blocks {
            return Err(InputError::new("configuration and weights differ in blocks")
                .expected(format!("{count} blocks, as configured"))
                .found(format!("{blocks} blocks"))
                .into());
        }
        let strides = groups.into_iter().flat_map(|(repeats, stride)| in_group(repeats, stride));
        return Ok((strides.collect(), global.size(&["image_size"])?));
    }
    let channels = |block: usize| {
        let shape = weights.shape(&format!("{}.weight", path(block, "_project_conv")));
        shape.and_then(|shape| shape.first()).copied().unwrap_or(0)
    };
    let is = |variant: &&Variant| {
        let third = variant.repeats[..2].iter().sum();
        variant.repeats.iter().sum::<usize>() == blocks && channels(third) == variant.channels
    };
    let Some(variant) = VARIANTS.iter().find(is) else {
        let known: Vec<&str> = VARIANTS.iter().map(|variant| variant.name).collect();
        return Err(InputError::new("the network is no published EfficientNet-Lite")
            .expected(known.join(", "))
            .found(format!("{blocks} blocks"))
            .advice("state `blocks` and `image_size` in a file architecture.json beside the weights")
            .into());
    };
    let strides = variant.repeats.into_iter().zip(STRIDES).flat_map(|(repeats, stride)| in_group(repeats, stride));
    Ok((strides.collect(), image.unwrap_or(variant.image)))
}

fn in_group(repeats: usize, stride: usize) -> impl Iterator<Item = usize> {
    std::iter::once(stride).chain(std::iter::repeat_n(1, repeats.saturating_sub(1)))
}

/// An inverted bottleneck; returns its number of channels. The side of its input fixes the padding.
fn inverted(builder: &mut Builder<'_>, block: usize, from: usize, stride: usize, side: usize) -> Result<usize> {
    let mut layers = Vec::new();
    let mut width = from;
    let mut calls = ["_swish", "_swish#1"].into_iter();
    let mut sites = |builder: &mut Builder<'_>, conv: &str, norm: &str, width: usize| UnitSites {
        conv: Some(builder.map(path(block, conv), width)),
        norm: Some(builder.map_before(path(block, norm), width)),
        sum: None,
        output: calls.next().map(|call| builder.map(path(block, call), width)),
    };
    let expand = path(block, "_expand_conv");
    if builder.weights.has(&format!("{expand}.weight")) {
        width = builder.size(&format!("{expand}.weight"), 0);
        layers.push(Layer::Unit(Unit {
            kernel: builder.conv(&expand, Slide::padded(1, 1, 0), [from, width])?,
            norm: Some(builder.norm(&path(block, "_bn0"), width)?),
            clip: Clip::RELU6,
            sites: sites(builder, "_expand_conv", "_bn0", width),
        }));
    }
    let depthwise = path(block, "_depthwise_conv");
    let size = builder.size(&format!("{depthwise}.weight"), 2);
    layers.push(Layer::Unit(Unit {
        kernel: builder.depthwise(&depthwise, Slide::same(size, stride, side), width)?,
        norm: Some(builder.norm(&path(block, "_bn1"), width)?),
        clip: Clip::RELU6,
        sites: sites(builder, "_depthwise_conv", "_bn1", width),
    }));
    let project = path(block, "_project_conv");
    let to = builder.size(&format!("{project}.weight"), 0);
    layers.push(Layer::Unit(Unit {
        kernel: builder.conv(&project, Slide::padded(1, 1, 0), [width, to])?,
        norm: Some(builder.norm(&path(block, "_bn2"), to)?),
        clip: Clip::NONE,
        sites: UnitSites {
            conv: Some(builder.map(project, to)),
            norm: Some(builder.map(path(block, "_bn2"), to)),
            sum: None,
            output: Some(builder.map(format!("_blocks.{block}"), to)),
        },
    }));
    let shortcut = if stride == 1 && from == to { Shortcut::Input } else { Shortcut::None };
    builder.stage(layers, shortcut);
    Ok(to)
}
