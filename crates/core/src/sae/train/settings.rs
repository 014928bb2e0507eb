//! What a training is told: sizes, schedules, optimiser. A preset fills all of it, options change single numbers.

use serde::{Deserialize, Serialize};

use crate::error::{Complaint, Result};
use crate::sae::Normalisation;

/// Whose conventions a training follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Ours: the published definition with what is known to work.
    #[default]
    Etalon,
    /// dictionary_learning 0.1.0, update by update.
    DictionaryLearning,
    /// The program of the concept-annotation paper.
    SaeConceptEval,
    /// SAELens 6, as far as the cards say.
    Saelens,
    /// The recipe of the paper on conceptual blindspots, with the dictionaries of overcomplete 0.3.
    Blindspots,
}

impl Preset {
    /// All of them, by name.
    pub const NAMES: [(&'static str, Preset); 5] = [
        ("etalon", Preset::Etalon),
        ("dictionary-learning", Preset::DictionaryLearning),
        ("sae-concept-eval", Preset::SaeConceptEval),
        ("saelens", Preset::Saelens),
        ("blindspots", Preset::Blindspots),
    ];

    /// Finds a preset.
    pub fn named(name: &str) -> Result<Preset> {
        Preset::NAMES.iter().find(|(other, _)| *other == name).map(|(_, preset)| *preset).ok_or_else(|| {
            Complaint::new(format!("there is no preset `{name}`"))
                .expected(Preset::NAMES.map(|(name, _)| name).join(", "))
                .into()
        })
    }
}

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

/// How JumpReLU learns its thresholds, and what it penalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jump {
    /// The threshold itself; the squared relative distance of L0 from its target.
    Target,
    /// The logarithm of the threshold, by the pseudo-derivatives of the threshold; the mean L0.
    Logarithm,
    /// The threshold itself; the mean L0, whose pseudo-derivative looks at pre-activations instead of codes.
    Step,
}

/// How far archetypal directions may leave the hull of their candidates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Radius {
    /// In units of the mean length of the candidates, so that it means the same for data of any scale.
    Relative(f64),
    /// In the units of the data, as overcomplete has it.
    Absolute(f64),
}

impl Radius {
    /// The number, whatever its unit.
    pub fn number(self) -> f64 {
        match self {
            Radius::Relative(number) | Radius::Absolute(number) => number,
        }
    }
}

/// How the threshold that replaces a batch's selection after training is learnt: a running mean of the smallest code kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdRule {
    /// Steps before this one do not count.
    pub start: u64,
    /// How much of the old mean stays.
    pub decay: f64,
    /// What the mean starts from, which then biases it; without, the bias of the start is corrected.
    pub initial: Option<f64>,
    /// The first value is taken as the mean.
    pub assign_first: bool,
}

/// Everything a training is told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The architecture.
    pub arch: String,
    /// Width of the activations.
    pub width: usize,
    /// Latents of the dictionary.
    pub latents: usize,
    /// Latents kept per row, where that is fixed.
    pub k: usize,
    /// Steps over which `k` falls from the width to its value.
    pub k_anneal: u64,
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
    /// Weight of the sparsity penalty.
    pub penalty: f64,
    /// Steps over which the penalty rises from 0.
    pub sparsity_warmup: u64,
    /// The number of active latents that JumpReLU aims at.
    pub target_l0: f64,
    /// The width of JumpReLU's window around the threshold.
    pub bandwidth: f32,
    /// How JumpReLU learns its thresholds, and what it penalises.
    pub jump: Jump,
    /// The threshold of JumpReLU before training.
    pub initial_threshold: f32,
    /// Codes are penalised times the length of their direction.
    pub penalise_lengths: bool,
    /// Shares of the latents in nested groups.
    pub groups: Vec<f64>,
    /// The bias alone is the first of the nested reconstructions, and all weigh the same.
    pub bare: bool,
    /// Step at which p-annealing begins.
    pub anneal_start: u64,
    /// The exponent at the start and at the end.
    pub exponents: (f64, f64),
    /// How often the exponent moves.
    pub exponent_updates: usize,
    /// Losses remembered to keep the penalty's size when the exponent moves.
    pub queue: usize,
    /// Penalise `(Σ fᵖ)^(1/p)` instead of `Σ fᵖ`.
    pub rooted: bool,
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
    /// How the threshold is learnt.
    pub threshold: ThresholdRule,
    /// Candidate points of archetypal directions; 0 for one per latent.
    pub candidates: usize,
    /// Candidates that one direction may mix: those nearest to where it starts.
    pub neighbours: usize,
    /// How far archetypal directions may leave the hull of their candidates.
    pub radius: Radius,
    /// All archetypal directions are multiplied by one number that is learnt.
    pub multiplier: bool,
    /// Matching pursuit takes the largest product, and not the one that is farthest from 0.
    pub signed: bool,
    /// What is done to every row by its own values; the dictionary does the same.
    pub input: Normalisation,
    /// Divide inputs by the root of their mean squared length; folded into the dictionary at the end.
    pub normalise: bool,
    /// The seed of everything random.
    pub seed: u64,
}

