//! Made-up and damaged models.

use etalon::context::Budget;
use etalon::error::Result;
use serde_json::json;

use super::*;
use crate::weights::tensors::Weights;

/// A directory with a model.
struct Directory(tempfile::TempDir);

impl Directory {
    /// A model with these weights, in files of these lengths; the values are 0, 1, 2, ...
    fn new(model: &Value, lengths: &[usize]) -> Directory {
        let directory = Directory(tempfile::tempdir().unwrap());
        let bytes: Vec<u8> =
            (0..lengths.iter().sum::<usize>() as u32).flat_map(|value| (value as f32).to_le_bytes()).collect();
        let mut start = 0;
        for (index, length) in lengths.iter().enumerate() {
            directory.write(&format!("{index}.bin"), &bytes[start..start + length]);
            start += length;
        }
        directory.write("model.json", model.to_string().as_bytes());
        directory
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.path().join(name), bytes).unwrap();
    }

    fn open(&self) -> Result<Opened> {
        open(&self.0.path().join("model.json"), &Budget::new(1 << 20))
    }

    fn refused(&self) -> String {
        let error = self.open().err().unwrap();
        assert!(error.is_input() && error.to_string().contains("model.json"), "{error:?}");
        error.to_string()
    }
}

fn model(paths: &[&str], weights: Value) -> Value {
    json!({
        "modelTopology": {"model_config": {"class_name": "Model", "config": {"name": "tiny", "layers": []}}},
        "weightsManifest": [{"paths": paths, "weights": weights}],
    })
}

fn weight(name: &str, shape: &[usize]) -> Value {
    json!({"name": name, "shape": shape, "dtype": "float32"})
}

#[test]
fn weights_continue_in_the_next_file() {
    let weights = json!([weight("a", &[2]), weight("b/kernel", &[3]), weight("c", &[])]);
    // The second weight is bytes 8 to 20; the files end at bytes 10, 14 and 24.
    let directory = Directory::new(&model(&["0.bin", "1.bin", "2.bin"], weights), &[10, 4, 10]);
    let opened = directory.open().unwrap();
    assert_eq!(opened.recognised, "TensorFlow.js, 3 shards");
    assert_eq!(opened.config["model_type"], "tiny");
    let weights = Weights::new(opened.tensors, &Budget::new(1 << 10));
    assert_eq!(weights.tensor("a", &[2]).unwrap(), [0.0, 1.0]);
    assert_eq!(weights.tensor("b/kernel", &[3]).unwrap(), [2.0, 3.0, 4.0]);
    assert_eq!(weights.tensor("c", &[]).unwrap(), [5.0]);
}

#[test]
fn quantised_weights() {
    let weights = json!([
        {"name": "a", "shape": [2], "dtype": "float32", "quantization": {"dtype": "uint8", "scale": 0.5, "min": -1.0}},
        {"name": "b", "shape": [1], "dtype": "float32", "quantization": {"dtype": "uint16", "scale": 2.0, "min": 0.0}},
    ]);
    let directory = Directory::new(&model(&["0.bin"], weights), &[]);
    directory.write("0.bin", &[0, 4, 3, 1]);
    let weights = Weights::new(directory.open().unwrap().tensors, &Budget::new(1 << 10));
    assert_eq!(weights.tensor("a", &[2]).unwrap(), [-1.0, 1.0]);
    assert_eq!(weights.tensor("b", &[1]).unwrap(), [518.0]);
}

#[test]
fn a_resnet_has_the_names_and_the_layout_of_torchvision() {
    let blocks = (2..=5).flat_map(|stage| {
        let layer = |branch: &str| weight(&format!("res{stage}a_branch{branch}/kernel"), &[1, 1, 1, 1]);
        [layer("1"), layer("2a"), layer("2b"), layer("2c")]
    });
    let first = weight("conv1/kernel", &[1, 2, 2, 1]);
    let weights: Vec<Value> = [first, weight("fc1000/kernel", &[2, 3])].into_iter().chain(blocks).collect();
    let mut model = model(&["0.bin"], weights.into());
    model["modelTopology"]["model_config"]["config"]["layers"] = json!([
        {"class_name": "BatchNormalization", "config": {"name": "bn_conv1", "epsilon": 1.001e-5}},
        {"class_name": "Conv2D", "config": {"name": "res3a_branch2a", "strides": [2, 2]}},
    ]);
    let opened = Directory::new(&model, &[4 * (4 + 6 + 16)]).open();
    let opened = opened.unwrap();
    let expected = json!({"model_type": "resnet", "depths": [1, 1, 1, 1], "bottleneck": true, "stride_in_1x1": true,
        "bn_eps": 1.001e-5, "conv_bias": false, "preprocessing": "caffe"});
    assert_eq!(Value::Object(opened.config), expected);
    let names: Vec<&String> = opened.tensors.keys().collect();
    assert!(names.contains(&&"layer4.0.downsample.0.weight".to_string()), "{names:?}");
    assert_eq!(opened.tensors["conv1.weight"].shape(), [1, 2, 1, 2]);
    assert_eq!(opened.tensors["fc.weight"].shape(), [3, 2]);
}

#[test]
fn damaged_models_are_refused() {
    let two = || json!([weight("a", &[2]), weight("b", &[1])]);
    let refused = |model: &Value, lengths: &[usize]| Directory::new(model, lengths).refused();
    assert!(refused(&model(&["0.bin"], two()), &[11]).contains("weight `b`"));
    assert!(refused(&model(&["0.bin"], two()), &[13]).contains("1 bytes more"));
    assert!(refused(&model(&["0.bin", "1.bin"], two()), &[12]).contains("`1.bin`"));
    assert!(refused(&model(&["../0.bin"], two()), &[12]).contains("outside of its directory"));
    assert!(refused(&model(&["0.bin"], json!([weight("a", &[usize::MAX, 9])])), &[12]).contains("weight `a`"));
    let twice = json!([weight("a", &[1]), weight("a", &[1])]);
    assert!(refused(&model(&["0.bin"], twice), &[8]).contains("two tensors have the name `a`"));
    let text = json!([{"name": "a", "shape": [1], "dtype": "string"}]);
    assert!(refused(&model(&["0.bin"], text), &[8]).contains("found: string"));
    assert!(refused(&model(&["0.bin"], json!([{"name": "a"}])), &[8]).contains("list of weights is invalid"));
    assert!(refused(&json!({"format": "other"}), &[]).contains("not a model of TensorFlow.js"));
    let broken = Directory::new(&json!({}), &[]);
    broken.write("model.json", b"{\"weightsManifest\": [");
    assert!(broken.refused().contains("the JSON file is invalid"));
}
