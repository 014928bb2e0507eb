//! The settings of a training: sizes, schedules, optimiser. A preset sets all of them, options change single ones.
//! Settings of single architectures are in [`Params`].

use serde::{Deserialize, Serialize};

use super::objective::Objective;
use crate::error::{InputError, Key, Result};
use crate::sae::normalise::Normalisation;
use crate::sae::param::{ArchParam, ParamValue, Params};
use crate::sae::preset::Preset;

/// The constraint on decoder directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constraint {
    /// No constraint.
    Free,
    /// Unit norm: the gradient is projected orthogonally to the direction, and the direction is divided by its norm
    /// after the step. The guards are added to the norm, as in the program that a preset follows.
    Unit {
        /// Added to the norm when the gradient is projected.
        gradient_guard: f32,
        /// Added to the norm when the direction is divided by it.
        length_guard: f32,
        /// Divide directions before the step instead of after it, which leaves them one step away from unit norm.
        before: bool,
    },
}

/// The form of the auxiliary loss, by which dead latents learn to reconstruct the residual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuxiliaryRule {
    /// Divided by the variance of the residual; the reconstruction receives no gradient.
    Relative,
    /// A plain mean square; the reconstruction receives no gradient.
    Plain,
    /// A plain mean square; the reconstruction receives its gradient too.
    Attached,
}

/// Creates the objective of a training; refuses settings that contradict each other.
pub type NewObjective = fn(&TrainingSettings) -> Result<Box<dyn Objective>>;

/// All settings of a training.
#[derive(Clone, Debug)]
pub struct TrainingSettings {
    /// The architecture.
    pub arch: String,
    /// Creates the objective of that architecture.
    pub new_objective: NewObjective,
    /// Width of the activations.
    pub width: usize,
    /// Number of latents.
    pub latents: usize,
    /// Active latents per row, for architectures where that is fixed.
    pub k: usize,
    /// Total number of steps; schedules depend on it.
    pub steps: u64,
    /// Rows per step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f64,
    /// Steps over which the learning rate rises from 0.
    pub warmup: u64,
    /// The warm-up as a share of all steps; used if `warmup` is 0.
    pub warmup_share: f64,
    /// Step from which the learning rate decreases linearly to 0.
    pub decay_start: Option<u64>,
    /// Final learning rate of a cosine schedule from the warm-up to the last step.
    pub final_rate: Option<f64>,
    /// Decay rates of Adam's moments, β₁ and β₂.
    pub betas: (f32, f32),
    /// Added to Adam's denominator.
    pub epsilon: f32,
    /// Decoupled weight decay (AdamW).
    pub weight_decay: f64,
    /// Maximum global gradient norm.
    pub clip: Option<f64>,
    /// The constraint on decoder directions.
    pub constraint: Constraint,
    /// Initial norm of decoder directions; the encoder starts as a copy of them.
    pub initial_norm: f32,
    /// Bound of uniform initial encoder weights, whose copies are the initial directions; else directions are drawn
    /// first.
    pub uniform_encoder: Option<f32>,
    /// Whether encoder biases are trained.
    pub encoder_bias: bool,
    /// Bound of uniform initial encoder biases.
    pub initial_bias: f32,
    /// Initialise the decoder bias at the geometric median of the first batch.
    pub median: bool,
    /// Average errors over features too.
    pub per_feature: bool,
    /// Weight of the auxiliary loss.
    pub auxiliary: f64,
    /// Form of the auxiliary loss.
    pub auxiliary_rule: AuxiliaryRule,
    /// Dead latents per row in the auxiliary loss; half the width by default.
    pub auxiliary_k: usize,
    /// Number of rows without firing after which a latent is dead.
    pub dead_after: u64,
    /// Weight of the reanimation term, which raises the pre-activations of latents that no row of a batch keeps.
    pub reanimation: f64,
    /// Steps between resamplings of latents that have not fired for half of them.
    pub resample: Option<u64>,
    /// Normalisation of each row, in training and in the dictionary.
    pub input: Normalisation,
    /// Divide inputs by their root mean squared norm, which is folded into the dictionary at the end.
    pub normalise: bool,
    /// Subtract the mean of the rows, which is folded into the dictionary at the end. Trainings with a penalty need it:
    /// they learn a large decoder bias slowly, and meanwhile latents represent the mean.
    pub centre: bool,
    /// Set aside a tenth of the rows (at most 8,192) for the threshold, if there are no held-out rows; for architectures
    /// that select over a batch.
    pub set_aside: bool,
    /// Random seed.
    pub seed: u64,
    /// The mean L0 that a controller of the penalty's weight aims at; none for a fixed weight.
    pub control: Option<f64>,
    /// Parameters of the architecture.
    pub params: Params,
}

