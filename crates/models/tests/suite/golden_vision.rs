//! Networks of convolutions, and the distances of images that are made from them.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::network::{Batch, Capture, Edit, Network, Patch, SiteId, Tap, Untouched, find_sites};
use etalon_models::image::Preprocess;
use etalon_models::vision::{Dists, Lpips};
use etalon_models::weights::Model;
use etalon_models::{Tower, open};

use crate::{Expected, assert_close, at_site, channels_last, context, floats, golden};

struct Golden {
    network: Arc<dyn Network>,
    values: Vec<f32>,
    height: usize,
    width: usize,
    expected: Expected,
}

impl Golden {
    fn open(name: &str) -> Golden {
        let directory = golden("networks").join(name);
        let (values, shape) = floats(&directory.join("pixel_values.npy"));
        Golden {
            network: open(&directory, Tower::Main, &Budget::new(1 << 30)).unwrap(),
            values: channels_last(&values, &shape),
            height: shape[2],
            width: shape[3],
            expected: Expected::of(name),
        }
    }

    fn batch(&self) -> Batch<'_> {
        Batch::Images { values: &self.values, height: self.height, width: self.width }
    }

    fn at(&self, site: &str) -> Vec<f32> {
        at_site(&*self.network, self.batch(), site, 2)
    }

    /// A map as it is expected, with the channels last.
    fn map(&self, name: &str) -> Vec<f32> {
        let tensor = self.expected.get(name);
        match tensor.shape.len() {
            4 => channels_last(&tensor.values, &tensor.shape),
            _ => tensor.values.clone(),
        }
    }

    /// Compares sites, by the names of the expected values.
    fn check(&self, sites: &[(&str, &str)]) {
        for (name, site) in sites {
            assert_close(name, &self.at(site), &self.map(name));
        }
    }

    /// Compares the mean of every channel over positions, and the first channels.
    fn check_parts(&self, site: &str, mean: &str, first: &str) {
        let found = self.at(site);
        let means = self.map(mean);
        let rows = found.len() / means.len();
        let average = |channel| found.iter().skip(channel).step_by(means.len()).sum::<f32>() / rows as f32;
        assert_close(mean, &(0..means.len()).map(average).collect::<Vec<f32>>(), &means);
        let channels = self.expected.get(first).shape[1];
        let part: Vec<f32> = found.chunks_exact(means.len()).flat_map(|row| &row[..channels]).copied().collect();
        assert_close(first, &part, &self.map(first));
    }

    /// The result of a run with a tap.
    fn run(&self, tap: &mut (dyn Tap + Send), threads: usize) -> Vec<f32> {
        run(&*self.network, self.batch(), tap, threads)
    }
}

fn run(network: &dyn Network, batch: Batch<'_>, tap: &mut (dyn Tap + Send), threads: usize) -> Vec<f32> {
    let context = context(threads);
    let mut state = network.begin(&batch, &context).unwrap();
    context.install(|| network.run(0..network.stages(), &mut state, tap, &context)).unwrap();
    state.values
}

#[test]
fn resnet() {
    let golden = Golden::open("resnet");
    golden.check(&[
        ("layer1", "layer1"),
        ("layer2.0.conv2_pre_bn", "layer2.0.conv2"),
        ("layer2.0.bn3_pre_sum", "layer2.0.bn3"),
        ("layer2.0.residual_sum_pre_relu", "layer2.0.sum"),
        ("layer2", "layer2.1"),
        ("layer3", "layer3"),
        ("layer4", "layer4.0.act3"),
        ("pooled", "avgpool"),
        ("logits", "fc"),
    ]);
    golden.check_parts("bn1", "stem_bn1.channel_mean", "stem_bn1.first_3_channels");
    let maxpool: Vec<f32> = golden.at("maxpool").chunks_exact(64).flat_map(|row| &row[..3]).copied().collect();
    assert_close("maxpool", &maxpool, &golden.map("maxpool.first_3_channels"));
    for layer in ["layer1", "layer2", "layer3", "layer4"] {
        let (mean, map) = (golden.map(&format!("{layer}.channel_mean")), golden.at(layer));
        let rows = (map.len() / mean.len()) as f32;
        let found = (0..mean.len()).map(|channel| map.iter().skip(channel).step_by(mean.len()).sum::<f32>() / rows);
        assert_close(layer, &found.collect::<Vec<f32>>(), &mean);
    }
    golden.expected.finish();
}

