//! ReLU after Anthropic's April 2024 update: free directions, whose lengths the penalty counts.

use super::l1::{PENALTY, ReluObjective, SPARSITY_WARMUP};
use super::{Arch, ArchCard, relu};
use crate::error::Result;
use crate::sae::preset::Preset;
use crate::sae::train::{Constraint, Objective, TrainingSettings};

/// ReLU, April update.
pub struct ReluApril;

static CARD: ArchCard = ArchCard {
    name: "relu_april",
    summary: "positive pre-activations, with a penalty that counts the lengths of directions",
    forward: "f = ReLU(W_e (x − b) + b_e); x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖² + λ s Σ_j f_j ‖d_j‖",
    initialisation: "as relu",
    constraint: "none; gradients are cut to global length 1",
    defaults: "as relu",
    params: &[&PENALTY, &SPARSITY_WARMUP],
    presets: "dictionary-learning: b_e starts uniform in ±1/√width",
    source: "Anthropic interpretability team, April 2024 update",
};

impl Arch for ReluApril {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = relu::settings(&CARD, objective, preset, width, latents);
        TrainingSettings { constraint: Constraint::Free, clip: Some(1.0), ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(ReluObjective::new(settings, true)?))
}
