//! All eight trainers of dictionary-learning 0.1.0, from their initial weights over twelve batches of `tests/golden/training`.
//!
//! The reference ran in f32 with sums in another order, and Adam divides small numbers by small numbers: final weights
//! agree to 1e-4, losses to 1e-4 of their size.

use std::path::Path;

use etalon::context::Budget;
use etalon::input::{Finite, Source, Tensor, Tensors, read_rows, read_tensors};
use etalon::sae::arch;
use etalon::sae::arch::params::{
    ANNEAL_START, BANDWIDTH, EXPONENT_UPDATES, EXPONENTS, GROUPS, PENALTY, QUEUE, SPARSITY_WARMUP, TARGET_L0,
};
use etalon::sae::train::{Preset, Trainer, TrainingSettings};
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/training/");
const BATCH: usize = 64;
const WIDTH: usize = 16;
const LATENTS: usize = 48;

fn settings(arch: &str, params: &Value) -> TrainingSettings {
    let number = |name: &str| params[name].as_f64();
    let count = |name: &str| params[name].as_u64();
    let mut settings = arch::find(arch).unwrap().settings(Preset::DictionaryLearning, WIDTH, LATENTS);
    settings.batch = BATCH;
    settings.steps = count("steps").unwrap();
    settings.rate = number("lr").unwrap();
    settings.warmup = count("warmup_steps").unwrap();
    settings.k = count("k").map_or(settings.k, |k| k as usize);
    if let Some(steps) = count("sparsity_warmup_steps") {
        settings = settings.with(&SPARSITY_WARMUP, steps);
    }
    for name in ["l1_penalty", "sparsity_penalty", "initial_sparsity_penalty"] {
        if let Some(penalty) = number(name) {
            settings = settings.with(&PENALTY, penalty);
        }
    }
    if let Some(target) = number("target_l0") {
        settings = settings.with(&TARGET_L0, target);
    }
    if let Some(width) = number("bandwidth") {
        settings = settings.with(&BANDWIDTH, width as f32);
    }
    if let Some(groups) = params["group_fractions"].as_array() {
        settings = settings.with(&GROUPS, groups.iter().map(|group| group.as_f64().unwrap()).collect());
    }
    if let (Some(start), Some(end)) = (number("p_start"), number("p_end")) {
        settings = settings
            .with(&EXPONENTS, (start, end))
            .with(&ANNEAL_START, count("anneal_start").unwrap())
            .with(&EXPONENT_UPDATES, count("n_sparsity_updates").unwrap() as usize)
            .with(&QUEUE, count("sparsity_queue_length").unwrap() as usize);
    }
    settings
}

/// A reference tensor in our orientation.
fn reference(tensors: &Tensors, name: &str) -> Tensor {
    let names: &[(&str, bool)] = match name {
        "encoder" => &[("encoder.weight", false), ("W_enc", true)],
        "decoder" => &[("decoder.weight", true), ("W_dec", false)],
        "bias" => &[("bias", false), ("b_dec", false), ("decoder_bias", false)],
        "encoder_bias" => &[("encoder.bias", false), ("b_enc", false)],
        "gate_bias" => &[("gate_bias", false)],
        "magnitude_bias" => &[("mag_bias", false)],
        "magnitude_log_scale" => &[("r_mag", false)],
        "threshold" => &[("threshold", false)],
        other => panic!("{other}"),
    };
    let (tensor, turned) = names.iter().find_map(|(name, turned)| Some((tensors.get(*name)?, *turned))).unwrap();
    if !turned {
        return tensor.clone();
    }
    let (rows, columns) = (tensor.shape[0], tensor.shape[1]);
    let values = (0..rows * columns).map(|i| tensor.values[i % rows * columns + i / rows]).collect();
    Tensor { shape: vec![columns, rows], values }
}

fn check(arch: &str, folder: &str, terms: &[(&str, &str)]) {
    let budget = Budget::new(1 << 30);
    let tensors =
        |file: &str| read_tensors(Path::new(&format!("{FOLDER}{folder}/{file}.safetensors")), &budget).unwrap();
    let x = Source::parse(&format!("{FOLDER}x.npy")).unwrap();
    let x = read_rows(&x, Finite::Refuse, &budget).unwrap();
    let expected: Value =
        serde_json::from_str(&std::fs::read_to_string(format!("{FOLDER}expected.json")).unwrap()).unwrap();
    let expected = &expected[folder];
    let mut trainer = Trainer::new(settings(arch, &expected["params"])).unwrap();
    trainer.start_from(&tensors("initial")).unwrap();
    let mut compared = 0;
    for (step, batch) in x.values.chunks_exact(BATCH * WIDTH).enumerate() {
        let found = trainer.step(batch).unwrap();
        let losses = &expected["losses_before_step"][step];
        for (theirs, ours) in terms {
            let Some(wanted) = losses[theirs].as_f64() else { continue };
            let value = if *ours == "error_length" { found.error_length } else { found.term(ours).unwrap() };
            assert!((value - wanted).abs() <= 1e-4 * wanted.abs(), "step {step} {theirs}: {value} for {wanted}");
            compared += 1;
        }
    }
    assert!(compared > 0 || terms.is_empty());
    let last = tensors("final");
    for (name, tensor) in trainer.weights() {
        let wanted = reference(&last, &name);
        assert_eq!(tensor.shape, wanted.shape, "{name}");
        let worst = tensor.values.iter().zip(&wanted.values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(worst < 1e-4, "{name}: differs by {worst}");
    }
}

#[test]
fn topk() {
    check("topk", "topk", &[("loss", "loss"), ("l2_loss", "squared_error"), ("auxk_loss", "auxiliary")]);
}

#[test]
fn batch_topk() {
    check("batch_topk", "batch_topk", &[("loss", "loss"), ("l2_loss", "squared_error"), ("auxk_loss", "auxiliary")]);
}

#[test]
fn matryoshka() {
    check("matryoshka", "matryoshka", &[("loss", "loss"), ("l2_loss", "squared_error"), ("auxk_loss", "auxiliary")]);
}

#[test]
fn relu() {
    let terms =
        [("loss", "loss"), ("mse_loss", "squared_error"), ("sparsity_loss", "sparsity"), ("l2_loss", "error_length")];
    check("relu", "standard", &terms);
}

#[test]
fn relu_april() {
    let terms =
        [("loss", "loss"), ("mse_loss", "squared_error"), ("sparsity_loss", "sparsity"), ("l2_loss", "error_length")];
    check("relu_april", "standard_april", &terms);
}

#[test]
fn gated() {
    let terms =
        [("loss", "loss"), ("mse_loss", "squared_error"), ("sparsity_loss", "sparsity"), ("aux_loss", "gate_error")];
    check("gated", "gated", &terms);
}

#[test]
fn jumprelu() {
    check("jumprelu", "jumprelu", &[("loss", "loss"), ("l2_loss", "squared_error")]);
}

/// The reference kept no losses of this trainer.
#[test]
fn p_anneal() {
    check("p_anneal", "p_anneal", &[]);
}