#[test]
fn efficientnet_lite() {
    let golden = Golden::open("efficientnet_lite");
    golden.check(&[
        ("stem_pre_relu6", "_bn0"),
        ("head_pre_relu6", "_bn1"),
        ("pooled", "_avg_pooling"),
        ("logits", "_fc"),
    ]);
    for block in 0..8 {
        golden.check(&[(&format!("block.{block}"), &format!("_blocks.{block}"))]);
    }
    golden.expected.finish();
}

#[test]
fn feature_stacks() {
    let golden = Golden::open("alexnet_features");
    let taps = ["features.1", "features.4", "features.7", "features.9", "features.11"];
    for (index, site) in taps.into_iter().enumerate() {
        golden.check(&[(&format!("relu{}", index + 1), site)]);
    }
    golden.check(&[("features", "features.12")]);
    golden.expected.finish();
    let golden = Golden::open("vgg16_features");
    golden.check(&[
        ("relu2", "features.8"),
        ("relu3", "features.15"),
        ("relu4", "features.22"),
        ("relu5", "features.29"),
    ]);
    golden.check_parts("features.3", "relu1.channel_mean", "relu1.first_channel");
    golden.expected.finish();
}

#[test]
fn threads_batches_and_readers_do_not_change_bits() {
    for name in ["resnet", "efficientnet_lite", "alexnet_features", "vgg16_features"] {
        let golden = Golden::open(name);
        let alone = golden.run(&mut Untouched, 1);
        let sites: Vec<SiteId> = (0..golden.network.sites().len() as u32).map(SiteId).collect();
        for threads in [1, 2, 7] {
            // Every site separately, because each changes what is computed at once.
            for site in sites.iter().map(std::slice::from_ref).chain([&sites[..]]) {
                let mut capture = Capture::new(site);
                assert_eq!(golden.run(&mut capture, threads), alone, "{name} {site:?}");
                for (site, layout, rows) in &capture.seen {
                    let site = &golden.network.sites()[site.0 as usize];
                    assert_eq!((site.width, layout.values()), (layout.width, rows.len()), "{name} {}", site.name);
                }
            }
            // The image as the second of three.
            let values =
                [vec![0.5; golden.values.len()], golden.values.clone(), vec![-1.0; golden.values.len()]].concat();
            let batch = Batch::Images { values: &values, height: golden.height, width: golden.width };
            let three = run(&*golden.network, batch, &mut Untouched, threads);
            assert_eq!(three[alone.len()..2 * alone.len()], alone, "{name}");
        }
    }
}

#[test]
fn patches_and_continued_runs() {
    let golden = Golden::open("resnet");
    let id = |site: &str| find_sites(golden.network.sites(), site).unwrap()[0];
    let all = golden.run(&mut Untouched, 2);
    // A ReLU of the sum is what the block returns.
    let mut sum = golden.at("layer2.0.sum");
    sum.iter_mut().for_each(|value| *value = value.max(0.0));
    assert_eq!(sum, golden.at("layer2.0"));
    // Replacing the sum by itself changes nothing; removing it does.
    let mut same = Patch::new(id("layer2.0.sum"), Edit::Replace(golden.at("layer2.0.sum")));
    assert_eq!(golden.run(&mut same, 2), all);
    assert_ne!(golden.run(&mut Patch::new(id("layer2.0.sum"), Edit::Scale(0.0)), 2), all);
    let context = context(2);
    for stage in 0..golden.network.stages() {
        let mut state = golden.network.begin(&golden.batch(), &context).unwrap();
        golden.network.run(0..stage, &mut state, &mut Untouched, &context).unwrap();
        let mut copy = state.fork(&context).unwrap();
        golden.network.run(stage..golden.network.stages(), &mut copy, &mut Untouched, &context).unwrap();
        assert_eq!(copy.values, all);
    }
}

