//! Matryoshka: nested dictionaries, each a prefix of the next, trained together by BatchTopK.

use super::batch_topk::BatchTopKObjective;
use super::threshold::THRESHOLD;
use super::topk::K_ANNEAL;
use super::{Arch, ArchCard, refuse, topk};
use crate::error::{Key, Result};
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::{Objective, Rules, TrainingSettings};

/// Matryoshka BatchTopK.
pub struct Matryoshka;

/// Sizes of the nested groups.
pub static GROUPS: ArchParam<Vec<f64>> =
    ArchParam::new(["groups", "groups", "SHARE[,SHARE..]", "Shares of the latents in the nested groups"], |preset| {
        match preset {
            Preset::SaeConceptEval => [1.0, 2.0, 4.0, 8.0, 16.0, 32.0].map(|size| size / 63.0).to_vec(),
            _ => vec![1.0 / 32.0, 1.0 / 16.0, 1.0 / 8.0, 1.0 / 4.0, 17.0 / 32.0],
        }
    });

/// Whether the bias alone is one of the reconstructions.
pub static BARE: ArchParam<bool> = ArchParam::of_presets(
    ["bare", "The bias alone is the first of the nested reconstructions, and all have equal weight"],
    |preset| preset == Preset::SaeConceptEval,
);

static CARD: ArchCard = ArchCard {
    name: "matryoshka",
    summary: "BatchTopK with nested groups of latents: each prefix of groups reconstructs the input.",
    forward: "As batch_topk, with one selection over all groups.",
    loss: "Mean over groups g of w_g · mean ‖x − (b + Σ_{i≤g} f_i W_i)‖² with w_g = 1 / groups, plus the auxiliary \
           loss of topk on the last residual. Both w_g and the mean divide by the number of groups, as in the \
           released program; Adam is invariant to this factor.",
    initialisation: "As topk.",
    constraint: "As topk.",
    defaults: "Groups of 1/32, 1/16, 1/8, 1/4 and 17/32 of the latents. The rest as batch_topk.",
    params: &[&GROUPS, &BARE, &K_ANNEAL, &THRESHOLD],
    presets: "sae-concept-eval: groups of 1, 2, 4, 8, 16 and 32 parts of 63. Its dictionary of nominal size D has \
              63 D / 32 latents: set `latents` to that number. The bias alone is one more reconstruction, and all \
              weigh 1/7. The rest as batch_topk.\n\
              saelens: w_g = 1 / groups² here; SAELens sums the inner errors and the whole error. The rest as \
              batch_topk.\n\
              others: as batch_topk.",
    source: "Bussmann et al. 2025, Learning multi-level features with Matryoshka sparse autoencoders",
};

/// The end of each group: shares are rounded down, and the last group takes the remaining latents.
fn ends(shares: &[f64], latents: usize) -> Result<Vec<usize>> {
    let sum = shares.iter().sum::<f64>();
    if shares.is_empty() || shares.iter().any(|share| share.is_nan() || *share <= 0.0) || (sum - 1.0).abs() > 1e-6 {
        let message = format!("{} is out of range", Key("groups"));
        refuse(&message, "positive numbers whose sum is 1", format!("{shares:?}"))?;
    }
    let mut ends = Vec::with_capacity(shares.len());
    let mut end = 0;
    for share in shares {
        end += (share * latents as f64 + 1e-9) as usize;
        ends.push(end);
    }
    if let Some(last) = ends.last_mut() {
        *last = latents;
    }
    if ends.first() == Some(&0) || ends.windows(2).any(|pair| pair[0] >= pair[1]) {
        refuse("a group of latents is empty", "at least one latent in each group", format!("{latents} latents"))?;
    }
    Ok(ends)
}

impl Arch for Matryoshka {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        let settings = topk::settings(&CARD, objective, preset, width, latents);
        TrainingSettings { set_aside: preset == Preset::Etalon, ..settings }
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    let mut groups = ends(&settings.get(&GROUPS)?, settings.latents)?;
    let mut weight = 1.0 / (groups.len() * groups.len()) as f32;
    if settings.get(&BARE)? {
        groups.insert(0, 0);
        weight = 1.0 / groups.len() as f32;
    }
    let group_weights = vec![weight; groups.len()];
    let rules = Rules { auxiliary: true, groups, group_weights, ..Rules::plain(settings.latents) };
    Ok(Box::new(BatchTopKObjective::new(rules, settings)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_cover_all_latents() {
        assert_eq!(ends(&[0.25, 0.25, 0.5], 48).unwrap(), [12, 24, 48]);
        assert_eq!(ends(&[1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0], 10).unwrap(), [3, 6, 10]);
        assert!(ends(&[0.01, 0.99], 10).is_err() && ends(&[0.5], 10).is_err() && ends(&[], 10).is_err());
    }
}
