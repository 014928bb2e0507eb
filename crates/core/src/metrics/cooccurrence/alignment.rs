//! How far the first eigenvectors of two co-occurrence matrices agree.

use serde::{Deserialize, Serialize};

use super::pairs::LatentCounts;
use super::sets::CodeSets;
use super::spectrum::{Spectrum, of_set};
use crate::context::{Context, Reserved};
use crate::error::{Error, Result};
use crate::run::Work;
use etalon_kernel::eigen::try_symmetric;
use etalon_kernel::product::try_rows_by_rows;
use etalon_kernel::statistics::mean;

/// Two sets of eigenvectors, compared.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Alignment {
    /// Of the principal angles, descending.
    pub cosines: Vec<f64>,
    /// The absolute cosine of every first vector with every second one.
    pub between: Vec<f64>,
}

impl Alignment {
    pub fn subspace(&self) -> Option<f64> {
        mean(&self.cosines.iter().map(|cosine| cosine * cosine).collect::<Vec<_>>())
    }

    pub fn vectors(&self) -> Option<f64> {
        let rows = self.between.chunks_exact(self.cosines.len().max(1));
        mean(&rows.map(|row| row.iter().copied().fold(0.0, f64::max)).collect::<Vec<_>>())
    }
}

/// How many eigenvectors can be compared: spans of more than half of the latents that fire in some set share directions
/// by their dimension alone.
pub(super) fn most_vectors(counts: &[LatentCounts]) -> usize {
    let latents = counts.first().map_or(0, |counts| counts.fired.len());
    (0..latents).filter(|&latent| counts.iter().any(|counts| counts.fired[latent] > 0)).count() / 2
}

/// Compares the real halves, then for every model all rows and the halves.
pub(super) fn alignments(
    sets: &CodeSets<'_>,
    counts: &[LatentCounts],
    spectra: &[Spectrum],
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<Alignment>>> {
    let (top, size) = (sets.job.whole("top")?.min(most_vectors(counts)), sets.shape.latents);
    let of_model = |model: usize| [[0, of_set(model + 1)], [1, of_set(model + 1) + 1]];
    let pairs: Vec<[usize; 2]> =
        std::iter::once([1, 2]).chain((0..sets.shape.names.len()).flat_map(of_model)).collect();
    work.blocks("alignments", pairs.len(), |pair| {
        let [one, other] = pairs[pair].map(|index| &spectra[index]);
        align(one, other, top, size, sets.job.context)
    })
}

/// Compares the first vectors that both have.
pub(super) fn align(a: &Spectrum, b: &Spectrum, top: usize, size: usize, context: &Context) -> Result<Alignment> {
    let count = top.min(a.rank()).min(b.rank()).min(a.vectors.len().min(b.vectors.len()) / size.max(1));
    if count == 0 {
        return Ok(Alignment::default());
    }
    let mut cosines = vec![0.0; count * count];
    try_rows_by_rows(&a.vectors[..count * size], &b.vectors[..count * size], size, &mut cosines, context)?;
    // The singular values of the cosines are the cosines of the principal angles.
    let mut gram = vec![0.0; count * count];
    try_rows_by_rows(&cosines, &cosines, count, &mut gram, context)?;
    let eigen = try_symmetric(gram, count, context)?;
    let eigen = eigen.ok_or_else(|| Error::Bug("principal angles do not converge".into()))?;
    Ok(Alignment {
        cosines: eigen.values.iter().map(|value| value.clamp(0.0, 1.0).sqrt()).collect(),
        between: cosines.iter().map(|cosine| cosine.abs().min(1.0)).collect(),
    })
}
