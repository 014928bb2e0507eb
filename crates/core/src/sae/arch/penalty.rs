//! The weight of the sparsity penalty, with its warm-up.

use crate::error::{InputError, Key, Result};
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::TrainingSettings;

/// Weight of the penalty.
pub static PENALTY: ArchParam<f64> =
    ArchParam::new(["penalty", "l1", "WEIGHT", "Weight of the sparsity penalty"], |_| 0.1);

/// Number of warm-up steps of the penalty.
pub static SPARSITY_WARMUP: ArchParam<u64> =
    ArchParam::new(["sparsity_warmup", "sparsity-warmup", "N", "Steps over which the penalty rises"], |preset| {
        match preset {
            Preset::SaeConceptEval => 0,
            _ => 2000,
        }
    });

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
