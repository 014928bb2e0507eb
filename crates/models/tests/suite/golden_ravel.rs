//! Interchange interventions of RAVEL against SAEBench: masks over latents (MDBM) with gradients, training and generation, and
//! the skyline (MDAS).

use etalon::context::{Budget, Context};
use etalon::input::Tensors;
use etalon::network::{
    AdamParameters, Batch, EncodedRow, Exchange, Gates, Generation, Interchange, LanguageModel, LatentMask, Network,
    ReplaceOnce, RotatedMask, Rotation, SiteId, Untouched, find_sites,
};
use etalon::sae::Dictionary;
use etalon::sae::checkpoint;
use etalon_models::language::Decoder;
use etalon_models::open_language;
use serde_json::Value;

use crate::{assert_close, context, floats, golden, integers, tensors};

/// The two texts of a sample, without padding, and where they are read and changed.
struct Sample {
    tokens: Vec<u32>,
    stream: Vec<f32>,
    position: usize,
    target: u32,
    base: EncodedRow,
    source: EncodedRow,
}

impl Sample {
    fn exchange(&self) -> Exchange<'_> {
        let Sample { tokens, stream, position, target, base, source } = self;
        Exchange { tokens, stream, position: *position, target: *target, base, source }
    }
}

struct Golden {
    network: std::sync::Arc<Decoder>,
    site: SiteId,
    dictionary: Box<dyn Dictionary>,
    expected: Tensors,
    about: Value,
    samples: Vec<Sample>,
}

/// The tokens of a row without the padding on its left.
fn unpadded(ids: &[u32], mask: &[u32]) -> Vec<u32> {
    ids.iter().zip(mask).filter(|(_, mask)| **mask == 1).map(|(id, _)| *id).collect()
}

/// The codes of a row, also those that are 0.
fn dense(row: &EncodedRow, latents: usize) -> Vec<f32> {
    let mut codes = vec![0.0; latents];
    row.latents.iter().zip(&row.values).for_each(|(latent, value)| codes[*latent as usize] = *value);
    codes
}

impl Golden {
    fn read() -> Golden {
        let (directory, budget) = (golden("interventions"), Budget::new(1 << 30));
        let ravel = directory.join("ravel");
        let network = open_language(&directory.join("model"), &budget).unwrap();
        let about: Value = serde_json::from_slice(&std::fs::read(ravel.join("expected.json")).unwrap()).unwrap();
        let site = find_sites(network.sites(), &format!("blocks.{}.hook_resid_post", about["layer"])).unwrap()[0];
        let dictionary = checkpoint::load(&directory.join("sae"), &budget).unwrap().dictionary;
        let expected = tensors(&ravel.join("expected.safetensors"));
        let [(base, shape), (base_mask, _), (source, source_shape), (source_mask, _)] =
            ["base_ids", "base_mask", "source_ids", "source_mask"]
                .map(|name| integers(&ravel.join(format!("{name}.npy"))));
        let (width, latents) = (network.card().width, dictionary.card().latents);
        let context = context(2);
        let interchange = Interchange::new(&*network, site, &context).unwrap();
        let mut samples = Vec::new();
        for row in 0..shape[0] {
            let number = |key: &str| about[key][row].as_i64().unwrap();
            let texts = [(&base, &base_mask, shape[1], "base"), (&source, &source_mask, source_shape[1], "source")];
            // Positions count from the end, so that padding does not matter.
            let [(tokens, stream, position, base), (.., source)] = texts.map(|(ids, mask, columns, name)| {
                let tokens = unpadded(&ids[row * columns..][..columns], &mask[row * columns..][..columns]);
                let stream = interchange.stream(&tokens).unwrap();
                let position = (tokens.len() as i64 + number(&format!("{name}_position"))) as usize;
                let found = &stream[position * width..][..width];
                let wanted = &expected[&format!("{name}_resid")].values[row * width..][..width];
                assert_close(&format!("{name}, sample {row}"), found, wanted);
                let encoded = EncodedRow::new(found.to_vec(), &*dictionary, &budget).unwrap();
                let wanted = &expected[&format!("{name}_codes")].values[row * latents..][..latents];
                assert_close(&format!("codes of {name}, sample {row}"), &dense(&encoded, latents), wanted);
                (tokens, stream, position, encoded)
            });
            samples.push(Sample { tokens, stream, position, target: number("target_token") as u32, base, source });
        }
        Golden { network, site, dictionary, expected, about, samples }
    }

