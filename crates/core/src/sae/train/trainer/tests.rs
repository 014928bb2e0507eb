//! All architectures: gradients against finite differences, and the same bits on any number of threads and after
//! resuming.

use super::*;
use crate::sae::arch::params::{
    ANNEAL_START, BANDWIDTH, EXPONENTS, GROUPS, JUMP, MULTIPLIER, NEIGHBOURS, PENALTY, RADIUS, SPARSITY_WARMUP,
    TARGET_L0,
};
use crate::sae::arch::{self, ARCHS, Jump};
use crate::sae::preset::Preset;
use crate::sae::train::weights;
use crate::sae::train::{Constraint, Radius};
use etalon_kernel::kmeans::{KmeansParams, kmeans};
use etalon_kernel::monitor::Silent;
use etalon_kernel::random::{stream, unit};

fn rows(count: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "training test", 0);
    (0..count * width).map(|_| 2.0 * unit(&mut random) as f32 - 1.0).collect()
}

fn small(arch: &dyn arch::Arch, width: usize, latents: usize) -> TrainingSettings {
    small_as(arch, Preset::Etalon, width, latents)
}

fn small_as(arch: &dyn arch::Arch, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
    TrainingSettings {
        k: 4,
        steps: 40,
        batch: 20,
        warmup: 0,
        rate: 0.01,
        median: false,
        initial_norm: 0.8,
        initial_bias: 0.05,
        ..arch.settings(preset, width, latents)
    }
    .with(&SPARSITY_WARMUP, 0)
    .with(&PENALTY, 0.3)
    .with(&TARGET_L0, 4.0)
    .with(&BANDWIDTH, 0.02)
    .with(&GROUPS, vec![0.25, 0.25, 0.5])
    .with(&ANNEAL_START, 1)
    .with(&EXPONENTS, (1.0, 0.5))
}

/// A trainer with its candidates, if the architecture has any: k-means centres of `rows`.
fn begin(settings: TrainingSettings, rows: &[f32]) -> Trainer {
    let width = settings.width;
    let mut trainer = Trainer::new(settings).unwrap();
    if let Some(count) = trainer.missing_candidates() {
        assert!(trainer.step(rows).is_err());
        let search = KmeansParams { centres: count, iterations: 3, seed: 1 };
        let centres = kmeans(rows, width, &search, &Silent).unwrap();
        trainer.give_candidates(&centres).unwrap();
    }
    trainer
}

/// Compares gradients with finite differences of the loss. If a weight receives no gradient from a term, the difference
/// is that of the other terms. Thresholds are tested separately.
#[test]
fn gradients_agree_with_finite_differences() {
    for preset in [Preset::Etalon, Preset::Blindspots, Preset::Saelens, Preset::SaeConceptEval] {
        ARCHS.iter().for_each(|arch| check_gradients(*arch, preset));
    }
}

fn check_gradients(arch: &dyn arch::Arch, preset: Preset) {
    let (width, latents, count) = (7, 37, 20);
    let name = arch.card().name;
    let settings = TrainingSettings {
        clip: Some(1e9),
        constraint: Constraint::Free,
        reanimation: if preset == Preset::Blindspots && name != "mp" { 0.3 } else { 0.0 },
        // With `AuxiliaryRule::Attached` the auxiliary loss is differentiable: latents that did not fire are dead at
        // once.
        dead_after: if preset == Preset::SaeConceptEval { 1 } else { u64::MAX },
        // With rate 0 there is no weight decay and no projection.
        rate: 0.0,
        ..small_as(arch, preset, width, latents)
    };
    let batch = rows(count, width, 3);
    let mut trainer = begin(settings.clone(), &batch);
    // Move away from the initial mixtures, which are single points.
    if let Some(archetypes) = &mut trainer.archetypes {
        archetypes.scatter(4);
        archetypes.build(&mut trainer.weights.decoder);
    }
    let start = trainer.weights();
    let shape = trainer.weights.size;
    let scalars = trainer.objective.rules().scalars.clone();
    trainer.step(&batch).unwrap();
    let gradient = trainer.buffers.gradient.take().unwrap();
    let mut gradient = weights::buffers_to_tensors(&gradient, shape, &scalars, "");
    if let Some(archetypes) = &trainer.archetypes {
        let relaxation = gradient.remove("decoder").unwrap();
        gradient.insert("relaxation".into(), relaxation);
        gradient.append(&mut archetypes.gradients());
    }
    let loss_at = |tensors: &Tensors| {
        let mut trainer = Trainer::new(settings.clone()).unwrap();
        trainer.start_from(tensors).unwrap();
        trainer.loss_on(&batch)
    };
    for (part, tensor) in &gradient {
        let untrained =
            (part == "bias" && !trainer.objective.rules().biased) || (part == "encoder_bias" && !settings.encoder_bias);
        if untrained || part.ends_with("threshold") {
            assert!(!untrained || tensor.values.iter().all(|&value| value == 0.0));
            continue;
        }
        if part == "multiplier" && !settings.get(&MULTIPLIER).unwrap() {
            assert_eq!(tensor.values, [0.0]);
            continue;
        }
        let term = if name == "gated" && part == "decoder" { "squared_error" } else { "loss" };
        let scale = tensor.values.iter().fold(0.0f32, |max, value| max.max(value.abs()));
        let (mut checked, mut agreed) = (0, 0);
        for index in (0..tensor.values.len()).step_by(5) {
            let step = 1e-3f32;
            let moved = |by: f32| {
                let mut tensors = start.clone();
                tensors.get_mut(part).unwrap().values[index] += by;
                loss_at(&tensors).term(term).unwrap()
            };
            let mut difference = (moved(step) - moved(-step)) / f64::from(2.0 * step);
            if name == "gated" && part == "bias" {
                // The bias receives no gradient from the error of the decoded gates.
                let gates = trainer.buffers.errors.gate_slopes.chunks_exact(shape.stride);
                difference -= gates.map(|row| f64::from(row[index])).sum::<f64>();
            }
            let error = (difference - f64::from(tensor.values[index])).abs();
            checked += 1;
            agreed += usize::from(error < 1e-2 * f64::from(scale) + 1e-4);
        }
        // A small move may change the selection, where the loss is discontinuous.
        assert!(agreed as f64 >= 0.85 * checked as f64, "{name} {part}, {preset:?}: {agreed} of {checked}");
    }
}

