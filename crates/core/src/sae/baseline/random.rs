//! `random`: codes that do not look at the rows.

use std::ops::Range;

use rand_distr::{Distribution, StandardNormal};

use super::{ACTIVE, Baseline, Wish, check_size, directions};
use crate::budget::Budget;
use crate::codes::{Codes, CodesBuilder};
use crate::error::Result;
use crate::kernel::random::{ChaCha8Rng, index, stream};
use crate::progress::Watch;
use crate::sae::arch::ArchCard;
use crate::sae::{Activation, Dictionary, Linear, Normalisation, Parts};
use crate::store::ActivationStore;

/// Codes that do not look at the rows.
pub(super) struct Random;

static CARD: ArchCard = ArchCard {
    name: "random",
    summary: "k latents per row, drawn without looking at the row",
    forward: "the number of a row in its store, with the seed, draws k different latents, all equally likely, and the size \
              of a normal number as the value of each; x̂ = W_d f",
    loss: "none: nothing is trained",
    initialisation: "W_d: random unit directions from the seed, no bias; the encoder is 0 and not used",
    constraint: "none",
    defaults: "--latents L and --k K (32), or --like DIR for the size of a dictionary and its k",
    presets: "no preset changes it",
    source: "the random codes of the sanity check in arXiv 2606.24716, as an object that can be kept",
};

impl Baseline for Random {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(&self, store: &ActivationStore, wish: &Wish<'_>, _: &Budget, _: &Watch<'_>) -> Result<Linear> {
        let latents = match wish.like {
            Some(like) => {
                wish.refuse(CARD.name, true, false, false)?;
                like.card().latents
            }
            None => wish.latents(CARD.name)?,
        };
        let k = wish.k.or(wish.like.and_then(|like| like.card().k)).unwrap_or(ACTIVE);
        check_size(latents, k)?;
        let width = store.width();
        Linear::new(Parts {
            arch: CARD.name.into(),
            encoder: vec![0.0; latents * width],
            encoder_bias: vec![0.0; latents],
            decoder: directions(latents, width, wish.seed, "random dictionary"),
            bias: vec![0.0; width],
            subtract_bias: false,
            input: Normalisation::None,
            activation: Activation::Random { k, seed: wish.seed },
        })
    }
}

/// Codes with `k` latents per row, drawn without looking at the data: those of the baseline `random`.
pub fn random_codes(rows: usize, latents: usize, k: usize, seed: u64) -> Result<Codes> {
    check_size(latents, k)?;
    let mut builder = CodesBuilder::new(latents);
    draw(0..rows, latents, k, seed, &mut builder)?;
    Ok(builder.finish())
}

/// Draws the codes of some rows. Every row has a stream of its own.
pub(in crate::sae) fn draw(
    rows: Range<usize>,
    latents: usize,
    k: usize,
    seed: u64,
    out: &mut CodesBuilder,
) -> Result<()> {
    for row in rows {
        let mut random = stream(seed, "random codes", row as u64);
        let mut chosen = choose(latents, k, &mut random);
        chosen.sort_unstable();
        let value = |_: &u32| {
            let value: f32 = StandardNormal.sample(&mut random);
            value.abs().max(f32::MIN_POSITIVE)
        };
        let values: Vec<f32> = chosen.iter().map(value).collect();
        out.push(&chosen, &values)?;
    }
    Ok(())
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
