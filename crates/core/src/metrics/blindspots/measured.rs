//! What the pass found, concept by concept.

use super::concept::{Concept, Rules};
use super::sums::Found;
use crate::error::{Complaint, Result};
use crate::results::Profile;
use crate::run::{Job, Leaders};

/// Every concept in every model, and real against real.
#[derive(Clone)]
pub(super) struct Measured {
    pub rows: u64,
    pub latents: usize,
    /// The names of the models.
    pub names: Vec<String>,
    pub rules: Rules,
    /// The range of values behind the bounds, and whether it was only seen.
    pub range: f64,
    pub range_seen: bool,
    /// By latent, the mean over real rows.
    pub real: Vec<f64>,
    pub real_fires: Vec<u64>,
    /// By model and latent; nothing where the concept is dead.
    pub models: Vec<Vec<Option<Concept>>>,
    /// By latent, one half of the real rows against the other.
    pub null: Vec<Option<Concept>>,
    /// By side (the real rows first) and latent.
    pub top: Vec<Leaders>,
    /// Do dead concepts count as aligned?
    pub dead_count: bool,
}

impl Measured {
    pub fn new(found: Found, range: Option<f64>, rules: Rules, job: &Job<'_>) -> Result<Measured> {
        if let Some(range) = range.filter(|&range| range < found.range) {
            return Err(Complaint::new("values lie further apart than `--value-range` allows")
                .expected(format!("at most {range}"))
                .found(found.range)
                .advice("leave the option out, or give the range of the pooled values")
                .into());
        }
        let rows = found.rows;
        let latents = found.real.len();
        let used = range.unwrap_or(found.range);
        let side = |made: &Vec<super::sums::Made>| {
            let concept = |latent: usize| {
                let (real, made) = (&found.real[latent], &made[latent]);
                (real.fires + made.fires > 0).then(|| Concept::paired(real, made, rows, used))
            };
            (0..latents).map(concept).collect::<Vec<_>>()
        };
        let null = |latent: usize| {
            let (all, half) = (&found.real[latent], &found.half[latent]);
            let mut rest = *all;
            rest.fires -= half.fires;
            rest.sum -= half.sum;
            rest.squares -= half.squares;
            (all.fires > 0).then(|| Concept::unpaired(half, found.first_half, &rest, rows - found.first_half))
        };
        Ok(Measured {
            rows,
            latents,
            names: job.models()?.iter().map(|model| model.name.clone()).collect(),
            rules,
            range: used,
            range_seen: range.is_none(),
            real: found.real.iter().map(|real| if rows > 0 { real.sum / rows as f64 } else { 0.0 }).collect(),
            real_fires: found.real.iter().map(|real| real.fires).collect(),
            models: found.made.iter().map(side).collect(),
            null: (0..latents).map(null).collect(),
            top: found.top,
            dead_count: job.profile == Profile::Reference,
        })
    }

    /// The models, then real against real.
    pub fn sides(&self) -> impl Iterator<Item = &Vec<Option<Concept>>> {
        self.models.iter().chain(std::iter::once(&self.null))
    }

    /// How many concepts fire in some set.
    pub fn live(&self) -> usize {
        let fires = |latent: &usize| self.models.iter().any(|model| model[*latent].is_some());
        (0..self.latents).filter(fires).count()
    }
}
