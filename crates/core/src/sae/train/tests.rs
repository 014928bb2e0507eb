//! Every architecture: gradients against differences, the same bits on any number of threads and after a restart.

use super::*;
use crate::kernel::random::{stream, unit};
use crate::sae::arch::ARCHS;

fn rows(count: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "training test", 0);
    (0..count * width).map(|_| 2.0 * unit(&mut random) as f32 - 1.0).collect()
}

fn small(arch: &dyn arch::Arch, width: usize, latents: usize) -> Settings {
    Settings {
        k: 4,
        steps: 40,
        batch: 20,
        warmup: 0,
        sparsity_warmup: 0,
        rate: 0.01,
        penalty: 0.3,
        target_l0: 4.0,
        bandwidth: 0.02,
        groups: vec![0.25, 0.25, 0.5],
        anneal_start: 1,
        exponents: (1.0, 0.5),
        median: false,
        initial_norm: 0.8,
        initial_bias: 0.05,
        ..arch.settings(Preset::Etalon, width, latents)
    }
}

/// The gradient of the loss by finite differences, for the weights whose gradient is the derivative of the loss: those
/// that some term deliberately does not teach are left out.
#[test]
fn gradients_agree_with_differences() {
    let (width, latents, count) = (7, 37, 20);
    for arch in ARCHS {
        let name = arch.card().name;
        let settings = Settings { clip: Some(1e9), constraint: Constraint::Free, ..small(*arch, width, latents) };
        let batch = rows(count, width, 3);
        let mut trainer = Trainer::new(settings.clone()).unwrap();
        let start = trainer.weights();
        let shape = trainer.weights.size;
        let scalars = trainer.objective.rules().scalars;
        trainer.step(&batch).unwrap();
        let gradient = trainer.buffers.gradient.take().unwrap();
        let gradient = weights::shaped_tensors(&gradient, shape, scalars, "");
        let loss = |tensors: &Tensors| {
            let mut trainer = Trainer::new(settings.clone()).unwrap();
            trainer.start_from(tensors).unwrap();
            trainer.look(&batch).term("loss").unwrap()
        };
        for (part, tensor) in &gradient {
            let untaught = (name == "gated" && (part == "bias" || part == "decoder")) || part == "threshold";
            if untaught {
                continue;
            }
            let scale = tensor.values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
            let (mut checked, mut agreed) = (0, 0);
            for place in (0..tensor.values.len()).step_by(5) {
                let by = 1e-3f32;
                let moved = |by: f32| {
                    let mut tensors = start.clone();
                    tensors.get_mut(part).unwrap().values[place] += by;
                    loss(&tensors)
                };
                let difference = (moved(by) - moved(-by)) / f64::from(2.0 * by);
                let error = (difference - f64::from(tensor.values[place])).abs();
                checked += 1;
                agreed += usize::from(error < 1e-2 * f64::from(scale) + 1e-4);
            }
            // Where a small move changes what is selected, the difference is that of a jump.
            assert!(agreed as f64 >= 0.85 * checked as f64, "{name} {part}: {agreed} of {checked}");
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
                let settings = Settings { dead_after: 700, ..small(*arch, width, latents) };
                let mut trainer = Trainer::new(settings).unwrap();
                let steps = (0..6).map(|step| trainer.step(&rows(300, width, step)).unwrap()).collect::<Vec<_>>();
                (trainer.to_tensors(), steps)
            })
        };
        let one = train(1);
        assert!(one == train(2) && one == train(7), "{}", arch.card().name);
    }
}

#[test]
fn a_restored_training_goes_on_with_the_same_bits() {
    let (width, latents) = (9, 40);
    for arch in ARCHS {
        let settings = Settings { dead_after: 60, resample: Some(3), ..small(*arch, width, latents) };
        let mut whole = Trainer::new(settings.clone()).unwrap();
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
        let settings = Settings { rate: 0.003, penalty: 0.01, dead_after: 200, ..small(*arch, width, latents) };
        let mut trainer = Trainer::new(Settings { steps: 300, ..settings }).unwrap();
        let batch = rows(60, width, 1);
        let first = trainer.step(&batch).unwrap();
        let mut used = false;
        let mut last = first.clone();
        for _ in 0..200 {
            last = trainer.step(&batch).unwrap();
            used |= last.term("auxiliary").is_some_and(|loss| loss > 0.0);
            assert!(last.terms.iter().all(|(_, value)| value.is_finite()));
        }
        assert!(last.squared_error < 0.8 * first.squared_error, "{}: {first:?} {last:?}", arch.card().name);
        assert!(used || !["topk", "matryoshka"].contains(&arch.card().name), "no dead latent learnt");
    }
}

#[test]
fn a_finished_dictionary_reconstructs_as_the_training_does() {
    use std::borrow::Cow;

    use crate::codes::CodesBuilder;
    use crate::sae::Dictionary;
    use crate::store::Tile;

    let (width, latents) = (16, 40);
    for arch in ARCHS {
        let mut trainer = Trainer::new(Settings { rate: 0.0, ..small(*arch, width, latents) }).unwrap();
        let batch = rows(40, width, 2);
        trainer.step(&batch).unwrap();
        let step = trainer.look(&batch);
        // Rows in another unit: the dictionary is folded, so errors grow with the square of the unit.
        let unit = 3.0f32;
        let dictionary = trainer.finish(unit).unwrap();
        let scaled: Vec<f32> = batch.iter().map(|value| value * unit).collect();
        let tile = Tile { first_row: 0, width, values: Cow::Borrowed(&scaled) };
        let mut out = CodesBuilder::new(latents);
        dictionary.encode(&tile, &mut out).unwrap();
        let (codes, mut back) = (out.finish(), vec![0.0; scaled.len()]);
        dictionary.decode(&codes.all().unwrap(), Some(&tile), &mut back).unwrap();
        let error = back.iter().zip(&scaled).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>() / 40.0 / 9.0;
        // A learnt threshold keeps one or two entries fewer than the batch did.
        let near = if name_is_batch(arch.card().name) { 0.02 } else { 1e-4 };
        assert!((error - step.squared_error).abs() < near * error, "{}: {error} {step:?}", arch.card().name);
    }
}

fn name_is_batch(name: &str) -> bool {
    ["batch_topk", "matryoshka"].contains(&name)
}

#[test]
fn bad_requests_are_refused() {
    let arch = arch::find("topk").unwrap();
    let settings = small(arch, 8, 16);
    assert!(Trainer::new(Settings { k: 0, ..settings.clone() }).is_err());
    assert!(Trainer::new(Settings { k: 17, ..settings.clone() }).is_err());
    assert!(Trainer::new(Settings { latents: 0, ..settings.clone() }).is_err());
    assert!(arch::find("nonsense").is_err());
    let mut trainer = Trainer::new(settings).unwrap();
    assert!(trainer.step(&[]).is_err() && trainer.step(&[1.0; 9]).is_err());
    // One row, and rows of zeros.
    assert!(trainer.step(&[0.5; 8]).unwrap().term("loss").unwrap().is_finite());
    assert!(trainer.step(&[0.0; 80]).unwrap().term("loss").unwrap().is_finite());
}