impl Settings {
    /// What all architectures share; a preset starts from here.
    pub fn new(arch: &str, width: usize, latents: usize) -> Settings {
        Settings {
            arch: arch.into(),
            width,
            latents,
            k: 32,
            k_anneal: 0,
            steps: 10_000,
            batch: 1024,
            rate: 1e-3,
            warmup: 1000,
            warmup_share: 0.0,
            decay_start: None,
            final_rate: None,
            penalty: 0.1,
            sparsity_warmup: 2000,
            target_l0: 20.0,
            bandwidth: 0.001,
            jump: Jump::Target,
            initial_threshold: 0.001,
            penalise_lengths: false,
            groups: vec![1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 17.0 / 32.0],
            bare: false,
            anneal_start: 15_000,
            exponents: (1.0, 0.0),
            exponent_updates: 10,
            queue: 10,
            rooted: false,
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
            threshold: ThresholdRule { start: 0, decay: 0.999, initial: None, assign_first: false },
            candidates: 0,
            neighbours: 32,
            radius: Radius::Relative(0.1),
            multiplier: false,
            signed: false,
            input: Normalisation::None,
            normalise: false,
            seed: 0,
        }
    }

    /// What the top-k family of dictionary_learning has in common.
    pub(in crate::sae) fn top_family(arch: &str, width: usize, latents: usize) -> Settings {
        Settings {
            rate: 2e-4 / (latents as f64 / 16_384.0).sqrt(),
            clip: Some(1.0),
            constraint: Constraint::Unit { gradient_guard: 1e-6, length_guard: f32::EPSILON, before: false },
            median: true,
            ..Settings::new(arch, width, latents)
        }
    }

    /// Changes that the named programs make to everything they train.
    pub(in crate::sae) fn follow(mut self, preset: Preset) -> Settings {
        match preset {
            Preset::Etalon => {}
            Preset::DictionaryLearning => {
                self.threshold = ThresholdRule { start: 1001, decay: 0.999, initial: None, assign_first: true };
            }
            Preset::SaeConceptEval => {
                (self.rate, self.warmup, self.clip, self.epsilon) = (5e-4, 0, Some(1.0), 6.25e-10);
                (self.per_feature, self.median, self.auxiliary_k) = (true, false, 512);
                (self.betas, self.auxiliary_rule) = ((0.9, 0.999), AuxiliaryRule::Attached);
                self.constraint = Constraint::Unit { gradient_guard: 0.0, length_guard: 0.0, before: true };
                (self.input, self.uniform_encoder) =
                    (Normalisation::LayerNorm, Some((6.0 / self.latents as f64).sqrt() as f32));
                (self.groups, self.bare) = ([1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|size| size / 63.0).to_vec(), true);
                (self.jump, self.initial_threshold, self.sparsity_warmup) = (Jump::Logarithm, 1.0, 0);
                self.dead_after = 20 * self.batch as u64;
                self.threshold = ThresholdRule { start: 0, decay: 0.99, initial: Some(0.0), assign_first: false };
            }
            Preset::Saelens => {
                (self.clip, self.constraint, self.initial_norm) = (Some(1.0), Constraint::Free, 0.1);
                (self.median, self.dead_after) = (false, 1000 * self.batch as u64);
                (self.auxiliary, self.auxiliary_rule) = (1.0, AuxiliaryRule::Plain);
                (self.jump, self.initial_threshold, self.bandwidth) = (Jump::Step, 0.01, 0.05);
                self.penalise_lengths = true;
                self.threshold = ThresholdRule { start: 0, decay: 0.99, initial: Some(0.0), assign_first: false };
            }
            Preset::Blindspots => {
                (self.k, self.rate, self.final_rate) = (5, 5e-4, Some(1e-6));
                (self.warmup, self.warmup_share, self.weight_decay) = (0, 0.05, 1e-5);
                (self.betas, self.clip, self.per_feature) = ((0.9, 0.999), Some(1.0), true);
                (self.median, self.auxiliary, self.reanimation) = (false, 0.0, 1e-5);
                (self.radius, self.multiplier, self.signed) = (Radius::Absolute(1.0), true, true);
                self.uniform_encoder = Some((6.0 / (self.width + self.latents) as f64).sqrt() as f32);
            }
        }
        self
    }

