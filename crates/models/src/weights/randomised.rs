//! Weights drawn anew: a network of the same architecture that has learned nothing, as a baseline.

use etalon_kernel::random::stream;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

/// Values that share a random stream. Parts of a tensor are drawn in parallel.
const BLOCK: usize = 1 << 16;

/// Whether a tensor of this shape is drawn anew: matrices, convolutions and embeddings. Biases and the parameters and
/// running statistics of norms have one axis and stay as they are, so that activations keep a usable scale.
pub(super) fn is_redrawn(shape: &[usize]) -> bool {
    shape.len() >= 2
}

/// Replaces the values of a tensor by normal ones with the same mean and the same standard deviation. They depend on the seed,
/// the name of the tensor and their index only.
pub(super) fn redraw(name: &str, seed: u64, values: &mut [f32]) {
    let (mean, deviation) = moments(values);
    let purpose = format!("weights/{name}");
    values.par_chunks_mut(BLOCK).enumerate().for_each(|(block, values)| {
        let mut random = stream(seed, &purpose, block as u64);
        values.iter_mut().for_each(|value| {
            let normal: f64 = StandardNormal.sample(&mut random);
            *value = (mean + deviation * normal).clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32;
        });
    });
}

/// Mean and standard deviation, the same for any number of threads.
fn moments(values: &[f32]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let sum = |term: &(dyn Fn(f64) -> f64 + Sync)| -> f64 {
        let block = |block: &[f32]| block.iter().map(|value| term(f64::from(*value))).sum::<f64>();
        let blocks: Vec<f64> = values.par_chunks(BLOCK).map(block).collect();
        blocks.iter().sum()
    };
    let mean = sum(&|value| value) / count;
    (mean, (sum(&|value| (value - mean) * (value - mean)) / count).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_by_hand() {
        // Mean 3, squared differences 4, 0, 4.
        assert_eq!(moments(&[1.0, 3.0, 5.0]), (3.0, (8.0f64 / 3.0).sqrt()));
        assert_eq!(moments(&[]), (0.0, 0.0));
    }

    #[test]
    fn mean_and_deviation_stay() {
        let original: Vec<f32> = (0..200_000).map(|i| 0.25 + 0.01 * ((i * 7919) % 1000) as f32).collect();
        let (mean, deviation) = moments(&original);
        let mut drawn = original.clone();
        redraw("a", 1, &mut drawn);
        let (new_mean, new_deviation) = moments(&drawn);
        // Five standard errors of 200,000 draws.
        assert!((new_mean - mean).abs() < 5.0 * deviation / 200_000f64.sqrt(), "{new_mean} {mean}");
        assert!((new_deviation / deviation - 1.0).abs() < 5.0 / 400_000f64.sqrt(), "{new_deviation} {deviation}");
        let same = original.iter().zip(&drawn).filter(|(a, b)| a == b).count();
        assert!(same < 10, "{same}");
    }

    #[test]
    fn values_depend_on_seed_and_name_only() {
        let drawn = |name: &str, seed: u64, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut values: Vec<f32> = (0..150_000).map(|i| (i % 17) as f32).collect();
            pool.install(|| redraw(name, seed, &mut values));
            values
        };
        let first = drawn("a", 3, 1);
        assert!(first == drawn("a", 3, 2) && first == drawn("a", 3, 7));
        assert!(first != drawn("b", 3, 2) && first != drawn("a", 4, 2));
        let mut constant = [2.5; 4];
        redraw("a", 0, &mut constant);
        assert_eq!(constant, [2.5; 4]);
    }

    #[test]
    fn norms_and_biases_are_kept() {
        assert!(is_redrawn(&[4, 4]) && is_redrawn(&[8, 3, 3, 3]) && is_redrawn(&[1, 17, 8]));
        assert!(!is_redrawn(&[4]) && !is_redrawn(&[]));
    }
}
