//! Relaxed archetypal dictionaries: directions close to convex combinations of data points.

use super::penalty::SPARSITY_WARMUP;
use super::threshold::THRESHOLD;
use super::topk::K_ANNEAL;
use super::{Arch, ArchCard, Sparsity, jumprelu, refuse, topk};
use crate::error::{Key, Result};
use crate::sae::param::{ArchParam, ParamValue};
use crate::sae::preset::Preset;
use crate::sae::train::{Constraint, Form, Mixtures, Objective, Radius, Rules, TrainingSettings};

/// TopK with archetypal directions.
pub struct ArchetypalTopK;

/// JumpReLU with archetypal directions.
pub struct ArchetypalJumpRelu;

/// Number of candidate points.
pub static CANDIDATES: ArchParam<usize> =
    ArchParam::new(["candidates", "candidates", "N", "Number of candidate points; 0 for one per latent"], |_| 0);

/// Number of candidates that a direction combines.
pub static NEIGHBOURS: ArchParam<usize> =
    ArchParam::new(["neighbours", "neighbours", "N", "Candidates that one direction may mix"], |_| 32);

/// Maximum distance of directions from the convex hull of their candidates.
pub static RADIUS: ArchParam<Radius> = ArchParam::new(
    [
        "radius",
        "radius",
        "SHARE",
        "Maximum distance of a direction from the convex hull, in mean norms of the candidates",
    ],
    |preset| match preset {
        Preset::Blindspots => Radius::Absolute(1.0),
        _ => Radius::Relative(0.1),
    },
);

/// Whether a common factor of all directions is learned.
pub static MULTIPLIER: ArchParam<bool> =
    ArchParam::of_presets(["multiplier", "All directions are multiplied by one learned number"], |preset| {
        preset == Preset::Blindspots
    });

/// On the command line, the radius is in mean norms of the candidates.
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
    summary: "TopK whose directions are convex combinations of data points, plus a small relaxation.",
    forward: "D_i = (Σ_j w_ij C_j + Λ_i) · e^m; h = ReLU(W_e x + b_e); f = h, where only the k largest values of \
              each row are kept; x̂ = D f, without a bias.\n\
              The candidates C are k-means centres of a sample of the activations (4 rows per centre, at least \
              16,384 rows; 10 iterations), computed once before the first step. The finished dictionary stores D.",
    loss: "Mean over rows of ‖x − x̂‖², plus 1/32 of the auxiliary loss of topk.",
    initialisation: "Latent i starts at candidate i (w = 1 there, Λ = 0, m = 0). Latents beyond the number of \
                     candidates start from random mixtures of the neighbours of candidate i modulo that number. The \
                     encoder is D_i / ‖D_i‖², so that D_i itself has the code 1; biases are 0.",
    constraint: "After each step, w ≥ 0 and Σ_j w_ij = 1 over the candidates nearest to the initial candidate of \
                 the latent: negative weights are set to 0 and the others are divided by their sum. If all weights \
                 of a latent would be 0, it is reset to its initial candidate and its Adam moments to 0, so that it \
                 does not die. ‖Λ_i‖ is at most the radius, and exactly 0 for radius 0. The global gradient norm is \
                 clipped to 1.",
    defaults: "k 32, one candidate per latent, 32 neighbours per direction, radius 0.1 of the mean ‖C‖, m fixed at \
               0. The rest as topk. (The radius 1 of overcomplete is in units of the data: 3.6 % of the norm of \
               standardised rows of width 768, but the whole norm of unit rows.)",
    params: &[&CANDIDATES, &NEIGHBOURS, &RADIUS, &MULTIPLIER, &K_ANNEAL, &THRESHOLD],
    presets: "blindspots: k 5, radius 1 in units of the data, m learned, Xavier-uniform encoder, AdamW (0.9, 0.999) \
              with decay 1e-5 of all weights, linear warm-up over 5 % of the steps, then a cosine from 5e-4 to \
              1e-6. Errors are averaged over features too. There is no auxiliary loss; instead, 1e-5 times the mean \
              over rows and latents of the pre-activations of latents that no row of the batch keeps is subtracted \
              from the loss. (The paper only mentions `a penalty on activations never in the top-k'; this is the \
              reanimation term of overcomplete, before the ReLU.) Use `latents` = 32000. Not reproduced: half \
              precision, and weights over all data points instead of neighbours, which would be a dense matrix of \
              latents × candidates.\n\
              others: their optimiser, with these directions.",
    source: "Fel et al. 2025, Archetypal SAE; overcomplete 0.3; Bohacek, Fel et al. 2025, Uncovering conceptual \
             blindspots",
};

static JUMPRELU: ArchCard = ArchCard {
    name: "ra_jumprelu",
    summary: "JumpReLU whose directions are convex combinations of data points, plus a small relaxation.",
    forward: "p = W_e x + b_e\n\
              f = p · [p > θ]\n\
              x̂ = D f, without a bias, with D as in ra_topk",
    loss: "As jumprelu.",
    initialisation: "As ra_topk; θ = 0.001.",
    constraint: "As ra_topk.",
    defaults: "Directions as ra_topk, the rest as jumprelu.",
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
    presets: "blindspots: directions, optimiser and reanimation as ra_topk. overcomplete divides the \
              pseudo-derivative of θ by the bandwidth twice (a factor of 1000 at 0.001) and learns log θ; Etalon \
              divides once and learns θ.\n\
              others: their optimiser, with these directions.",
    source: "As ra_topk; Rajamanoharan et al. 2024",
};

/// Archetypal directions have their own constraint, are mixtures of rows as they are, and have no bias to initialise.
fn unconstrained(settings: TrainingSettings) -> TrainingSettings {
    TrainingSettings { constraint: Constraint::Free, median: false, centre: false, ..settings }
}

/// The rules of another architecture, with archetypal directions.
fn rules(settings: &TrainingSettings, rules: Rules) -> Result<Rules> {
    let (neighbours, radius) = (settings.get(&NEIGHBOURS)?, settings.get(&RADIUS)?);
    if neighbours == 0 {
        let message = format!("{} of archetypal directions is out of range", Key("neighbours"));
        refuse(&message, "1 or more", neighbours)?;
    }
    if !radius.number().is_finite() || radius.number() < 0.0 {
        let message = format!("{} of archetypal directions is out of range", Key("radius"));
        refuse(&message, "0 or more", radius.number())?;
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
        unconstrained(topk::settings(&TOPK, objective, preset, width, latents))
    }
}

impl Arch for ArchetypalJumpRelu {
    fn card(&self) -> &'static ArchCard {
        &JUMPRELU
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Target { default: Some(&jumprelu::TARGET_L0) }
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let objective = |settings: &TrainingSettings| -> Result<Box<dyn Objective>> {
            Ok(Box::new(jumprelu::JumpReluObjective::new(rules(settings, jumprelu::rules(settings)?)?, settings)?))
        };
        unconstrained(jumprelu::settings(&JUMPRELU, objective, preset, width, latents))
    }
}