#[test]
fn units_of_the_mechanistic_interpretability_score() {
    // All units of convolutions and batch norms but the first and the last layer: see the specification of the metric.
    let golden = Golden::open("resnet");
    let sites = golden.network.sites();
    let found = find_sites(sites, "layer*.*.conv*, layer*.*.bn*, layer*.*.downsample.*").unwrap();
    // 5 blocks with 3 convolutions and 4 shortcuts, each with a batch norm.
    assert_eq!(found.len(), 2 * (5 * 3 + 4));
    let before = |name: &str| sites.iter().find(|site| site.name == name).unwrap().before_activation;
    assert!(before("layer1.0.bn1") && before("layer1.0.bn2") && before("layer1.0.sum") && before("bn1"));
    assert!(!before("layer1.0.bn3") && !before("layer1.0.conv1") && !before("layer1.0"));
}

#[test]
fn lpips() {
    let directory = golden("mis/lpips");
    let budget = Budget::new(1 << 30);
    let model = Model::open(&directory.join("tiny_alex.safetensors"), &budget).unwrap();
    let lpips = Lpips::open(&model, None, &budget).unwrap();
    let (images, shape) = floats(&directory.join("images.npy"));
    let images = channels_last(&images, &shape);
    let (height, width) = (shape[2], shape[3]);
    let size = images.len() / shape[0];
    let text = std::fs::read_to_string(directory.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let expected = &expected["full_forward"];
    let embedded = lpips.embed(&images, height, width, &context(2)).unwrap();
    let values = lpips.width(height, width).unwrap();
    assert_eq!(embedded.len(), shape[0] * values);
    let pairs = expected["pairs"].as_array().unwrap().iter().zip(expected["distance"].as_array().unwrap());
    for (pair, distance) in pairs {
        let [a, b] = [0, 1].map(|index| pair[index].as_u64().unwrap() as usize);
        let distance = distance.as_f64().unwrap();
        let image = |index: usize| &images[index * size..][..size];
        let found = lpips.distances(image(a), image(b), height, width, &context(2)).unwrap();
        assert!((found[0] - distance).abs() < 1e-5 * distance, "{found:?} {distance}");
        // The same by dot products: |a|² + |b|² − 2 ab.
        let row = |index: usize| embedded[index * values..][..values].iter().map(|value| f64::from(*value));
        let dot = |a: usize, b: usize| row(a).zip(row(b)).map(|(a, b)| a * b).sum::<f64>();
        let factored = dot(a, a) + dot(b, b) - 2.0 * dot(a, b);
        assert!((factored - distance).abs() < 1e-5 * distance, "{factored} {distance}");
    }
    let all = lpips.distances(&images, &images, height, width, &context(7)).unwrap();
    assert_eq!(all, [0.0; 3]);
    // By layer: vectors are those of five sites, after a convolution with stride 4 and two poolings with stride 2.
    let sides = |side: usize| [(side - 7) / 4 + 1, (side - 7) / 8, ((side - 7) / 8 - 1) / 2];
    let positions = std::iter::zip(sides(height), sides(width)).map(|(high, wide)| high * wide);
    let positions: Vec<usize> = positions.zip([1, 1, 3]).flat_map(|(count, sites)| vec![count; sites]).collect();
    let channels = expected["channels"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap() as usize);
    let widths: Vec<usize> = channels.zip(&positions).map(|(channels, positions)| channels * positions).collect();
    assert_eq!(widths.iter().sum::<usize>(), values);
    for (layer, distances) in expected["per_layer"].as_array().unwrap().iter().enumerate() {
        let range = widths[..layer].iter().sum::<usize>()..widths[..=layer].iter().sum();
        for (pair, distance) in expected["pairs"].as_array().unwrap().iter().zip(distances.as_array().unwrap()) {
            let [a, b] = [0, 1].map(|index| pair[index].as_u64().unwrap() as usize);
            let square = |index: usize| f64::from(embedded[a * values + index] - embedded[b * values + index]).powi(2);
            let (found, distance) = (range.clone().map(square).sum::<f64>(), distance.as_f64().unwrap());
            assert!((found - distance).abs() < 1e-5 * distance, "layer {layer}: {found} {distance}");
        }
    }
    // Version 0.0 does not scale its input: undo the scaling before.
    let (shift, scale) = ([-0.030f32, -0.088, -0.188], [0.458f32, 0.448, 0.450]);
    let undone: Vec<f32> = images.iter().enumerate().map(|(i, value)| value * scale[i % 3] + shift[i % 3]).collect();
    let found = lpips.distances(&undone[..size], &undone[size..2 * size], height, width, &context(2)).unwrap()[0];
    let distance = expected["version_0.0_pair_0_1"].as_f64().unwrap();
    assert!((found - distance).abs() < 1e-5 * distance, "{found} {distance}");
}

#[test]
fn dists() {
    let directory = golden("mis/dists");
    let budget = Budget::new(1 << 30);
    let model = Model::open(&golden("networks/vgg16_features"), &budget).unwrap();
    let heads = Model::open(&directory.join("heads.safetensors"), &budget).unwrap();
    let dists = Dists::open(&model, Some(&heads.weights), &budget).unwrap();
    let (images, shape) = floats(&directory.join("images.npy"));
    let images = channels_last(&images, &shape);
    let size = images.len() / shape[0];
    let text = std::fs::read_to_string(directory.join("expected.json")).unwrap();
    let expected: serde_json::Value = serde_json::from_str(&text).unwrap();
    let pair = |pair: &serde_json::Value| [0, 1].map(|index| pair[index].as_u64().unwrap() as usize);
    let pairs: Vec<[usize; 2]> = expected["pairs"].as_array().unwrap().iter().map(pair).collect();
    let side = |index: usize| pairs.iter().flat_map(|pair| &images[pair[index] * size..][..size]).copied().collect();
    let (a, b): (Vec<f32>, Vec<f32>) = (side(0), side(1));
    let found = dists.distances(&a, &b, shape[2], shape[3], &context(2)).unwrap();
    for (found, distance) in found.iter().zip(expected["distance"].as_array().unwrap()) {
        let distance = distance.as_f64().unwrap();
        assert!((found - distance).abs() < 1e-5 * distance + 1e-8, "{found} {distance}");
    }
    assert_eq!(found.len(), 4);
}

#[test]
fn distances_need_their_networks_and_heads() {
    let budget = Budget::new(1 << 30);
    let model = |name: &str| Model::open(&golden("networks").join(name), &budget).unwrap();
    let error = |result: Result<(), etalon::error::Error>| result.unwrap_err().to_string();
    let text = error(Lpips::open(&model("resnet"), None, &budget).map(drop));
    assert!(text.contains("convolutions of AlexNet or VGG16"), "{text}");
    let text = error(Lpips::open(&model("alexnet_features"), None, &budget).map(drop));
    assert!(text.contains("`lin0.model.1.weight`"), "{text}");
    let text = error(Dists::open(&model("alexnet_features"), None, &budget).map(drop));
    assert!(text.contains("convolutions of VGG16"), "{text}");
    let text = error(Dists::open(&model("vgg16_features"), None, &budget).map(drop));
    assert!(text.contains("`alpha`"), "{text}");
}

#[test]
fn images_that_are_too_small_are_refused() {
    let golden = Golden::open("alexnet_features");
    let batch = Batch::Images { values: &[0.0; 12], height: 2, width: 2 };
    let error = golden.network.begin(&batch, &context(1)).map(drop).unwrap_err().to_string();
    assert!(error.contains("too small") && error.contains("2 × 2"), "{error}");
    let error = golden.network.begin(&Batch::Tokens { tokens: &[1], length: 1 }, &context(1)).map(drop).unwrap_err();
    assert!(error.to_string().contains("expected: images"));
}

/// Weights of Keras say how images are prepared; those of torchvision look the same otherwise.
#[test]
fn resnets_of_keras_get_blue_first() {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("networks/resnet")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    let open = || etalon_models::open(directory.path(), Tower::Main, &Budget::new(1 << 30)).unwrap();
    let prepared = |network: &dyn Network| etalon_models::preprocessing(directory.path(), network.card()).unwrap();
    let plain = open();
    assert_eq!(prepared(&*plain), Preprocess::torchvision(256, 224));
    let config = directory.path().join("config.json");
    let text = std::fs::read_to_string(&config).unwrap_or("{}".into());
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&text).unwrap();
    object.insert("preprocessing".into(), "caffe".into());
    std::fs::write(&config, serde_json::to_string(&object).unwrap()).unwrap();
    let keras = open();
    assert_eq!((keras.card().family, prepared(&*keras)), ("resnet-keras", Preprocess::caffe(256, 224)));
}
