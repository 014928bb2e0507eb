//! `pca`: the principal components.

use rayon::prelude::*;

use super::{Baseline, BaselineParams, check_rows, check_size, mean_row, reserve, row_chunks};
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::sae::activation::Activation;
use crate::sae::card::ArchCard;
use crate::sae::dictionary::Dictionary;
use crate::sae::linear::{Linear, Parts};
use crate::sae::normalise::Normalisation;
use crate::store::ActivationStore;
use etalon_kernel::eigen::symmetric;
use etalon_kernel::product::rows_by_rows;

/// The baseline `pca`.
pub(super) struct Pca;

static CARD: ArchCard = ArchCard {
    name: "pca",
    summary: "Principal components: orthogonal directions of largest variance.",
    forward: "f = V (x − b), also negative values; with `k` only the k largest by absolute value\n\
              x̂ = Vᵀ f + b",
    loss: "Optimal: no other orthogonal directions of this number have a smaller error (without `k`).",
    initialisation: "b is the mean row. V are the eigenvectors of the covariance of all rows with the largest \
                     eigenvalues, in descending order; the entry of largest magnitude of each is positive. Computed \
                     in double precision.",
    constraint: "Orthogonal directions of unit norm.",
    defaults: "`latents`: the width, which is also the maximum. Without `k` all components are active in every row.",
    params: &[],
    presets: "No preset changes it.",
    source: "The PCA baseline of SAEBench (arXiv 2503.09532), there computed on a sample of tokens",
};

impl Baseline for Pca {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn make(
        &self,
        store: &ActivationStore,
        params: &BaselineParams<'_>,
        context: &Context,
    ) -> Result<Box<dyn Dictionary>> {
        params.refuse(CARD.name, false, false, true)?;
        check_rows(store, CARD.name)?;
        let width = store.width();
        let latents = params.latents.unwrap_or(width);
        if !(1..=width).contains(&latents) {
            return Err(InputError::new("more principal components than the width of the rows")
                .expected(format!("from 1 to {width} latents"))
                .found(latents)
                .into());
        }
        params.k.map_or(Ok(()), |k| check_size(latents, k))?;
        let memory = reserve(latents, width, context)?;
        let cells = (width as u64).saturating_mul(width as u64);
        let _covariance =
            context.budget().reserve(cells.saturating_mul(32), format!("a covariance matrix of width {width}"))?;
        let mean = mean_row(store, Normalisation::None)?;
        let covariance = covariance(store, &mean)?;
        let variance: f64 = covariance.iter().step_by(width + 1).sum();
        let square: f64 = mean.iter().map(|value| value * value).sum();
        if variance <= 1e-24 * square || variance == 0.0 {
            return Err(InputError::new("there are no principal components, because all rows are the same")
                .expected("rows that differ")
                .found(format!("{} equal rows", store.rows()))
                .into());
        }
        let eigen = symmetric(covariance, width)
            .ok_or_else(|| Error::Bug("the eigenvalues of the covariance do not converge".into()))?;
        let directions: Vec<f32> = eigen.vectors[..latents * width].iter().map(|&part| part as f32).collect();
        let dictionary = Linear::new(Parts {
            arch: CARD.name.into(),
            encoder: directions.clone(),
            encoder_bias: vec![0.0; latents],
            decoder: directions,
            bias: mean.iter().map(|&value| value as f32).collect(),
            subtract_bias: true,
            input: Normalisation::None,
            activation: params.k.map_or(Activation::Signed, Activation::Largest),
        })?;
        Ok(Box::new(dictionary.holding(memory)))
    }
}

/// Rows of the covariance that one thread updates at a time.
const BLOCK_ROWS: usize = 64;

/// The covariance of all rows. Each of its rows sums the chunks of the store in order, whichever thread computes it.
fn covariance(store: &ActivationStore, mean: &[f64]) -> Result<Vec<f64>> {
    let width = store.width();
    let mut sums = vec![0.0; width * width];
    for rows in row_chunks(store.rows()) {
        let tile = store.tile(rows)?;
        let count = tile.rows();
        // Transposed: one row per dimension, so that the product is rows by rows.
        let mut centred = vec![0.0; width * count];
        centred.par_chunks_mut(count).zip(mean).enumerate().for_each(|(column, (values, mean))| {
            for (row, into) in values.iter_mut().enumerate() {
                *into = f64::from(tile.values[row * width + column]) - mean;
            }
        });
        sums.par_chunks_mut(BLOCK_ROWS * width).zip(centred.par_chunks(BLOCK_ROWS * count)).for_each(
            |(sums, block)| {
                let mut products = vec![0.0; sums.len()];
                rows_by_rows(block, &centred, count, &mut products);
                sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            },
        );
    }
    let rows = store.rows().max(1) as f64;
    // The two triangles may differ in the last digit: the upper one is used for both.
    let upper = |i: usize, j: usize| sums[i.min(j) * width + i.max(j)] / rows;
    Ok((0..width * width).map(|cell| upper(cell / width, cell % width)).collect())
}
