//! Gradients with respect to activations, against autograd: RAVEL's mask over latents (SAEBench's MDBM), whose gradient is that of the
//! residual stream at one position, multiplied by the decoder.

use etalon::context::Budget;
use etalon::network::{Batch, LanguageModel, Network, Untouched};
use etalon_models::language::Decoder;
use etalon_models::open_language;
use serde_json::Value;

use crate::{assert_close, context, floats, golden, integers, tensors};

/// The two texts of a sample, without padding, and where they are read and changed.
struct Sample {
    base: Vec<u32>,
    position: usize,
    target: u32,
    base_codes: Vec<f32>,
    source_codes: Vec<f32>,
}

/// What a mask does: the loss, the logits of the last tokens, and the gradient of the loss.
struct Outcome {
    loss: f64,
    logits: Vec<f32>,
    gradient: Vec<f64>,
}

struct Ravel {
    network: std::sync::Arc<Decoder>,
    /// The stage behind the changed stream.
    stage: usize,
    decoder: Vec<f32>,
    bias: Vec<f32>,
    samples: Vec<Sample>,
}

impl Ravel {
    /// Applies a mask over latents at a temperature: codes are (1 − g) · base + g · source with g = sigmoid(mask / temperature).
    fn apply(&self, mask: &[f32], temperature: f64, threads: usize) -> Outcome {
        let context = context(threads);
        let gates: Vec<f64> = mask.iter().map(|mask| 1.0 / (1.0 + (-f64::from(*mask) / temperature).exp())).collect();
        let width = self.network.card().width;
        let mut outcome = Outcome { loss: 0.0, logits: Vec::new(), gradient: vec![0.0; mask.len()] };
        for Sample { base, position, target, base_codes, source_codes } in &self.samples {
            let length = base.len();
            let mut state = self.network.begin(&Batch::Tokens { tokens: base, length }, &context).unwrap();
            self.network.run(0..self.stage, &mut state, &mut Untouched, &context).unwrap();
            let mut row: Vec<f64> = self.bias.iter().map(|value| f64::from(*value)).collect();
            for (latent, gate) in gates.iter().enumerate() {
                let code = (1.0 - gate) * f64::from(base_codes[latent]) + gate * f64::from(source_codes[latent]);
                let direction = &self.decoder[latent * width..][..width];
                row.iter_mut().zip(direction).for_each(|(value, weight)| *value += code * f64::from(*weight));
            }
            let stream = &mut state.values[position * width..][..width];
            stream.iter_mut().zip(&row).for_each(|(value, row)| *value = *row as f32);
            let stages = self.stage..self.network.stages();
            let kept = self.network.run_kept(stages, &mut state, &mut Untouched, &context).unwrap();
            let mut logits = vec![0.0; self.network.card().vocabulary];
            self.network.logits(&state, length - 1..length, &mut logits).unwrap();
            outcome.logits.extend(logits);
            let targets: Vec<Option<u32>> = (0..length).map(|row| (row == length - 1).then_some(*target)).collect();
            let (mut gradient, losses) = self.network.loss_gradient(&state, &targets, &context).unwrap();
            self.network.backward(&kept, &mut gradient, &context).unwrap();
            let share = 1.0 / self.samples.len() as f64;
            outcome.loss += share * f64::from(losses[0]);
            let gradient = &gradient[position * width..][..width];
            for (latent, gate) in gates.iter().enumerate() {
                let direction = &self.decoder[latent * width..][..width];
                let slope: f64 = gradient.iter().zip(direction).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                let change = f64::from(source_codes[latent]) - f64::from(base_codes[latent]);
                outcome.gradient[latent] += share * slope * change * gate * (1.0 - gate) / temperature;
            }
        }
        outcome
    }
}

/// The tokens of a row without the padding on its left.
fn unpadded(ids: &[u32], mask: &[u32]) -> Vec<u32> {
    ids.iter().zip(mask).filter(|(_, mask)| **mask == 1).map(|(id, _)| *id).collect()
}

