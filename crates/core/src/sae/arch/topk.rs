//! TopK: a fixed number of latents per row.

use super::threshold::{Running, THRESHOLD};
use super::{Arch, ArchCard, follow, refuse, scaled};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::param::Param;
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, LatentBackward, NewObjective, Objective, Row, Rules, Selection, Terms, TrainingSettings,
};

/// TopK.
pub struct TopK;

/// How long the number of active latents falls.
pub static K_ANNEAL: Param<u64> =
    Param::new(["k_anneal", "k-anneal", "N", "Steps over which k falls from the width"], |_| 0);

static CARD: ArchCard = ArchCard {
    name: "topk",
    summary: "the k largest pre-activations of every row",
    forward: "h = ReLU(W_e (x − b) + b_e); the k largest of a row stay; x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖², plus 1/32 of the auxiliary loss: the k' = width / 2 largest of dead latents \
           reconstruct the error, relative to its variance",
    initialisation: "random unit directions, encoder their copy, b_e = 0, b = geometric median of the first batch",
    constraint: "unit directions: gradient projected, gradients cut to global length 1, directions renormalised",
    defaults: "k 32, lr 0.0002 / √(latents / 16384), warmup 1000, dead after 10,000,000 rows; the mean smallest code kept \
               is tracked as a threshold, its start corrected",
    params: &[&K_ANNEAL, &THRESHOLD],
    presets: "dictionary-learning: threshold from step 1001, first value assigned\n\
              sae-concept-eval: every row is standardised, here and in the dictionary; encoder uniform within √(6 / latents), \
              directions its unit copies, no b_e, b = 0; lr 0.0005 without warmup, ε 6.25e-10, errors averaged over features \
              too; the auxiliary loss is 1/32 of a plain mean square, over 512 dead latents, and the reconstruction learns \
              from it; directions are made unit before the step, so that they end one step off. Dead after 20,480 rows (20 of \
              its batches; its counter also runs in validation). Its early stopping keeps the last weights, ours the best\n\
              saelens: directions start with length 0.1 and are not constrained; the auxiliary loss is a plain mean square of \
              weight 1. Not reproduced: pre-activations times the length of their direction before the selection, auxiliary \
              codes without a ReLU and with the bias, its smaller weight while few latents are dead\n\
              blindspots: k 5, AdamW, cosine, reanimation instead of the auxiliary loss, encoder Xavier-uniform with unit \
              copies as directions: see ra_topk, which that paper trains",
    source: "Gao et al. 2024, Scaling and evaluating sparse autoencoders",
};

/// Settings of the top-k family.
pub(super) fn settings(
    card: &ArchCard,
    new_objective: NewObjective,
    preset: Preset,
    width: usize,
    latents: usize,
) -> TrainingSettings {
    let settings = follow(TrainingSettings::top_family(card.name, new_objective, width, latents), preset, card);
    // Encoders of the concept-annotation program have biases that are not used.
    TrainingSettings { encoder_bias: preset != Preset::SaeConceptEval, ..settings }
}

/// How many latents a row keeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub k: usize,
    /// Steps over which it falls from the width.
    anneal: u64,
    width: usize,
    pub latents: usize,
}

impl Kept {
    pub fn of(settings: &TrainingSettings) -> Result<Kept> {
        let TrainingSettings { k, width, latents, .. } = *settings;
        if k == 0 || k > latents {
            refuse("a dictionary cannot keep that many latents per row", "1 to the number of latents", k)?;
        }
        Ok(Kept { k, anneal: settings.get(&K_ANNEAL)?, width, latents })
    }

    /// The number at a step.
    pub fn at(&self, step: u64) -> usize {
        if self.anneal == 0 || self.width <= self.k || step == 0 {
            // The first step of an annealed training keeps the final number, as in dictionary_learning, which moves k
            // after an update.
            return self.k;
        }
        let part = (step - 1).min(self.anneal) as f64 / self.anneal as f64;
        (self.width as f64 * (1.0 - part) + self.k as f64 * part) as usize
    }
}

pub(super) fn rules(settings: &TrainingSettings) -> Rules {
    Rules { auxiliary: true, ..Rules::plain(settings.latents) }
}

/// The terms of a top-k loss.
pub(super) fn terms(batch: &Batch<'_>, error: f64, weight: f64) -> Terms {
    let total = error + weight * batch.auxiliary;
    vec![("loss", total), ("squared_error", error), ("auxiliary", batch.auxiliary)]
}

impl Arch for TopK {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(TopKObjective::new(rules(settings), settings)?))
}

/// Also the objective of archetypal dictionaries, which differ in their directions only.
pub(super) struct TopKObjective {
    rules: Rules,
    kept: Kept,
    auxiliary: f64,
    threshold: Running,
}

impl TopKObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<TopKObjective> {
        let threshold = Running::new(settings.get(&THRESHOLD)?);
        Ok(TopKObjective { rules, kept: Kept::of(settings)?, auxiliary: settings.auxiliary, threshold })
    }
}

impl Objective for TopKObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::PerRow(self.kept.at(step).min(self.kept.latents))
    }

    /// The smallest code, and whether there is one.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let smallest = row.entries.iter().map(|entry| entry.0).min_by(f32::total_cmp);
        smallest.map_or([0.0; 2], |smallest| [f64::from(smallest), 1.0])
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let there = batch.mean(1);
        self.threshold.add(batch.step, (there > 0.0).then(|| batch.mean(0) / there));
        terms(batch, batch.squared_errors[0], self.auxiliary)
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
        (scaled(scalars, 0, 1, unit), Activation::TopK(self.kept.k))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_falls_from_the_width() {
        // From the width 8 to 2 in 3 steps: 8, 6, 4, 2; the first step comes before the first move.
        let kept = Kept { k: 2, anneal: 3, width: 8, latents: 16 };
        assert_eq!([0, 1, 2, 3, 4, 9].map(|step| kept.at(step)), [2, 8, 6, 4, 2, 2]);
        assert_eq!(Kept { anneal: 0, ..kept }.at(1), 2);
    }
}
