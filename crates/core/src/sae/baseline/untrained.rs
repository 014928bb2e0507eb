//! `untrained`: random directions with the architecture and the sparsity of a trained dictionary.

use super::{Baseline, BaselineParams, DEFAULT_K, check_rows, check_size, directions, fold_codes, mean_row, reserve};
use crate::context::Context;
use crate::error::{InputError, Key, Result};
use crate::sae::activation::Activation;
use crate::sae::card::ArchCard;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;

/// The baseline `untrained`.
pub(super) struct Untrained;

static CARD: ArchCard = ArchCard {
    name: "untrained",
    summary: "Random directions with the architecture and the sparsity of a trained dictionary.",
    forward: "h = W (x − b), where W are random unit directions; the decoder is W too.\n\
              The activation is TopK, or that of the dictionary given as `like`: the k largest values, or all \
              values above one threshold. The threshold is stored in the thresholds (JumpReLU, BatchTopK), in the \
              encoder bias (ReLU) or in the gate bias (Gated, with magnitude h).",
    loss: "None: nothing is trained.",
    initialisation: "Directions are standard normal vectors scaled to unit norm, drawn from the seed; b is the mean \
                     row. The threshold is exact: as many values of all rows exceed it as the dictionary given by \
                     `like` has codes, so the mean L0 on these rows is the same (if enough values are positive, and \
                     up to ties).",
    constraint: "None.",
    defaults: "`latents` L and `k` K (32) give a TopK dictionary. `like` DIR copies size, activation, normalisation \
               and centring from a dictionary, and excludes both.",
    params: &[],
    presets: "No preset changes it.",
    source: "The null of ΔMATCHScore (arXiv 2606.24716) with the sparsity kept; randomised dictionaries are common \
             practice",
};

impl Baseline for Untrained {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        check_rows(store, CARD.name)?;
        let dictionary = match params.like {
            Some(like) => {
                BaselineParams { like: None, ..*params }.refuse(CARD.name, true, true, false)?;
                let memory = reserve(like.card().latents, store.width(), context)?;
                similar(store, like, params.seed)?.holding(memory)
            }
            None => {
                let (latents, k) = (params.latents(CARD.name)?, params.k.unwrap_or(DEFAULT_K));
                check_size(latents, k)?;
                let memory = reserve(latents, store.width(), context)?;
                untrained(store, latents, k, params.seed)?.holding(memory)
            }
        };
        Ok(Box::new(dictionary))
    }
}

/// An untrained TopK dictionary: random unit directions, a tied encoder, and the mean row as its bias. It has the
/// architecture and the sparsity of a trained one.
pub fn untrained(store: &ActivationStore, latents: usize, k: usize, seed: u64) -> Result<Linear> {
    check_size(latents, k)?;
    let bias = mean_row(store, Normalisation::None)?;
    Linear::new(parts(latents, &bias, seed, Activation::TopK(k)))
}

fn parts(latents: usize, bias: &[f64], seed: u64, activation: Activation) -> Parts {
    let directions = directions(latents, bias.len(), seed, "untrained dictionary");
    Parts {
        arch: CARD.name.into(),
        encoder: directions.clone(),
        encoder_bias: vec![0.0; latents],
        decoder: directions,
        bias: bias.iter().map(|&value| value as f32).collect(),
        subtract_bias: true,
        input: Normalisation::None,
        activation,
    }
}

/// An untrained dictionary with the size, the activation and the mean number of codes per row of another one.
fn similar(store: &ActivationStore, like: &dyn Dictionary, seed: u64) -> Result<Linear> {
    let card = like.card();
    if card.width != store.width() {
        return Err(InputError::new(format!("the dictionary of {} reads rows of another width", Key("like")))
            .expected(format!("width {}", store.width()))
            .found(format!("width {}", card.width))
            .into());
    }
    let model = like.downcast_ref::<Linear>().map(Linear::parts).ok_or_else(|| {
        InputError::new(format!("{} of `untrained` must not be a dictionary with random codes", Key("like")))
            .advice("use `random` with another seed")
    })?;
    let bias = mean_row(store, model.input)?;
    let unthresholded = Parts {
        subtract_bias: model.subtract_bias,
        input: model.input,
        ..parts(card.latents, &bias, seed, Activation::Signed)
    };
    let latents = card.latents;
    let threshold = || -> Result<f32> {
        let codes = fold_codes(like, store, || 0u64, |count, values| *count += values.len() as u64, |a, b| a + b)?;
        threshold(&Linear::new(unthresholded.clone())?, store, codes)
    };
    let mut parts = unthresholded.clone();
    parts.activation = match model.activation.innermost().clone() {
        Activation::Relu => {
            parts.encoder_bias = vec![-threshold()?; latents];
            Activation::Relu
        }
        Activation::Threshold(_) => Activation::Threshold(vec![threshold()?.max(0.0); latents]),
        Activation::Gated { .. } => Activation::Gated {
            gate_bias: vec![-threshold()?.max(0.0); latents],
            magnitude_scale: vec![1.0; latents],
            magnitude_bias: vec![0.0; latents],
        },
        // These activations fix the number of codes.
        other => other,
    };
    Linear::new(parts)
}

/// An integer key with the order of the float values.
fn key(value: f32) -> u32 {
    let bits = value.to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// The value of a key.
fn value(key: u32) -> f32 {
    f32::from_bits(if key >> 31 == 1 { key & !(1 << 31) } else { !key })
}

/// The value that exactly `above` of all values exceed, up to ties: a radix selection in two passes over the rows.
fn threshold(dictionary: &Linear, store: &ActivationStore, above: u64) -> Result<f32> {
    let total = store.rows() as u64 * dictionary.card().latents as u64;
    let count = |digit: &(dyn Fn(u32) -> Option<u16> + Sync)| -> Result<Vec<u64>> {
        let fold = |counts: &mut Vec<u64>, values: &[f32]| {
            values.iter().filter_map(|&value| digit(key(value))).for_each(|digit| counts[digit as usize] += 1);
        };
        let merge = |mut a: Vec<u64>, b: Vec<u64>| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        fold_codes(dictionary, store, || vec![0u64; 1 << 16], fold, merge)
    };
    // The digit of the value of rank `left` (from 0, descending), and the rank of that value within its digit.
    let find = |counts: &[u64], mut left: u64| {
        for digit in (0..1usize << 16).rev() {
            if counts[digit] > left {
                return Some((digit as u32, left));
            }
            left -= counts[digit];
        }
        None
    };
    let zero = key(0.0);
    let mut counts = count(&|key| Some((key >> 16) as u16))?;
    // Codes do not store zeros.
    let zeros = total - counts.iter().sum::<u64>();
    counts[(zero >> 16) as usize] += zeros;
    let Some((high, left)) = find(&counts, above) else { return Ok(f32::MIN) };
    let mut counts = count(&|key| (key >> 16 == high).then_some(key as u16))?;
    if zero >> 16 == high {
        counts[zero as u16 as usize] += zeros;
    }
    let low = find(&counts, left);
    Ok(low.map_or(f32::MIN, |(low, _)| value(high << 16 | low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_the_order_of_values() {
        let values = [f32::MIN, -1.5, -1.0, -1e-40, 0.0, 1e-40, 0.25, 3.0, f32::MAX];
        assert!(values.windows(2).all(|pair| key(pair[0]) < key(pair[1])));
        assert!(values.iter().all(|&each| value(key(each)) == each));
    }
}
