//! The largest eigenvalues of the co-occurrence matrices, by products with the codes: the matrices are never formed.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::sets::{CodeSets, Sets};
use crate::codes::{Codes, CodesBuilder, Latent};
use crate::context::{Context, Reserved};
use crate::error::{Error, Key, Result};
use crate::run::{Job, Work};
use etalon_kernel::lanczos::{BLOCK, LanczosParams, try_largest};
use etalon_kernel::statistics::mean;

/// Rows or latents per task of a thread.
const BATCH: usize = 256;

/// An eigenpair has converged when its error is below this share of the largest eigenvalue.
const TOLERANCE: f64 = 1e-6;

/// Eigenvalues below this share of the largest are rounding errors.
const ROUNDING: f64 = 1e-10;

/// The rank from which [`Spectrum::slope`] is fitted, if there are twice as many.
const FIRST_RANK: usize = 10;

/// The spectrum of one set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spectrum {
    pub values: Vec<f64>,
    /// How many of them have converged.
    pub converged: usize,
    /// The first vectors, concatenated.
    pub vectors: Vec<f64>,
}

impl Spectrum {
    /// The number of eigenvalues that are not rounding errors.
    pub fn rank(&self) -> usize {
        let least = ROUNDING * self.values.first().copied().unwrap_or(0.0);
        self.values.iter().take_while(|&&value| value > 0.0 && value > least).count()
    }

    /// The slope of the least-squares line of log eigenvalue over log rank.
    pub fn slope(&self) -> Option<f64> {
        let rank = self.rank();
        let first = if rank < 2 * FIRST_RANK { 1 } else { FIRST_RANK };
        let point = |rank: usize| (libm::log(rank as f64), libm::log(self.values[rank - 1]));
        let (x, y): (Vec<f64>, Vec<f64>) = (first..=rank).map(point).unzip();
        let (centre_x, centre_y) = (mean(&x)?, mean(&y)?);
        let square = x.iter().map(|x| (x - centre_x).powi(2)).sum::<f64>();
        let product = x.iter().zip(&y).map(|(x, y)| (x - centre_x) * (y - centre_y)).sum::<f64>();
        (square > 0.0).then(|| product / square)
    }
}

/// The index of a set, the real rows first, in [`spectra`].
pub(super) fn of_set(set: usize) -> usize {
    if set == 0 { 0 } else { 1 + 2 * set }
}

/// The spectra of the real rows and their two halves, then of every model and its second half.
pub(super) fn spectra(sets: &CodeSets<'_>, work: &mut Work<'_>) -> Result<Reserved<Vec<Spectrum>>> {
    let CodeSets { job, shape, lazy } = sets;
    let (top, eigenvalues) = (job.whole("top")?, job.whole("eigenvalues")?);
    // A set; for a half of its rows, whether it is the second.
    let mut parts: Vec<(usize, Option<bool>)> = vec![(0, None), (0, Some(false)), (0, Some(true))];
    parts.extend((1..shape.sets()).flat_map(|set| [(set, None), (set, Some(true))]));
    work.blocks_with(lazy, "spectra", parts.len(), |sets, block| {
        let (set, half) = parts[block];
        let (codes, count) = match half {
            None => (sets.codes[set].clone(), eigenvalues.max(top)),
            Some(second) => (Arc::new(half_of(sets, set, second, job)?), top),
        };
        let size = codes.latents();
        let basis = (3 * count + 100).min(size);
        let vectors = (size as u64).saturating_mul(8 * (basis + count + 4 * BLOCK) as u64);
        let _memory = job.budget().reserve(
            vectors.saturating_add((codes.rows() * BLOCK * 8) as u64),
            format!("{count} eigenvectors of {size} latents (lower {} or {})", Key("eigenvalues"), Key("top")),
        )?;
        let params = LanczosParams { count, tolerance: TOLERANCE, basis, seed: job.seed };
        spectrum(&codes, &params, top, sets.scale(codes.rows()), job.context)
    })
}

/// Half of the rows of a set.
fn half_of(sets: &Sets, set: usize, second: bool, job: &Job<'_>) -> Result<Codes> {
    let codes = &sets.codes[set];
    let mut builder = CodesBuilder::within(codes.latents(), job.budget());
    for (row, latents, values) in codes.all()?.iter() {
        if row % 4096 == 0 {
            job.check()?;
        }
        if sets.is_second_half(row) == second {
            builder.push(latents, values)?;
        }
    }
    Ok(builder.finish())
}

/// The largest eigenvalues of `scale · ZᵀZ`, and the vectors of the first `top`.
pub(super) fn spectrum(
    codes: &Codes,
    params: &LanczosParams,
    top: usize,
    scale: f64,
    context: &Context,
) -> Result<Spectrum> {
    let (size, rows, columns) = (codes.latents(), codes.all()?, codes.columns()?);
    let multiply = |given: &[f64], out: &mut [f64]| {
        // Z v by row, then Zᵀ (Z v) by latent: every sum is computed by one thread, in a fixed order.
        let mut product = vec![0.0; rows.rows() * BLOCK];
        product.par_chunks_mut(BLOCK).with_min_len(BATCH).enumerate().for_each(|(row, product)| {
            let (latents, values) = rows.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                add(product, f64::from(value), &given[latent as usize * BLOCK..][..BLOCK]);
            }
        });
        out.par_chunks_mut(BLOCK).with_min_len(BATCH).enumerate().for_each(|(latent, out)| {
            out.fill(0.0);
            let (rows, values) = columns.latent(Latent(latent as u32));
            for (&row, &value) in rows.iter().zip(values) {
                add(out, f64::from(value) * scale, &product[row as usize * BLOCK..][..BLOCK]);
            }
        });
    };
    let found = try_largest(size, params, context, multiply)?
        .ok_or_else(|| Error::Bug("the eigenvalues of a small matrix do not converge".into()))?;
    let vectors = found.eigen.vectors[..top.min(found.eigen.values.len()) * size].to_vec();
    // No eigenvalue of ZᵀZ is negative, except by rounding.
    let values = found.eigen.values.into_iter().map(|value| value.max(0.0)).collect();
    Ok(Spectrum { values, converged: found.converged, vectors })
}

#[inline(always)]
fn add(into: &mut [f64], factor: f64, from: &[f64]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into += factor * from);
}
