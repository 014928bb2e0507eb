//! ReLU with an L1 penalty: the standard sparse autoencoder.

use super::{Arch, ArchCard, Batch, Column, Objective, Row, Rules, Selection, Terms, relu_april, scaled};
use crate::error::Result;
use crate::sae::Activation;
use crate::sae::train::{Preset, Settings};

/// ReLU.
pub struct Relu;

static CARD: ArchCard = ArchCard {
    name: "relu",
    summary: "positive pre-activations, with an L1 penalty",
    forward: "f = ReLU(W_e (x − b) + b_e); x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖² + λ s ‖f‖₁, where s rises from 0 during the sparsity warm-up",
    initialisation: "random directions of length 0.1, encoder their copy, biases 0",
    constraint: "unit directions from the first step on: gradient projected, directions renormalised",
    defaults: "l1 0.1, lr 0.001, warmup 1000, sparsity warmup 2000, no clipping",
    presets: "dictionary-learning: b_e starts uniform in ±1/√width\n\
              saelens: directions start with length 0.1 and are not constrained, codes are penalised times the length of their \
              direction, gradients are cut to length 1. Its scheduler and its scale of inputs are left to the options\n\
              sae-concept-eval: it has no such dictionary; its optimiser, start and standardised rows\n\
              blindspots: its optimiser and schedule",
    source: "Bricken et al. 2023, Towards monosemanticity; Cunningham et al. 2023",
};

/// Settings of the architectures with a ReLU.
pub(super) fn settings(arch: &str, preset: Preset, width: usize, latents: usize) -> Settings {
    let mut settings = Settings { initial_norm: 0.1, ..Settings::new(arch, width, latents) }.follow(preset);
    if preset == Preset::DictionaryLearning {
        settings.initial_bias = 1.0 / (width as f32).sqrt();
    }
    settings
}

impl Arch for Relu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> Settings {
        settings(CARD.name, preset, width, latents)
    }

    fn objective(&self, settings: &Settings) -> Result<Box<dyn Objective>> {
        if settings.penalise_lengths {
            return Ok(Box::new(relu_april::Live::new(settings)));
        }
        Ok(Box::new(Live { rules: Rules::plain(settings.latents), penalty: settings.penalty, pull: 0.0 }))
    }
}

struct Live {
    rules: Rules,
    penalty: f64,
    /// The penalty's derivative by a code, in this step.
    pull: f32,
}

impl Objective for Live {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        [row.entries.iter().map(|entry| f64::from(entry.0)).sum(), 0.0]
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let weight = self.penalty * batch.sparsity;
        self.pull = (weight / batch.rows.len() as f64) as f32;
        vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)]
    }

    fn backward(&self, column: &mut Column<'_>) {
        column.slopes.iter_mut().for_each(|slope| *slope += self.pull);
        column.gradient[0] = column.bias_gradient();
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::Relu)
    }
}
