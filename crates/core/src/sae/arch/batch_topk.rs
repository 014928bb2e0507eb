//! BatchTopK: k latents per row, on average over the batch.

use super::threshold::{RunningThreshold, THRESHOLD};
use super::topk::{K_ANNEAL, KSchedule};
use super::{Arch, ArchCard, scaled, topk};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// BatchTopK.
pub struct BatchTopK;

static CARD: ArchCard = ArchCard {
    name: "batch_topk",
    summary: "Keeps the k·B largest pre-activations of a batch of B rows; after training, those above a learned \
              threshold.",
    forward: "h = ReLU(W_e (x − b) + b_e)\n\
              f = h, where only the k·B largest values of the batch are kept (when encoding: values above θ)\n\
              x̂ = W_d f + b",
    loss: "As topk.",
    initialisation: "As topk.",
    constraint: "As topk.",
    defaults: "As topk. After the last step, θ is set so that k latents per row are active on average over a sample \
               of at most 8,192 rows that the dictionary was not trained on: rows of `held-out` or, without it, a tenth \
               of the rows, drawn with the seed and set aside (below 10 rows, and in presets, training rows). Programs \
               that drive the trainer themselves get a running mean (decay 0.999, bias-corrected) of the smallest code kept per \
               batch.",
    params: &[&K_ANNEAL, &THRESHOLD],
    presets: "All presets set θ after the last step, as above. Their programs use the running mean alone, which is \
              far from its limit after short runs.\n\
              dictionary-learning: the running mean starts at step 1001, and its first value is assigned.\n\
              sae-concept-eval: it starts at 0 with decay 0.99 and is biased towards 0 (validation does not update \
              it here). The rest as topk.\n\
              saelens: it starts at 0 with decay 0.99. The rest as topk.\n\
              blindspots: as topk. The BatchTopK of overcomplete keeps k values of a whole batch; Etalon keeps k \
              per row on average.",
    source: "Bussmann et al. 2024, BatchTopK sparse autoencoders",
};

impl Arch for BatchTopK {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = topk::settings(&CARD, objective, preset, width, latents);
        TrainingSettings { set_aside: preset == Preset::Etalon, ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(BatchTopKObjective::new(topk::rules(settings), settings)?))
}

/// Also the objective of Matryoshka dictionaries, which differ only in their groups.
pub(super) struct BatchTopKObjective {
    rules: Rules,
    k: KSchedule,
    auxiliary: f64,
    threshold: RunningThreshold,
    /// The threshold that keeps k values per row of a sample.
    calibrated: Option<f32>,
}

impl BatchTopKObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<BatchTopKObjective> {
        let threshold = RunningThreshold::new(settings.get(&THRESHOLD)?);
        let (k, auxiliary) = (KSchedule::of(settings)?, settings.auxiliary);
        Ok(BatchTopKObjective { rules, k, auxiliary, threshold, calibrated: None })
    }
}

impl Objective for BatchTopKObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::PerBatch(self.k.at(step).min(self.k.latents))
    }

    /// The smallest code of the row.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let smallest = row.entries.iter().map(|entry| entry.0).min_by(f32::total_cmp);
        [smallest.map_or(f64::INFINITY, f64::from), 0.0]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let smallest = batch.rows.iter().map(|row| row[0]).fold(f64::INFINITY, f64::min);
        self.threshold.add(batch.step, smallest.is_finite().then_some(smallest));
        let weighted: Vec<f64> =
            batch.squared_errors.iter().zip(&self.rules.group_weights).map(|(e, &w)| e * f64::from(w)).collect();
        topk::terms(batch, weighted.iter().sum(), self.auxiliary)
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        column.gradient[0] = column.bias_gradient();
    }

    fn save(&self) -> Vec<f64> {
        self.threshold.save()
    }

    fn load(&mut self, saved: &[f64]) {
        self.threshold.load(saved);
    }

    fn calibrated_l0(&self) -> Option<usize> {
        Some(self.k.last)
    }

    fn calibrate(&mut self, threshold: f32) {
        self.calibrated = Some(threshold);
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        // Before the first tracked step there is no threshold: keep every positive value.
        let threshold = self.calibrated.or_else(|| self.threshold.value()).unwrap_or(0.0).max(0.0) * unit;
        (scaled(scalars, 0, 1, unit), Activation::Threshold(vec![threshold; self.k.latents]))
    }
}
