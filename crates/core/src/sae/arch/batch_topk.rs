//! BatchTopK: k latents per row on average, over the batch.

use super::threshold::{Running, THRESHOLD};
use super::topk::{K_ANNEAL, Kept};
use super::{Arch, ArchCard, scaled, topk};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// BatchTopK.
pub struct BatchTopK;

static CARD: ArchCard = ArchCard {
    name: "batch_topk",
    summary: "the k·B largest pre-activations of a batch of B rows; afterwards those above a learnt threshold",
    forward: "h = ReLU(W_e (x − b) + b_e); the k·B largest of the batch stay (when encoding: h > θ); x̂ = W_d f + b",
    loss: "as topk",
    initialisation: "as topk",
    constraint: "as topk",
    defaults: "as topk; θ is a running mean (0.999) of the smallest code kept, its start corrected",
    params: &[&K_ANNEAL, &THRESHOLD],
    presets: "dictionary-learning: θ from step 1001, first value assigned\n\
              sae-concept-eval: θ starts at 0 with 0.99 and is biased towards it (validation does not move it here); the rest as \
              topk\n\
              saelens: θ starts at 0 with 0.99; the rest as topk\n\
              blindspots: as topk; the BatchTopK of overcomplete keeps k values of a whole batch, ours k per row on average",
    source: "Bussmann et al. 2024, BatchTopK sparse autoencoders",
};

impl Arch for BatchTopK {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        topk::settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(BatchTopKObjective::new(topk::rules(settings), settings)?))
}

/// Also the objective of nested dictionaries, which differ in their groups only.
pub(super) struct BatchTopKObjective {
    rules: Rules,
    kept: Kept,
    auxiliary: f64,
    threshold: Running,
}

impl BatchTopKObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<BatchTopKObjective> {
        let threshold = Running::new(settings.get(&THRESHOLD)?);
        Ok(BatchTopKObjective { rules, kept: Kept::of(settings)?, auxiliary: settings.auxiliary, threshold })
    }
}

impl Objective for BatchTopKObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::PerBatch(self.kept.at(step).min(self.kept.latents))
    }

    /// The smallest code of the row.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let smallest = row.entries.iter().map(|entry| entry.0).min_by(f32::total_cmp);
        [smallest.map_or(f64::INFINITY, f64::from), 0.0]
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
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

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        // Without a step that counts there is no threshold yet: every positive value stays.
        let threshold = self.threshold.value().unwrap_or(0.0).max(0.0) * unit;
        (scaled(scalars, 0, 1, unit), Activation::Threshold(vec![threshold; self.kept.latents]))
    }
}