    fn exchanges(&self) -> Vec<Exchange<'_>> {
        self.samples.iter().map(Sample::exchange).collect()
    }

    fn mask(&self, values: Vec<f32>) -> LatentMask<'_> {
        LatentMask::new(&*self.dictionary, AdamParameters::new(values), &Budget::new(1 << 30))
    }

    /// The logits of the last token of every sample after an exchange.
    fn logits(&self, row: impl Fn(&Sample) -> Vec<f32>, context: &Context) -> Vec<f32> {
        let mut logits = Vec::new();
        for sample in &self.samples {
            let length = sample.tokens.len();
            let mut state = self.network.begin(&Batch::Tokens { tokens: &sample.tokens, length }, context).unwrap();
            let mut replace = ReplaceOnce::new(self.site, sample.position, row(sample));
            self.network.run(0..self.network.stages(), &mut state, &mut replace, context).unwrap();
            let mut of_sample = vec![0.0; self.network.card().vocabulary];
            self.network.logits(&state, length - 1..length, &mut of_sample).unwrap();
            logits.extend(of_sample);
        }
        logits
    }
}

/// Gradients agree to 1e-4 of the largest.
fn assert_gradient(what: &str, found: &[f64], expected: &[f32]) {
    let most = expected.iter().fold(0.0f64, |most, value| most.max(f64::from(value.abs())));
    assert!(most > 0.0 && found.len() == expected.len(), "{what}");
    for (latent, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - f64::from(*expected)).abs() < 1e-4 * most, "{what}, latent {latent}: {found} {expected}");
    }
}

/// Mean cross-entropy of the targets, and the predicted tokens.
fn losses(logits: &[f32], vocabulary: usize, targets: &[u32]) -> (f64, Vec<u32>) {
    let rows = logits.chunks_exact(vocabulary).zip(targets);
    let loss = |(row, target): (&[f32], &u32)| {
        let sum: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        sum.ln() - f64::from(row[*target as usize])
    };
    let best = |row: &[f32]| (0..row.len() as u32).max_by(|a, b| row[*a as usize].total_cmp(&row[*b as usize]));
    let mean = rows.map(loss).sum::<f64>() / targets.len() as f64;
    (mean, logits.chunks_exact(vocabulary).filter_map(best).collect())
}

#[test]
fn masks_over_latents_agree_with_the_released_program() {
    let golden = Golden::read();
    let (about, expected, vocabulary) = (&golden.about, &golden.expected, golden.network.card().vocabulary);
    let (values, _) = floats(&crate::golden("interventions/ravel/mask.npy"));
    let mask = golden.mask(values);
    let temperature = about["temperature"].as_f64().unwrap();
    let context = context(2);
    let interchange = Interchange::new(&*golden.network, golden.site, &context).unwrap();
    let exchanges = golden.exchanges();
    let targets: Vec<u32> = exchanges.iter().map(|exchange| exchange.target).collect();
    // In training.
    let (loss, gradient) = interchange.gradient(&mask, &exchanges, temperature).unwrap();
    assert!((loss - about["training"]["loss"].as_f64().unwrap()).abs() < 1e-5, "{loss}");
    assert_gradient("mask", &gradient, &expected["mask_gradient"].values);
    let difference = &about["finite_difference_check"];
    let found = gradient[difference["latent"].as_u64().unwrap() as usize];
    assert!((found - difference["central_difference"].as_f64().unwrap()).abs() < 1e-5, "{found}");
    let logits = golden.logits(|sample| mask.mix(&sample.base, &sample.source, Some(temperature)).unwrap(), &context);
    assert_close("logits", &logits, &expected["training_logits"].values);
    let (_, predicted) = losses(&logits, vocabulary, &targets);
    assert_eq!(about["training"]["accuracy"], 0.0);
    assert!(predicted.iter().zip(&targets).all(|(a, b)| a != b));
    // After training, also with what the dictionary does not reconstruct.
    let hard = |sample: &Sample| mask.mix(&sample.base, &sample.source, None).unwrap();
    let logits = golden.logits(hard, &context);
    assert_close("hard gates", &logits, &expected["hard_gate_logits"].values);
    let (loss, predicted) = losses(&logits, vocabulary, &targets);
    assert!((loss - about["hard_gate_loss"].as_f64().unwrap()).abs() < 1e-5, "{loss}");
    let with_error = |sample: &Sample| {
        let plain = mask.mix(&sample.base, &sample.base, None).unwrap();
        let rest = sample.base.row.iter().zip(plain).map(|(row, plain)| row - plain);
        hard(sample).iter().zip(rest).map(|(row, rest)| row + rest).collect()
    };
    let wanted = &expected["hard_gate_logits_with_error_term"].values;
    assert_close("with the error", &golden.logits(with_error, &context), wanted);
    // Pairs whose first token is the target count as isolation.
    let first = about["base_first_token_for_scores"].as_array().unwrap();
    let isolated: Vec<bool> = first.iter().zip(&targets).map(|(first, target)| first == target).collect();
    let scores = &about["scores_on_last_token"];
    assert_eq!(isolated.iter().filter(|isolated| **isolated).count() as u64, scores["n_isolation"].as_u64().unwrap());
    assert_eq!((scores["cause"].as_f64(), scores["isolation"].as_f64()), (Some(0.0), Some(0.0)));
    assert!(predicted.iter().zip(&targets).all(|(a, b)| a != b));
    for threads in [1, 7] {
        let context = crate::context(threads);
        let interchange = Interchange::new(&*golden.network, golden.site, &context).unwrap();
        assert_eq!(interchange.gradient(&mask, &exchanges, temperature).unwrap().1, gradient);
    }
}

