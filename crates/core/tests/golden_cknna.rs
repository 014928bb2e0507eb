//! CKNNA with 10 neighbours against the paper's released program, on `tests/golden/matching`.
//!
//! Neighbours agree exactly and sums differ in their order only (about 1e-15 here), so 1e-9 is ample.

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
fn the_reference_profile_agrees() {
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
    let expected = serde_json::from_str::<serde_json::Value>(&text).unwrap()["cknna_k10"].as_f64().unwrap();
    let (metric, cancel) = (find("cknna").unwrap(), AtomicBool::new(false));
    let engine = Engine::new(2, Budget::new(1 << 30), &Silent, &cancel).unwrap();
    let recipe = recipe(metric, &inputs, &BTreeMap::new(), Profile::Reference, 0).unwrap();
    let scores = evaluate(metric, &inputs, recipe, &engine).unwrap().scores;
    let value = scores.value("cknna").unwrap();
    assert!((value - expected).abs() < 1e-9, "{value} for {expected}");
    let interval = scores.headline[0].interval.unwrap();
    assert!(interval.low < expected && expected < interval.high);
}
