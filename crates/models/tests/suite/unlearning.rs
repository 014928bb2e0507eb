//! Clamped latents against SAEBench's hook: activations and logits of whole sequences.

use etalon::codes::Latent;
use etalon::context::Budget;
use etalon::network::{Batch, Capture, LanguageModel, LatentEdit, LatentPatch, Network, Pair, Untouched, find_sites};
use etalon::sae::checkpoint;
use etalon_models::open_language;
use serde_json::Value;

use crate::{assert_close, context, golden, integers, logits, tensors};

#[test]
fn clamped_latents_change_activations_as_released() {
    let directory = golden("interventions");
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let dictionary = checkpoint::load(&directory.join("sae"), &Budget::new(1 << 30)).unwrap().dictionary;
    let text = std::fs::read_to_string(directory.join("unlearning/expected.json")).unwrap();
    let golden: Value = serde_json::from_str(&text).unwrap();
    let expected = tensors(&directory.join("unlearning/expected.safetensors"));
    let (tokens, shape) = integers(&directory.join("unlearning/tokens.npy"));
    let (length, context) = (shape[1], context(2));
    let site = find_sites(network.sites(), &format!("blocks.{}.hook_resid_post", golden["layer"])).unwrap()[0];
    let batch = Batch::Tokens { tokens: &tokens, length };
    let vocabulary = network.card().vocabulary;
    assert_close("plain", &logits(&*network, batch, 2), &expected["logits_plain"].values);
    let latents: Vec<u32> =
        golden["latents"].as_array().unwrap().iter().map(|latent| latent.as_u64().unwrap() as u32).collect();
    let mut checked = 1;
    for multiplier in golden["multipliers"].as_array().unwrap() {
        let value = multiplier.as_f64().unwrap() as f32;
        let edits = latents.iter().map(|latent| (Latent(*latent), LatentEdit::SetPositive(-value))).collect();
        let mut patch = LatentPatch::new(site, &*dictionary, edits, context.budget()).unwrap().starting_at(1);
        let mut capture = Capture::new(&[site]);
        let mut state = network.begin(&batch, &context).unwrap();
        network.run(0..network.stages(), &mut state, &mut Pair(&mut patch, &mut capture), &context).unwrap();
        let activations = capture.of(site).unwrap().1;
        // Activations reach hundreds, so that their rounding errors are larger than those of logits.
        let close = |what: &str, found: &[f32], name: String| {
            let tensor = &expected[&name];
            assert_eq!(found.len(), tensor.values.len(), "{what}");
            let far =
                found.iter().zip(&tensor.values).map(|(a, b)| (a - b).abs() / b.abs().max(1.0)).fold(0.0, f32::max);
            assert!(far < 1e-4, "{what}: {far}");
        };
        close("activations", activations, format!("resid_multiplier_{multiplier}"));
        let mut out = vec![0.0; tokens.len() * vocabulary];
        network.logits(&state, 0..tokens.len(), &mut out).unwrap();
        close("logits", &out, format!("logits_multiplier_{multiplier}"));
        // The first position is that of the unchanged network.
        let mut clean = Capture::new(&[site]);
        let mut state = network.begin(&batch, &context).unwrap();
        network.run(0..network.stages(), &mut state, &mut Pair(&mut Untouched, &mut clean), &context).unwrap();
        let width = network.card().width;
        for sample in 0..shape[0] {
            let first = sample * length * width..(sample * length + 1) * width;
            assert_eq!(activations[first.clone()], clean.of(site).unwrap().1[first]);
        }
        checked += 2;
    }
    assert_eq!(checked, expected.len());
}
