//! Architectures: the activation, the loss and the default settings of each trainable dictionary. One file each.
//!
//! To add one, write its file, its `mod` line and its entry in [`ARCHS`]. Command-line options, stored settings and
//! `etalon archs` are generated from its card.

mod archetypal;
mod batch_topk;
mod control;
mod gated;
mod jumprelu;
mod l1;
mod matching_pursuit;
mod matryoshka;
mod p_anneal;
mod penalty;
mod relu;
mod relu_april;
mod schedules;
#[cfg(test)]
mod tests;
mod threshold;
mod topk;

pub use super::card::ArchCard;
pub use super::param::{AnyParam, ArchParam, ParamCard, ParamValue};
pub use jumprelu::Jump;
pub use schedules::fit_schedules;
pub use threshold::ThresholdRule;

use super::baseline::BASELINES;
use super::normalise::Normalisation;
use super::preset::Preset;
use super::train::TrainingSettings;
use crate::error::{Command, InputError, Result};

/// The parameters of all architectures.
pub mod params {
    pub use super::archetypal::{CANDIDATES, MULTIPLIER, NEIGHBOURS, RADIUS};
    pub use super::jumprelu::{BANDWIDTH, INITIAL_THRESHOLD, JUMP, TARGET_L0};
    pub use super::matching_pursuit::SIGNED;
    pub use super::matryoshka::{BARE, GROUPS};
    pub use super::p_anneal::{ANNEAL_START, EXPONENT_UPDATES, EXPONENTS, QUEUE, ROOTED};
    pub use super::penalty::{PENALTY, SPARSITY_WARMUP};
    pub use super::relu::PENALISE_LENGTHS;
    pub use super::threshold::THRESHOLD;
    pub use super::topk::K_ANNEAL;
}

/// A trainable architecture.
pub trait Arch: Send + Sync {
    /// Documentation and parameters.
    fn card(&self) -> &'static ArchCard;
    /// What determines the number of active latents per row.
    fn sparsity(&self) -> Sparsity {
        Sparsity::Fixed
    }
    /// The training settings of a preset, for a dictionary of this size.
    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings;
}

/// What determines the number of active latents per row.
#[derive(Clone, Copy)]
pub enum Sparsity {
    /// It is fixed: `k` of every row, or `k` per row on average over a batch.
    Fixed,
    /// A penalty, whose weight is fixed or follows a controller that aims at a target.
    Target {
        /// The target of the published training, if that has one.
        default: Option<&'static ArchParam<f64>>,
    },
    /// A penalty without a target.
    Penalty,
}

/// Every architecture that can be trained.
pub const ARCHS: &[&dyn Arch] = &[
    &topk::TopK,
    &batch_topk::BatchTopK,
    &matryoshka::Matryoshka,
    &relu::Relu,
    &relu_april::ReluApril,
    &gated::Gated,
    &jumprelu::JumpRelu,
    &p_anneal::PAnneal,
    &archetypal::ArchetypalTopK,
    &archetypal::ArchetypalJumpRelu,
    &matching_pursuit::MpSae,
];

/// Parameters that version 0.1.0 stored for every architecture. Their defaults remain part of all settings, so that
/// recipes keep their hashes. A new parameter belongs on the card of its architecture only.
static FIRST_EDITION: &[&dyn AnyParam] = &[
    &params::K_ANNEAL,
    &params::PENALTY,
    &params::SPARSITY_WARMUP,
    &params::TARGET_L0,
    &params::BANDWIDTH,
    &params::JUMP,
    &params::INITIAL_THRESHOLD,
    &params::PENALISE_LENGTHS,
    &params::GROUPS,
    &params::BARE,
    &params::ANNEAL_START,
    &params::EXPONENTS,
    &params::EXPONENT_UPDATES,
    &params::QUEUE,
    &params::ROOTED,
    &params::THRESHOLD,
    &params::CANDIDATES,
    &params::NEIGHBOURS,
    &params::RADIUS,
    &params::MULTIPLIER,
    &params::SIGNED,
];

/// The architecture of a name.
pub fn find(name: &str) -> Result<&'static dyn Arch> {
    ARCHS.iter().copied().find(|arch| arch.card().name == name).ok_or_else(|| {
        let baselines = BASELINES.iter().map(|baseline| baseline.card().name);
        let names: Vec<&str> = ARCHS.iter().map(|arch| arch.card().name).chain(baselines).collect();
        InputError::new(format!("there is no architecture `{name}`"))
            .advice(format!("{} describes all", Command("archs")))
            .one_of(name, &names)
            .into()
    })
}

/// A parameter with a command-line option.
pub struct ArchOption {
    /// The parameter of the first architecture that has it.
    pub param: &'static dyn AnyParam,
    /// All architectures that have it, each with its own defaults.
    pub users: Vec<(&'static str, &'static dyn AnyParam)>,
}

/// All parameters with a command-line option. A name that several architectures share has the same meaning in all of
/// them.
pub fn options() -> Vec<ArchOption> {
    let mut options: Vec<ArchOption> = Vec::new();
    for card in ARCHS.iter().map(|arch| arch.card()) {
        for &param in card.params.iter().filter(|param| param.card().option.is_some()) {
            match options.iter_mut().find(|option| option.param.card().name == param.card().name) {
                Some(option) => option.users.push((card.name, param)),
                None => options.push(ArchOption { param, users: vec![(card.name, param)] }),
            }
        }
    }
    options
}

/// The learning rate of controlled trainings at 16,384 latents. Their rows have unit root mean squared norm, so that it
/// suits data of any scale; a lower one leaves directions unfinished in runs of a few thousand steps.
const CONTROLLED_RATE: f64 = 1e-3;

/// Adjusts the weight of the penalty during the training so that `target` latents per row are active on average at the
/// end. Rows are divided by their root mean squared norm. The learning rate is at least 0.001 / √(latents / 16,384) and
/// decays to 0 in the last fifth of the steps. `given` tells which options the user set; their settings are kept.
pub fn aim_at(settings: &mut TrainingSettings, target: f64, given: &dyn Fn(&str) -> bool) -> Result<()> {
    settings.control = Some(target);
    settings.params.set(&params::TARGET_L0, target);
    settings.normalise = settings.input == Normalisation::None;
    if !given("lr") {
        settings.rate = settings.rate.max(CONTROLLED_RATE / (settings.latents as f64 / 16_384.0).sqrt());
    }
    if !given("decay-start") && settings.final_rate.is_none() {
        settings.decay_start = Some(settings.steps / 5 * 4);
    }
    if find(&settings.arch)?.card().params.iter().any(|param| param.card().name == params::JUMP.card().name) {
        jumprelu::control(settings, given);
    }
    Ok(())
}

/// Applies a preset to settings, and adds the parameters of an architecture with their defaults.
fn follow(settings: TrainingSettings, preset: Preset, card: &ArchCard) -> TrainingSettings {
    let mut settings = settings.follow(preset);
    settings.params.complete(card.params, preset);
    settings.params.complete(FIRST_EDITION, preset);
    settings
}

/// One scalar of each latent, in the unit of the data. `scalars` holds `per_latent` scalars of each latent.
fn scaled(scalars: &[f32], index: usize, per_latent: usize, unit: f32) -> Vec<f32> {
    scalars.iter().skip(index).step_by(per_latent).map(|value| value * unit).collect()
}

/// The error of a setting that is out of range.
fn refuse(what: &str, expected: &str, found: impl std::fmt::Display) -> Result<()> {
    Err(InputError::new(what).expected(expected).found(found).into())
}
