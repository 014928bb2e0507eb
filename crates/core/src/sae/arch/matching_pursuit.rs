//! Matching pursuit: latents are chosen one at a time, each by its product with the residual.

use super::topk::{K_ANNEAL, KSchedule};
use super::{Arch, ArchCard, follow};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, Constraint, Form, LatentBackward, Objective, Rules, Selection, Terms, TrainingSettings,
};

/// The matching-pursuit SAE.
pub struct MpSae;

/// Whether products are compared with their sign.
pub static SIGNED: ArchParam<bool> =
    ArchParam::of_presets(["signed", "Choose the largest product instead of the largest absolute product"], |preset| {
        preset == Preset::Blindspots
    });

static CARD: ArchCard = ArchCard {
    name: "mp",
    summary: "Matching pursuit: chooses k times the direction that explains most of the residual, without a \
              separate encoder.",
    forward: "r = x − b; k times: i = argmax |D r| (the lower latent among equals), f_i += D_i·r, r −= (D_i·r) D_i; \
              x̂ = D f + b.\n\
              A latent may be chosen more than once, and codes may be negative. The pursuit ends early if D r = 0.",
    loss: "Mean over rows of ‖x − x̂‖² = ‖r‖². The gradient is propagated through all k choices; the chosen indices \
           are treated as constants.",
    initialisation: "Directions are random unit vectors, and b is the geometric median of the first batch.",
    constraint: "Directions have unit norm: the gradient is projected, and directions are renormalised after each \
                 step. The global gradient norm is clipped to 1.",
    defaults: "k 32, lr 0.0002 / √(latents / 16384), warmup 1000. Each row costs k products with the dictionary, in \
               training and in encoding. The Gram matrix of the dictionary is not cached, because it would change \
               the last digits.",
    params: &[&K_ANNEAL, &SIGNED],
    presets: "blindspots: the largest signed product is chosen, as in overcomplete, so a code is negative only \
              where all products are. No bias; k 5, Xavier-uniform directions scaled to unit norm, optimiser and \
              schedule as ra_topk. There is no reanimation, because latents have no pre-activation; atoms are never \
              dropped out.\n\
              dictionary-learning, sae-concept-eval: have no such dictionary; only their optimiser is used.\n\
              saelens: only its optimiser is used. In SAELens, choices pass through a ReLU and end at a small error \
              or at a repeated choice, and directions are not constrained.",
    source: "Costa et al. 2025, From flat to hierarchical; overcomplete 0.3",
};

impl Arch for MpSae {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = follow(TrainingSettings::top_family(CARD.name, objective, width, latents), preset, &CARD);
        let constraint = Constraint::Unit { gradient_guard: 0.0, length_guard: 0.0, before: false };
        TrainingSettings { constraint, initial_norm: 1.0, reanimation: 0.0, auxiliary: 0.0, ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    let (k, signed) = (KSchedule::of(settings)?, settings.get(&SIGNED)?);
    // The signed version of overcomplete has no bias.
    let rules = Rules { form: Form::Tied, biased: !signed, ..Rules::plain(settings.latents) };
    Ok(Box::new(MpObjective { rules, k, signed }))
}

struct MpObjective {
    rules: Rules,
    k: KSchedule,
    signed: bool,
}

impl Objective for MpObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::Pursuit(MatchingPursuit { k: self.k.at(step), signed: self.signed })
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let error = batch.squared_errors[0];
        vec![("loss", error), ("squared_error", error)]
    }

    /// Does nothing: [`Selection::Pursuit`] has its own backward pass.
    fn backward(&self, _: &mut LatentBackward<'_>) {}

    fn finish(&self, scalars: &[f32], _: f32) -> (Vec<f32>, Activation) {
        let pursuit = MatchingPursuit { k: self.k.last, signed: self.signed };
        (vec![0.0; scalars.len()], Activation::Pursuit(pursuit))
    }
}
