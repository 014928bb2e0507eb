//! Loss recovered and KL divergence, against SAEBench's own `run_evals`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::metrics::{evaluate, find, recipe};
use etalon::network::{Network, NumberTokenizer, TextRun, find_sites};
use etalon::results::{Profile, Scores};
use etalon::run::{DICTIONARY, Inputs, NETWORK};
use etalon::sae::{Dictionary, checkpoint};
use etalon_models::open_language;
use serde_json::Value;

use crate::{context, golden, integers};

/// The first eight sequences are those of the reconstruction phase.
fn inputs(directory: &Path) -> Inputs {
    inputs_of(directory, 8)
}

fn inputs_of(directory: &Path, sequences: usize) -> Inputs {
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let site = find_sites(network.sites(), "blocks.1.hook_resid_post").unwrap()[0];
    let (tokens, shape) = integers(&directory.join("core/tokens.npy"));
    let tokens = tokens[..sequences * shape[1]].to_vec();
    let tokenizer = Arc::new(NumberTokenizer { size: network.card().vocabulary, bos: Some(1) });
    let run = TextRun { network, site, tokenizer, tokens, length: shape[1], special: vec![0, 1, 2] };
    let dictionary: Arc<dyn Dictionary> =
        Arc::from(checkpoint::load(&directory.join("sae"), &Budget::new(1 << 30)).unwrap().dictionary);
    Inputs::default().with(&NETWORK, run).with(&DICTIONARY, dictionary)
}

fn scores(inputs: &Inputs, special: &str, threads: usize) -> Scores {
    let metric = find("loss_recovered").unwrap();
    let given = BTreeMap::from([("special".to_string(), special.to_string())]);
    let recipe = recipe(metric, inputs, &given, Profile::Reference, 0).unwrap();
    evaluate(metric, inputs, &recipe, &context(threads)).unwrap().scores
}

#[test]
fn losses_and_divergences_of_saebench() {
    let directory = golden("interventions");
    let inputs = inputs(&directory);
    let text = std::fs::read_to_string(directory.join("core/expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    for (special, key) in [("keep", "exclude_special_true"), ("replace", "exclude_special_false")] {
        let scores = scores(&inputs, special, 2);
        let mut checked = 0;
        for part in ["model_behavior_preservation", "model_performance_preservation"] {
            for (name, value) in expected[key][part].as_object().unwrap() {
                let (found, expected) = (scores.value(name).unwrap(), value.as_f64().unwrap());
                assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{key} {name}: {found} {expected}");
                checked += 1;
            }
        }
        assert_eq!(checked, 7);
    }
    let own = &expected["own_additions"]["mean_ablation"];
    let scores = scores(&inputs, "keep", 2);
    for (name, key) in [
        ("ce_loss_with_mean", "ce"),
        ("kl_div_with_mean", "kl"),
        ("ce_loss_score_mean", "ce_loss_score"),
        ("kl_div_score_mean", "kl_div_score"),
    ] {
        let (found, expected) = (scores.value(name).unwrap(), own[key].as_f64().unwrap());
        assert!((found - expected).abs() < 2e-5, "{name}: {found} {expected}");
    }
}

#[test]
fn positions_of_one_sequence() {
    let directory = golden("interventions");
    let text = std::fs::read_to_string(directory.join("core/expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let own = &expected["own_additions"]["per_token_first_row"];
    let values = |key: &str| -> Vec<f64> { own[key].as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect() };
    let kept = values("kept");
    let scores = scores(&inputs_of(&directory, 1), "keep", 1);
    for (name, key) in [
        ("ce_loss_without_sae", "ce_without_sae"),
        ("ce_loss_with_sae", "ce_with_sae"),
        ("ce_loss_with_ablation", "ce_with_zero"),
        ("kl_div_with_sae", "kl_with_sae"),
        ("kl_div_with_ablation", "kl_with_zero"),
    ] {
        let counted: Vec<f64> =
            values(key).into_iter().zip(&kept).filter(|(_, kept)| **kept > 0.0).map(|(v, _)| v).collect();
        let mean = counted.iter().sum::<f64>() / counted.len() as f64;
        let found = scores.value(name).unwrap();
        assert!((found - mean).abs() < 1e-5 * mean.max(1.0), "{name}: {found} {mean}");
    }
}

#[test]
fn threads_do_not_change_scores() {
    let inputs = inputs(&golden("interventions"));
    let one = scores(&inputs, "keep", 1);
    assert!([2, 7].iter().all(|threads| scores(&inputs, "keep", *threads) == one));
}
