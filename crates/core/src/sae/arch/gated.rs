//! Gated: a gate decides whether a latent fires, a magnitude how strongly.

use super::control::{self, Controller};
use super::penalty::{PENALTY, Penalty, SPARSITY_WARMUP};
use super::{Arch, ArchCard, Sparsity, follow, scaled};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Scalar, Selection, Terms, TrainingSettings};

/// Gated.
pub struct Gated;

static CARD: ArchCard = ArchCard {
    name: "gated",
    summary: "Separates whether a latent fires (gate) from how strongly it fires (magnitude).",
    forward: "u = W_e (x − b)\n\
              gate = [u + b_g > 0]\n\
              f = gate · ReLU(e^r u + b_m)\n\
              x̂ = W_d f + b",
    loss: "Mean over rows of ‖x − x̂‖² + λ s ‖ReLU(u + b_g)‖₁ + ‖x − (W_d ReLU(u + b_g) + b)‖², where W_d and b \
           receive no gradient from the last term. A target L0 (`target-l0` or `k`) as in relu.",
    initialisation: "Decoder directions are random unit vectors, the encoder is a copy of them, the other biases and r \
                     are 0, and b is the mean of the rows, as in relu.",
    constraint: "Decoder directions have unit norm: the gradient is projected, and directions are renormalised \
                 after each step.",
    defaults: "l1 0.1, lr 0.00005, Adam β₁ 0, warmup 1000, sparsity warmup 2000, no gradient clipping.",
    params: &[&PENALTY, &SPARSITY_WARMUP],
    presets: "saelens: directions start with norm 0.1 and are not constrained. Not reproduced: the penalty is \
              multiplied by the norm of the directions, and the decoder receives a gradient from the last term.\n\
              sae-concept-eval: has no such dictionary; its optimiser, initialisation and standardised rows are \
              used.\n\
              blindspots: its optimiser and schedule.",
    source: "Rajamanoharan et al. 2024, Improving dictionary learning with gated sparse autoencoders",
};

const SCALARS: [Scalar; 3] =
    [Scalar::new("gate_bias", 0.0), Scalar::new("magnitude_bias", 0.0), Scalar::new("magnitude_log_scale", 0.0)];

impl Arch for Gated {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Target { default: None }
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = follow(TrainingSettings::new(CARD.name, objective, width, latents), preset, &CARD);
        TrainingSettings { rate: 5e-5, betas: (0.0, 0.999), centre: preset == Preset::Etalon, ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    let rules = Rules { scalars: SCALARS.to_vec(), gates: true, ..Rules::plain(settings.latents) };
    let (penalty, controller) = (Penalty::of(settings)?, Controller::of(settings)?);
    Ok(Box::new(GatedObjective { rules, penalty, controller, penalty_slope: 0.0 }))
}

struct GatedObjective {
    rules: Rules,
    penalty: Penalty,
    controller: Option<Controller>,
    /// The derivative of the penalty by a gate, in the current step.
    penalty_slope: f32,
}

/// The magnitude before its ReLU, from the pre-activation with the gate bias.
fn magnitude(scalars: &[f32], value: f32) -> f32 {
    scalars[2].exp() * (value - scalars[0]) + scalars[1]
}

impl Objective for GatedObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn code(&self, scalars: &[f32], value: f32) -> f32 {
        magnitude(scalars, value).max(0.0)
    }

    /// The penalty of the row, and its active latents.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let fires = |&&(value, latent): &&(f32, u32)| magnitude(&row.scalars[latent as usize * 3..], value) > 0.0;
        let sum = row.entries.iter().map(|entry| f64::from(entry.0)).sum();
        [sum, row.entries.iter().filter(fires).count() as f64]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, sparsity) = (batch.squared_errors[0], batch.mean(0));
        let numbers = [batch.mean(1), error, sparsity];
        let weight = control::weight(&mut self.controller, &self.penalty, batch.step, numbers);
        self.penalty_slope = (weight / batch.rows.len() as f64) as f32;
        let total = error + weight * sparsity + batch.gate_error;
        let mut terms =
            vec![("loss", total), ("squared_error", error), ("sparsity", sparsity), ("gate_error", batch.gate_error)];
        terms.extend(self.controller.is_some().then_some(("weight", weight)));
        terms
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        let scale = column.scalars[2].exp();
        let mut sums = [0.0f64; 3];
        for ((slope, &gate_slope), &value) in column.slopes.iter_mut().zip(column.gate_slopes).zip(column.values) {
            let gate = gate_slope + self.penalty_slope;
            let fires = if magnitude(column.scalars, value) > 0.0 { *slope } else { 0.0 };
            let through = fires * scale;
            sums[0] += f64::from(gate);
            sums[1] += f64::from(fires);
            sums[2] += f64::from(through * (value - column.scalars[0]));
            *slope = gate + through;
        }
        column.gradient.iter_mut().zip(sums).for_each(|(into, sum)| *into = sum as f32);
    }

    fn save(&self) -> Vec<f64> {
        self.controller.as_ref().map(Controller::save).unwrap_or_default()
    }

    fn load(&mut self, saved: &[f64]) {
        self.controller.iter_mut().for_each(|controller| controller.load(saved));
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        let activation = Activation::Gated {
            gate_bias: scaled(scalars, 0, 3, unit),
            magnitude_scale: scalars.iter().skip(2).step_by(3).map(|value| value.exp()).collect(),
            magnitude_bias: scaled(scalars, 1, 3, unit),
        };
        (vec![0.0; scalars.len() / 3], activation)
    }
}
