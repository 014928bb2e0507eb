//! `kmeans`: the nearest centre.

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

/// The baseline `kmeans`.
pub(super) struct Kmeans;

/// Maximum number of iterations; fewer if no row changes its centre.
const MAX_ITERATIONS: usize = 100;

static CARD: ArchCard = ArchCard {
    name: "kmeans",
    summary: "k-means: the nearest centre of each row is its only active latent, with the code 1.",
    forward: "f_j = 1 for the centre c_j nearest to x (the lower latent among equals), else 0; x̂ = c_j.\n\
              Computed as the argmax of (x − b)·(c_j − b) − |c_j − b|²/2, with b the mean row, which is equivalent.",
    loss: "Mean over rows of ‖x − x̂‖², minimised by at most 100 iterations of Lloyd's algorithm.",
    initialisation: "Rows drawn by k-means++ from the seed.",
    constraint: "None. Directions are c_j − b, so cosines are those of centred centres.",
    defaults: "`latents` L, at most the number of rows. All rows are held in memory.",
    params: &[],
    presets: "No preset changes it.",
    source: "One-hot codes as in vector quantisation and in the k-means of overcomplete; some authors use distances \
             as codes instead, which are not sparse",
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
            return Err(InputError::new("more centres than rows")
                .expected(format!("from 1 to {} latents", store.rows()))
                .found(latents)
                .into());
        }
        let memory = reserve(latents, width, context)?;
        let bytes = (store.rows() as u64).saturating_mul(width as u64).saturating_mul(4);
        let _rows = context.budget().reserve(bytes, format!("{} rows for k-means", store.rows()))?;
        let mean: Vec<f32> = mean_row(store, Normalisation::None)?.iter().map(|&value| value as f32).collect();
        let mut rows = store.tile(0..store.rows())?.values.into_owned();
        for row in rows.chunks_exact_mut(width) {
            row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean);
        }
        let search = KmeansParams { centres: latents, iterations: MAX_ITERATIONS, seed: params.seed };
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
