//! Sparsity, reconstruction and latents of `core`, against SAEBench's own `run_evals` on the rows of a network.

use std::collections::BTreeMap;
use std::sync::Arc;

use etalon::codes::CodesBuilder;
use etalon::context::Budget;
use etalon::metrics::{evaluate, find, recipe};
use etalon::network::{Batch, Capture, Network, find_sites};
use etalon::results::{Profile, Scores};
use etalon::run::{CODES, DICTIONARY, EMBEDDINGS, Inputs};
use etalon::sae::{Dictionary, checkpoint};
use etalon::store::ActivationStore;
use etalon_models::open_language;
use serde_json::Value;

use crate::{context, golden, integers};

/// Special tokens, whose rows SAEBench leaves out.
const SPECIAL: [u32; 3] = [0, 1, 2];
/// Sequences per batch.
const BATCH: usize = 4;

/// Activations at the site of the sequences of SAEBench's second phase, with the sequence of every row; the larger of the two
/// batches first, because means over batches do not depend on their order and ours have a fixed size.
fn rows() -> (Vec<f32>, Vec<u32>, usize, usize) {
    let directory = golden("interventions");
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let site = find_sites(network.sites(), "blocks.1.hook_resid_post").unwrap()[0];
    let width = network.sites()[site.0 as usize].width;
    let (tokens, shape) = integers(&directory.join("core/tokens.npy"));
    let (length, context) = (shape[1], context(1));
    let mut batches = Vec::new();
    for first in [8, 8 + BATCH] {
        let tokens = &tokens[first * length..(first + BATCH) * length];
        let mut capture = Capture::new(&[site]);
        let mut state = network.begin(&Batch::Tokens { tokens, length }, &context).unwrap();
        network.run(0..network.stages(), &mut state, &mut capture, &context).unwrap();
        let (_, values) = capture.of(site).unwrap();
        let kept = || (0..tokens.len()).filter(|row| !SPECIAL.contains(&tokens[*row]));
        let rows: Vec<f32> = kept().flat_map(|row| &values[row * width..(row + 1) * width]).copied().collect();
        batches.push((rows, kept().map(|row| (first + row / length) as u32).collect::<Vec<_>>()));
    }
    batches.sort_by_key(|(_, samples)| std::cmp::Reverse(samples.len()));
    let batch_rows = batches[0].1.len();
    let (values, samples): (Vec<_>, Vec<_>) = batches.into_iter().unzip();
    (values.concat(), samples.concat(), width, batch_rows)
}

fn inputs(values: Vec<f32>, samples: Vec<u32>, width: usize) -> Inputs {
    let budget = Budget::new(1 << 30);
    let dictionary: Arc<dyn Dictionary> =
        Arc::from(checkpoint::load(&golden("interventions").join("sae"), &budget).unwrap().dictionary);
    let store = ActivationStore::from_rows(values, width).unwrap().with_samples(samples).unwrap();
    let mut codes = CodesBuilder::within(dictionary.card().latents, &budget);
    dictionary.encode(&store.tile(0..store.rows()).unwrap(), &mut codes).unwrap();
    Inputs::default().with(&CODES, codes.finish()).with(&EMBEDDINGS, store).with(&DICTIONARY, dictionary)
}

fn scores(inputs: &Inputs, profile: Profile, batch_rows: usize) -> Scores {
    let metric = find("core").unwrap();
    let given = BTreeMap::from([("batch_rows".to_string(), batch_rows.to_string())]);
    let recipe = recipe(metric, inputs, &given, profile, 0).unwrap();
    evaluate(metric, inputs, &recipe, &context(2)).unwrap().scores
}

#[test]
fn rows_and_latents_of_saebench() {
    let text = std::fs::read_to_string(golden("interventions/core/expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();
    let (values, samples, width, batch_rows) = rows();
    let inputs = inputs(values, samples, width);
    let found = scores(&inputs, Profile::Reference, batch_rows);
    let close = |name: &str, found: f64, expected: f64| {
        assert!((found - expected).abs() < 1e-5 * expected.abs().max(1.0), "{name}: {found}, expected {expected}");
    };
    let mut checked = 0;
    for part in ["reconstruction_quality", "shrinkage", "sparsity"] {
        for (name, value) in expected["exclude_special_true"][part].as_object().unwrap() {
            close(name, found.value(name).unwrap(), value.as_f64().unwrap());
            checked += 1;
        }
    }
    assert_eq!(checked, 10);
    let table = found.table("latent").unwrap();
    for (name, values) in expected["featurewise"].as_object().unwrap() {
        let values = values.as_array().unwrap();
        assert_eq!(table.rows(), values.len());
        for (latent, value) in values.iter().enumerate() {
            let found = table.column(name).unwrap().number(latent).unwrap_or(-1.0);
            close(&format!("{name} of latent {latent}"), found, value.as_f64().unwrap());
        }
    }
    let corrected = expected["own_additions"]["explained_variance_corrected"].as_f64().unwrap();
    let paper = scores(&inputs, Profile::Paper, batch_rows);
    close("explained variance", paper.value("explained_variance").unwrap(), corrected);
}