/// Gradients agree to 1e-4 of the largest.
fn assert_gradient(what: &str, found: &[f64], expected: &[f32]) {
    let most = expected.iter().fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
    assert!(most > 0.0, "{what}");
    for (latent, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - f64::from(*expected)).abs() < 1e-4 * most, "{what}, latent {latent}: {found} {expected}");
    }
}

#[test]
fn gradients_of_masks_agree_with_autograd() {
    let directory = golden("interventions");
    let ravel = directory.join("ravel");
    let network = open_language(&directory.join("model"), &Budget::new(1 << 30)).unwrap();
    let expected = tensors(&ravel.join("expected.safetensors"));
    let about: Value = serde_json::from_slice(&std::fs::read(ravel.join("expected.json")).unwrap()).unwrap();
    let dictionary = tensors(&directory.join("sae/sae_weights.safetensors"));
    let [(base, shape), (base_mask, _), (source, source_shape), (source_mask, _)] =
        ["base_ids", "base_mask", "source_ids", "source_mask"].map(|name| integers(&ravel.join(format!("{name}.npy"))));
    let latents = expected["base_codes"].shape[1];
    let (width, stage) = (network.card().width, about["layer"].as_u64().unwrap() as usize + 1);
    let mut samples = Vec::new();
    for row in 0..shape[0] {
        let number = |key: &str| about[key][row].as_i64().unwrap();
        let tokens = unpadded(&base[row * shape[1]..][..shape[1]], &base_mask[row * shape[1]..][..shape[1]]);
        let columns = source_shape[1];
        let other = unpadded(&source[row * columns..][..columns], &source_mask[row * columns..][..columns]);
        // Positions count from the end, so that padding does not matter.
        for (tokens, key, name) in
            [(&tokens, "base_position", "base_resid"), (&other, "source_position", "source_resid")]
        {
            let context = context(2);
            let batch = Batch::Tokens { tokens, length: tokens.len() };
            let mut state = network.begin(&batch, &context).unwrap();
            network.run(0..stage, &mut state, &mut Untouched, &context).unwrap();
            let at = (tokens.len() as i64 + number(key)) as usize;
            let wanted = &expected[name].values[row * width..][..width];
            assert_close(&format!("{name}, sample {row}"), &state.values[at * width..][..width], wanted);
        }
        let codes = |name: &str| expected[name].values[row * latents..][..latents].to_vec();
        samples.push(Sample {
            position: (tokens.len() as i64 + number("base_position")) as usize,
            target: number("target_token") as u32,
            base_codes: codes("base_codes"),
            source_codes: codes("source_codes"),
            base: tokens,
        });
    }
    let [decoder, bias] = ["W_dec", "b_dec"].map(|name| dictionary[name].values.clone());
    let run = Ravel { network, stage, decoder, bias, samples };
    let (mask, _) = floats(&ravel.join("mask.npy"));
    let temperature = about["temperature"].as_f64().unwrap();
    let found = run.apply(&mask, temperature, 2);
    assert_close("logits", &found.logits, &expected["training_logits"].values);
    assert!((found.loss - about["training"]["loss"].as_f64().unwrap()).abs() < 1e-5, "{}", found.loss);
    assert_gradient("mask", &found.gradient, &expected["mask_gradient"].values);
    for threads in [1, 7] {
        assert_eq!(run.apply(&mask, temperature, threads).gradient, found.gradient);
    }
    // A training from the zero mask; the last step, at temperature 1e-4, has no gradient to compare.
    let mut mask = vec![0.0; latents];
    let trace = about["training_trace_from_zero_mask"].as_array().unwrap();
    for (step, about) in trace.iter().enumerate() {
        let found = run.apply(&mask, about["temperature"].as_f64().unwrap(), 2);
        let loss = about["loss"].as_f64().unwrap();
        assert!((found.loss - loss).abs() < 1e-5 * loss, "step {step}: {} {loss}", found.loss);
        if step < trace.len() - 1 {
            let wanted = &expected[&format!("gradient_step_{step}")].values;
            assert_gradient(&format!("step {step}"), &found.gradient, wanted);
        }
        mask.clone_from(&expected[&format!("mask_after_step_{step}")].values);
    }
}
