//! The auxiliary loss: dead latents learn to reconstruct the residual.

use rayon::prelude::*;

use super::columns::Columns;
use super::weights::Weights;
use crate::sae::selector::{Entries, Rule, Selector, WarmStart};
use etalon_kernel::packed::{PANEL, Panels};
use etalon_kernel::vector::{RowView, difference, gather};

/// The auxiliary loss of a batch, and its derivatives.
#[derive(Debug, Default)]
pub(super) struct Auxiliary {
    /// The kept pre-activations of dead latents, by latent.
    pub columns: Columns,
    /// The derivative of the weighted loss by the reconstruction from dead latents: rows × stride.
    pub slopes: Vec<f32>,
    /// The unweighted loss, divided by the variance of the residual or by a given unit.
    pub loss: f64,
}

/// The residual of a batch after its forward pass.
pub(super) struct Residual<'a> {
    pub weights: &'a Weights,
    /// The input of the encoder, padded to whole tiles.
    pub input: &'a [f32],
    /// Reconstruction minus row, times `factor`.
    pub errors: RowView<'a>,
    /// The factor of `errors`.
    pub factor: f32,
    pub rows: usize,
    /// The weight of the loss.
    pub weight: f64,
    /// The divisor of the loss; `None` for the variance of the residual.
    pub unit: Option<f64>,
    /// Number of dead latents used per row.
    pub keep: usize,
}

impl Residual<'_> {
    /// Computes the auxiliary loss of dead latents, given in ascending order.
    pub fn run(&self, dead: &[u32]) -> Auxiliary {
        let size = self.weights.size;
        let mut active = vec![Entries::new(); self.rows];
        self.select(dead, &mut active);
        let mut slopes = vec![0.0; self.rows * size.stride];
        let mut squares = vec![0.0f64; self.rows];
        let decode = |(row, (slopes, square)): (usize, (&mut [f32], &mut f64))| {
            let ids: Vec<u32> = active[row].iter().map(|entry| entry.1).collect();
            let codes: Vec<f32> = active[row].iter().map(|entry| entry.0).collect();
            let mut decoded = vec![0.0; size.stride];
            gather(RowView::new(&self.weights.decoder, size.stride), &ids, &codes, &mut decoded);
            // The residual is the row minus its reconstruction: the negative error.
            let residual: Vec<f32> =
                self.errors.row(row, size.stride).iter().map(|error| -error / self.factor).collect();
            *square = f64::from(difference(&decoded, &residual, 1.0, slopes));
        };
        slopes.par_chunks_mut(size.stride).zip(&mut squares).enumerate().for_each(decode);
        let variance = self.unit.unwrap_or_else(|| self.variance());
        let loss = squares.iter().sum::<f64>() / self.rows as f64 / variance;
        let mut columns = Columns::default();
        columns.fill(&active, size.latents);
        // Without variance the loss is undefined: no gradient.
        let (loss, scale) =
            if loss.is_finite() { (loss, 2.0 * self.weight / variance / self.rows as f64) } else { (0.0, 0.0) };
        slopes.iter_mut().for_each(|slope| *slope *= scale as f32);
        Auxiliary { columns, slopes, loss }
    }

    /// Selects among the dead latents only, whose encoder rows are packed separately.
    fn select(&self, dead: &[u32], active: &mut [Entries]) {
        let size = self.weights.size;
        let mut panels = Panels::new(dead.len(), size.stride);
        let padded = dead.len().next_multiple_of(PANEL);
        let (mut bias, mut floors) = (vec![0.0; padded], vec![f32::INFINITY; padded]);
        let mut row = vec![0.0; size.stride];
        for (index, &latent) in dead.iter().enumerate() {
            self.weights.encoder.column(latent as usize, &mut row);
            panels.set_column(index, &row);
            (bias[index], floors[index]) = (self.weights.scalars[latent as usize * size.scalars], 0.0);
        }
        let selector = Selector {
            panels: &panels,
            bias: &bias,
            floors: &floors,
            rounded: None,
            threads: rayon::current_num_threads(),
            keeps_nan: false,
        };
        let rule = Rule::PerRow(self.keep.min(dead.len()));
        selector.select(rule, self.input, &WarmStart::default(), active);
        active.par_iter_mut().flatten().for_each(|entry| entry.1 = dead[entry.1 as usize]);
    }

    /// The variance of the residual: the mean squared distance from its mean.
    fn variance(&self) -> f64 {
        let (stride, rows) = (self.weights.size.stride, self.rows as f64);
        let value = |error: f32| f64::from(error / self.factor);
        let mut mean = vec![0.0f64; stride];
        for row in 0..self.rows {
            mean.iter_mut().zip(self.errors.row(row, stride)).for_each(|(sum, &error)| *sum += value(error) / rows);
        }
        let distance = |row: usize| {
            self.errors.row(row, stride).iter().zip(&mean).map(|(&e, m)| (value(e) - m).powi(2)).sum::<f64>()
        };
        (0..self.rows).into_par_iter().map(distance).collect::<Vec<f64>>().iter().sum::<f64>() / rows
    }
}
