//! Matching pursuit: latents are chosen one after the other, each for what the ones before left over.

use super::topk::{K_ANNEAL, Kept};
use super::{Arch, ArchCard, follow};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::matching_pursuit::MatchingPursuit;
use crate::sae::param::Param;
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, Constraint, Form, LatentBackward, Objective, Rules, Selection, Terms, TrainingSettings,
};

/// MP-SAE.
pub struct MpSae;

/// Which product counts.
pub static SIGNED: Param<bool> =
    Param::of_presets(["signed", "Take the largest product, and not the one that is farthest from 0"], |preset| {
        preset == Preset::Blindspots
    });

static CARD: ArchCard = ArchCard {
    name: "mp",
    summary: "k times the direction that explains most of what is left over; no encoder of its own",
    forward: "r = x − b; k times: i = argmax |D r| (the lower latent among equals), f_i += D_i·r, r −= (D_i·r) D_i; x̂ = D f + b. \
              A latent may be chosen again, and codes may be negative; it ends early where nothing of D is left in r",
    loss: "mean over rows of ‖x − x̂‖² = ‖r‖²; its gradient goes through all k choices, which themselves are taken as fixed",
    initialisation: "random unit directions, b = geometric median of the first batch",
    constraint: "unit directions: gradient projected, gradients cut to global length 1, directions renormalised",
    defaults: "k 32, lr 0.0002 / √(latents / 16384), warmup 1000. Every row costs k products with the dictionary, in training \
               and after; the products of a dictionary with itself are not kept, since they would change the last digits",
    params: &[&K_ANNEAL, &SIGNED],
    presets: "blindspots: the largest product with its sign, as overcomplete: a code is negative only where all products are; no \
              bias; k 5, Xavier-uniform directions made unit, optimiser and schedule as ra_topk (there is nothing to reanimate: \
              latents have no pre-activation of their own); atoms are never dropped out\n\
              dictionary-learning, sae-concept-eval: they have no such dictionary; their optimiser only\n\
              saelens: its optimiser only; there, choices go through a ReLU and end at a small error or at a repeated choice, \
              and directions are not constrained",
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
    let (kept, signed) = (Kept::of(settings)?, settings.get(&SIGNED)?);
    // Only overcomplete's own has no bias; it is the one with signs.
    let rules = Rules { form: Form::Tied, biased: !signed, ..Rules::plain(settings.latents) };
    Ok(Box::new(MpObjective { rules, kept, signed }))
}

struct MpObjective {
    rules: Rules,
    kept: Kept,
    signed: bool,
}

impl Objective for MpObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, step: u64) -> Selection {
        Selection::Pursuit(MatchingPursuit { k: self.kept.at(step), signed: self.signed })
    }

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let error = batch.squared_errors[0];
        vec![("loss", error), ("squared_error", error)]
    }

    /// Gradients go through the pursuit, not through columns.
    fn backward(&self, _: &mut LatentBackward<'_>) {}

    fn finish(&self, scalars: &[f32], _: f32) -> (Vec<f32>, Activation) {
        let pursuit = MatchingPursuit { k: self.kept.k, signed: self.signed };
        (vec![0.0; scalars.len()], Activation::Pursuit(pursuit))
    }
}
