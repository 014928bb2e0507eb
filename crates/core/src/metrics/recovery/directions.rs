//! How the directions of true features and latents agree.

use etalon_kernel::assignment::assign_monitored;
use etalon_kernel::product::{dot, rows_by_rows};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::firing::FiringColumn;
use crate::context::Reservation;
use crate::error::{Error, InputError, Result};
use crate::run::{Job, Lazy, Work};
use crate::store::ActivationStore;

/// The latents of a feature by direction.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Cosines {
    /// The latent in the best assignment.
    pub latent: Option<usize>,
    /// The cosine with it.
    pub assigned: Option<f64>,
    /// The largest cosine with any latent.
    pub best: Option<f64>,
}

/// The cosine of every feature given with its latent in the best assignment, and its largest with any latent.
pub(super) fn match_directions(
    job: &Job<'_>,
    work: &mut Work<'_>,
    found: &ActivationStore,
    known: &ActivationStore,
    features: &[FiringColumn],
) -> Result<Vec<Cosines>> {
    if found.width() != known.width() {
        return Err(InputError::new("latent directions and true directions differ in width")
            .expected(format!("width {}", known.width()))
            .found(format!("width {}", found.width()))
            .advice("train on the activations of the same world")
            .into());
    }
    if let Some(last) = features.last().filter(|last| last.index >= known.rows()) {
        return Err(InputError::new("a true feature has no direction")
            .expected(format!("at least {} directions", last.index + 1))
            .found(format!("{} directions", known.rows()))
            .into());
    }
    let latents = found.rows();
    let units = Lazy::new(|| UnitDirections::new(job, found, known, features));
    let products =
        work.blocks_with(&units, "directions", features.len(), |units, feature| Ok(units.products(feature)))?;
    let assigned = work.blocks_with(&units, "assignments of directions", 1, |units, _| {
        let cells = features.len().saturating_mul(latents);
        let what = format!("the cosines of {} features with {latents} latents", features.len());
        let _memory = job.budget().reserve((cells as u64).saturating_mul(8), what)?;
        // Infinity forbids a pair.
        let mut costs = vec![f64::INFINITY; cells];
        for (feature, products) in products.iter().enumerate() {
            for (latent, &cosine) in products.cosines.iter().enumerate().filter(|(latent, _)| units.usable[*latent]) {
                costs[feature * latents + latent] = -f64::from(cosine);
            }
        }
        let assigned = assign_monitored(&costs, features.len(), latents, job.context)?;
        let cosines = |(feature, latent): (usize, Option<usize>)| Cosines {
            latent,
            assigned: latent.map(|latent| units.cosine(feature, latent)),
            best: products[feature].best,
        };
        Ok(assigned.into_iter().enumerate().map(cosines).collect::<Vec<Cosines>>())
    })?;
    Ok(assigned.iter().flatten().cloned().collect())
}

/// How one feature points compared with all latents.
#[derive(Serialize, Deserialize)]
struct FeatureCosines {
    /// By latent, in `f32`, which suffices to choose; empty for a feature of length 0.
    cosines: Vec<f32>,
    /// The largest, computed once more in `f64`.
    best: Option<f64>,
}

/// Directions of length 1; those of length 0 stay.
struct UnitDirections {
    width: usize,
    features: Vec<f32>,
    latents: Vec<f32>,
    /// By latent, whether its length is not 0.
    usable: Vec<bool>,
    _memory: Reservation,
}

impl UnitDirections {
    fn new(
        job: &Job<'_>,
        found: &ActivationStore,
        known: &ActivationStore,
        features: &[FiringColumn],
    ) -> Result<UnitDirections> {
        let (width, latents) = (found.width(), found.rows());
        let bytes = (features.len() as u64 + latents as u64).saturating_mul(4 * width as u64);
        let memory = job.budget().reserve(bytes, "directions of length 1")?;
        let known = known.tile(0..known.rows())?;
        let picked = features.iter().flat_map(|feature| known.row(feature.index)).copied().collect();
        let latents = units(job, found.tile(0..latents)?.values.into_owned(), width)?;
        let usable = latents.chunks_exact(width).map(|latent| !is_zero(latent)).collect();
        Ok(UnitDirections { width, features: units(job, picked, width)?, latents, usable, _memory: memory })
    }

    fn feature(&self, feature: usize) -> &[f32] {
        &self.features[feature * self.width..][..self.width]
    }

    fn cosine(&self, feature: usize, latent: usize) -> f64 {
        dot(self.feature(feature), &self.latents[latent * self.width..][..self.width]).clamp(-1.0, 1.0)
    }

    fn products(&self, feature: usize) -> FeatureCosines {
        let latents = self.usable.len();
        if latents == 0 || is_zero(self.feature(feature)) {
            return FeatureCosines { cosines: Vec::new(), best: None };
        }
        let mut cosines = vec![0f32; latents];
        rows_by_rows(self.feature(feature), &self.latents, self.width, &mut cosines);
        // Ties go to the lower latent.
        let best = (0..latents)
            .filter(|&latent| self.usable[latent])
            .min_by(|&a, &b| (-cosines[a]).total_cmp(&-cosines[b]))
            .map(|latent| self.cosine(feature, latent));
        FeatureCosines { cosines, best }
    }
}

fn is_zero(direction: &[f32]) -> bool {
    direction.iter().all(|&part| part == 0.0)
}

/// Every row scaled to length 1; a row of length 0 stays.
fn units(job: &Job<'_>, mut rows: Vec<f32>, width: usize) -> Result<Vec<f32>> {
    rows.par_chunks_exact_mut(width).try_for_each(|row| {
        job.check()?;
        let length = dot(row, row).sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
        }
        Ok::<(), Error>(())
    })?;
    Ok(rows)
}
