//! The objective of ReLU dictionaries: an L1 penalty on the codes.

use super::control::{self, Controller};
use super::penalty::Penalty;
use super::scaled;
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// ReLU with an L1 penalty on the codes, which may be weighted by the norms of the directions.
pub(super) struct ReluObjective {
    rules: Rules,
    penalty: Penalty,
    controller: Option<Controller>,
    /// Whether codes are penalised times the norm of their direction.
    weight_by_norm: bool,
    /// The derivative of the penalty by a (weighted) code, in the current step.
    penalty_slope: f32,
}

impl ReluObjective {
    pub fn new(settings: &TrainingSettings, weight_by_norm: bool) -> Result<ReluObjective> {
        let (rules, penalty, controller) =
            (Rules::plain(settings.latents), Penalty::of(settings)?, Controller::of(settings)?);
        Ok(ReluObjective { rules, penalty, controller, weight_by_norm, penalty_slope: 0.0 })
    }
}

impl Objective for ReluObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn needs_norms(&self) -> bool {
        self.weight_by_norm
    }

    /// The penalty of the row, and its active latents.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let sum: f64 = if self.weight_by_norm {
            row.entries.iter().map(|&(value, latent)| f64::from(value * row.norms[latent as usize])).sum()
        } else {
            row.entries.iter().map(|entry| f64::from(entry.0)).sum()
        };
        [sum, row.entries.len() as f64]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let numbers = [batch.mean(1), error, sparsity];
        let weight = control::weight(&mut self.controller, &self.penalty, batch.step, numbers);
        self.penalty_slope = (weight / batch.rows.len() as f64) as f32;
        let mut terms = vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)];
        terms.extend(self.controller.is_some().then_some(("weight", weight)));
        terms
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        let penalty = if self.weight_by_norm { self.penalty_slope * column.norm } else { self.penalty_slope };
        column.slopes.iter_mut().for_each(|slope| *slope += penalty);
        column.gradient[0] = column.bias_gradient();
        if self.weight_by_norm {
            let codes: f64 = column.values.iter().map(|&value| f64::from(value)).sum();
            column.norm_gradient = self.penalty_slope * codes as f32;
        }
    }

    fn save(&self) -> Vec<f64> {
        self.controller.as_ref().map(Controller::save).unwrap_or_default()
    }

    fn load(&mut self, saved: &[f64]) {
        self.controller.iter_mut().for_each(|controller| controller.load(saved));
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::Relu)
    }
}
