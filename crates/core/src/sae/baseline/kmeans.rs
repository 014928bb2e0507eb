//! `kmeans`: the nearest of some centres.

use super::{Baseline, BaselineParams, check_rows, check_size, mean_row, reserve};
use crate::context::Context;
use crate::error::{InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::card::ArchCard;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;
use etalon_kernel::kmeans::{KmeansParams, kmeans};
use etalon_kernel::product::dot;

/// The nearest centre.
pub(super) struct Kmeans;

/// Rounds at most; it ends before if no row moves.
const ROUNDS: usize = 100;

static CARD: ArchCard = ArchCard {
    name: "kmeans",
    summary: "the nearest centre: one latent per row, with the value 1",
    forward: "f_j = 1 for the centre c_j nearest to x (the lower among equals), else 0; x̂ = c_j. Computed as the largest \
              of (x − b)·(c_j − b) − |c_j − b|²/2, with b the mean row, which is the same order",
    loss: "mean over rows of ‖x − x̂‖², by at most 100 rounds of Lloyd's algorithm",
    initialisation: "rows drawn by k-means++ from the seed",
    constraint: "none. Directions are c_j − b, so that cosines are those of centred centres",
    defaults: "--latents L; at most as many as there are rows. All rows are held in memory",
    params: &[],
    presets: "no preset changes it",
    source: "one-hot codes as in vector quantisation and in the k-means of overcomplete; some use distances as codes \
             instead, which are not sparse",
};

impl Baseline for Kmeans {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        params.refuse(CARD.name, false, params.k != Some(1), true)?;
        check_rows(store, CARD.name)?;
        let (latents, width) = (params.latents(CARD.name)?, store.width());
        check_size(latents, 1)?;
        if latents > store.rows() {
            return Err(InputError::new("there cannot be more centres than rows")
                .expected(format!("from 1 to {} latents", store.rows()))
                .found(latents)
                .into());
        }
        let memory = reserve(latents, width, context)?;
        let bytes = (store.rows() as u64).saturating_mul(width as u64).saturating_mul(4);
        let _rows = context.budget().reserve(bytes, format!("{} rows at once, for k-means", store.rows()))?;
        let mean: Vec<f32> = mean_row(store, Normalisation::None)?.iter().map(|&value| value as f32).collect();
        let mut rows = store.tile(0..store.rows())?.values.into_owned();
        for row in rows.chunks_exact_mut(width) {
            row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean);
        }
        let search = KmeansParams { centres: latents, iterations: ROUNDS, seed: params.seed };
        let centres = kmeans(&rows, width, &search, context)?;
        let dictionary = Linear::new(Parts {
            arch: CARD.name.into(),
            encoder_bias: centres.chunks_exact(width).map(|centre| (-0.5 * dot(centre, centre)) as f32).collect(),
            encoder: centres.clone(),
            decoder: centres,
            bias: mean,
            subtract_bias: true,
            input: Normalisation::None,
            activation: Activation::Nearest,
        })?;
        Ok(Box::new(dictionary.holding(memory)))
    }
}