#[test]
fn a_training_has_the_masks_of_the_released_program_after_every_step() {
    let golden = Golden::read();
    let context = context(2);
    let interchange = Interchange::new(&*golden.network, golden.site, &context).unwrap();
    let exchanges = golden.exchanges();
    let mut mask = LatentMask::new(&*golden.dictionary, LatentMask::start(&*golden.dictionary), &Budget::new(1 << 30));
    let trace = golden.about["training_trace_from_zero_mask"].as_array().unwrap();
    for (step, about) in trace.iter().enumerate() {
        let temperature = about["temperature"].as_f64().unwrap();
        let (loss, gradient) = interchange.gradient(&mask, &exchanges, temperature).unwrap();
        let wanted = about["loss"].as_f64().unwrap();
        assert!((loss - wanted).abs() < 1e-5 * wanted, "step {step}: {loss} {wanted}");
        // The last step, at temperature 1e-4, has no gradient to compare.
        if step < trace.len() - 1 {
            let wanted = &golden.expected[&format!("gradient_step_{step}")].values;
            assert_gradient(&format!("step {step}"), &gradient, wanted);
        }
        let before = interchange.step(&mut mask, &exchanges, temperature, 1e-3).unwrap();
        assert_eq!(before, loss);
        let wanted = &golden.expected[&format!("mask_after_step_{step}")].values;
        assert_eq!(mask.trained().values.len(), wanted.len());
        for (latent, (found, wanted)) in mask.trained().values.iter().zip(wanted).enumerate() {
            assert!((found - wanted).abs() < 1e-6, "step {step}, latent {latent}: {found} {wanted}");
        }
    }
}

#[test]
fn generated_tokens_after_an_exchange_are_those_of_the_released_program() {
    let golden = Golden::read();
    let (values, _) = floats(&crate::golden("interventions/ravel/mask.npy"));
    let (mask, context) = (golden.mask(values), context(2));
    let settings = Generation { tokens: 6, ..Generation::default() };
    for (index, sample) in golden.samples.iter().enumerate() {
        let row = mask.mix(&sample.base, &sample.source, None).unwrap();
        let mut replace = ReplaceOnce::new(golden.site, sample.position, row);
        let changed = golden.network.generate(&sample.tokens, &settings, &mut replace, &context).unwrap();
        let plain = golden.network.generate(&sample.tokens, &settings, &mut Untouched, &context).unwrap();
        for (found, key) in [(changed, "generation_hard_gate"), (plain, "generation_without_intervention")] {
            let wanted: Vec<u32> = serde_json::from_value(golden.about[key][index].clone()).unwrap();
            assert_eq!(found, wanted, "{key}, sample {index}");
        }
    }
}

#[test]
fn the_skyline_agrees_with_the_released_program() {
    let golden = Golden::read();
    let (about, expected) = (&golden.about["mdas"], &golden.expected);
    let context = context(2);
    let interchange = Interchange::new(&*golden.network, golden.site, &context).unwrap();
    let parameters = [expected["mdas_mask"].values.clone(), expected["mdas_matrix"].values.clone()].concat();
    let width = golden.network.card().width;
    let mask = RotatedMask::new(width, AdamParameters::new(parameters), Rotation::Lapack);
    let temperature = about["temperature"].as_f64().unwrap();
    let (loss, gradient) = interchange.gradient(&mask, &golden.exchanges(), temperature).unwrap();
    assert!((loss - about["loss"].as_f64().unwrap()).abs() < 1e-5, "{loss}");
    assert_gradient("mask", &gradient[..width], &expected["mdas_mask_gradient"].values);
    assert_gradient("matrix", &gradient[width..], &expected["mdas_matrix_gradient"].values);
}
