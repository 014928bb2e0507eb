//! Penalties on codes, with a warm-up, and the ReLU that most of them belong to.

use super::scaled;
use crate::error::{InputError, Key, Result};
use crate::sae::activation::Activation;
use crate::sae::param::Param;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// What the penalty weighs.
pub static PENALTY: Param<f64> = Param::new(["penalty", "l1", "WEIGHT", "Weight of the sparsity penalty"], |_| 0.1);

/// How long the penalty rises.
pub static SPARSITY_WARMUP: Param<u64> = Param::new(
    ["sparsity_warmup", "sparsity-warmup", "N", "Steps over which the penalty rises"],
    |preset| match preset {
        Preset::SaeConceptEval => 0,
        _ => 2000,
    },
);

/// A weight that rises from 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Penalty {
    pub weight: f64,
    warmup: u64,
}

impl Penalty {
    pub fn of(settings: &TrainingSettings) -> Result<Penalty> {
        let weight = settings.get(&PENALTY)?;
        if !weight.is_finite() || weight < 0.0 {
            return Err(InputError::new("the penalty is out of range")
                .expected("a number from 0")
                .found(weight)
                .advice(format!("change {}", Key("l1")))
                .into());
        }
        Ok(Penalty { weight, warmup: settings.get(&SPARSITY_WARMUP)? })
    }

    /// The share of the weight at a step.
    pub fn share(&self, step: u64) -> f64 {
        if self.warmup == 0 { 1.0 } else { (step as f64 / self.warmup as f64).min(1.0) }
    }

    /// The weight at a step.
    pub fn at(&self, step: u64) -> f64 {
        self.weight * self.share(step)
    }
}

/// A ReLU whose codes are penalised, either as they are or times the length of their direction.
pub(super) struct ReluObjective {
    rules: Rules,
    penalty: Penalty,
    lengths: bool,
    /// The penalty's derivative by what it counts, in this step.
    pull: f32,
}

impl ReluObjective {
    pub fn new(settings: &TrainingSettings, lengths: bool) -> Result<ReluObjective> {
        Ok(ReluObjective { rules: Rules::plain(settings.latents), penalty: Penalty::of(settings)?, lengths, pull: 0.0 })
    }
}

impl Objective for ReluObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn wants_norms(&self) -> bool {
        self.lengths
    }

    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let sum: f64 = if self.lengths {
            row.entries.iter().map(|&(value, latent)| f64::from(value * row.norms[latent as usize])).sum()
        } else {
            row.entries.iter().map(|entry| f64::from(entry.0)).sum()
        };
        [sum, 0.0]
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let weight = self.penalty.at(batch.step);
        self.pull = (weight / batch.rows.len() as f64) as f32;
        vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)]
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        let pull = if self.lengths { self.pull * column.norm } else { self.pull };
        column.slopes.iter_mut().for_each(|slope| *slope += pull);
        column.gradient[0] = column.bias_gradient();
        if self.lengths {
            let codes: f64 = column.values.iter().map(|&value| f64::from(value)).sum();
            column.norm_gradient = self.pull * codes as f32;
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
    fn a_penalty_rises() {
        let penalty = Penalty { weight: 2.0, warmup: 5 };
        assert_eq!([0, 1, 9].map(|step| penalty.at(step)), [0.0, 0.4, 2.0]);
        assert_eq!(Penalty { warmup: 0, ..penalty }.share(0), 1.0);
    }
}
