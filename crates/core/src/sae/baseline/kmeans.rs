//! `kmeans`: the nearest of some centres.

use super::{Baseline, Wish, check_rows, check_size, mean_row};
use crate::budget::Budget;
use crate::error::{Complaint, Result};
use crate::kernel::kmeans::{Wanted, kmeans};
use crate::kernel::product::dot;
use crate::progress::Watch;
use crate::sae::arch::ArchCard;
use crate::sae::{Activation, Linear, Normalisation, Parts};
use crate::store::ActivationStore;

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
    presets: "no preset changes it",
    source: "one-hot codes as in vector quantisation and in the k-means of overcomplete; some use distances as codes \
             instead, which are not sparse",
};

impl Baseline for Kmeans {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(&self, store: &ActivationStore, wish: &Wish<'_>, budget: &Budget, watch: &Watch<'_>) -> Result<Linear> {
        wish.refuse(CARD.name, false, wish.k != Some(1), true)?;
        check_rows(store, CARD.name)?;
        let (latents, width) = (wish.latents(CARD.name)?, store.width());
        check_size(latents, 1)?;
        if latents > store.rows() {
            return Err(Complaint::new("there cannot be more centres than rows")
                .expected(format!("from 1 to {} latents", store.rows()))
                .found(latents)
                .into());
        }
        let bytes = (store.rows() as u64).saturating_mul(width as u64).saturating_mul(4);
        let _memory = budget.take(bytes, format!("{} rows at once, for k-means", store.rows()))?;
        let mean: Vec<f32> = mean_row(store, Normalisation::None)?.iter().map(|&value| value as f32).collect();
        let mut rows = store.tile(0..store.rows())?.values.into_owned();
        for row in rows.chunks_exact_mut(width) {
            row.iter_mut().zip(&mean).for_each(|(value, mean)| *value -= mean);
        }
        let wanted = Wanted { centres: latents, iterations: ROUNDS, seed: wish.seed };
        let centres = kmeans(&rows, width, &wanted, watch)?;
        Linear::new(Parts {
            arch: CARD.name.into(),
            encoder_bias: centres.chunks_exact(width).map(|centre| (-0.5 * dot(centre, centre)) as f32).collect(),
            encoder: centres.clone(),
            decoder: centres,
            bias: mean,
            subtract_bias: true,
            input: Normalisation::None,
            activation: Activation::Nearest,
        })
    }
}
