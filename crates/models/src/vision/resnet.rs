//! ResNets with the names of torchvision and timm: 18, 34, 50, 101 and 152 layers, wide ones, and the first version whose
//! stride is in the 1 × 1 convolution.

use etalon::context::Budget;
use etalon::error::Result;
use etalon::network::NetworkCard;
use etalon_kernel::neural::Clip;

use super::builder::{Builder, card};
use super::convnet::{ConvNet, Layer, Shortcut};
use super::unit::{Unit, UnitSites};
use crate::config::Config;
use crate::layer::{Pool, Slide};
use crate::weights::{Model, Weights};

/// Whether tensors have the names of a ResNet.
pub(super) fn knows(weights: &Weights) -> bool {
    weights.has("conv1.weight") && weights.has("layer1.0.conv1.weight")
}

/// Reads a ResNet. Depths and widths come from the tensors; what they do not show, from the configuration: `bn_eps` (1e-5
/// if it is missing), `stride_in_1x1` (no), `image_size` (224).
///
/// Sites: the paths of torchvision, with the activations of a block as `act1`, `act2` (timm) or `relu`, `relu#1`
/// (torchvision, whose block calls one module several times); `sum` is the sum with the shortcut before its activation.
pub(super) fn open(model: &Model, budget: &Budget) -> Result<ConvNet> {
    let config = Config(&model.config);
    let eps = config.optional_number(&["bn_eps"])?.unwrap_or(1e-5) as f32;
    let early = config.switch(&["stride_in_1x1"], false)?;
    let image = config.optional_size(&["image_size"])?.unwrap_or(224);
    let mut builder = Builder::new(&model.weights, eps, budget)?;
    let mut width = stem(&mut builder)?;
    let mut layers = 0;
    for group in 1.. {
        let blocks = (0..).take_while(|block| model.weights.has(&format!("layer{group}.{block}.conv1.weight"))).count();
        if blocks == 0 {
            break;
        }
        for block in 0..blocks {
            let last = (block + 1 == blocks).then(|| format!("layer{group}"));
            let stride = if group > 1 && block == 0 { 2 } else { 1 };
            width = residual(&mut builder, &format!("layer{group}.{block}"), last, width, stride, early)?;
        }
        layers += blocks;
    }
    builder.head(["avgpool", "global_pool"], "fc", width)?;
    // The family says how images are prepared: blue first and unscaled, for weights of Keras.
    let family = if config.text(&["preprocessing"]) == Some("caffe") { "resnet-keras" } else { "resnet" };
    let card = NetworkCard { layers, width, context: image, ..card(family, model)? };
    builder.finish(card, |name| name.ends_with(".num_batches_tracked"))
}

/// The first convolution and the pooling; returns the number of channels.
fn stem(builder: &mut Builder<'_>) -> Result<usize> {
    let [width, size] = [0, 2].map(|axis| builder.size("conv1.weight", axis));
    let sites = UnitSites {
        conv: Some(builder.map("conv1", width)),
        norm: Some(builder.map_before("bn1", width)),
        sum: None,
        output: Some(builder.map("relu", width)),
    };
    sites.output.into_iter().for_each(|site| builder.alias(site, "act1"));
    let unit = Unit {
        kernel: builder.conv("conv1", Slide::padded(size, 2, size / 2), [3, width])?,
        norm: Some(builder.norm("bn1", width)?),
        clip: Clip::RELU,
        sites,
    };
    let pool = Layer::Pool(Pool::Max(Slide::padded(3, 2, 1)), builder.map("maxpool", width));
    builder.stage(vec![Layer::Unit(unit), pool], Shortcut::None);
    Ok(width)
}

/// A block; returns its number of channels.
fn residual(
    builder: &mut Builder<'_>,
    path: &str,
    last: Option<String>,
    from: usize,
    stride: usize,
    early: bool,
) -> Result<usize> {
    let count = if builder.weights.has(&format!("{path}.conv3.weight")) { 3 } else { 2 };
    // The stride of a basic block is in its first convolution, that of a bottleneck in the 3 × 3 one.
    let strided = if count == 2 || early { 1 } else { 2 };
    let (mut layers, mut width) = (Vec::new(), from);
    for index in 1..=count {
        let name = format!("{path}.conv{index}");
        let [to, size] = [0, 2].map(|axis| builder.size(&format!("{name}.weight"), axis));
        let slide = Slide::padded(size, if index == strided { stride } else { 1 }, size / 2);
        let sites = sites(builder, path, index, index == count, to);
        layers.push(Layer::Unit(Unit {
            kernel: builder.conv(&name, slide, [width, to])?,
            norm: Some(builder.norm(&format!("{path}.bn{index}"), to)?),
            clip: Clip::RELU,
            sites,
        }));
        if let (Some(last), Some(site)) = (&last, sites.output.filter(|_| index == count)) {
            builder.alias(site, last);
        }
        width = to;
    }
    let shortcut = if builder.weights.has(&format!("{path}.downsample.0.weight")) {
        let sites = UnitSites {
            conv: Some(builder.map(format!("{path}.downsample.0"), width)),
            norm: Some(builder.map(format!("{path}.downsample.1"), width)),
            ..UnitSites::default()
        };
        sites.norm.into_iter().for_each(|site| builder.alias(site, format!("{path}.downsample")));
        Shortcut::Unit(Box::new(Unit {
            kernel: builder.conv(&format!("{path}.downsample.0"), Slide::padded(1, stride, 0), [from, width])?,
            norm: Some(builder.norm(&format!("{path}.downsample.1"), width)?),
            clip: Clip::NONE,
            sites,
        }))
    } else {
        Shortcut::Input
    };
    builder.stage(layers, shortcut);
    Ok(width)
}

/// The sites of a convolution of a block.
fn sites(builder: &mut Builder<'_>, path: &str, index: usize, last: bool, width: usize) -> UnitSites {
    let call = if index == 1 { String::new() } else { format!("#{}", index - 1) };
    let conv = Some(builder.map(format!("{path}.conv{index}"), width));
    let norm = format!("{path}.bn{index}");
    let activation = [format!("{path}.act{index}"), format!("{path}.relu{call}")];
    let (norm, sum, output) = if last {
        let norm = builder.map(norm, width);
        let sum = builder.map_before(format!("{path}.sum"), width);
        let output = builder.map(path, width);
        activation.into_iter().for_each(|name| builder.alias(output, name));
        (norm, Some(sum), output)
    } else {
        let [name, alias] = activation;
        let norm = builder.map_before(norm, width);
        let output = builder.map(name, width);
        builder.alias(output, alias);
        (norm, None, output)
    };
    UnitSites { conv, norm: Some(norm), sum, output: Some(output) }
}
