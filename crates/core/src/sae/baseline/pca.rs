//! `pca`: the principal components.

use rayon::prelude::*;

use super::{Baseline, BaselineParams, check_rows, check_size, mean_row, pieces, reserve};
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

/// The principal components.
pub(super) struct Pca;

static CARD: ArchCard = ArchCard {
    name: "pca",
    summary: "the principal components: orthogonal directions of largest variance",
    forward: "f = V (x − b), negative values too; with --k only the k largest by absolute value; x̂ = Vᵀ f + b",
    loss: "exact: no orthogonal directions of this number have a smaller error (without --k)",
    initialisation: "b = the mean row; V = the eigenvectors of the covariance of all rows with the largest eigenvalues, \
                     descending; the entry of largest size of each is positive. Sums and decomposition in double precision",
    constraint: "unit, orthogonal directions",
    defaults: "--latents: the width; at most the width. Without --k all components are active in every row",
    params: &[],
    presets: "no preset changes it",
    source: "the PCA baseline of SAEBench (arXiv 2503.09532), there on a sample of tokens",
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
            return Err(InputError::new("there are no more principal components than the rows are wide")
                .expected(format!("from 1 to {width} latents"))
                .found(latents)
                .into());
        }
        params.k.map_or(Ok(()), |k| check_size(latents, k))?;
        let memory = reserve(latents, width, context)?;
        let cells = (width as u64).saturating_mul(width as u64);
        let _covariance =
            context.budget().reserve(cells.saturating_mul(32), format!("the covariance of {width} values"))?;
        let mean = mean_row(store, Normalisation::None)?;
        let covariance = covariance(store, &mean)?;
        let variance: f64 = covariance.iter().step_by(width + 1).sum();
        let square: f64 = mean.iter().map(|value| value * value).sum();
        if variance <= 1e-24 * square || variance == 0.0 {
            return Err(InputError::new("all rows are the same, so that no direction is a principal one")
                .expected("rows that differ")
                .found(format!("{} equal rows", store.rows()))
                .into());
        }
        let eigen = symmetric(covariance, width)
            .ok_or_else(|| Error::Bug("the covariance could not be brought to its diagonal".into()))?;
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

/// Lines of the covariance that one thread adds to at a time.
const LINES: usize = 64;

/// Mean products of centred values. Every line adds up the pieces of rows in order, whichever thread does it.
fn covariance(store: &ActivationStore, mean: &[f64]) -> Result<Vec<f64>> {
    let width = store.width();
    let mut sums = vec![0.0; width * width];
    for rows in pieces(store.rows()) {
        let tile = store.tile(rows)?;
        let count = tile.rows();
        // One line per value of a row, so that lines are multiplied with lines.
        let mut centred = vec![0.0; width * count];
        centred.par_chunks_mut(count).zip(mean).enumerate().for_each(|(column, (line, mean))| {
            for (row, into) in line.iter_mut().enumerate() {
                *into = f64::from(tile.values[row * width + column]) - mean;
            }
        });
        sums.par_chunks_mut(LINES * width).zip(centred.par_chunks(LINES * count)).for_each(|(sums, lines)| {
            let mut products = vec![0.0; sums.len()];
            rows_by_rows(lines, &centred, count, &mut products);
            sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
        });
    }
    let rows = store.rows().max(1) as f64;
    // Both halves of a product of blocks may differ in the last place.
    let half = |i: usize, j: usize| sums[i.min(j) * width + i.max(j)] / rows;
    Ok((0..width * width).map(|cell| half(cell / width, cell % width)).collect())
}