impl TrainingSettings {
    /// Defaults of all architectures, before a preset is applied.
    pub fn new(arch: &str, new_objective: NewObjective, width: usize, latents: usize) -> TrainingSettings {
        TrainingSettings {
            arch: arch.into(),
            new_objective,
            width,
            latents,
            k: 32,
            steps: 10_000,
            batch: 1024,
            rate: 1e-3,
            warmup: 1000,
            warmup_share: 0.0,
            decay_start: None,
            final_rate: None,
            betas: (0.9, 0.999),
            epsilon: 1e-8,
            weight_decay: 0.0,
            clip: None,
            constraint: Constraint::Unit { gradient_guard: 0.0, length_guard: 0.0, before: false },
            initial_norm: 1.0,
            uniform_encoder: None,
            encoder_bias: true,
            initial_bias: 0.0,
            median: false,
            per_feature: false,
            auxiliary: 1.0 / 32.0,
            auxiliary_rule: AuxiliaryRule::Relative,
            auxiliary_k: width / 2,
            dead_after: 10_000_000,
            reanimation: 0.0,
            resample: None,
            input: Normalisation::None,
            normalise: false,
            centre: false,
            set_aside: false,
            seed: 0,
            control: None,
            params: Params::default(),
        }
    }

    /// The learning rate of the top-k family of dictionary_learning.
    pub(in crate::sae) fn top_rate(latents: usize) -> f64 {
        2e-4 / (latents as f64 / 16_384.0).sqrt()
    }

    /// Defaults of the top-k family of dictionary_learning.
    pub(in crate::sae) fn top_family(
        arch: &str,
        new_objective: NewObjective,
        width: usize,
        latents: usize,
    ) -> TrainingSettings {
        TrainingSettings {
            rate: TrainingSettings::top_rate(latents),
            clip: Some(1.0),
            constraint: Constraint::Unit { gradient_guard: 1e-6, length_guard: f32::EPSILON, before: false },
            median: true,
            ..TrainingSettings::new(arch, new_objective, width, latents)
        }
    }

    /// Applies the changes of a preset that do not depend on the architecture.
    pub(in crate::sae) fn follow(mut self, preset: Preset) -> TrainingSettings {
        match preset {
            Preset::Etalon | Preset::DictionaryLearning => {}
            Preset::SaeConceptEval => {
                (self.rate, self.warmup, self.clip, self.epsilon) = (5e-4, 0, Some(1.0), 6.25e-10);
                (self.per_feature, self.median, self.auxiliary_k) = (true, false, 512);
                (self.betas, self.auxiliary_rule) = ((0.9, 0.999), AuxiliaryRule::Attached);
                self.constraint = Constraint::Unit { gradient_guard: 0.0, length_guard: 0.0, before: true };
                (self.input, self.uniform_encoder) =
                    (Normalisation::LayerNorm, Some((6.0 / self.latents as f64).sqrt() as f32));
                self.dead_after = 20 * self.batch as u64;
            }
            Preset::Saelens => {
                (self.clip, self.constraint, self.initial_norm) = (Some(1.0), Constraint::Free, 0.1);
                (self.median, self.dead_after) = (false, 1000 * self.batch as u64);
                (self.auxiliary, self.auxiliary_rule) = (1.0, AuxiliaryRule::Plain);
            }
            Preset::Blindspots => {
                (self.k, self.rate, self.final_rate) = (5, 5e-4, Some(1e-6));
                (self.warmup, self.warmup_share, self.weight_decay) = (0, 0.05, 1e-5);
                (self.betas, self.clip, self.per_feature) = ((0.9, 0.999), Some(1.0), true);
                (self.median, self.auxiliary, self.reanimation) = (false, 0.0, 1e-5);
                self.uniform_encoder = Some((6.0 / (self.width + self.latents) as f64).sqrt() as f32);
            }
        }
        self
    }

