//! Inputs that metrics of units are computed from, whatever they were given as: the activations of units, and which
//! images look alike. They are derived from other inputs.

use std::ops::Range;
use std::sync::Arc;

use etalon_kernel::product::rows_by_rows;

use super::artefact::{Artefact, ByRow};
use super::distances::DistanceMatrix;
use crate::codes::{Codes, CodesView};
use crate::error::Result;
use crate::store::{ActivationStore, Tile};

/// The activations of units, a row per image.
#[derive(Debug)]
pub enum UnitActivations {
    /// Latents of a dictionary.
    Latents(Arc<Codes>),
    /// Neurons: the columns of the embeddings.
    Neurons(Arc<ActivationStore>),
    /// Directions: products with the embeddings.
    Directions(Arc<ActivationStore>, Arc<ActivationStore>),
}

impl UnitActivations {
    /// Number of images.
    pub fn rows(&self) -> usize {
        match self {
            UnitActivations::Latents(codes) => codes.rows(),
            UnitActivations::Neurons(store) | UnitActivations::Directions(store, _) => store.rows(),
        }
    }

    /// Number of units.
    pub fn units(&self) -> usize {
        match self {
            UnitActivations::Latents(codes) => codes.latents(),
            UnitActivations::Neurons(store) => store.width(),
            UnitActivations::Directions(_, directions) => directions.rows(),
        }
    }

    /// Writes the activations of some units in one row.
    pub fn fill(&self, row: usize, units: Range<usize>, out: &mut [f32]) -> Result<()> {
        match self {
            UnitActivations::Latents(codes) => {
                out.fill(0.0);
                let view = codes.view(row..row + 1)?;
                let (latents, values) = view.row(0);
                let bound = |end: usize| latents.partition_point(|&latent| (latent as usize) < end);
                let (from, to) = (bound(units.start), bound(units.end));
                let entries = latents[from..to].iter().zip(&values[from..to]);
                entries.for_each(|(&latent, &value)| out[latent as usize - units.start] = value);
            }
            UnitActivations::Neurons(store) => out.copy_from_slice(&store.tile(row..row + 1)?.row(0)[units]),
            UnitActivations::Directions(store, directions) => {
                rows_by_rows(&store.tile(row..row + 1)?.values, &directions.tile(units)?.values, store.width(), out);
            }
        }
        Ok(())
    }
}

impl Artefact for UnitActivations {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows()]
    }

    fn id(&self) -> Result<String> {
        match self {
            UnitActivations::Latents(codes) => codes.id(),
            UnitActivations::Neurons(store) => store.id(),
            UnitActivations::Directions(store, directions) => Ok(format!("{} {}", store.id()?, directions.id()?)),
        }
    }
}

/// Consecutive rows of the activations of units.
pub enum UnitBatch<'a> {
    /// Entries that are not 0.
    Sparse(CodesView<'a>),
    /// All values.
    Dense(Tile<'a>),
    /// Rows whose products with directions are the values.
    Products(Tile<'a>, &'a ActivationStore),
}

impl ByRow for UnitActivations {
    type Batch<'a> = UnitBatch<'a>;

    fn batch(&self, rows: Range<usize>) -> Result<UnitBatch<'_>> {
        Ok(match self {
            UnitActivations::Latents(codes) => UnitBatch::Sparse(codes.view(rows)?),
            UnitActivations::Neurons(store) => UnitBatch::Dense(store.tile(rows)?),
            UnitActivations::Directions(store, directions) => UnitBatch::Products(store.tile(rows)?, directions),
        })
    }
}

/// Which images look alike.
#[derive(Debug)]
pub enum ImageSimilarity {
    /// Vectors of the images.
    Vectors(Arc<ActivationStore>),
    /// Distances of all pairs of images.
    Distances(Arc<DistanceMatrix>),
}

impl ImageSimilarity {
    /// Number of images.
    pub fn rows(&self) -> usize {
        match self {
            ImageSimilarity::Vectors(store) => store.rows(),
            ImageSimilarity::Distances(matrix) => matrix.rows(),
        }
    }
}

impl Artefact for ImageSimilarity {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows()]
    }

    fn id(&self) -> Result<String> {
        match self {
            ImageSimilarity::Vectors(store) => store.id(),
            ImageSimilarity::Distances(matrix) => Artefact::id(&**matrix),
        }
    }
}
