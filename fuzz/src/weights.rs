//! Files with the weights of networks.

use std::fs;
use std::path::{Path, PathBuf};

use etalon::context::Budget;
use etalon::error::Result;
use etalon_models::weights::Model;
use serde_json::json;

use crate::files::{floats, integers};
use crate::targets::Seeds;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

fn golden_files(names: &[&str]) -> Seeds {
    names.iter().map(|name| Ok((name.to_string(), fs::read(golden(name))?))).collect()
}

pub fn torch_old() -> Seeds {
    golden_files(&["pickles/old.pth"])
}

pub fn pickle_arrays() -> Seeds {
    golden_files(&["pickles/arrays2.pkl", "pickles/arrays3.pkl", "pickles/arrays4.pkl", "pickles/arrays5.pkl"])
}

pub fn gguf() -> Seeds {
    golden_files(&["gguf/types.gguf", "gguf/llama3_rope.gguf"])
}

/// One layer of width 2 with one head, 1 feed-forward unit, 2 tokens, a context of 1.
pub fn llama2c() -> Seeds {
    let values = |count: usize| floats(&vec![0.5; count]);
    let tied = [integers(&[2, 1, 1, 1, 1, 2, 1]), values(34)].concat();
    let untied = [integers(&[2, 1, 1, 1, 1, -2, 1]), values(38)].concat();
    Ok(vec![("tied".into(), tied), ("untied".into(), untied)])
}

pub fn tfjs() -> Seeds {
    let weight = |name: &str, shape: &[usize]| json!({"name": name, "shape": shape, "dtype": "float32"});
    let block = |stage: usize| weight(&format!("res{stage}a_branch2c/kernel"), &[1, 1, 1, 1]);
    let mut weights = vec![weight("conv1/kernel", &[1, 2, 2, 1]), weight("fc1000/kernel", &[2, 3])];
    weights.extend((2..=5).map(block));
    let model = json!({
        "modelTopology": {"model_config": {"config": {"name": "resnet50", "layers": [
            {"class_name": "Conv2D", "config": {"name": "res3a_branch2a", "strides": [2, 2]}}]}}},
        "weightsManifest": [{"paths": ["1.bin", "2.bin"], "weights": weights}],
    });
    let values = floats(&[0.25; 14]);
    let (one, two) = values.split_at(30);
    let files = [("model.json", model.to_string().into_bytes()), ("1.bin", one.to_vec()), ("2.bin", two.to_vec())];
    Ok(files.map(|(name, bytes)| (name.to_string(), bytes)).into())
}

/// A configuration, an index, and two shards.
pub fn directory() -> Seeds {
    let shard = |name: &str| {
        let header = json!({name: {"dtype": "F16", "shape": [2, 2], "data_offsets": [0, 8]}}).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat()
    };
    let index = json!({"metadata": {"total_size": 16}, "weight_map": {"a": "1.safetensors", "b": "2.safetensors"}});
    let files = [
        ("config.json", b"{\"model_type\": \"llama\"}".to_vec()),
        ("model.safetensors.index.json", index.to_string().into_bytes()),
        ("1.safetensors", shard("a")),
        ("2.safetensors", shard("b")),
    ];
    Ok(files.map(|(name, bytes)| (name.to_string(), bytes)).into())
}

/// Opens a model and reads every tensor.
pub fn read(path: &Path) -> Result<()> {
    // Small, so that wrong sizes are refused.
    let model = Model::open(path, &Budget::new(1 << 26))?;
    let names: Vec<&str> = model.weights.names().collect();
    for name in names {
        model.weights.tensor(name, model.weights.shape(name).unwrap_or_default())?;
    }
    model.id().map(drop)
}
