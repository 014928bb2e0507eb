//! A controller of the penalty's weight: reaches a target L0 at the end of the training.

use crate::error::{InputError, Key, Result};
use crate::sae::train::TrainingSettings;

use super::penalty::{Penalty, SPARSITY_WARMUP};

/// Share of the squared error that the penalty has in the first step.
const FIRST_SHARE: f64 = 0.01;

/// Exponent of the relative deviation of L0 in the weight.
const PROPORTIONAL: f64 = 3.0;

/// Sum of the exponents that a deviation by a factor of e adds to the weight if it lasts for the whole training.
const INTEGRAL: f64 = 60.0;

/// Bound of the integral, a factor of 10^13.
const LONGEST: f64 = 30.0;

/// The weight is w₀ exp(3 d + i), where d = ln(L0 / R) is the deviation of the batch from a reference R, and i is the sum
/// of 60 d / steps over all steps. R falls from the L0 of the first step to the target, linearly in its logarithm, during
/// the sparsity warm-up. w₀ makes the penalty 1 % of the squared error of the first step, so that the weight does not
/// depend on the scale of the data.
#[derive(Clone, Debug)]
pub(super) struct Controller {
    target: f64,
    warmup: u64,
    gain: f64,
    /// ln w₀ and the logarithm of the first L0, once there was a step.
    first: Option<[f64; 2]>,
    integral: f64,
}

/// The weight of the penalty in a step with this mean L0, squared error and unweighted penalty: that of the controller,
/// or without one that of the settings.
pub(super) fn weight(
    controller: &mut Option<Controller>,
    penalty: &Penalty,
    step: u64,
    [l0, error, sparsity]: [f64; 3],
) -> f64 {
    match controller {
        Some(controller) => controller.weight(step, l0, error, sparsity),
        None => penalty.at(step),
    }
}

impl Controller {
    /// The controller of a training, if it has one.
    pub fn of(settings: &TrainingSettings) -> Result<Option<Controller>> {
        let Some(target) = settings.control else { return Ok(None) };
        if !(target > 0.0 && target <= settings.latents as f64) {
            return Err(InputError::new(format!("{} is out of range", Key("target-l0")))
                .expected(format!("above 0 and at most {}, the number of latents", settings.latents))
                .found(target)
                .into());
        }
        let gain = INTEGRAL / settings.steps.max(1) as f64;
        let warmup = settings.get(&SPARSITY_WARMUP)?;
        Ok(Some(Controller { target, warmup, gain, first: None, integral: 0.0 }))
    }

    /// The weight of the penalty in a step with this mean L0, squared error and unweighted penalty.
    pub fn weight(&mut self, step: u64, l0: f64, error: f64, penalty: f64) -> f64 {
        // A batch without active latents has a deviation that is large but finite.
        let l0 = l0.max(0.01 * self.target).ln();
        let [base, start] = *self.first.get_or_insert_with(|| {
            let share = FIRST_SHARE * error / penalty;
            [if share > 0.0 && share.is_finite() { share.ln() } else { 0.0 }, l0]
        });
        let done = if self.warmup == 0 { 1.0 } else { (step as f64 / self.warmup as f64).min(1.0) };
        let deviation = l0 - (start + (self.target.ln() - start) * done);
        self.integral = (self.integral + self.gain * deviation).clamp(-LONGEST, LONGEST);
        (base + PROPORTIONAL * deviation + self.integral).exp()
    }

    pub fn save(&self) -> Vec<f64> {
        self.first.map_or(Vec::new(), |[base, start]| vec![base, start, self.integral])
    }

    pub fn load(&mut self, saved: &[f64]) {
        if let [base, start, integral] = *saved {
            (self.first, self.integral) = (Some([base, start]), integral);
        }
    }
}
