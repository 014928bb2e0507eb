//! Relaxed archetypal dictionaries: directions that stay close to mixtures of real activations.

use super::l1::SPARSITY_WARMUP;
use super::threshold::THRESHOLD;
use super::topk::K_ANNEAL;
use super::{Arch, ArchCard, jumprelu, refuse, topk};
use crate::error::Result;
use crate::sae::param::{Param, ParamValue};
use crate::sae::preset::Preset;
use crate::sae::train::{Constraint, Form, Mixtures, Objective, Radius, Rules, TrainingSettings};

/// TopK with archetypal directions.
pub struct ArchetypalTopK;

/// JumpReLU with archetypal directions.
pub struct ArchetypalJumpRelu;

/// How many candidate points there are.
pub static CANDIDATES: Param<usize> =
    Param::new(["candidates", "candidates", "N", "Candidate points of directions; 0 for one per latent"], |_| 0);

/// How many candidates a direction mixes.
pub static NEIGHBOURS: Param<usize> =
    Param::new(["neighbours", "neighbours", "N", "Candidates that one direction may mix"], |_| 32);

/// How far directions may leave the hull of their candidates.
pub static RADIUS: Param<Radius> = Param::new(
    ["radius", "radius", "SHARE", "How far a direction may leave the hull, in mean lengths of the candidates"],
    |preset| match preset {
        Preset::Blindspots => Radius::Absolute(1.0),
        _ => Radius::Relative(0.1),
    },
);

/// Whether directions share a factor.
pub static MULTIPLIER: Param<bool> =
    Param::of_presets(["multiplier", "All directions are multiplied by one number that is learnt"], |preset| {
        preset == Preset::Blindspots
    });

/// Users give it in mean lengths of the candidates.
impl ParamValue for Radius {
    fn describe() -> &'static str {
        "a number from 0"
    }

    fn parse(text: &str) -> Option<Radius> {
        text.parse().ok().map(Radius::Relative)
    }

    fn to_text(&self) -> String {
        match self {
            Radius::Relative(share) => share.to_string(),
            Radius::Absolute(radius) => format!("{radius} in units of the data"),
        }
    }
}

static TOPK: ArchCard = ArchCard {
    name: "ra_topk",
    summary: "topk whose directions are convex mixtures of points of the data, and a little beside them",
    forward: "D_i = (Σ_j w_ij C_j + Λ_i) · e^m; h = ReLU(W_e x + b_e); the k largest of a row stay; x̂ = D f, without a bias. \
              C are the centres of k-means on a sample of the activations (4 rows per centre, at least 16,384; 10 rounds), \
              found once before the first step. The finished dictionary holds D",
    loss: "mean over rows of ‖x − x̂‖², plus 1/32 of the auxiliary loss of topk",
    initialisation: "latent i starts at candidate i (w = 1 there, Λ = 0, m = 0); latents beyond the candidates from random \
                     mixtures of the neighbours of candidate i modulo their number; encoder D_i / ‖D_i‖², so that D_i itself \
                     has the code 1; biases 0",
    constraint: "after every step: w ≥ 0 and Σ_j w_ij = 1 over the candidates nearest to where the latent started (negative \
                 weights are cut, the rest is divided by its sum; a row that would be all 0 goes back to its own candidate and \
                 forgets its moments, instead of dying); ‖Λ_i‖ at most the radius, and exactly 0 for radius 0. Gradients are \
                 cut to global length 1",
    defaults: "k 32, one candidate per latent, 32 neighbours per direction, radius 0.1 of the mean ‖C‖, m fixed at 0; the rest \
               as topk. (The radius of overcomplete, 1, is in units of the data: 3.6 % of the length of standardised rows of \
               width 768, all of the length of unit rows)",
    params: &[&CANDIDATES, &NEIGHBOURS, &RADIUS, &MULTIPLIER, &K_ANNEAL, &THRESHOLD],
    presets: "blindspots: k 5, radius 1 in units of the data, m learnt, encoder Xavier-uniform, AdamW (0.9, 0.999) with decay \
              1e-5 of all weights, linear warm-up over 5 % of the steps, then a cosine from 5e-4 to 1e-6, errors averaged over \
              features too, no auxiliary loss; instead − 1e-5 · mean over rows and latents of the pre-activations of latents \
              that no row of the batch keeps (the paper says only `a penalty on activations never in the top-k'; this is the \
              reanimation term of overcomplete, before the ReLU). Use --latents 32000. Not reproduced: half precision, and \
              weights over all data instead of neighbours, which would be a dense matrix of latents × candidates\n\
              others: their optimiser, on these directions",
    source: "Fel et al. 2025, Archetypal SAE; overcomplete 0.3; Bohacek, Fel et al. 2025, Uncovering conceptual blindspots",
};

