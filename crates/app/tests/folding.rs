//! A network is used as the settings of a dictionary say: SAELens records what TransformerLens changed in the weights.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;

use common::Sandbox;
use common::everything::make_model_of;
use common::files::saelens;
use serde_json::{Value, json};

const SITE: &str = "blocks.1.hook_resid_post";

/// Options that name the tiny GPT-2, whose layer norms subtract the mean.
const NETWORK: &str =
    "--model model --input texts.jsonl --site blocks.1.hook_resid_post --context 8 --pack --cache cache";

/// Writes a SAELens dictionary of width 18 with these additional settings.
fn dictionary(sandbox: &Sandbox, name: &str, more: Value) {
    let mut settings = json!({
        "d_in": 18, "d_sae": 24, "dtype": "float32", "apply_b_dec_to_input": true, "normalize_activations": "none",
        "reshape_activations": "none", "architecture": "standard", "hook_name": SITE, "model_name": "tiny",
    });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    sandbox.write(&format!("{name}/cfg.json"), settings.to_string());
    let weights = saelens(&[("W_enc", &[18, 24]), ("b_enc", &[24]), ("W_dec", &[24, 18]), ("b_dec", &[18])]);
    sandbox.write(&format!("{name}/sae_weights.safetensors"), weights);
}

fn captures(sandbox: &Sandbox) -> usize {
    sandbox.done("cache --cache cache --json").json().as_array().unwrap().len()
}

/// The rows of the capture that a command used, by what it printed.
fn rows(sandbox: &Sandbox, printed: &str) -> Vec<f32> {
    let line = printed.lines().find_map(|line| line.strip_prefix("capture: ")).expect("a capture");
    let bytes = fs::read(sandbox.path(line).join("sites").join(SITE).join("shard-00000.f32")).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect()
}

#[test]
fn folding_comes_from_the_settings_of_the_dictionary() {
    let sandbox = Sandbox::new();
    make_model_of(&sandbox, "gpt2", 90, 30);
    let changes = json!({"fold_ln": true, "center_writing_weights": true});
    dictionary(&sandbox, "plain", json!({"sae_lens_training_version": "5.10.0"}));
    dictionary(
        &sandbox,
        "folded",
        json!({"sae_lens_training_version": "5.10.0", "model_from_pretrained_kwargs": changes}),
    );
    // In version 6 the key is in the metadata.
    let metadata = json!({"sae_lens_version": "6.0.0", "sae_lens_training_version": "6.0.0", "model_from_pretrained_kwargs": changes});
    dictionary(&sandbox, "folded6", json!({"metadata": metadata}));
    dictionary(&sandbox, "old", json!({"sae_lens_training_version": "3.10.0"}));

    let eval = |sae: &str, more: &str| {
        let out = format!("{sae}{}.json", more.replace(' ', ""));
        let output = sandbox.done(&format!("eval core,loss_recovered --sae {sae} {NETWORK} {more} --out {out}"));
        (output.err, sandbox.json(&out))
    };
    let (plain, plain_results) = eval("plain", "");
    assert!(!plain.contains("processing: "), "{plain}");
    assert_eq!(captures(&sandbox), 1);
    let (folded, folded_results) = eval("folded", "");
    let status = "processing: fold_ln+center_writing_weights, as the settings of the dictionary say";
    assert_eq!(folded.lines().filter(|line| *line == status).count(), 1, "{folded}");
    // Another network, and therefore another capture with other rows: each minus its mean.
    assert_eq!(captures(&sandbox), 2);
    let (before, after) = (rows(&sandbox, &plain), rows(&sandbox, &folded));
    assert_eq!(before.len(), after.len());
    let mut moved = 0.0f32;
    for (before, after) in before.chunks_exact(18).zip(after.chunks_exact(18)) {
        let mean = before.iter().sum::<f32>() / 18.0;
        moved = moved.max(mean.abs());
        assert!(before.iter().zip(after).all(|(a, b)| (a - mean - b).abs() < 2e-4), "{before:?} {after:?}");
    }
    assert!(moved > 0.01, "{moved}");
    for (plain, folded) in plain_results.as_array().unwrap().iter().zip(folded_results.as_array().unwrap()) {
        assert_ne!(plain["inputs"], folded["inputs"]);
    }
    // The other version of the settings means the same capture; the option has precedence over the settings.
    let (folded6, _) = eval("folded6", "");
    assert!(folded6.contains(status), "{folded6}");
    assert_eq!(captures(&sandbox), 2);
    let (asked, _) = eval("folded", "--processing none");
    assert!(!asked.contains("processing: ") && rows(&sandbox, &asked) == before, "{asked}");
    assert_eq!(captures(&sandbox), 2);
    // Before version 3.19.2, SAELens did not record that all changes were made.
    let (old, _) = eval("old", "");
    assert!(old.contains("processing: transformer-lens, as the settings of the dictionary say"), "{old}");
    assert_eq!(captures(&sandbox), 3);
    // The loss of the network itself does not depend on any of this.
    let loss = |results: &Value| {
        let of = results.as_array().unwrap().iter().find(|result| result["metric"] == "loss_recovered").unwrap();
        of["headline"]["ce_loss_without_sae"]["value"].as_f64().unwrap()
    };
    assert!((loss(&plain_results) - loss(&folded_results)).abs() < 1e-4);
}
