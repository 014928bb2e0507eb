//! Hidden states and logits of tiny models.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::network::{Batch, Network};
use etalon_models::{Tower, open};

use crate::{LANGUAGE, assert_close, at_site, channels_last, context, floats, golden, integers, logits, tensors};

fn network(name: &str) -> Arc<dyn Network> {
    open(&golden("networks").join(name), Tower::Main, &Budget::new(1 << 30)).unwrap()
}

/// The site of a golden value, and whether it is there in this network.
fn site(name: &str, layers: usize, has_raw: bool, last_norm: &str) -> Option<String> {
    if let Some(index) = name.strip_prefix("hidden.") {
        let index: usize = index.parse().unwrap();
        return Some(if index == layers {
            format!("blocks.{}.hook_resid_post", layers - 1)
        } else {
            format!("blocks.{index}.hook_resid_pre")
        });
    }
    if name == "final_norm" {
        return Some(last_norm.into());
    }
    let (block, point) = name.strip_prefix("block.")?.split_once('.')?;
    let model = |path: &str| format!("model.layers.{block}.{path}");
    Some(match point {
        "attn_z" => format!("blocks.{block}.attn.hook_z"),
        "attn_out" if has_raw => model("self_attn"),
        "attn_out" | "attn_out_post_norm" => format!("blocks.{block}.hook_attn_out"),
        "mlp_out" if has_raw => model("mlp"),
        "mlp_out" | "mlp_out_post_norm" => format!("blocks.{block}.hook_mlp_out"),
        _ => return None,
    })
}

