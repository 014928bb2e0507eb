//! ReLU with an L1 penalty: the standard sparse autoencoder.

use super::l1::{PENALTY, ReluObjective, SPARSITY_WARMUP};
use super::{Arch, ArchCard, follow};
use crate::error::Result;
use crate::sae::param::Param;
use crate::sae::preset::Preset;
use crate::sae::train::{NewObjective, Objective, TrainingSettings};

/// ReLU.
pub struct Relu;

/// What the penalty counts.
pub static PENALISE_LENGTHS: Param<bool> =
    Param::of_presets(["penalise_lengths", "Codes are penalised times the length of their direction"], |preset| {
        preset == Preset::Saelens
    });

static CARD: ArchCard = ArchCard {
    name: "relu",
    summary: "positive pre-activations, with an L1 penalty",
    forward: "f = ReLU(W_e (x − b) + b_e); x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖² + λ s ‖f‖₁, where s rises from 0 during the sparsity warm-up",
    initialisation: "random directions of length 0.1, encoder their copy, biases 0",
    constraint: "unit directions from the first step on: gradient projected, directions renormalised",
    defaults: "l1 0.1, lr 0.001, warmup 1000, sparsity warmup 2000, no clipping",
    params: &[&PENALTY, &SPARSITY_WARMUP, &PENALISE_LENGTHS],
    presets: "dictionary-learning: b_e starts uniform in ±1/√width\n\
              saelens: directions start with length 0.1 and are not constrained, codes are penalised times the length of their \
              direction, gradients are cut to length 1. Its scheduler and its scale of inputs are left to the options\n\
              sae-concept-eval: it has no such dictionary; its optimiser, start and standardised rows\n\
              blindspots: its optimiser and schedule",
    source: "Bricken et al. 2023, Towards monosemanticity; Cunningham et al. 2023",
};

/// Settings of the architectures with a ReLU.
pub(super) fn settings(
    card: &ArchCard,
    new_objective: NewObjective,
    preset: Preset,
    width: usize,
    latents: usize,
) -> TrainingSettings {
    let settings =
        TrainingSettings { initial_norm: 0.1, ..TrainingSettings::new(card.name, new_objective, width, latents) };
    let mut settings = follow(settings, preset, card);
    if preset == Preset::DictionaryLearning {
        settings.initial_bias = 1.0 / (width as f32).sqrt();
    }
    settings
}

impl Arch for Relu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(ReluObjective::new(settings, settings.get(&PENALISE_LENGTHS)?)?))
}