static JUMPRELU: ArchCard = ArchCard {
    name: "ra_jumprelu",
    summary: "jumprelu whose directions are convex mixtures of points of the data, and a little beside them",
    forward: "D as ra_topk; p = W_e x + b_e; f = p · [p > θ]; x̂ = D f, without a bias",
    loss: "as jumprelu",
    initialisation: "as ra_topk; θ = 0.001",
    constraint: "as ra_topk",
    defaults: "directions as ra_topk, the rest as jumprelu",
    params: &[
        &CANDIDATES,
        &NEIGHBOURS,
        &RADIUS,
        &MULTIPLIER,
        &jumprelu::PENALTY,
        &SPARSITY_WARMUP,
        &jumprelu::TARGET_L0,
        &jumprelu::BANDWIDTH,
        &jumprelu::JUMP,
        &jumprelu::INITIAL_THRESHOLD,
    ],
    presets: "blindspots: directions, optimiser and reanimation as ra_topk. overcomplete divides the pseudo-derivative of θ by \
              the bandwidth twice (a thousand times too large at 0.001) and learns log θ; here it is divided once, and θ is \
              learnt itself\n\
              others: their optimiser, on these directions",
    source: "as ra_topk; Rajamanoharan et al. 2024",
};

/// Archetypal directions have their own constraint, and no bias to start from.
fn free(settings: TrainingSettings) -> TrainingSettings {
    TrainingSettings { constraint: Constraint::Free, median: false, ..settings }
}

fn rules(settings: &TrainingSettings, rules: Rules) -> Result<Rules> {
    let (neighbours, radius) = (settings.get(&NEIGHBOURS)?, settings.get(&RADIUS)?);
    if neighbours == 0 {
        refuse("archetypal directions need candidates to mix", "1 neighbour or more", neighbours)?;
    }
    if !radius.number().is_finite() || radius.number() < 0.0 {
        refuse("the relaxation of archetypal directions is out of range", "a number from 0", radius.number())?;
    }
    let (candidates, multiplier) = (settings.get(&CANDIDATES)?, settings.get(&MULTIPLIER)?);
    let form = Form::Archetypal(Mixtures { candidates, neighbours, radius, multiplier });
    Ok(Rules { form, biased: false, centred: false, ..rules })
}

impl Arch for ArchetypalTopK {
    fn card(&self) -> &'static ArchCard {
        &TOPK
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let objective = |settings: &TrainingSettings| -> Result<Box<dyn Objective>> {
            Ok(Box::new(topk::TopKObjective::new(rules(settings, topk::rules(settings))?, settings)?))
        };
        free(topk::settings(&TOPK, objective, preset, width, latents))
    }
}

impl Arch for ArchetypalJumpRelu {
    fn card(&self) -> &'static ArchCard {
        &JUMPRELU
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let objective = |settings: &TrainingSettings| -> Result<Box<dyn Objective>> {
            Ok(Box::new(jumprelu::JumpReluObjective::new(rules(settings, jumprelu::rules(settings)?)?, settings)?))
        };
        free(jumprelu::settings(&JUMPRELU, objective, preset, width, latents))
    }
}