#[test]
fn language_models() {
    for name in LANGUAGE {
        let network = network(name);
        let directory = golden("networks").join(name);
        let (tokens, shape) = integers(&directory.join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let expected = tensors(&directory.join("expected.safetensors"));
        let last_norm = network.sites().last().unwrap().name.clone();
        let mut checked = 0;
        for (value, tensor) in &expected {
            let Some(site) = site(value, network.card().layers, name.starts_with("gemma"), &last_norm) else {
                continue;
            };
            let found = at_site(&*network, batch, &site, 2);
            assert_close(&format!("{name} {value}"), &found, &tensor.values);
            checked += 1;
        }
        assert!(checked >= 6, "{name}: {checked} of {:?}", expected.keys());
        let language = network.clone().language().unwrap();
        assert_close(&format!("{name} logits"), &logits(&*language, batch, 2), &expected["logits"].values);
    }
}

#[test]
fn older_configuration_keys_give_the_same_network() {
    for name in LANGUAGE {
        let directory = golden("networks").join(name);
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        std::fs::copy(directory.join("config_legacy_keys.json"), copy.path().join("config.json")).unwrap();
        let (tokens, shape) = integers(&directory.join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let old = open(copy.path(), Tower::Main, &Budget::new(1 << 30)).unwrap().language().unwrap();
        let new = network(name).language().unwrap();
        assert_eq!(logits(&*old, batch, 1), logits(&*new, batch, 1), "{name}");
    }
}

#[test]
fn threads_do_not_change_bits() {
    for name in ["llama", "gemma3", "gpt_neox"] {
        let language = network(name).language().unwrap();
        let vocabulary = language.card().vocabulary as u32;
        let tokens: Vec<u32> = (0..12 * 31).map(|i| (i * 7919) % vocabulary).collect();
        let batch = Batch::Tokens { tokens: &tokens, length: 31 };
        let one = logits(&*language, batch, 1);
        assert!([2, 7].iter().all(|threads| logits(&*language, batch, *threads) == one), "{name}");
    }
}

#[test]
fn bert_and_minilm() {
    let network = network("bert");
    let directory = golden("networks/bert");
    let (tokens, shape) = integers(&directory.join("input_ids.npy"));
    let (mask, _) = integers(&directory.join("attention_mask.npy"));
    let expected = tensors(&directory.join("expected.safetensors"));
    for (row, (tokens, mask)) in tokens.chunks(shape[1]).zip(mask.chunks(shape[1])).enumerate() {
        // Without padding: a text by itself.
        let length = mask.iter().sum::<u32>() as usize;
        let tokens: Vec<u32> =
            tokens.iter().zip(mask).filter(|(_, mask)| **mask == 1).map(|(token, _)| *token).collect();
        assert!(mask[..length].iter().all(|mask| *mask == 1));
        let batch = Batch::Tokens { tokens: &tokens, length };
        let sites = [
            ("hidden.0", "blocks.0.hook_resid_pre"),
            ("hidden.1", "encoder.layer.0"),
            ("hidden.3", "blocks.2.hook_normalized_resid_post"),
            ("block.1.attn_z", "blocks.1.attn.hook_z"),
            ("block.1.attn_out_after_norm", "encoder.layer.1.attention"),
            ("block.1.mlp_act", "encoder.layer.1.intermediate"),
            ("mean_pooled", "pooled"),
            ("sentence_embedding", "sentence_embedding"),
        ];
        for (value, site) in sites {
            let tensor = &expected[value];
            let per_row = tensor.values.len() / shape[0];
            let width = *tensor.shape.last().unwrap();
            let wanted =
                &tensor.values[row * per_row..][..if tensor.shape.len() == 3 { length * width } else { width }];
            assert_close(&format!("bert {value}, text {row}"), &at_site(&*network, batch, site, 2), wanted);
        }
    }
}

/// Runs a network on the images of a file and compares sites.
fn images(name: &str, file: &str, sites: &[(&str, &str)]) {
    let network = network(name);
    let directory = golden("networks").join(name);
    let (values, shape) = floats(&directory.join(file));
    let values = channels_last(&values, &shape);
    let batch = Batch::Images { values: &values, height: shape[2], width: shape[3] };
    let expected = tensors(&directory.join("expected.safetensors"));
    for (value, site) in sites {
        assert_close(&format!("{name} {value}"), &at_site(&*network, batch, site, 2), &expected[*value].values);
    }
}

#[test]
fn vision_transformers() {
    let common = [
        ("hidden.0", "blocks.0.hook_resid_pre"),
        ("hidden.1", "blocks.0"),
        ("hidden.2", "blocks.1"),
        ("final_norm", "norm"),
        ("logits", "head"),
    ];
    images("vit_timm", "pixel_values.npy", &common);
    images(
        "vit_timm",
        "pixel_values.npy",
        &[
            ("block.1.attn_z", "blocks.1.attn.hook_z"),
            ("block.1.attn_out", "blocks.1.attn"),
            ("block.1.mlp_fc1", "blocks.1.mlp.fc1"),
            ("block.1.mlp_out", "blocks.1.mlp"),
        ],
    );
    images("vit_clip_timm", "pixel_values.npy", &common);
    images(
        "dinov2_registers",
        "pixel_values.npy",
        &[
            ("hidden.0", "blocks.0.hook_resid_pre"),
            ("hidden.1", "encoder.layer.0"),
            ("block.1.attn_out_before_layer_scale", "encoder.layer.1.attention"),
            ("block.1.mlp_out_before_layer_scale", "encoder.layer.1.mlp"),
            ("hidden.3", "encoder.layer.2"),
            ("final_norm", "layernorm"),
            ("cls", "pooled"),
        ],
    );
    let larger = [("larger.hidden.0", "blocks.0.hook_resid_pre"), ("larger.final_norm", "layernorm")];
    images("dinov2_registers", "pixel_values_larger.npy", &larger);
}

#[test]
fn clip_towers() {
    images(
        "clip",
        "pixel_values.npy",
        &[
            ("vision.hidden.0", "blocks.0.hook_resid_pre"),
            ("vision.hidden.1", "vision_model.encoder.layers.0"),
            ("vision.block.1.attn_out", "vision_model.encoder.layers.1.self_attn"),
            ("vision.block.1.mlp_out", "vision_model.encoder.layers.1.mlp"),
            ("vision.hidden.2", "blocks.1.hook_resid_post"),
            ("vision.pooled", "pooled"),
            ("image_projected", "visual_projection"),
        ],
    );
    let directory = golden("networks/clip");
    let network = open(&directory, Tower::Text, &Budget::new(1 << 30)).unwrap();
    let (tokens, shape) = integers(&directory.join("input_ids.npy"));
    let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
    let expected = tensors(&directory.join("expected.safetensors"));
    let sites = [
        ("text.hidden.0", "blocks.0.hook_resid_pre"),
        ("text.hidden.1", "text_model.encoder.layers.0"),
        ("text.hidden.2", "blocks.1.hook_resid_post"),
        ("text_projected", "text_projection"),
    ];
    let (mask, _) = integers(&directory.join("attention_mask.npy"));
    for (value, site) in sites {
        // Rows of padding are not compared: the mask changes them, and nothing reads them.
        let (found, wanted) = (at_site(&*network, batch, site, 2), &expected[value].values);
        let width = wanted.len() / if value == "text_projected" { shape[0] } else { mask.len() };
        let kept = |row: usize| value == "text_projected" || mask[row] == 1;
        let rows = |values: &[f32]| -> Vec<f32> {
            values.chunks(width).enumerate().filter(|(row, _)| kept(*row)).flat_map(|(_, row)| row).copied().collect()
        };
        assert_close(&format!("clip {value}"), &rows(&found), &rows(wanted));
    }
}

#[test]
fn images_that_do_not_fit_and_texts_for_images_are_refused() {
    let vit = network("vit_timm");
    let context = context(1);
    let refused = |network: &dyn Network, batch: Batch<'_>| network.begin(&batch, &context).unwrap_err().to_string();
    let image = vec![0.0; 30 * 32 * 3];
    assert!(refused(&*vit, Batch::Images { values: &image, height: 30, width: 32 }).contains("multiples of 8"));
    assert!(refused(&*vit, Batch::Tokens { tokens: &[1], length: 1 }).contains("expected: images"));
    let llama = network("llama");
    assert!(refused(&*llama, Batch::Images { values: &image, height: 30, width: 32 }).contains("expected: texts"));
    assert!(refused(&*llama, Batch::Tokens { tokens: &[1, 96], length: 2 }).contains("numbers below 96"));
    assert!(refused(&*llama, Batch::Tokens { tokens: &[1; 65], length: 65 }).contains("at most 64 tokens"));
}