    /// Refuses settings that are out of range.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, expected: &str, found: String| -> Result<()> {
            Err(InputError::new(what).expected(expected).found(found).into())
        };
        if self.latents == 0 || self.width == 0 || self.batch == 0 {
            return wrong(
                "a size of the training is 0",
                "numbers from 1",
                format!("{} latents, width {}, batch {}", self.latents, self.width, self.batch),
            );
        }
        if u32::try_from(self.latents).is_err() || u32::try_from(self.batch).is_err() {
            return wrong(
                "a size of the training is out of range",
                "less than 2^32 latents and rows",
                self.latents.to_string(),
            );
        }
        let numbers = [
            ("learning rate", self.rate),
            ("final learning rate", self.final_rate.unwrap_or(0.0)),
            ("warm-up share", self.warmup_share),
            ("weight decay", self.weight_decay),
            ("reanimation weight", self.reanimation),
        ];
        if (self.normalise || self.centre) && self.input != Normalisation::None {
            return wrong(
                "rows cannot be normalised twice",
                &format!("{}, or a preset that standardises rows", Key("normalise")),
                "both".into(),
            );
        }
        for (what, number) in numbers {
            if !number.is_finite() || number < 0.0 {
                return wrong(&format!("the {what} is out of range"), "a number from 0", number.to_string());
            }
        }
        Ok(())
    }

    /// The value of a parameter of the architecture.
    pub fn get<T: ParamValue>(&self, param: &ArchParam<T>) -> Result<T> {
        self.params.get(param)
    }

    /// Sets a parameter; ignores parameters that the architecture does not have.
    #[must_use]
    pub fn with<T: ParamValue>(mut self, param: &ArchParam<T>, value: T) -> TrainingSettings {
        self.params.set(param, value);
        self
    }

    /// Creates the objective of the training.
    pub fn objective(&self) -> Result<Box<dyn Objective>> {
        (self.new_objective)(self)
    }

    /// Whether a step needs the complete gradient before it updates a weight.
    pub(super) fn keeps_gradient(&self) -> bool {
        self.clip.is_some() || self.weight_decay > 0.0
    }

    /// The learning rate of a step.
    pub fn rate_at(&self, step: u64) -> f64 {
        // Resampling restarts the warm-up.
        let warmup_step = match self.resample {
            Some(every) => step % every.max(1),
            None => step,
        };
        let warmup = match self.warmup {
            0 => (self.warmup_share * self.steps as f64).round() as u64,
            steps => steps,
        };
        if let Some(last) = self.final_rate.filter(|_| warmup_step >= warmup && self.steps > warmup) {
            let progress = (step - warmup).min(self.steps - warmup) as f64 / (self.steps - warmup) as f64;
            return last + (self.rate - last) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos());
        }
        let factor = match self.decay_start {
            _ if warmup_step < warmup => warmup_step as f64 / warmup as f64,
            Some(start) if step >= start && self.steps > start => {
                self.steps.saturating_sub(step) as f64 / (self.steps - start) as f64
            }
            _ => 1.0,
        };
        self.rate * factor
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn learning_rates_of_known_schedules() {
        let settings = TrainingSettings {
            rate: 2.0,
            warmup: 4,
            steps: 20,
            decay_start: Some(10),
            ..TrainingSettings::new("none", |_| Err(Error::Bug("no objective".into())), 8, 16)
        };
        assert_eq!([0, 1, 4, 9, 10, 15].map(|step| settings.rate_at(step)), [0.0, 0.5, 2.0, 2.0, 2.0, 1.0]);
        // 4 steps of warm-up, then half a cosine from 2 to 1: halfway, at step 12, the rate is 1.5.
        let cosine = TrainingSettings { warmup: 0, warmup_share: 0.2, final_rate: Some(1.0), ..settings.clone() };
        let rates = [0, 1, 4, 12, 20, 30].map(|step| cosine.rate_at(step));
        assert!(rates.iter().zip([0.0, 0.5, 2.0, 1.5, 1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
    }
}
