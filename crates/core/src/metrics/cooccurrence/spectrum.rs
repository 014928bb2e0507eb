//! The largest eigenvalues of the co-occurrence matrices, by products with the codes: the matrix itself is never made.

use rayon::prelude::*;

use super::{Sets, summary};
use crate::codes::{Codes, Latent};
use crate::error::{Error, Result};
use crate::kernel::lanczos::{BLOCK, Wanted, largest};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// Rows, or latents, that a thread takes together.
const TOGETHER: usize = 256;

/// A pair is exact enough when its error is below this share of the largest eigenvalue.
const TOLERANCE: f64 = 1e-6;

/// One block is one set of rows: the real ones, their two halves, then every model and its second half.
pub(super) struct Spectra {
    sets: Sets,
    /// What the lines gave.
    lines: Tally,
    top: usize,
    eigenvalues: usize,
    place: usize,
}

/// The spectrum of one set.
#[derive(Clone, Debug, Default)]
pub(super) struct Spectrum {
    pub values: Vec<f64>,
    /// How many of them are exact enough.
    pub found: usize,
    /// The first vectors, one after the other.
    pub vectors: Vec<f64>,
}

impl Spectra {
    /// `lines` is what the lines gave, `place` the number of the threshold of the headline.
    pub fn start(sets: Sets, lines: Tally, place: usize, job: &Job<'_>) -> Result<Next> {
        let (top, eigenvalues) = (job.whole("top")?, job.whole("eigenvalues")?);
        Ok(Next::Blocks(Box::new(Spectra { sets, lines, top, eigenvalues, place })))
    }

    /// The codes of a block, and how many eigenvalues it wants.
    fn set(&self, block: usize) -> Result<(std::borrow::Cow<'_, std::sync::Arc<Codes>>, usize)> {
        use std::borrow::Cow;
        let half = |codes: &Codes, half: bool| {
            let is_mine = |&(_, &group): &(usize, &u8)| self.sets.is_second_half(group) == half;
            let rows: Vec<usize> = self.sets.groups.iter().enumerate().filter(is_mine).map(|entry| entry.0).collect();
            codes.select(&rows).map(|codes| Cow::Owned(codes.into()))
        };
        let all = self.eigenvalues.max(self.top);
        Ok(match block {
            0 => (Cow::Borrowed(&self.sets.real), all),
            1 | 2 => (half(&self.sets.real, block == 2)?, self.top),
            _ => {
                let model = self.sets.models.get((block - 3) / 2);
                let (_, codes) = model.ok_or_else(|| Error::Bug("a spectrum of no model".into()))?;
                if block % 2 == 1 { (Cow::Borrowed(codes), all) } else { (half(codes, true)?, self.top) }
            }
        })
    }
}

impl Blocks for Spectra {
    fn count(&self) -> usize {
        3 + 2 * self.sets.models.len()
    }

    fn unit(&self) -> &'static str {
        "spectra"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let (codes, wanted) = self.set(block)?;
        let size = codes.latents();
        let basis = (3 * wanted + 100).min(size);
        let _memory = job.budget.take(
            (size as u64).saturating_mul(8 * (basis + wanted + 4 * BLOCK) as u64),
            format!("{wanted} eigenvectors of {size} latents (--eigenvalues and --top ask for fewer)"),
        )?;
        let scale = if self.sets.sums { 1.0 } else { 1.0 / (codes.rows() as f64).max(1.0) };
        let spectrum = spectrum(&codes, wanted, self.top, basis, scale, job.seed)?;
        let key = block as u64;
        Ok(Tally {
            columns: vec![
                Column::Lists(vec![(key, spectrum.values)]),
                Column::Lists(vec![(key, vec![spectrum.found as f64])]),
                Column::Lists(vec![(key, spectrum.vectors)]),
            ],
        })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let parts = tally.lists(0)?.iter().zip(tally.lists(1)?).zip(tally.lists(2)?);
        let spectra: Vec<Spectrum> = parts
            .map(|((values, found), vectors)| Spectrum {
                values: values.1.clone(),
                found: found.1.first().map_or(0, |&found| found as usize),
                vectors: vectors.1.clone(),
            })
            .collect();
        Ok(Next::Done(summary::scores(&self.sets, &self.lines, &spectra, (self.top, self.place), job)?))
    }
}

/// The largest eigenvalues of `scale · ZᵀZ`, and the vectors of the first `top`.
pub(super) fn spectrum(
    codes: &Codes,
    wanted: usize,
    top: usize,
    basis: usize,
    scale: f64,
    seed: u64,
) -> Result<Spectrum> {
    let (size, rows, columns) = (codes.latents(), codes.all()?, codes.columns()?);
    let multiply = |given: &[f64], out: &mut [f64]| {
        // Z v row by row, then Zᵀ of it latent by latent: every sum has its own place and order.
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
    let found = largest(size, &Wanted { count: wanted, tolerance: TOLERANCE, basis, seed }, multiply)
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
