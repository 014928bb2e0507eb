//! What every training is told: sizes, schedules, optimiser. A preset fills all of it, options change single numbers. What
//! only some architectures have is in their parameters.

use serde::{Deserialize, Serialize};

use super::objective::Objective;
use crate::error::{InputError, Result};
use crate::sae::normalise::Normalisation;
use crate::sae::param::{Param, ParamValue, Params};
use crate::sae::preset::Preset;

/// What is kept true of decoder directions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Constraint {
    /// Nothing.
    Free,
    /// Unit length: the gradient loses its part along the direction, and after the step the direction is divided by its
    /// length. The guards are added to the length, as various programs do.
    Unit {
        /// Added to the length when the gradient is projected.
        gradient_guard: f32,
        /// Added to the length when the direction is divided by it.
        length_guard: f32,
        /// Directions are divided before the step instead of after it, so that they are one step off unit length.
        before: bool,
    },
}

/// What the error that is left over is compared with when dead latents learn to reconstruct it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuxiliaryRule {
    /// With its variance; the reconstruction does not learn from it.
    Relative,
    /// With nothing; the reconstruction does not learn from it.
    Plain,
    /// With nothing, and the reconstruction learns from it too.
    Attached,
}

/// Makes the live part of one training; refuses settings that do not fit together.
pub type NewObjective = fn(&TrainingSettings) -> Result<Box<dyn Objective>>;

/// Everything a training is told.
#[derive(Clone, Debug)]
pub struct TrainingSettings {
    /// The architecture.
    pub arch: String,
    /// Makes the live part of a training of that architecture.
    pub new_objective: NewObjective,
    /// Width of the activations.
    pub width: usize,
    /// Latents of the dictionary.
    pub latents: usize,
    /// Latents kept per row, where that is fixed.
    pub k: usize,
    /// Steps in all; schedules refer to it.
    pub steps: u64,
    /// Rows per step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f64,
    /// Steps over which the learning rate rises from 0.
    pub warmup: u64,
    /// The same as a share of all steps; counts where `warmup` is 0.
    pub warmup_share: f64,
    /// Step from which the learning rate falls to 0.
    pub decay_start: Option<u64>,
    /// What the learning rate falls to, as a cosine, from the warm-up to the last step.
    pub final_rate: Option<f64>,
    /// Decays of Adam's two moments.
    pub betas: (f32, f32),
    /// Keeps Adam's division finite.
    pub epsilon: f32,
    /// Share of every weight that is taken away in each step, times the learning rate (AdamW).
    pub weight_decay: f64,
    /// The global length to which gradients are cut.
    pub clip: Option<f64>,
    /// What is kept true of decoder directions.
    pub constraint: Constraint,
    /// The length of decoder directions before training; the encoder starts as their copy.
    pub initial_norm: f32,
    /// Encoder weights start uniform within this, and directions as their copies; else random directions come first.
    pub uniform_encoder: Option<f32>,
    /// Whether encoder biases learn.
    pub encoder_bias: bool,
    /// Encoder biases start uniform within this instead of 0.
    pub initial_bias: f32,
    /// Start the decoder's bias at the geometric median of the first batch.
    pub median: bool,
    /// Errors are averaged over the features too.
    pub per_feature: bool,
    /// Weight of the auxiliary loss.
    pub auxiliary: f64,
    /// What the auxiliary loss is relative to.
    pub auxiliary_rule: AuxiliaryRule,
    /// Dead latents used per row by the auxiliary loss; half the width unless given.
    pub auxiliary_k: usize,
    /// Rows without firing after which a latent is dead.
    pub dead_after: u64,
    /// Weight of what lifts the pre-activations of latents that no row of a batch keeps.
    pub reanimation: f64,
    /// Steps between resamplings of latents that have been silent for half of them.
    pub resample: Option<u64>,
    /// What is done to every row by its own values; the dictionary does the same.
    pub input: Normalisation,
    /// Divide inputs by the root of their mean squared length; folded into the dictionary at the end.
    pub normalise: bool,
    /// The seed of everything random.
    pub seed: u64,
    /// What the architecture has beside that.
    pub params: Params,
}

