//! Norms of rows, in parallel.

use etalon_kernel::neural;
use rayon::prelude::*;

use super::CHUNK;

/// A norm with its weights.
#[derive(Clone, Debug)]
pub enum Norm {
    /// Divides by the root mean square.
    Rms {
        /// Multiplies every value.
        weight: Vec<f32>,
        /// Added to the mean square.
        eps: f32,
    },
    /// Subtracts the mean and divides by the standard deviation.
    Layer {
        /// Multiplies every value.
        weight: Vec<f32>,
        /// Added to every value.
        bias: Vec<f32>,
        /// Added to the variance.
        eps: f32,
    },
}

impl Norm {
    /// Values per row.
    pub fn width(&self) -> usize {
        match self {
            Norm::Rms { weight, .. } | Norm::Layer { weight, .. } => weight.len(),
        }
    }

    /// The factors.
    pub fn weight(&self) -> &[f32] {
        match self {
            Norm::Rms { weight, .. } | Norm::Layer { weight, .. } => weight,
        }
    }

    /// The same norm without factors and summands.
    #[must_use]
    pub fn plain(&self) -> Norm {
        let width = self.width();
        match self {
            Norm::Rms { eps, .. } => Norm::Rms { weight: vec![1.0; width], eps: *eps },
            Norm::Layer { eps, .. } => Norm::Layer { weight: vec![1.0; width], bias: vec![0.0; width], eps: *eps },
        }
    }

    /// Multiplies and adds to rows what [`Norm::plain`] leaves out.
    pub fn scale(&self, rows: &mut [f32]) {
        match self {
            Norm::Rms { weight, .. } => super::multiply_rows(weight, rows),
            Norm::Layer { weight, bias, .. } => {
                super::multiply_rows(weight, rows);
                let size = CHUNK * bias.len();
                rows.par_chunks_mut(size)
                    .for_each(|rows| rows.chunks_exact_mut(bias.len()).for_each(|row| neural::add(bias, row)));
            }
        }
    }

    /// The rows of one task, on the calling thread.
    pub fn apply_chunk(&self, x: &[f32], out: &mut [f32]) {
        match self {
            Norm::Rms { weight, eps } => neural::rms_norm(x, weight, *eps, out),
            Norm::Layer { weight, bias, eps } => neural::layer_norm(x, weight, bias, *eps, out),
        }
    }

    /// Normalises rows.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        let size = CHUNK * self.width();
        out.par_chunks_mut(size).zip(x.par_chunks(size)).for_each(|(out, x)| self.apply_chunk(x, out));
    }

    /// Adds the gradient at the input to `into`; `d` is overwritten.
    pub fn back(&self, x: &[f32], d: &mut [f32], into: &mut [f32]) {
        let size = CHUNK * self.width();
        let chunks = into.par_chunks_mut(size).zip(x.par_chunks(size)).zip(d.par_chunks_mut(size));
        chunks.for_each(|((into, x), d)| self.back_chunk(x, d, into));
    }

    /// The gradient of [`Norm::apply_chunk`], added to `into`; `d` is overwritten.
    pub fn back_chunk(&self, x: &[f32], d: &mut [f32], into: &mut [f32]) {
        match self {
            Norm::Rms { weight, eps } => neural::rms_norm_back(x, weight, *eps, d, into),
            Norm::Layer { weight, eps, .. } => neural::layer_norm_back(x, weight, *eps, d, into),
        }
    }
}
