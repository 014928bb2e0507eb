//! Monosemanticity against the paper's released program, on `tests/golden/matching`.
//!
//! That program walks over all pairs; our sums come in another order (about 1e-15 here), so 1e-9 is ample.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use etalon::budget::Budget;
use etalon::codes::Codes;
use etalon::metrics::{evaluate, find, recipe};
use etalon::progress::Silent;
use etalon::results::Profile;
use etalon::run::{Engine, Inputs};
use etalon::store::ActivationStore;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/matching/");

#[test]
fn every_latent_agrees() {
    let array = |name: &str| -> (Vec<f32>, usize) {
        let file = npyz::NpyFile::new(std::fs::File::open(format!("{FOLDER}{name}")).unwrap()).unwrap();
        let width = file.shape()[1] as usize;
        (file.into_vec().unwrap(), width)
    };
    let ((codes, latents), (embeddings, width)) = (array("codes.npy"), array("embeddings.npy"));
    let inputs = Inputs {
        codes: Some(Codes::from_dense(&codes, latents).unwrap().into()),
        embeddings: Some(ActivationStore::from_rows(embeddings, width).unwrap().into()),
        ..Inputs::default()
    };
    let text = std::fs::read_to_string(format!("{FOLDER}expected.json")).unwrap();
    let expected = &serde_json::from_str::<serde_json::Value>(&text).unwrap()["ms"];
    let mut wanted = vec![None; latents];
    for (latent, score) in expected["latents"].as_array().unwrap().iter().zip(expected["score"].as_array().unwrap()) {
        wanted[latent.as_u64().unwrap() as usize] = score.as_f64();
    }

    let (metric, cancel) = (find("monosemanticity").unwrap(), AtomicBool::new(false));
    let engine = Engine::new(2, Budget::new(1 << 30), &Silent, &cancel).unwrap();
    for profile in [Profile::Paper, Profile::Reference] {
        let recipe = recipe(metric, &inputs, &BTreeMap::new(), profile, 0).unwrap();
        let scores = evaluate(metric, &inputs, recipe, &engine).unwrap().scores;
        let column = scores.table("latent").unwrap().column("score").unwrap();
        for (latent, wanted) in wanted.iter().enumerate() {
            match (column.number(latent), wanted) {
                (Some(score), Some(wanted)) => assert!((score - wanted).abs() < 1e-9, "latent {latent}"),
                (score, wanted) => assert_eq!(score, *wanted, "latent {latent}"),
            }
        }
        let mean = expected["mean_defined"].as_f64().unwrap();
        assert!((scores.value("monosemanticity").unwrap() - mean).abs() < 1e-9);
    }
}
