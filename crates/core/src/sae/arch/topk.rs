//! TopK: a fixed number of latents per row.

use super::threshold::Running;
use super::{Arch, ArchCard, Batch, Column, Objective, Row, Rules, Selection, Terms, refuse, scaled};
use crate::error::Result;
use crate::sae::Activation;
use crate::sae::train::{Preset, Settings};

/// TopK.
pub struct TopK;

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
pub(super) fn settings(arch: &str, preset: Preset, width: usize, latents: usize) -> Settings {
    let settings = Settings::top_family(arch, width, latents).follow(preset);
    // Encoders of the concept-annotation program have biases that are not used.
    Settings { encoder_bias: preset != Preset::SaeConceptEval, ..settings }
}

pub(super) fn check(settings: &Settings) -> Result<()> {
    if settings.k == 0 || settings.k > settings.latents {
        refuse("a dictionary cannot keep that many latents per row", "1 to the number of latents", settings.k)?;
    }
    Ok(())
}

pub(super) fn rules(settings: &Settings) -> Rules {
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

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> Settings {
        settings(CARD.name, preset, width, latents)
    }

    fn objective(&self, settings: &Settings) -> Result<Box<dyn Objective>> {
        check(settings)?;
        Ok(Box::new(Live::new(rules(settings), settings)))
    }
}

/// Also the live part of archetypal dictionaries, which differ in their directions only.
pub(super) struct Live {
    rules: Rules,
    settings: Settings,
    threshold: Running,
}

impl Live {
    pub fn new(rules: Rules, settings: &Settings) -> Live {
        Live { rules, settings: settings.clone(), threshold: Running::new(settings.threshold) }
    }
}

impl Objective for Live {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::PerRow(self.settings.k_at(step).min(self.settings.latents))
    }

    /// The smallest code, and whether there is one.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let smallest = row.entries.iter().map(|entry| entry.0).min_by(f32::total_cmp);
        smallest.map_or([0.0; 2], |smallest| [f64::from(smallest), 1.0])
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let there = batch.mean(1);
        self.threshold.add(batch.step, (there > 0.0).then(|| batch.mean(0) / there));
        terms(batch, batch.squared_errors[0], self.settings.auxiliary)
    }

    fn backward(&self, column: &mut Column<'_>) {
        column.gradient[0] = column.bias_gradient();
    }

    fn save(&self) -> Vec<f64> {
        self.threshold.save()
    }

    fn load(&mut self, saved: &[f64]) {
        self.threshold.load(saved);
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::TopK(self.settings.k))
    }
}
