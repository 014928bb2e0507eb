//! ReLU after Anthropic's April 2024 update: free directions, whose lengths the penalty counts.

use super::{Arch, ArchCard, Batch, Column, Objective, Row, Rules, Selection, Terms, relu, scaled};
use crate::error::Result;
use crate::sae::Activation;
use crate::sae::train::{Constraint, Preset, Settings};

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
    presets: "dictionary-learning: b_e starts uniform in ±1/√width",
    source: "Anthropic interpretability team, April 2024 update",
};

impl Arch for ReluApril {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> Settings {
        let settings = relu::settings(CARD.name, preset, width, latents);
        Settings { constraint: Constraint::Free, clip: Some(1.0), ..settings }
    }

    fn objective(&self, settings: &Settings) -> Result<Box<dyn Objective>> {
        Ok(Box::new(Live::new(settings)))
    }
}

/// Also the live part of `relu` where codes are penalised times the length of their direction.
pub(super) struct Live {
    rules: Rules,
    penalty: f64,
    /// The penalty's derivative by the product of a code and its length, in this step.
    pull: f32,
}

impl Live {
    pub fn new(settings: &Settings) -> Live {
        Live { rules: Rules::plain(settings.latents), penalty: settings.penalty, pull: 0.0 }
    }
}

impl Objective for Live {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn wants_norms(&self) -> bool {
        true
    }

    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let weighted = row.entries.iter().map(|&(value, latent)| f64::from(value * row.norms[latent as usize]));
        [weighted.sum(), 0.0]
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let weight = self.penalty * batch.sparsity;
        self.pull = (weight / batch.rows.len() as f64) as f32;
        vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)]
    }

    fn backward(&self, column: &mut Column<'_>) {
        let pull = self.pull * column.norm;
        column.slopes.iter_mut().for_each(|slope| *slope += pull);
        column.gradient[0] = column.bias_gradient();
        let codes: f64 = column.values.iter().map(|&value| f64::from(value)).sum();
        column.norm_gradient = self.pull * codes as f32;
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::Relu)
    }
}