/// The thresholds of JumpReLU have pseudo-derivatives. By row and latent:
/// `−(θ/ε) [|p − θ| < ε/2] ∂L/∂f − (∂L/∂L0 / rows / ε) [|f − θ| < ε/2]`, where `f` is the code after the jump, or the
/// pre-activation in SAELens. The logarithm of a threshold is trained with the same numbers.
#[test]
fn gradients_of_thresholds_are_the_pseudo_derivatives() {
    let (width, latents, count) = (7, 37, 20);
    let all = [
        ("jumprelu", Preset::Etalon),
        ("ra_jumprelu", Preset::Etalon),
        ("jumprelu", Preset::SaeConceptEval),
        ("jumprelu", Preset::Saelens),
    ];
    for (name, preset) in all {
        let arch = arch::find(name).unwrap();
        let settings =
            TrainingSettings { clip: Some(1e9), ..small_as(arch, preset, width, latents) }.with(&BANDWIDTH, 0.4);
        let jump = settings.get(&JUMP).unwrap();
        let (logarithm, target) = (jump == Jump::Logarithm, jump == Jump::Target);
        let (learned, features) = if logarithm { ("log_threshold", width as f64) } else { ("threshold", 1.0) };
        let batch = rows(count, width, 3);
        let mut start = begin(settings.clone(), &batch).weights();
        start.get_mut(learned).unwrap().values.fill(if logarithm { 0.15f32.ln() } else { 0.15 });
        let mut trainer = Trainer::new(settings.clone()).unwrap();
        trainer.start_from(&start).unwrap();
        trainer.step(&batch).unwrap();
        let size = trainer.weights.size;
        let gradients: Vec<f32> =
            trainer.buffers.gradient.as_ref().unwrap().scalars.chunks_exact(2).map(|pair| pair[1]).collect();
        let part = |name: &str| start[name].values.clone();
        let (encoder, decoder, biases, bias) = (part("encoder"), part("decoder"), part("encoder_bias"), part("bias"));
        let near = |value: f64, threshold: f64| (value - threshold).abs() < 0.2;
        let product = |a: &[f32], b: &[f64]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum::<f64>();
        let (mut expected, mut fired, mut jumps) = (vec![0.0f64; latents], 0.0, vec![0.0f64; latents]);
        for row in batch.chunks_exact(width) {
            let row: Vec<f64> = row.iter().map(|&value| f64::from(value)).collect();
            let pre: Vec<f64> =
                (0..latents).map(|l| product(&encoder[l * width..][..width], &row) + f64::from(biases[l])).collect();
            let codes: Vec<f64> = pre.iter().map(|&p| if p > 0.15 { p } else { 0.0 }).collect();
            fired += codes.iter().filter(|&&code| code > 0.0).count() as f64 / count as f64;
            let error: Vec<f64> = (0..width)
                .map(|i| {
                    f64::from(bias[i]) - row[i]
                        + (0..latents).map(|l| codes[l] * f64::from(decoder[l * width + i])).sum::<f64>()
                })
                .collect();
            for l in 0..latents {
                let slope = 2.0 / count as f64 / features * product(&decoder[l * width..][..width], &error);
                expected[l] -= if near(pre[l], 0.15) { 0.15 / 0.4 * slope } else { 0.0 };
                let seen = if jump == Jump::Step { pre[l] } else { codes[l] };
                jumps[l] += f64::from(u8::from(near(seen, 0.15)));
            }
        }
        let goal = settings.get(&TARGET_L0).unwrap();
        let miss = 2.0 * (fired / goal - 1.0) / goal;
        let penalty_slope = settings.get(&PENALTY).unwrap() * if target { miss } else { 1.0 } / count as f64;
        assert!(size.latents == latents && jumps.iter().any(|&count| count > 0.0));
        for l in 0..latents {
            let expected = expected[l] - penalty_slope / 0.4 * jumps[l];
            assert!((f64::from(gradients[l]) - expected).abs() < 1e-3 * (1.0 + expected.abs()), "{name} {l}");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let (width, latents) = (19, 130);
    for arch in ARCHS {
        let train = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let settings = TrainingSettings { dead_after: 700, ..small(*arch, width, latents) };
                let mut trainer = begin(settings, &rows(90, width, 9));
                let steps = (0..6).map(|step| trainer.step(&rows(300, width, step)).unwrap()).collect::<Vec<_>>();
                (trainer.to_tensors(), steps)
            })
        };
        let one = train(1);
        assert!(one == train(2) && one == train(7), "{}", arch.card().name);
    }
}

