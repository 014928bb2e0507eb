//! Patches of the residual stream, and generation.

use etalon::context::Budget;
use etalon::network::{
    Batch, Capture, Edit, Generation, LanguageModel, Network, Patch, SiteId, Tap, Untouched, find_sites,
};
use etalon_models::open_language;

use crate::{assert_close, context, golden, integers, tensors};

fn logits(network: &dyn LanguageModel, tokens: &[u32], length: usize, tap: &mut dyn Tap) -> Vec<f32> {
    let context = context(2);
    let mut state = network.begin(&Batch::Tokens { tokens, length }, &context).unwrap();
    network.run(0..network.stages(), &mut state, tap, &context).unwrap();
    let rows = tokens.len();
    let mut out = vec![0.0; rows * network.card().vocabulary];
    network.logits(&state, 0..rows, &mut out).unwrap();
    out
}

#[test]
fn residual_streams_can_be_replaced() {
    let directory = golden("interventions");
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let expected = tensors(&directory.join("patching/expected.safetensors"));
    let (a, shape) = integers(&directory.join("patching/tokens_a.npy"));
    let (b, _) = integers(&directory.join("patching/tokens_b.npy"));
    let length = *shape.last().unwrap();
    let mut checked = 0;
    for (name, tensor) in &expected {
        let found = match name.as_str() {
            "logits_a" => logits(&*network, &a, length, &mut Untouched),
            "logits_b" => logits(&*network, &b, length, &mut Untouched),
            "resid_a.1" | "resid_b.1" => {
                let site = find_sites(network.sites(), "blocks.1.hook_resid_post").unwrap()[0];
                residual(&*network, if name.starts_with("resid_a") { &a } else { &b }, length, site)
            }
            name => {
                let block: usize = name.rsplit('_').next().unwrap().parse().unwrap();
                let site = find_sites(network.sites(), &format!("blocks.{block}.hook_resid_post")).unwrap()[0];
                let mut patch = if name.starts_with("zero") {
                    Patch::new(site, Edit::Scale(0.0))
                } else {
                    let patch = Patch::new(site, Edit::Replace(residual(&*network, &b, length, site)));
                    if name.contains("position_4") { patch.at(vec![4]) } else { patch }
                };
                logits(&*network, &a, length, &mut patch)
            }
        };
        assert_close(name, &found, &tensor.values);
        checked += 1;
    }
    assert_eq!(checked, 11);
}

fn residual(network: &dyn Network, tokens: &[u32], length: usize, site: SiteId) -> Vec<f32> {
    let context = context(1);
    let mut capture = Capture::new(&[site]);
    let mut state = network.begin(&Batch::Tokens { tokens, length }, &context).unwrap();
    network.run(0..network.stages(), &mut state, &mut capture, &context).unwrap();
    capture.of(site).unwrap().1.to_vec()
}

#[test]
fn a_run_can_be_continued_from_a_copy() {
    let directory = golden("interventions");
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let (a, shape) = integers(&directory.join("patching/tokens_a.npy"));
    let length = *shape.last().unwrap();
    let context = context(2);
    let mut state = network.begin(&Batch::Tokens { tokens: &a, length }, &context).unwrap();
    network.run(0..1, &mut state, &mut Untouched, &context).unwrap();
    let mut copy = state.fork(&context).unwrap();
    network.run(1..network.stages(), &mut copy, &mut Untouched, &context).unwrap();
    network.run(1..network.stages(), &mut state, &mut Untouched, &context).unwrap();
    assert_eq!(state.values, copy.values);
    let mut out = vec![0.0; a.len() * network.card().vocabulary];
    network.logits(&state, 0..a.len(), &mut out).unwrap();
    assert_eq!(out, logits(&*network, &a, length, &mut Untouched));
}

#[test]
fn greedy_generation() {
    let directory = golden("networks/llama");
    let network = open_language(&directory, &Budget::new(1 << 30)).unwrap();
    let text = std::fs::read_to_string(directory.join("generation.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let numbers = |value: &serde_json::Value| -> Vec<u32> {
        value.as_array().unwrap().iter().map(|token| token.as_u64().unwrap() as u32).collect()
    };
    let mut checked = 0;
    for (prompt, expected) in json["prompts"].as_array().unwrap().iter().zip(json["new_tokens"].as_array().unwrap()) {
        let (prompt, expected) = (numbers(prompt), numbers(expected));
        let settings = Generation { tokens: expected.len(), ..Generation::default() };
        let found = network.generate(&prompt, &settings, &mut Untouched, &context(2)).unwrap();
        assert_eq!(found, expected);
        checked += 1;
    }
    assert!(checked >= 4);
}
