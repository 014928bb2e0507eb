//! The largest eigenvalues of the co-occurrence matrices, by products with the codes: the matrix itself is never made.

use std::sync::Arc;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::sets::{LazySets, Sets, SetsShape};
use crate::codes::{Codes, CodesBuilder, Latent};
use crate::context::{Context, Reserved};
use crate::error::{Error, Key, Result};
use crate::run::{Job, Work};
use etalon_kernel::lanczos::{BLOCK, Wanted, try_largest};

/// Rows, or latents, that a thread takes together.
const TOGETHER: usize = 256;

/// A pair is exact enough when its error is below this share of the largest eigenvalue.
const TOLERANCE: f64 = 1e-6;

/// The spectrum of one set.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Spectrum {
    pub values: Vec<f64>,
    /// How many of them are exact enough.
    pub found: usize,
    /// The first vectors, one after the other.
    pub vectors: Vec<f64>,
}

/// Rows that have a spectrum.
#[derive(Clone, Copy)]
struct SpectrumPart {
    set: usize,
    /// One half of the rows: is it the second?
    half: Option<bool>,
}

/// The real rows, their two halves, then every model and its second half.
fn parts(models: usize) -> Vec<SpectrumPart> {
    let real = [None, Some(false), Some(true)].map(|half| SpectrumPart { set: 0, half });
    let of_model = |model: usize| [None, Some(true)].map(|half| SpectrumPart { set: model + 1, half });
    real.into_iter().chain((0..models).flat_map(of_model)).collect()
}

/// The spectrum of a set, the real rows first, among [`spectra`].
pub(super) fn of_set(set: usize) -> usize {
    if set == 0 { 0 } else { 1 + 2 * set }
}

/// Of the real rows, their two halves, then of every model and its second half.
pub(super) fn spectra(
    sets: &LazySets<'_>,
    shape: &SetsShape<'_>,
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<Spectrum>>> {
    let (top, eigenvalues) = (job.whole("top")?, job.whole("eigenvalues")?);
    let parts = parts(shape.names.len());
    work.blocks_with(sets, "spectra", parts.len(), |sets, block| {
        let SpectrumPart { set, half } = parts[block];
        let (codes, count) = match half {
            None => (sets.codes[set].clone(), eigenvalues.max(top)),
            Some(second) => (Arc::new(half_of(sets, set, second, job)?), top),
        };
        let size = codes.latents();
        let basis = (3 * count + 100).min(size);
        let vectors = (size as u64).saturating_mul(8 * (basis + count + 4 * BLOCK) as u64);
        let _memory = job.budget().reserve(
            vectors.saturating_add((codes.rows() * BLOCK * 8) as u64),
            format!("{count} eigenvectors of {size} latents ({} and {} ask for fewer)", Key("eigenvalues"), Key("top")),
        )?;
        let wanted = Wanted { count, tolerance: TOLERANCE, basis, seed: job.seed };
        spectrum(&codes, &wanted, top, sets.scale(codes.rows()), job.context)
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
pub(super) fn spectrum(codes: &Codes, wanted: &Wanted, top: usize, scale: f64, context: &Context) -> Result<Spectrum> {
    let (size, rows, columns) = (codes.latents(), codes.all()?, codes.columns()?);
    let multiply = |given: &[f64], out: &mut [f64]| {
        // Z v row by row, then Zᵀ of it latent by latent: every sum has its own address and order.
        let mut along = vec![0.0; rows.rows() * BLOCK];
        along.par_chunks_mut(BLOCK).with_min_len(TOGETHER).enumerate().for_each(|(row, along)| {
            let (latents, values) = rows.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                add(along, f64::from(value), &given[latent as usize * BLOCK..][..BLOCK]);
            }
        });
        out.par_chunks_mut(BLOCK).with_min_len(TOGETHER).enumerate().for_each(|(latent, out)| {
            out.fill(0.0);
            let (rows, values) = columns.latent(Latent(latent as u32));
            for (&row, &value) in rows.iter().zip(values) {
                add(out, f64::from(value) * scale, &along[row as usize * BLOCK..][..BLOCK]);
            }
        });
    };
    let found = try_largest(size, wanted, context, multiply)?
        .ok_or_else(|| Error::Bug("the eigenvalues of a small matrix do not settle".into()))?;
    let vectors = found.eigen.vectors[..top.min(found.eigen.values.len()) * size].to_vec();
    // No eigenvalue of ZᵀZ is negative; rounding may say so.
    let values = found.eigen.values.into_iter().map(|value| value.max(0.0)).collect();
    Ok(Spectrum { values, found: found.found, vectors })
}

#[inline(always)]
fn add(into: &mut [f64], factor: f64, from: &[f64]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into += factor * from);
}