    /// Refuses what no training can do.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, expected: &str, found: String| -> Result<()> {
            Err(Complaint::new(what).expected(expected).found(found).into())
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
            ("penalty", self.penalty),
            ("weight decay", self.weight_decay),
            ("weight of the reanimation", self.reanimation),
            ("relaxation of archetypal directions", self.radius.number()),
        ];
        if self.normalise && self.input != Normalisation::None {
            return wrong(
                "rows cannot be normalised twice",
                "--normalise, or a preset that standardises rows",
                "both".into(),
            );
        }
        for (what, number) in numbers {
            if !number.is_finite() || number < 0.0 {
                return wrong(&format!("the {what} makes no sense"), "a number from 0", number.to_string());
            }
        }
        Ok(())
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

    /// The share of the penalty at a step.
    pub fn sparsity_at(&self, step: u64) -> f64 {
        if self.sparsity_warmup == 0 { 1.0 } else { (step as f64 / self.sparsity_warmup as f64).min(1.0) }
    }

    /// The number of latents kept per row at a step.
    pub fn k_at(&self, step: u64) -> usize {
        if self.k_anneal == 0 || self.width <= self.k || step == 0 {
            // The first step of an annealed training keeps the final number, as in dictionary_learning, which moves k
            // after an update.
            return self.k;
        }
        let part = (step - 1).min(self.k_anneal) as f64 / self.k_anneal as f64;
        (self.width as f64 * (1.0 - part) + self.k as f64 * part) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_by_hand() {
        let settings = Settings {
            rate: 2.0,
            warmup: 4,
            steps: 20,
            decay_start: Some(10),
            sparsity_warmup: 5,
            ..Settings::new("topk", 8, 16)
        };
        assert_eq!([0, 1, 4, 9, 10, 15].map(|step| settings.rate_at(step)), [0.0, 0.5, 2.0, 2.0, 2.0, 1.0]);
        assert_eq!([0, 1, 9].map(|step| settings.sparsity_at(step)), [0.0, 0.2, 1.0]);
        // A fifth of 20 steps of warm-up, then half a cosine from 2 to 1: halfway, at step 12, it has 1.5.
        let cosine = Settings { warmup: 0, warmup_share: 0.2, final_rate: Some(1.0), ..settings.clone() };
        let rates = [0, 1, 4, 12, 20, 30].map(|step| cosine.rate_at(step));
        assert!(rates.iter().zip([0.0, 0.5, 2.0, 1.5, 1.0, 1.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{rates:?}");
        // From the width 8 to 2 in 3 steps: 8, 6, 4, 2; the first step comes before the first move.
        let settings = Settings { k: 2, k_anneal: 3, ..settings };
        assert_eq!([0, 1, 2, 3, 4, 9].map(|step| settings.k_at(step)), [2, 8, 6, 4, 2, 2]);
    }
}
