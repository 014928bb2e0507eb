//! TopK: a fixed number of active latents per row.

use super::threshold::{RunningThreshold, THRESHOLD};
use super::{Arch, ArchCard, follow, refuse, scaled};
use crate::error::{Key, Result};
use crate::sae::activation::Activation;
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, LatentBackward, NewObjective, Objective, Row, Rules, Selection, Terms, TrainingSettings,
};

/// TopK.
pub struct TopK;

/// Number of steps over which k decreases.
pub static K_ANNEAL: ArchParam<u64> =
    ArchParam::new(["k_anneal", "k-anneal", "N", "Steps over which k decreases from the width"], |_| 0);

static CARD: ArchCard = ArchCard {
    name: "topk",
    summary: "Keeps the k largest pre-activations of each row.",
    forward: "h = ReLU(W_e (x − b) + b_e)\n\
              f = h, where only the k largest values of each row are kept\n\
              x̂ = W_d f + b",
    loss: "Mean over rows of ‖x − x̂‖², plus 1/32 of the auxiliary loss. The auxiliary loss is the error of \
           reconstructing the residual x − x̂ from the k' = width / 2 largest pre-activations of dead latents, \
           divided by the variance of the residual.",
    initialisation: "Decoder directions are random unit vectors, the encoder is a copy of them, b_e = 0, and b is \
                     the geometric median of the first batch.",
    constraint: "Decoder directions have unit norm: the gradient is projected, and directions are renormalised \
                 after each step. The global gradient norm is clipped to 1.",
    defaults: "k 32, lr 0.0002 / √(latents / 16384), warmup 1000, latents are dead after 10,000,000 rows without \
               firing. The mean of the smallest code kept per row is tracked as a threshold, with bias correction.",
    params: &[&K_ANNEAL, &THRESHOLD],
    presets: "dictionary-learning: the threshold is tracked from step 1001, and its first value is assigned.\n\
              sae-concept-eval: each row is standardised, in training and in the dictionary. The encoder starts \
              uniform within √(6 / latents), directions start as its unit-norm copies, there is no b_e, and b = 0. \
              lr 0.0005 without warmup, ε 6.25e-10, errors are averaged over features too. The auxiliary loss is \
              1/32 of a plain mean square over 512 dead latents, and the reconstruction receives its gradient too. \
              Directions are normalised before the step, so they end one step away from unit norm. Latents are dead \
              after 20,480 rows (20 of its batches; its counter also runs during validation). Its early stopping \
              keeps the last weights, Etalon keeps the best.\n\
              saelens: directions start with norm 0.1 and are not constrained. The auxiliary loss is a plain mean \
              square of weight 1. Not reproduced: pre-activations are multiplied by the norm of their direction \
              before selection, auxiliary codes have no ReLU and include the bias, and the auxiliary weight is \
              smaller while few latents are dead.\n\
              blindspots: k 5, AdamW, cosine schedule, reanimation instead of the auxiliary loss, Xavier-uniform \
              encoder, and directions that are its unit-norm copies. See ra_topk, which that paper trains.",
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
    // The encoders of sae-concept-eval have biases that are not used.
    TrainingSettings { encoder_bias: preset != Preset::SaeConceptEval, ..settings }
}

/// The number of active latents per row at each step.
#[derive(Clone, Copy, Debug)]
pub(super) struct KSchedule {
    /// The final number.
    pub last: usize,
    /// Steps over which it decreases from the width.
    anneal: u64,
    width: usize,
    pub latents: usize,
}

impl KSchedule {
    pub fn of(settings: &TrainingSettings) -> Result<KSchedule> {
        let TrainingSettings { k, width, latents, .. } = *settings;
        if k == 0 || k > latents {
            let message = format!("{} is out of range", Key("k"));
            refuse(&message, &format!("1 to {latents}, the number of latents"), k)?;
        }
        Ok(KSchedule { last: k, anneal: settings.get(&K_ANNEAL)?, width, latents })
    }

    /// The number of active latents per row at a step.
    pub fn at(&self, step: u64) -> usize {
        if self.anneal == 0 || self.width <= self.last || step == 0 {
            // The first step of an annealed training uses the final number, as in dictionary_learning, which changes k
            // after an update.
            return self.last;
        }
        let progress = (step - 1).min(self.anneal) as f64 / self.anneal as f64;
        (self.width as f64 * (1.0 - progress) + self.last as f64 * progress) as usize
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

/// Also the objective of ra_topk, which differs only in its directions.
pub(super) struct TopKObjective {
    rules: Rules,
    k: KSchedule,
    auxiliary: f64,
    threshold: RunningThreshold,
}

impl TopKObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<TopKObjective> {
        let threshold = RunningThreshold::new(settings.get(&THRESHOLD)?);
        Ok(TopKObjective { rules, k: KSchedule::of(settings)?, auxiliary: settings.auxiliary, threshold })
    }
}

impl Objective for TopKObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::PerRow(self.k.at(step).min(self.k.latents))
    }

    /// The smallest code of the row, and 1 if it has a code.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let smallest = row.entries.iter().map(|entry| entry.0).min_by(f32::total_cmp);
        smallest.map_or([0.0; 2], |smallest| [f64::from(smallest), 1.0])
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let active_rows = batch.mean(1);
        self.threshold.add(batch.step, (active_rows > 0.0).then(|| batch.mean(0) / active_rows));
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
        (scaled(scalars, 0, 1, unit), Activation::TopK(self.k.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k_decreases_from_the_width() {
        // From the width 8 to 2 in 3 steps: 8, 6, 4, 2; the first step has the final number.
        let schedule = KSchedule { last: 2, anneal: 3, width: 8, latents: 16 };
        assert_eq!([0, 1, 2, 3, 4, 9].map(|step| schedule.at(step)), [2, 8, 6, 4, 2, 2]);
        assert_eq!(KSchedule { anneal: 0, ..schedule }.at(1), 2);
    }
}
