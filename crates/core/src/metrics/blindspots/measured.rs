//! Every concept of every model, from the sums of one pass.

use super::concept::{Concept, Rules};
use super::sums::Sums;
use crate::context::{Reservation, Reserved};
use crate::error::{InputError, Key, Result};
use crate::results::Profile;
use crate::run::{CODES, GENERATED, Job};

/// Every concept in every model, and real against real.
pub(super) struct Measured {
    pub rows: u64,
    pub latents: usize,
    /// The names of the models.
    pub names: Vec<String>,
    pub rules: Rules,
    /// The range of values behind the bounds, and whether it is the observed one.
    pub range: f64,
    pub range_seen: bool,
    /// The sums that the concepts are computed from.
    pub sums: Reserved<Sums>,
    /// By model and latent; `None` where the concept is dead.
    pub models: Vec<Vec<Option<Concept>>>,
    /// By latent, one half of the real rows against the other.
    pub null: Vec<Option<Concept>>,
    /// Whether dead concepts count as aligned.
    pub dead_count: bool,
    _memory: Reservation,
}

impl Measured {
    pub fn new(sums: Reserved<Sums>, range: Option<f64>, rules: Rules, job: &Job<'_>) -> Result<Measured> {
        if let Some(range) = range.filter(|&range| range < sums.range()) {
            return Err(InputError::new(format!("values differ by more than {}", Key("value_range")))
                .expected(format!("at most {range}"))
                .found(sums.range())
                .advice("leave the option out, or set it to the range of the pooled values")
                .into());
        }
        let (rows, latents) = (sums.rows(), job.get(&CODES)?.latents());
        let names: Vec<String> = job.all(&GENERATED).into_iter().map(|(name, _)| name.into()).collect();
        let bytes = ((names.len() + 1) * latents * size_of::<Option<Concept>>()) as u64;
        let memory = job.budget().reserve(bytes, format!("{latents} concepts of {} models", names.len()))?;
        let used = range.unwrap_or(sums.range());
        let of_model = |model: usize| {
            let concept = |latent: usize| {
                let (real, made) = (sums.real(latent), sums.made(model, latent));
                (real.fires + made.fires > 0).then(|| Concept::paired(&real, &made, rows, used))
            };
            (0..latents).map(concept).collect::<Vec<_>>()
        };
        let null = |latent: usize| {
            let (all, half) = (sums.real(latent), sums.half(latent));
            let mut rest = all;
            rest.fires -= half.fires;
            rest.sum -= half.sum;
            rest.squares -= half.squares;
            (all.fires > 0).then(|| Concept::unpaired(&half, sums.first_half(), &rest, rows - sums.first_half()))
        };
        Ok(Measured {
            rows,
            latents,
            rules,
            range: used,
            range_seen: range.is_none(),
            models: (0..names.len()).map(of_model).collect(),
            null: (0..latents).map(null).collect(),
            dead_count: job.profile == Profile::Reference,
            names,
            sums,
            _memory: memory,
        })
    }

    /// By latent, the number of real rows where it fires.
    pub fn real_fires(&self) -> impl Iterator<Item = u64> {
        (0..self.latents).map(|latent| self.sums.real(latent).fires)
    }

    /// By latent, the mean over real rows.
    pub fn real_means(&self) -> impl Iterator<Item = f64> {
        let rows = self.rows as f64;
        (0..self.latents).map(move |latent| if rows > 0.0 { self.sums.real(latent).sum / rows } else { 0.0 })
    }

    /// The models, then real against real.
    pub fn sides(&self) -> impl Iterator<Item = &Vec<Option<Concept>>> {
        self.models.iter().chain(std::iter::once(&self.null))
    }

    /// Number of concepts that fire in some set.
    pub fn live(&self) -> usize {
        let fires = |latent: &usize| self.models.iter().any(|model| model[*latent].is_some());
        (0..self.latents).filter(fires).count()
    }
}