#[test]
fn a_restored_training_resumes_with_the_same_bits() {
    let (width, latents) = (9, 40);
    for arch in ARCHS {
        let settings = TrainingSettings { dead_after: 60, ..small(*arch, width, latents) }.with(&MULTIPLIER, true);
        let form = settings.objective().unwrap().rules().form;
        let settings = TrainingSettings { resample: (form == Form::Free).then_some(3), ..settings };
        let mut whole = begin(settings.clone(), &rows(30, width, 99));
        let mut middle = None;
        for step in 0..10 {
            if step == 5 {
                middle = Some(whole.to_tensors());
            }
            whole.step(&rows(20, width, step)).unwrap();
        }
        let mut rest = Trainer::new(settings).unwrap();
        rest.restore(&middle.unwrap()).unwrap();
        (5..10).for_each(|step| {
            rest.step(&rows(20, width, step)).unwrap();
        });
        assert_eq!(rest.steps(), 10);
        assert!(rest.to_tensors() == whole.to_tensors(), "{}", arch.card().name);
    }
}

#[test]
fn training_reduces_the_loss_and_dead_latents_learn() {
    let (width, latents) = (16, 64);
    for arch in ARCHS {
        let settings =
            TrainingSettings { rate: 0.003, dead_after: 200, ..small(*arch, width, latents) }.with(&PENALTY, 0.01);
        let batch = rows(60, width, 1);
        let mut trainer = begin(TrainingSettings { steps: 300, ..settings }, &rows(60, width, 2));
        let first = trainer.step(&batch).unwrap();
        let mut used = false;
        let mut last = first.clone();
        for _ in 0..200 {
            last = trainer.step(&batch).unwrap();
            used |= last.term("auxiliary").is_some_and(|loss| loss > 0.0);
            assert!(last.terms.iter().all(|(_, value)| value.is_finite()));
        }
        assert!(last.squared_error < 0.8 * first.squared_error, "{}: {first:?} {last:?}", arch.card().name);
        assert!(used || !["topk", "matryoshka"].contains(&arch.card().name), "no dead latent learned");
    }
}

#[test]
fn a_finished_dictionary_reconstructs_as_the_training_does() {
    use std::borrow::Cow;

    use crate::codes::CodesBuilder;
    use crate::sae::dictionary::Dictionary;
    use crate::store::Tile;

    let (width, latents) = (16, 40);
    for arch in ARCHS {
        let batch = rows(40, width, 2);
        let mut trainer = begin(TrainingSettings { rate: 0.0, ..small(*arch, width, latents) }, &batch);
        trainer.step(&batch).unwrap();
        let step = trainer.loss_on(&batch);
        // The unit is folded into the dictionary, so squared errors scale with its square.
        let unit = 3.0f32;
        let dictionary = trainer.finish(unit).unwrap();
        let scaled: Vec<f32> = batch.iter().map(|value| value * unit).collect();
        let tile = Tile { first_row: 0, width, values: Cow::Borrowed(&scaled) };
        let mut out = CodesBuilder::new(latents);
        dictionary.encode(&tile, &mut out).unwrap();
        let (codes, mut back) = (out.finish(), vec![0.0; scaled.len()]);
        dictionary.decode(&codes.all().unwrap(), Some(&tile), &mut back).unwrap();
        let error = back.iter().zip(&scaled).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / 40.0 / 9.0;
        // A tracked threshold keeps slightly fewer entries than the batch did.
        let near = if name_is_batch(arch.card().name) { 0.02 } else { 1e-4 };
        assert!((error - step.squared_error).abs() < near * error, "{}: {error} {step:?}", arch.card().name);
    }
}

