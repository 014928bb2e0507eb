//! The sparsity penalty with its warm-up, and the objective of ReLU dictionaries.

use super::scaled;
use crate::error::{InputError, Key, Result};
use crate::sae::activation::Activation;
use crate::sae::param::Param;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// Weight of the penalty.
pub static PENALTY: Param<f64> = Param::new(["penalty", "l1", "WEIGHT", "Weight of the sparsity penalty"], |_| 0.1);

/// Number of warm-up steps of the penalty.
pub static SPARSITY_WARMUP: Param<u64> = Param::new(
    ["sparsity_warmup", "sparsity-warmup", "N", "Steps over which the penalty rises"],
    |preset| match preset {
        Preset::SaeConceptEval => 0,
        _ => 2000,
    },
);

/// The weight of a penalty, which rises from 0 during the warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Penalty {
    pub weight: f64,
    warmup: u64,
}

impl Penalty {
    pub fn of(settings: &TrainingSettings) -> Result<Penalty> {
        let weight = settings.get(&PENALTY)?;
        if !weight.is_finite() || weight < 0.0 {
            return Err(InputError::new(format!("{} is out of range", Key("l1")))
                .expected("a number from 0")
                .found(weight)
                .into());
        }
        Ok(Penalty { weight, warmup: settings.get(&SPARSITY_WARMUP)? })
    }

    /// The warm-up factor at a step, from 0 to 1.
    pub fn warmup_factor(&self, step: u64) -> f64 {
        if self.warmup == 0 { 1.0 } else { (step as f64 / self.warmup as f64).min(1.0) }
    }

    /// The weight at a step.
    pub fn at(&self, step: u64) -> f64 {
        self.weight * self.warmup_factor(step)
    }
}

/// ReLU with an L1 penalty on the codes, which may be weighted by the norms of the directions.
pub(super) struct ReluObjective {
    rules: Rules,
    penalty: Penalty,
    /// Whether codes are penalised times the norm of their direction.
    weight_by_norm: bool,
    /// The derivative of the penalty by a (weighted) code, in the current step.
    penalty_slope: f32,
}

impl ReluObjective {
    pub fn new(settings: &TrainingSettings, weight_by_norm: bool) -> Result<ReluObjective> {
        let (rules, penalty) = (Rules::plain(settings.latents), Penalty::of(settings)?);
        Ok(ReluObjective { rules, penalty, weight_by_norm, penalty_slope: 0.0 })
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

    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let sum: f64 = if self.weight_by_norm {
            row.entries.iter().map(|&(value, latent)| f64::from(value * row.norms[latent as usize])).sum()
        } else {
            row.entries.iter().map(|entry| f64::from(entry.0)).sum()
        };
        [sum, 0.0]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let weight = self.penalty.at(batch.step);
        self.penalty_slope = (weight / batch.rows.len() as f64) as f32;
        vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)]
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

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::Relu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_penalty_rises_during_the_warmup() {
        let penalty = Penalty { weight: 2.0, warmup: 5 };
        assert_eq!([0, 1, 9].map(|step| penalty.at(step)), [0.0, 0.4, 2.0]);
        assert_eq!(Penalty { warmup: 0, ..penalty }.warmup_factor(0), 1.0);
    }
}
