//! ReLU as in Anthropic's April 2024 update: unconstrained directions, and a penalty weighted by their norms.

use super::l1::ReluObjective;
use super::penalty::{PENALTY, SPARSITY_WARMUP};
use super::{Arch, ArchCard, Sparsity, relu};
use crate::error::Result;
use crate::sae::preset::Preset;
use crate::sae::train::{Constraint, Objective, TrainingSettings};

/// ReLU with a penalty weighted by norms.
pub struct ReluApril;

static CARD: ArchCard = ArchCard {
    name: "relu_april",
    summary: "Keeps positive pre-activations, with an L1 penalty weighted by the norms of the directions.",
    forward: "f = ReLU(W_e (x − b) + b_e)\n\
              x̂ = W_d f + b",
    loss: "Mean over rows of ‖x − x̂‖² + λ s Σ_j f_j ‖d_j‖, with s as in relu. A target L0 as in relu.",
    initialisation: "As relu.",
    constraint: "None. The global gradient norm is clipped to 1.",
    defaults: "As relu.",
    params: &[&PENALTY, &SPARSITY_WARMUP],
    presets: "dictionary-learning: b_e starts uniform in ±1/√width.",
    source: "Anthropic interpretability team, April 2024 update",
};

impl Arch for ReluApril {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Target { default: None }
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = relu::settings(&CARD, objective, preset, width, latents);
        TrainingSettings { constraint: Constraint::Free, clip: Some(1.0), ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(ReluObjective::new(settings, true)?))
}
