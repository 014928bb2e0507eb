//! ReLU with an L1 penalty: the standard sparse autoencoder.

use super::l1::ReluObjective;
use super::penalty::{PENALTY, SPARSITY_WARMUP};
use super::{Arch, ArchCard, Sparsity, follow};
use crate::error::Result;
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::{NewObjective, Objective, TrainingSettings};

/// ReLU with an L1 penalty.
pub struct Relu;

/// Whether codes are penalised times the norm of their direction.
pub static PENALISE_LENGTHS: ArchParam<bool> =
    ArchParam::of_presets(["penalise_lengths", "Codes are penalised times the norm of their direction"], |preset| {
        preset == Preset::Saelens
    });

static CARD: ArchCard = ArchCard {
    name: "relu",
    summary: "Keeps positive pre-activations, with an L1 penalty on the codes.",
    forward: "f = ReLU(W_e (x − b) + b_e)\n\
              x̂ = W_d f + b",
    loss: "Mean over rows of ‖x − x̂‖² + λ s ‖f‖₁, where s rises from 0 to 1 during the sparsity warm-up.\n\
           With a target L0 (`target-l0` or `k`, without `l1`), λ s is adjusted in every step: w exp(3 d + i), where d \
           = ln(L0 / R) for the mean L0 of the batch, and i is the sum of 60 d / steps over the steps so far. R falls \
           from the L0 of the first step to the target, linearly in its logarithm, during the sparsity warm-up (a \
           quarter of the steps by default). w makes the penalty 1 % of the squared error of the first step. Rows are \
           divided by their root mean squared norm. The learning rate is at least 0.001 / √(latents / 16384) and \
           decays to 0 in the last fifth of the steps. Meant for runs of at least 2,000 steps.",
    initialisation: "Decoder directions are random with norm 0.1, the encoder is a copy of them, b_e is 0, and b is the mean \
                     of the rows of up to 101 batches. (The mean is subtracted from the rows in training and added \
                     to b at the end; presets start at 0.)",
    constraint: "Decoder directions have unit norm from the first step on: the gradient is projected, and \
                 directions are renormalised after each step.",
    defaults: "l1 0.1, lr 0.001, warmup 1000, sparsity warmup 2000, no gradient clipping.",
    params: &[&PENALTY, &SPARSITY_WARMUP, &PENALISE_LENGTHS],
    presets: "dictionary-learning: b_e starts uniform in ±1/√width.\n\
              saelens: directions start with norm 0.1 and are not constrained, codes are penalised times the norm \
              of their direction, and the gradient norm is clipped to 1. Its learning-rate schedule and its scale \
              of inputs are left to the options.\n\
              sae-concept-eval: has no such dictionary; its optimiser, initialisation and standardised rows are \
              used.\n\
              blindspots: its optimiser and schedule.",
    source: "Bricken et al. 2023, Towards monosemanticity; Cunningham et al. 2023",
};

/// Settings of architectures with a ReLU.
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
    settings.centre = preset == Preset::Etalon;
    if preset == Preset::DictionaryLearning {
        settings.initial_bias = 1.0 / (width as f32).sqrt();
    }
    settings
}

impl Arch for Relu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Target { default: None }
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(ReluObjective::new(settings, settings.get(&PENALISE_LENGTHS)?)?))
}
