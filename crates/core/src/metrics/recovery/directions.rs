//! The cosines between the directions of true features and latents.

use etalon_kernel::assignment::assign_monitored;
use etalon_kernel::product::{dot, rows_by_rows};
use serde::{Deserialize, Serialize};

use super::firing::FiringColumn;
use crate::context::Reservation;
use crate::error::{InputError, Result};
use crate::metrics::unit_rows::scale_to_unit;
use crate::run::{Job, Lazy, Work};
use crate::store::ActivationStore;

/// The cosines of one feature.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Cosines {
    pub latent: Option<usize>,
    /// The cosine with the assigned latent.
    pub assigned: Option<f64>,
    /// The largest cosine with any latent.
    pub best: Option<f64>,
}

/// The cosine of every feature with its latent in the best assignment, and its largest cosine with any latent.
pub(super) fn match_directions(
    job: &Job<'_>,
    work: &mut Work<'_>,
    latents: &ActivationStore,
    known: &ActivationStore,
    features: &[FiringColumn],
) -> Result<Vec<Cosines>> {
    if latents.width() != known.width() {
        return Err(InputError::new("latent directions and true directions differ in width")
            .expected(format!("width {}", known.width()))
            .found(format!("width {}", latents.width()))
            .advice("use a dictionary that was trained on the activations of this world")
            .into());
    }
    if let Some(last) = features.last().filter(|last| last.index >= known.rows()) {
        return Err(InputError::new("a true feature has no direction")
            .expected(format!("at least {} directions", last.index + 1))
            .found(format!("{} directions", known.rows()))
            .into());
    }
    let units = Lazy::new(|| UnitDirections::new(job, latents, known, features));
    let latents = latents.rows();
    let products =
        work.blocks_with(&units, "directions", features.len(), |units, feature| Ok(units.products(feature)))?;
    let assigned = work.blocks_with(&units, "assignments of directions", 1, |units, _| {
        let cells = features.len().saturating_mul(latents);
        let what = format!("the cosines of {} features with {latents} latents", features.len());
        let _memory = job.budget().reserve((cells as u64).saturating_mul(8), what)?;
        // A pair with infinite cost is not allowed.
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

/// The cosines of one feature with all latents.
#[derive(Serialize, Deserialize)]
struct FeatureCosines {
    /// By latent, in `f32`, which is enough for the assignment; empty for a feature of length 0.
    cosines: Vec<f32>,
    /// The largest one, recomputed in `f64`.
    best: Option<f64>,
}

/// Directions scaled to length 1; those of length 0 stay 0.
struct UnitDirections {
    width: usize,
    features: Vec<f32>,
    latents: Vec<f32>,
    /// By feature, whether its length is not 0.
    has_length: Vec<bool>,
    /// By latent, whether its length is not 0.
    usable: Vec<bool>,
    _memory: Reservation,
}

impl UnitDirections {
    fn new(
        job: &Job<'_>,
        latents: &ActivationStore,
        known: &ActivationStore,
        features: &[FiringColumn],
    ) -> Result<UnitDirections> {
        let width = latents.width();
        let bytes = (features.len() as u64 + latents.rows() as u64).saturating_mul(4 * width as u64);
        let memory = job.budget().reserve(bytes, "directions of length 1")?;
        let known = known.tile(0..known.rows())?;
        let mut features: Vec<f32> = features.iter().flat_map(|feature| known.row(feature.index)).copied().collect();
        let mut latents = latents.tile(0..latents.rows())?.values.into_owned();
        let has_length = scale_to_unit(job, &mut features, width)?;
        let usable = scale_to_unit(job, &mut latents, width)?;
        Ok(UnitDirections { width, features, latents, has_length, usable, _memory: memory })
    }

    fn feature(&self, feature: usize) -> &[f32] {
        &self.features[feature * self.width..][..self.width]
    }

    fn cosine(&self, feature: usize, latent: usize) -> f64 {
        dot(self.feature(feature), &self.latents[latent * self.width..][..self.width]).clamp(-1.0, 1.0)
    }

    fn products(&self, feature: usize) -> FeatureCosines {
        let latents = self.usable.len();
        if latents == 0 || !self.has_length[feature] {
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