fn name_is_batch(name: &str) -> bool {
    ["batch_topk", "matryoshka"].contains(&name)
}

#[test]
fn invalid_settings_and_batches_are_refused() {
    let arch = arch::find("topk").unwrap();
    let settings = small(arch, 8, 16);
    assert!(Trainer::new(TrainingSettings { k: 0, ..settings.clone() }).is_err());
    assert!(Trainer::new(TrainingSettings { k: 17, ..settings.clone() }).is_err());
    assert!(Trainer::new(TrainingSettings { latents: 0, ..settings.clone() }).is_err());
    assert!(arch::find("nonsense").is_err());
    let archetypal = small(arch::find("ra_topk").unwrap(), 8, 16);
    assert!(Trainer::new(archetypal.clone().with(&NEIGHBOURS, 0)).is_err());
    assert!(Trainer::new(TrainingSettings { resample: Some(5), ..archetypal.clone() }).is_err());
    assert!(Trainer::new(archetypal.clone().with(&RADIUS, Radius::Relative(-1.0))).is_err());
    assert!(Trainer::new(small(arch::find("relu").unwrap(), 8, 16).with(&PENALTY, f64::NAN)).is_err());
    let mut archetypal = Trainer::new(archetypal).unwrap();
    assert!(archetypal.give_candidates(&[]).is_err() && archetypal.give_candidates(&[1.0; 9]).is_err());
    assert!(archetypal.give_candidates(&[f32::NAN; 8]).is_err());
    let mut trainer = Trainer::new(settings).unwrap();
    assert!(trainer.step(&[]).is_err() && trainer.step(&[1.0; 9]).is_err());
    // One row, and rows of zeros.
    assert!(trainer.step(&[0.5; 8]).unwrap().term("loss").unwrap().is_finite());
    assert!(trainer.step(&[0.0; 80]).unwrap().term("loss").unwrap().is_finite());
}

/// AdamW: every weight is first multiplied by 1 − rate · decay.
#[test]
fn weights_decay() {
    let settings = TrainingSettings { weight_decay: 0.5, rate: 0.1, ..small(arch::find("topk").unwrap(), 8, 16) };
    let mut trainer = Trainer::new(TrainingSettings { constraint: Constraint::Free, ..settings }).unwrap();
    // No latent fires and the rows equal the bias: the gradient is 0, so only the decay changes weights.
    let mut start = trainer.weights();
    start.get_mut("encoder_bias").unwrap().values.fill(-100.0);
    trainer.start_from(&start).unwrap();
    trainer.step(&[0.0; 80]).unwrap();
    let end = trainer.weights();
    for part in ["encoder", "decoder", "encoder_bias"] {
        let pairs = start[part].values.iter().zip(&end[part].values);
        assert!(pairs.clone().all(|(before, after)| (before * 0.95 - after).abs() < 1e-6 * before.abs()), "{part}");
    }
}

#[test]
fn every_preset_trains_every_architecture() {
    for (name, preset) in Preset::NAMES {
        for arch in ARCHS {
            let settings = arch.settings(preset, 16, 63);
            let settings = TrainingSettings { k: 4, batch: 40, steps: 30, ..settings };
            let mut trainer = begin(settings, &rows(70, 16, 1));
            let steps: Vec<f64> =
                (0..30).map(|step| trainer.step(&rows(40, 16, step)).unwrap().term("loss").unwrap()).collect();
            assert!(steps.iter().all(|loss| loss.is_finite()), "{name} {}", arch.card().name);
            trainer.finish(1.0).unwrap();
        }
    }
}

#[test]
fn training_does_not_depend_on_the_precision() {
    let (width, latents, count) = (24, 320, 60);
    for name in ["topk", "batch_topk", "matryoshka", "jumprelu"] {
        let settings = TrainingSettings { batch: count, ..small(arch::find(name).unwrap(), width, latents) };
        let train = |precision: Precision, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut trainer = begin(settings.clone(), &rows(count, width, 1));
            trainer.set_precision(precision);
            let steps: Vec<Step> =
                pool.install(|| (0..6).map(|step| trainer.step(&rows(count, width, 1 + step % 3)).unwrap()).collect());
            (steps, trainer.weights())
        };
        let exact = train(Precision::F32, 2);
        for threads in [1, 2, 7] {
            assert!(train(Precision::Int8, threads) == exact, "{name} with {threads} threads");
        }
        assert!(train(Precision::Auto, 2) == exact);
    }
}
