//! ResNets of Keras under the names of torchvision.
//!
//! Keras: `res3b_branch2a/kernel` is the first convolution of the second block of stage 3, whose first stage is 2;
//! `branch1` is the shortcut.

use std::collections::BTreeMap;

use etalon::error::Result;
use serde_json::{Map as Object, Value, json};

use super::Topology;
use crate::weights::change::Change;
use crate::weights::opened::insert;
use crate::weights::tensors::Stored;

/// The stages of a ResNet in Keras.
const STAGES: std::ops::RangeInclusive<usize> = 2..=5;

/// The shape of a ResNet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resnet {
    /// Blocks per stage.
    depths: Vec<usize>,
    /// Three convolutions per block instead of two.
    bottleneck: bool,
    /// Convolutions have a bias.
    bias: bool,
}

/// A layer within a stage.
struct Block<'a> {
    stage: usize,
    block: usize,
    branch: &'a str,
}

/// `3b_branch2a` is stage 3, block 1, branch 2a.
fn block(layer: &str) -> Option<Block<'_>> {
    let (place, branch) = layer.split_once("_branch")?;
    let (stage, letter) = place.split_at_checked(1)?;
    let stage = stage.parse().ok().filter(|stage| STAGES.contains(stage))?;
    match letter.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(Block { stage, block: usize::from(letter - b'a'), branch }),
        _ => None,
    }
}

/// The name of a layer in torchvision.
fn layer_name(layer: &str) -> Option<String> {
    match layer {
        "conv1" => return Some("conv1".to_string()),
        "bn_conv1" => return Some("bn1".to_string()),
        "fc1000" | "probs" | "predictions" => return Some("fc".to_string()),
        _ => {}
    }
    let (norm, place) = match layer.strip_prefix("bn") {
        Some(place) => (true, place),
        None => (false, layer.strip_prefix("res")?),
    };
    let Block { stage, block, branch } = block(place)?;
    let part = match branch {
        "1" => format!("downsample.{}", usize::from(norm)),
        "2a" | "2b" | "2c" => {
            let number = match branch {
                "2a" => 1,
                "2b" => 2,
                _ => 3,
            };
            format!("{}{number}", if norm { "bn" } else { "conv" })
        }
        _ => return None,
    };
    Some(format!("layer{}.{block}.{part}", stage - 1))
}

/// The name of a weight in torchvision.
fn name(weight: &str) -> Option<String> {
    let (layer, kind) = weight.rsplit_once('/')?;
    let kind = match kind {
        "kernel" | "gamma" => "weight",
        "bias" | "beta" => "bias",
        "moving_mean" => "running_mean",
        "moving_variance" => "running_var",
        _ => return None,
    };
    Some(format!("{}.{kind}", layer_name(layer)?))
}

impl Resnet {
    /// The ResNet whose weights have these names; `None` if it is another network.
    pub fn recognise<'a>(names: impl Iterator<Item = &'a str>) -> Option<Resnet> {
        let (mut depths, mut bottleneck, mut bias) = (vec![0; 4], false, false);
        for weight in names {
            name(weight)?;
            let (layer, kind) = weight.rsplit_once('/')?;
            bias |= layer == "conv1" && kind == "bias";
            if let Some(Block { stage, block, branch }) = layer.strip_prefix("res").and_then(block) {
                let depth = depths.get_mut(stage - STAGES.start())?;
                *depth = (*depth).max(block + 1);
                bottleneck |= branch == "2c";
            }
        }
        (!depths.contains(&0)).then_some(Resnet { depths, bottleneck, bias })
    }

    /// The tensors under the names of torchvision, in its order of dimensions.
    pub fn rename(&self, tensors: BTreeMap<String, Stored>) -> Result<BTreeMap<String, Stored>> {
        let mut renamed = BTreeMap::new();
        for (weight, stored) in tensors {
            let change = Change::kernel(stored.shape()).or_else(|| Change::transpose(stored.shape()));
            let stored = stored.changed(change.unwrap_or(Change::None));
            insert(&mut renamed, name(&weight).unwrap_or(weight), stored)?;
        }
        Ok(renamed)
    }

    /// The configuration.
    pub fn config(&self, topology: &Topology) -> Object<String, Value> {
        let epsilon = topology.layer("bn_conv1").and_then(|layer| layer.get("epsilon")?.as_f64());
        let strided = topology.layer("res3a_branch2a").and_then(|layer| layer.get("strides")?.get(0)?.as_u64());
        let config = json!({
            "model_type": "resnet",
            "depths": self.depths,
            "bottleneck": self.bottleneck,
            "stride_in_1x1": strided == Some(2),
            "bn_eps": epsilon.unwrap_or(1e-3),
            "conv_bias": self.bias,
            // Blue, green, red; the mean of ImageNet is subtracted, the values are not scaled.
            "preprocessing": "caffe",
        });
        match config {
            Value::Object(config) => config,
            _ => Object::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_torchvision() {
        for (weight, expected) in [
            ("conv1/kernel", "conv1.weight"),
            ("conv1/bias", "conv1.bias"),
            ("bn_conv1/moving_variance", "bn1.running_var"),
            ("res2a_branch1/kernel", "layer1.0.downsample.0.weight"),
            ("bn2a_branch1/gamma", "layer1.0.downsample.1.weight"),
            ("res4f_branch2c/bias", "layer3.5.conv3.bias"),
            ("bn5c_branch2b/beta", "layer4.2.bn2.bias"),
            ("bn3d_branch2a/moving_mean", "layer2.3.bn1.running_mean"),
            ("fc1000/kernel", "fc.weight"),
        ] {
            assert_eq!(name(weight).as_deref(), Some(expected));
        }
        for other in
            ["block_1_expand/kernel", "res6a_branch1/kernel", "res2_branch1/kernel", "resé", "conv1/gate", "conv1"]
        {
            assert_eq!(name(other), None, "{other}");
        }
    }

    #[test]
    fn other_networks_are_not_renamed() {
        let blocks = |letters: &str, branch: &str| -> Vec<String> {
            STAGES
                .flat_map(|stage| letters.chars().map(move |block| (stage, block)))
                .map(|(stage, block)| format!("res{stage}{block}_branch{branch}/kernel"))
                .collect()
        };
        let recognise = |names: &[String]| Resnet::recognise(names.iter().map(String::as_str));
        let names = blocks("ab", "2c");
        assert_eq!(recognise(&names), Some(Resnet { depths: vec![2; 4], bottleneck: true, bias: false }));
        assert_eq!(recognise(&[names.clone(), vec!["conv1/bias".into()]].concat()).map(|found| found.bias), Some(true));
        assert_eq!(recognise(&blocks("a", "2b")).map(|found| found.bottleneck), Some(false));
        assert_eq!(recognise(&[names, vec!["squeeze/kernel".into()]].concat()), None);
        assert_eq!(recognise(&["conv1/kernel".to_string()]), None);
    }
}
