//! Trained archetypal directions: their constraints, and the memory of their training.

use crate::input::Tensors;
use crate::sae::arch;
use crate::sae::arch::params::{CANDIDATES, MULTIPLIER, NEIGHBOURS, RADIUS};
use crate::sae::preset::Preset;
use crate::sae::train::{Radius, Trainer, TrainingSettings};
use etalon_kernel::kmeans::{KmeansParams, kmeans};
use etalon_kernel::monitor::Silent;
use etalon_kernel::random::{stream, unit};

const WIDTH: usize = 11;

fn rows(count: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "archetypes test", 0);
    (0..count * WIDTH).map(|_| 3.0 * unit(&mut random) as f32 - 1.0).collect()
}

/// The weights after steps so large that all constraints become active.
fn trained(radius: Radius, multiplier: bool) -> Tensors {
    let settings = arch::find("ra_topk").unwrap().settings(Preset::Etalon, WIDTH, 50);
    let settings =
        TrainingSettings { k: 3, warmup: 0, rate: 0.05, ..settings }.with(&NEIGHBOURS, 5).with(&CANDIDATES, 30);
    let mut trainer = Trainer::new(settings.with(&RADIUS, radius).with(&MULTIPLIER, multiplier)).unwrap();
    let count = trainer.missing_candidates().unwrap();
    let search = KmeansParams { centres: count, iterations: 5, seed: 0 };
    let centres = kmeans(&rows(200, 0), WIDTH, &search, &Silent).unwrap();
    trainer.give_candidates(&centres).unwrap();
    assert_eq!((count, trainer.missing_candidates()), (30, None));
    for step in 0..60 {
        assert!(trainer.step(&rows(40, step)).unwrap().term("loss").unwrap().is_finite());
    }
    trainer.weights()
}

#[test]
fn directions_satisfy_their_constraints() {
    for (radius, max_norm) in [(Radius::Absolute(0.3), 0.3), (Radius::Relative(0.0), 0.0), (Radius::Absolute(0.0), 0.0)]
    {
        let tensors = trained(radius, false);
        let mixture = &tensors["mixture"].values;
        assert!(mixture.iter().all(|&weight| weight >= 0.0));
        assert!(mixture.iter().any(|&weight| weight > 0.01 && weight < 0.99));
        for row in mixture.chunks_exact(5) {
            assert!((row.iter().map(|&weight| f64::from(weight)).sum::<f64>() - 1.0).abs() < 1e-6);
        }
        let mut longest = 0.0f64;
        for row in tensors["relaxation"].values.chunks_exact(WIDTH) {
            longest = longest.max(row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt());
        }
        assert!(longest <= max_norm && (max_norm == 0.0 || longest > 0.5 * max_norm), "{longest}");
        // Directions are exactly the sum: without a relaxation they are in the convex hull of their candidates.
        let mixed = tensors["neighbours"].values.chunks_exact(5).zip(mixture.chunks_exact(5));
        for (latent, (ids, weights)) in mixed.enumerate() {
            for i in 0..WIDTH {
                let point = |id: f32| tensors["candidates"].values[id as usize * WIDTH + i];
                let sum = ids.iter().zip(weights).fold(0.0f32, |sum, (&id, w)| w.mul_add(point(id), sum));
                let whole = sum + tensors["relaxation"].values[latent * WIDTH + i];
                assert_eq!(tensors["decoder"].values[latent * WIDTH + i], whole);
            }
        }
        assert_eq!(tensors["multiplier"].values, [0.0]);
    }
    assert!(trained(Radius::Relative(0.1), true)["multiplier"].values[0] != 0.0);
}

#[test]
fn a_large_dictionary_trains_in_six_gigabytes() {
    let settings = arch::find("ra_topk").unwrap().settings(Preset::Blindspots, 768, 32_000);
    let bytes = Trainer::memory(&settings);
    // Nine matrices of 32,000 × 784 numbers, 6 × 32,000 candidates and sampled rows, 32,000 × 48 numbers five times,
    // and four of 1,036 rows: 4 · (9 · 25,088,000 + 6 · 25,088,000 + 7,680,000 + 4 · 812,224); the encoder in int8, and
    // per row 32,000 / 2 + 5 · 784 bytes for the pre-filter.
    let prefilter = 25_088_000 + 1024 * (16_000 + 3_920);
    assert_eq!(bytes, 4 * (15 * 25_088_000 + 7_680_000 + 4 * 812_224) + prefilter);
    assert!(bytes < 6 << 30);
}
