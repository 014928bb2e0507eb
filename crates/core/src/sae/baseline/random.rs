//! `random`: codes that do not depend on the rows.

use std::ops::Range;

use rand_distr::{Distribution, StandardNormal};

use super::{Baseline, BaselineParams, DEFAULT_K, check_size, directions, reserve};
use crate::codes::{Codes, CodesBuilder, CodesView, Latent};
use crate::context::{Budget, Context, Reservation};
use crate::error::{InputError, Result};
use crate::sae::card::ArchCard;
use crate::sae::dictionary::{ContentHash, Dictionary, SaeCard};
use crate::sae::normalise::Normalisation;
use crate::store::{ActivationStore, Tile};
use etalon_kernel::random::{ChaCha8Rng, index, stream};

/// The baseline `random`.
pub(super) struct Random;

static CARD: ArchCard = ArchCard {
    name: "random",
    summary: "k latents per row, drawn independently of the row.",
    forward: "The row index and the seed draw k different latents, all equally likely, and the absolute value of a \
              standard normal number as the code of each; x̂ = W_d f.",
    loss: "None: nothing is trained.",
    initialisation: "W_d are random unit directions drawn from the seed, without a bias. The encoder is 0 and not \
                     used.",
    constraint: "None.",
    defaults: "`latents` L and `k` K (32), or `like` DIR for the size of a dictionary and its k.",
    params: &[],
    presets: "No preset changes it.",
    source: "The random codes of the sanity check in arXiv 2606.24716, as a dictionary that can be saved",
};

impl Baseline for Random {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        let latents = match params.like {
            Some(like) => {
                params.refuse(CARD.name, true, false, false)?;
                like.card().latents
            }
            None => params.latents(CARD.name)?,
        };
        let k = params.k.or(params.like.and_then(|like| like.card().k)).unwrap_or(DEFAULT_K);
        check_size(latents, k)?;
        let memory = reserve(latents, store.width(), context)?;
        let directions = directions(latents, store.width(), params.seed, "random dictionary");
        let mut dictionary = RandomDictionary::new(CARD.name.into(), directions, store.width(), k, params.seed)?;
        dictionary.hold(memory);
        Ok(Box::new(dictionary))
    }
}

/// A dictionary whose codes are drawn from the row index, whatever the row contains.
#[derive(Debug)]
pub struct RandomDictionary {
    card: SaeCard,
    directions: Vec<f32>,
    /// The encoder biases.
    zeros: Vec<f32>,
    k: usize,
    seed: u64,
    _reservation: Option<Reservation>,
}

impl RandomDictionary {
    /// A dictionary that draws `k` latents per row. `directions` has one row per latent.
    pub fn new(arch: String, directions: Vec<f32>, width: usize, k: usize, seed: u64) -> Result<RandomDictionary> {
        let latents = directions.len().checked_div(width).unwrap_or(0);
        check_size(latents, k)?;
        if directions.len() != latents * width {
            return Err(InputError::new("the number of decoder values is not a multiple of the width")
                .expected(format!("a multiple of {width} values"))
                .found(directions.len())
                .into());
        }
        let card = SaeCard::new(arch, width, latents, Some(k));
        Ok(RandomDictionary { card, directions, zeros: vec![0.0; latents], k, seed, _reservation: None })
    }

    /// Active latents per row.
    pub fn k(&self) -> usize {
        self.k
    }

    /// The seed of the draws.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Dictionary for RandomDictionary {
    fn card(&self) -> &SaeCard {
        &self.card
    }

    /// The id of a linear dictionary whose encoder and biases are 0, as it is stored.
    fn id(&self) -> String {
        let SaeCard { latents, width, .. } = self.card;
        let mut hash = ContentHash::new(&self.card.arch);
        hash.zeros("encoder", latents * width);
        hash.zeros("encoder bias", latents);
        hash.list("decoder", &self.directions);
        hash.zeros("bias", width);
        hash.name("as it is");
        hash.name(Normalisation::None.name());
        hash.name(&format!("random {} seed {}", self.k, self.seed));
        hash.finish()
    }

    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        self.card.check_input(tile.width)?;
        draw(tile.first_row..tile.first_row + tile.rows(), self.card.latents, self.k, self.seed, out)
    }

    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()> {
        self.card.check_output(codes, source, out)?;
        for (row, into) in out.chunks_exact_mut(self.card.width).enumerate() {
            into.fill(0.0);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                let direction = self.direction(Latent(latent));
                into.iter_mut().zip(direction).for_each(|(into, part)| *into += value * part);
            }
        }
        Ok(())
    }

    fn directions(&self) -> &[f32] {
        &self.directions
    }

    fn encoder_row(&self, _: Latent, into: &mut [f32]) {
        into.fill(0.0);
    }

    fn encoder_bias(&self) -> &[f32] {
        &self.zeros
    }

    fn hold(&mut self, memory: Reservation) {
        self._reservation = Some(memory);
    }
}

/// The codes of the baseline `random`: `k` latents per row, drawn independently of the data.
pub fn random_codes(rows: usize, latents: usize, k: usize, seed: u64) -> Result<Codes> {
    collect(rows, latents, k, seed, CodesBuilder::new(latents))
}

/// [`random_codes`] within a memory budget.
pub fn random_codes_within(rows: usize, latents: usize, k: usize, seed: u64, budget: &Budget) -> Result<Codes> {
    collect(rows, latents, k, seed, CodesBuilder::within(latents, budget))
}

fn collect(rows: usize, latents: usize, k: usize, seed: u64, mut codes: CodesBuilder) -> Result<Codes> {
    check_size(latents, k)?;
    draw(0..rows, latents, k, seed, &mut codes)?;
    Ok(codes.finish())
}

/// Draws the codes of some rows. Each row has its own random stream.
fn draw(rows: Range<usize>, latents: usize, k: usize, seed: u64, out: &mut CodesBuilder) -> Result<()> {
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

/// Draws `count` different numbers below `len` by Floyd's method.
fn choose(len: usize, count: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut chosen: Vec<u32> = Vec::with_capacity(count);
    for last in len - count..len {
        let candidate = index(last + 1, random) as u32;
        chosen.push(if chosen.contains(&candidate) { last as u32 } else { candidate });
    }
    chosen
}
