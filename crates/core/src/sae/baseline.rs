//! What codes look like when nothing was learnt: the floor that every score is compared with.

use rand_distr::{Distribution, StandardNormal};

use super::{Activation, Linear, Normalisation, Parts};
use crate::codes::{Codes, CodesBuilder};
use crate::error::{Complaint, Result};
use crate::kernel::random::{ChaCha8Rng, index, stream};
use crate::store::ActivationStore;

/// An untrained TopK dictionary: random unit directions, tied encoder, and the mean of the data as its bias, so that it
/// has the architecture and the sparsity of a trained one and differs only in what was learnt.
pub fn untrained(store: &ActivationStore, latents: usize, k: usize, seed: u64) -> Result<Linear> {
    if k == 0 || k > latents {
        return Err(Complaint::new("an untrained dictionary cannot keep that many latents per row")
            .expected(format!("k from 1 to {latents}"))
            .found(k)
            .into());
    }
    let width = store.width();
    let mut directions = Vec::with_capacity(latents * width);
    let mut random = stream(seed, "untrained dictionary", 0);
    for _ in 0..latents {
        let row: Vec<f64> = (0..width).map(|_| StandardNormal.sample(&mut random)).collect();
        let norm = row.iter().map(|v| v * v).sum::<f64>().sqrt().max(f64::MIN_POSITIVE);
        directions.extend(row.iter().map(|v| (v / norm) as f32));
    }
    Linear::new(Parts {
        arch: "untrained".into(),
        encoder: directions.clone(),
        encoder_bias: vec![0.0; latents],
        decoder: directions,
        bias: mean_row(store)?,
        subtract_bias: true,
        input: Normalisation::None,
        activation: Activation::TopK(k),
    })
}

/// Codes with `k` latents per row, drawn without looking at the data.
pub fn random_codes(rows: usize, latents: usize, k: usize, seed: u64) -> Result<Codes> {
    let mut random = stream(seed, "random codes", 0);
    let mut builder = CodesBuilder::new(latents);
    for _ in 0..rows {
        let mut chosen = choose(latents, k.min(latents), &mut random);
        chosen.sort_unstable();
        let values: Vec<f32> = chosen
            .iter()
            .map(|_| {
                let value: f32 = StandardNormal.sample(&mut random);
                value.abs().max(f32::MIN_POSITIVE)
            })
            .collect();
        builder.push(&chosen, &values)?;
    }
    Ok(builder.finish())
}

/// `count` different numbers below `len` (Floyd's method).
fn choose(len: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    for last in len - count..len {
        let candidate = index(last + 1, random) as u32;
        chosen.push(if chosen.contains(&candidate) { last as u32 } else { candidate });
    }
    chosen
}

fn mean_row(store: &ActivationStore) -> Result<Vec<f32>> {
    let mut sum = vec![0.0f64; store.width()];
    for first in (0..store.rows()).step_by(4096) {
        let tile = store.tile(first..(first + 4096).min(store.rows()))?;
        for row in tile.values.chunks_exact(store.width()) {
            sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
    }
    Ok(sum.into_iter().map(|sum| (sum / store.rows().max(1) as f64) as f32).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_codes_have_k_latents_everywhere() {
        let codes = random_codes(50, 20, 4, 3).unwrap();
        assert!(codes.all().unwrap().iter().all(|(_, latents, _)| latents.len() == 4));
        assert_eq!(codes.id().unwrap(), random_codes(50, 20, 4, 3).unwrap().id().unwrap());
        assert_ne!(codes.id().unwrap(), random_codes(50, 20, 4, 4).unwrap().id().unwrap());
        assert_eq!(random_codes(2, 3, 3, 0).unwrap().entries(), 6);
    }
}
