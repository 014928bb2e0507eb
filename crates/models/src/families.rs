//! The families of networks and their sites, without a network.

use etalon::network::{RowKind, Site};
use etalon_kernel::neural::Activation;

use crate::transformer::{Order, Points, SiteNames, TransformerConfig};
use crate::{language, vision};

/// A group of families with the same sites. Widths are 0: they depend on the network.
#[derive(Clone, Debug)]
pub struct FamilyCard {
    /// Their names; `clip:text` is the network of texts of CLIP.
    pub names: &'static [&'static str],
    /// What they are run on, and for what.
    pub kind: &'static str,
    /// Their sites, with N for a number.
    pub sites: Vec<Site>,
}

/// A distance of images that is made from a network.
#[derive(Clone, Copy, Debug)]
pub struct MeasureCard {
    /// The name, as `similarity --measure` takes it.
    pub name: &'static str,
    /// The network whose sites it reads.
    pub network: &'static str,
    /// What it reads.
    pub sites: &'static str,
}

/// The distances of images.
pub const MEASURES: [MeasureCard; 4] = [
    MeasureCard {
        name: "lpips",
        network: "alexnet or vgg16, with heads of LPIPS",
        sites: "features.1, 4, 7, 9 and 11 of AlexNet; features.3, 8, 15, 22 and 29 of VGG16",
    },
    MeasureCard {
        name: "dists",
        network: "vgg16, with alpha and beta of DISTS",
        sites: "the image, and features.3, 8, 15, 22, 29 with L2 pooling instead of maxima",
    },
    MeasureCard {
        name: "dreamsim",
        network: "DINO, CLIP and OpenCLIP (vit), with the low-rank changes of DreamSim",
        sites: "the class token of DINO before its last norm, the projections of the class tokens of CLIP and OpenCLIP",
    },
    MeasureCard { name: "cosine", network: "any network of images", sites: "any one site" },
];

/// Sites of networks of convolutions; those that end in `^` are inputs of an activation function.
const RESNET: &[&str] = &[
    "conv1",
    "bn1^",
    "relu",
    "maxpool",
    "layerN.N.conv1",
    "layerN.N.bn1^",
    "layerN.N.act1",
    "layerN.N.conv2",
    "layerN.N.bn2^",
    "layerN.N.act2",
    "layerN.N.conv3",
    "layerN.N.bn3",
    "layerN.N.sum^",
    "layerN.N",
    "layerN.N.downsample.N",
    "avgpool",
    "fc",
];

const EFFICIENTNET: &[&str] = &[
    "_conv_stem",
    "_bn0^",
    "_swish",
    "_blocks.N._expand_conv",
    "_blocks.N._bn0^",
    "_blocks.N._swish",
    "_blocks.N._depthwise_conv",
    "_blocks.N._bn1^",
    "_blocks.N._swish#1",
    "_blocks.N._project_conv",
    "_blocks.N._bn2",
    "_blocks.N",
    "_conv_head",
    "_bn1^",
    "_swish#1",
    "_avg_pooling",
    "_fc",
];

/// Convolutions are inputs of activation functions; poolings are not.
const FEATURES: &[&str] = &["features.N"];

/// All families.
pub fn family_cards() -> Vec<FamilyCard> {
    let mut cards = Vec::new();
    for (names, order, sites) in language::FAMILIES {
        let mut sites = of_transformer(order, sites, RowKind::Token);
        let sample = |name: &str| Site::new(name, 0, RowKind::Sample, 0);
        let kind = match names {
            ["bert"] => {
                sites.extend([sample("pooled"), sample("sentence_embedding")]);
                "encoder of texts"
            }
            ["clip:text"] => {
                sites.extend([sample("pooled"), sample("text_projection")]);
                "encoder of texts"
            }
            ["gpt2"] => {
                sites.extend(["hook_embed", "hook_pos_embed"].map(|name| Site::new(name, 0, RowKind::Token, 0)));
                "language model"
            }
            _ => {
                // Before the first block only.
                sites.insert(0, Site::new("hook_embed", 0, RowKind::Token, 0));
                "language models"
            }
        };
        cards.push(FamilyCard { names, kind, sites });
    }
    for (names, sites) in vision::TRANSFORMERS {
        let mut sites = of_transformer(Order::PreNorm, sites, RowKind::Patch);
        sites.push(Site::new("pooled", 0, RowKind::Sample, 0));
        match names {
            ["clip"] => sites.push(Site::new("visual_projection", 0, RowKind::Sample, 0)),
            ["vit (timm)"] => sites.push(Site::new("head", 0, RowKind::Sample, 0)),
            _ => {}
        }
        cards.push(FamilyCard { names, kind: "vision transformer", sites });
    }
    let convolutions: [(&[&str], &[&str]); 3] =
        [(&["resnet"], RESNET), (&["efficientnet_lite"], EFFICIENTNET), (&["vgg16", "alexnet"], FEATURES)];
    for (names, sites) in convolutions {
        let site = |name: &&str| match name.strip_suffix('^') {
            Some(name) => Site::new(name, 0, RowKind::Position, 0).before_activation(),
            None => Site::new(*name, 0, RowKind::Position, 0),
        };
        cards.push(FamilyCard { names, kind: "network of convolutions", sites: sites.iter().map(site).collect() });
    }
    cards
}

/// The sites of one block, and of the last norm.
fn of_transformer(order: Order, names: SiteNames, rows: RowKind) -> Vec<Site> {
    let config = TransformerConfig {
        width: 0,
        layers: 1,
        hidden: 0,
        attention: Vec::new(),
        ropes: Vec::new(),
        gated: false,
        activation: Activation::Gelu,
        order,
    };
    let general =
        |name: &str| name.split('.').map(|part| if part == "0" { "N" } else { part }).collect::<Vec<_>>().join(".");
    let site = |site: &Site| Site {
        name: general(&site.name),
        aliases: site.aliases.iter().map(|alias| general(alias)).collect(),
        ..site.clone()
    };
    Points::new(&config, names, rows).sites().iter().map(site).collect()
}
