//! Networks whose weights are changed as TransformerLens changes them.

use std::sync::Arc;

use etalon::context::Budget;
use etalon::network::{Batch, Network, Processing};
use etalon_models::weights::NetworkOptions;
use etalon_models::{Tower, open_with};

use crate::{LANGUAGE, assert_close, at_site, golden, integers, logits, tensors};

fn network(name: &str, processing: Processing) -> Arc<dyn Network> {
    let options = NetworkOptions { processing, ..NetworkOptions::default() };
    open_with(&golden("networks").join(name), Tower::Main, options, &Budget::new(1 << 30)).unwrap()
}

fn centred(rows: &[f32], width: usize) -> Vec<f32> {
    let mean = |row: &[f32]| row.iter().map(|value| f64::from(*value)).sum::<f64>() / width as f64;
    rows.chunks_exact(width)
        .flat_map(|row| row.iter().map(move |value| (f64::from(*value) - mean(row)) as f32))
        .collect()
}

#[test]
fn predictions_stay_and_sites_change_as_defined() {
    for name in LANGUAGE {
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let [raw, processed] = [Processing::NONE, Processing::TRANSFORMER_LENS].map(|how| network(name, how));
        assert_ne!(raw.card().id, processed.card().id);
        assert!(processed.card().weights.ends_with("processed (transformer-lens)"), "{}", processed.card().weights);
        let vocabulary = raw.card().vocabulary;
        let [before, after] = [&raw, &processed].map(|network| logits(&*network.clone().language().unwrap(), batch, 2));
        // A softmax does not see a shift of all logits; a cap would, so that logits with a cap are not shifted.
        assert_close(name, &centred(&after, vocabulary), &centred(&before, vocabulary));
        let shifted =
            after.chunks_exact(vocabulary).all(|row| row.iter().sum::<f32>().abs() < 1e-3 * vocabulary as f32);
        assert_eq!(shifted, name != "gemma2", "{name}");
        let layer_norms = name.starts_with("gpt");
        let last = raw.card().layers - 1;
        for point in ["hook_resid_pre", "hook_attn_out", "hook_mlp_out", "hook_resid_post"] {
            let site = format!("blocks.{last}.{point}");
            let [before, after] = [&raw, &processed].map(|network| at_site(&**network, batch, &site, 2));
            let expected = if layer_norms { centred(&before, raw.card().width) } else { before.clone() };
            assert_close(&format!("{name} {site}"), &after, &expected);
            assert_eq!(layer_norms, before.iter().zip(&after).any(|(a, b)| (a - b).abs() > 1e-3), "{name} {site}");
        }
        for point in ["attn.hook_q", "attn.hook_k", "mlp.hook_pre", "mlp.hook_post"] {
            let site = format!("blocks.{last}.{point}");
            let [before, after] = [&raw, &processed].map(|network| at_site(&**network, batch, &site, 2));
            assert_close(&format!("{name} {site}"), &after, &before);
        }
    }
}

#[test]
fn values_lose_their_biases() {
    let (tokens, shape) = integers(&golden("networks/gpt2/input_ids.npy"));
    let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
    let weights = tensors(&golden("networks/gpt2/model.safetensors"));
    let bias = weights.iter().find(|(name, _)| name.ends_with("h.1.attn.c_attn.bias")).unwrap().1;
    let values = &bias.values[2 * bias.values.len() / 3..];
    let only = Processing { fold_value_biases: true, ..Processing::NONE };
    for site in ["blocks.1.attn.hook_v", "blocks.1.attn.hook_z"] {
        let [raw, folded] = [Processing::NONE, only].map(|how| at_site(&*network("gpt2", how), batch, site, 2));
        let expected: Vec<f32> = raw.iter().enumerate().map(|(i, value)| value - values[i % values.len()]).collect();
        assert_close(site, &folded, &expected);
    }
    // Attention as a whole stays the same.
    let site = "blocks.1.hook_attn_out";
    let [raw, folded] = [Processing::NONE, only].map(|how| at_site(&*network("gpt2", how), batch, site, 2));
    assert_close(site, &folded, &raw);
}

#[test]
fn parts_alone_and_other_networks() {
    let (tokens, shape) = integers(&golden("networks/gpt2/input_ids.npy"));
    let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
    let at = |how: Processing| at_site(&*network("gpt2", how), batch, "blocks.2.hook_resid_post", 2);
    let raw = at(Processing::NONE);
    assert_close("fold_ln", &at(Processing { fold_ln: true, ..Processing::NONE }), &raw);
    assert_close("centre", &at(Processing { center_writing_weights: true, ..Processing::NONE }), &centred(&raw, 18));
    for name in ["bert", "vit_timm", "resnet"] {
        let options = NetworkOptions { processing: Processing::TRANSFORMER_LENS, ..NetworkOptions::default() };
        let opened = open_with(&golden("networks").join(name), Tower::Main, options, &Budget::new(1 << 30));
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("only language models"), "{error}");
    }
}

#[test]
fn transformer_lens_itself() {
    for name in ["gpt2", "gpt_neox"] {
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let network = network(name, Processing::TRANSFORMER_LENS);
        let expected = tensors(&golden("networks/transformer_lens").join(format!("{name}.safetensors")));
        let mut checked = 0;
        for (site, tensor) in expected.iter().filter(|(site, _)| site.starts_with("blocks.")) {
            assert_close(&format!("{name} {site}"), &at_site(&*network, batch, site, 2), &tensor.values);
            checked += 1;
        }
        assert!(checked >= 20, "{name}: {checked}");
        let found = logits(&*network.language().unwrap(), batch, 2);
        assert_close(&format!("{name} logits"), &found, &expected["logits"].values);
    }
}