impl TrainingSettings {
    /// What all architectures share; a preset starts from here.
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
            seed: 0,
            params: Params::default(),
        }
    }

    /// What the top-k family of dictionary_learning has in common.
    pub(in crate::sae) fn top_family(
        arch: &str,
        new_objective: NewObjective,
        width: usize,
        latents: usize,
    ) -> TrainingSettings {
        TrainingSettings {
            rate: 2e-4 / (latents as f64 / 16_384.0).sqrt(),
            clip: Some(1.0),
            constraint: Constraint::Unit { gradient_guard: 1e-6, length_guard: f32::EPSILON, before: false },
            median: true,
            ..TrainingSettings::new(arch, new_objective, width, latents)
        }
    }

    /// Changes that the named programs make to everything they train.
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

    /// Refuses what no training can do.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, expected: &str, found: String| -> Result<()> {
            Err(InputError::new(what).expected(expected).found(found).into())
        };
        if self.latents == 0 || self.width == 0 || self.batch == 0 {
            return wrong(
                "a training needs latents, a width and a batch",
                "numbers from 1",
                format!("{} latents, width {}, batch {}", self.latents, self.width, self.batch),
            );
        }
        if u32::try_from(self.latents).is_err() || u32::try_from(self.batch).is_err() {
            return wrong("a training is too large", "less than 2^32 latents and rows", self.latents.to_string());
        }
        let numbers = [
            ("learning rate", self.rate),
            ("final learning rate", self.final_rate.unwrap_or(0.0)),
            ("share of the warm-up", self.warmup_share),
            ("weight decay", self.weight_decay),
            ("weight of the reanimation", self.reanimation),
        ];
        if self.normalise && self.input != Normalisation::None {
            return wrong(
                "rows cannot be normalised twice",
                "`normalise`, or a preset that standardises rows",
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
    pub fn get<T: ParamValue>(&self, param: &Param<T>) -> Result<T> {
        self.params.get(param)
    }

    /// The same settings with another value of a parameter; it changes nothing where the architecture has none of it.
    #[must_use]
    pub fn with<T: ParamValue>(mut self, param: &Param<T>, value: T) -> TrainingSettings {
        self.params.set(param, value);
        self
    }

    /// The live part of a training.
    pub fn objective(&self) -> Result<Box<dyn Objective>> {
        (self.new_objective)(self)
    }

    /// Whether a step needs the whole gradient before it can change a weight.
    pub(super) fn keeps_gradient(&self) -> bool {
        self.clip.is_some() || self.weight_decay > 0.0
    }

    /// The learning rate of a step.
    pub fn rate_at(&self, step: u64) -> f64 {
        let rising = match self.resample {
            Some(every) => step % every.max(1),
            None => step,
        };
        let warmup = match self.warmup {
            0 => (self.warmup_share * self.steps as f64).round() as u64,
            steps => steps,
        };
        if let Some(last) = self.final_rate.filter(|_| rising >= warmup && self.steps > warmup) {
            let part = (step - warmup).min(self.steps - warmup) as f64 / (self.steps - warmup) as f64;
            return last + (self.rate - last) * 0.5 * (1.0 + (std::f64::consts::PI * part).cos());
        }
        let part = match self.decay_start {
            _ if rising < warmup => rising as f64 / warmup as f64,
            Some(start) if step >= start && self.steps > start => {
                self.steps.saturating_sub(step) as f64 / (self.steps - start) as f64
            }
            _ => 1.0,
        };
        self.rate * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    #[test]
    fn schedules_by_hand() {
        let settings = TrainingSettings {
            rate: 2.0,
            warmup: 4,
            steps: 20,
            decay_start: Some(10),
            ..TrainingSettings::new("none", |_| Err(Error::Bug("no objective".into())), 8, 16)
        };
        assert_eq!([0, 1, 4, 9, 10, 15].map(|step| settings.rate_at(step)), [0.0, 0.5, 2.0, 2.0, 2.0, 1.0]);
        // A fifth of 20 steps of warm-up, then half a cosine from 2 to 1: halfway, at step 12, it has 1.5.
        let cosine = TrainingSettings { warmup: 0, warmup_share: 0.2, final_rate: Some(1.0), ..settings.clone() };
        let rates = [0, 1, 4, 12, 20, 30].map(|step| cosine.rate_at(step));
        assert!(rates.iter().zip([0.0, 0.5, 2.0, 1.5, 1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
    }
}
