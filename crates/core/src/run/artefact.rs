//! The types that can be inputs, and what the engine needs to know about each: sizes, content hash, row selection,
//! pooling.

use std::any::Any;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::codes::{Codes, CodesView, Pool};
use crate::error::Result;
use crate::labels::{Annotations, EntitySet, Factors, PairSet};
use crate::network::{Judge, SentenceEncoder, TextRun};
use crate::sae::Dictionary;
use crate::sae::train::Record;
use crate::store::{ActivationStore, Tile};

/// A type that can be an input.
pub trait Artefact: Send + Sync + Sized + 'static {
    /// Sizes along the axes of its role, in their order.
    fn sizes(&self) -> Vec<usize>;
    /// The content hash, for recipes.
    fn id(&self) -> Result<String>;
    /// Names along [`super::Axis::Concepts`].
    fn concept_names(&self) -> Option<&[String]> {
        None
    }
    /// A copy with only these rows; `None` if it has no rows.
    fn keep_rows(&self, _rows: &[usize]) -> Result<Option<Self>> {
        Ok(None)
    }
    /// A copy with one row per sample instead of one per token; `None` if pooling does not change it.
    fn pooled(&self, _samples: &[u32], _count: usize, _pool: Pool) -> Result<Option<Self>> {
        Ok(None)
    }
}

/// An artefact that a pass can read batch by batch: its first axis is rows.
pub trait ByRow: Artefact {
    /// A view of consecutive rows.
    type Batch<'a>;
    /// The rows of a range.
    fn batch(&self, rows: Range<usize>) -> Result<Self::Batch<'_>>;
}

/// An [`Artefact`] of any type, for use as a trait object.
pub(super) trait AnyArtefact: Any + Send + Sync {
    fn sizes(&self) -> Vec<usize>;
    fn id(&self) -> Result<String>;
    fn concept_names(&self) -> Option<&[String]>;
    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Arc<dyn AnyArtefact>>>;
    fn pooled(&self, samples: &[u32], count: usize, pool: Pool) -> Result<Option<Arc<dyn AnyArtefact>>>;
}

impl<T: Artefact> AnyArtefact for T {
    fn sizes(&self) -> Vec<usize> {
        Artefact::sizes(self)
    }

    fn id(&self) -> Result<String> {
        Artefact::id(self)
    }

    fn concept_names(&self) -> Option<&[String]> {
        Artefact::concept_names(self)
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Arc<dyn AnyArtefact>>> {
        Ok(Artefact::keep_rows(self, rows)?.map(|kept| Arc::new(kept) as _))
    }

    fn pooled(&self, samples: &[u32], count: usize, pool: Pool) -> Result<Option<Arc<dyn AnyArtefact>>> {
        Ok(Artefact::pooled(self, samples, count, pool)?.map(|pooled| Arc::new(pooled) as _))
    }
}

impl Artefact for Codes {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows(), self.latents()]
    }

    fn id(&self) -> Result<String> {
        self.id()
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Codes>> {
        self.select(rows).map(Some)
    }

    fn pooled(&self, samples: &[u32], count: usize, pool: Pool) -> Result<Option<Codes>> {
        self.pooled(samples, count, pool).map(Some)
    }
}

impl ByRow for Codes {
    type Batch<'a> = CodesView<'a>;

    fn batch(&self, rows: Range<usize>) -> Result<CodesView<'_>> {
        self.view(rows)
    }
}

impl Artefact for ActivationStore {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows(), self.width()]
    }

    fn id(&self) -> Result<String> {
        self.id()
    }

    fn pooled(&self, samples: &[u32], count: usize, pool: Pool) -> Result<Option<ActivationStore>> {
        self.pooled(samples, count, pool == Pool::First).map(Some)
    }
}

impl ByRow for ActivationStore {
    type Batch<'a> = Tile<'a>;

    fn batch(&self, rows: Range<usize>) -> Result<Tile<'_>> {
        self.tile(rows)
    }
}

impl Artefact for Annotations {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows(), self.concepts()]
    }

    fn id(&self) -> Result<String> {
        Ok(self.id())
    }

    fn concept_names(&self) -> Option<&[String]> {
        Some(self.names())
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Annotations>> {
        Ok(Some(self.select(rows)))
    }
}

impl Artefact for Factors {
    fn sizes(&self) -> Vec<usize> {
        vec![self.rows(), self.count()]
    }

    fn id(&self) -> Result<String> {
        Ok(self.id())
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Factors>> {
        Ok(Some(self.select(rows)))
    }
}

impl Artefact for PairSet {
    fn sizes(&self) -> Vec<usize> {
        vec![self.pairs.len()]
    }

    fn id(&self) -> Result<String> {
        Ok(self.id())
    }
}

impl Artefact for Arc<dyn Dictionary> {
    fn sizes(&self) -> Vec<usize> {
        vec![self.card().latents, self.card().width]
    }

    fn id(&self) -> Result<String> {
        Ok(Dictionary::id(&**self))
    }
}

/// A dictionary with the metadata of its file.
#[derive(Debug)]
pub struct Checkpoint {
    /// The dictionary.
    pub dictionary: Arc<dyn Dictionary>,
    /// The detected format, such as "SAELens 6, jumprelu, 24 → 64".
    pub recognised: String,
    /// Warnings for the user.
    pub notes: Vec<String>,
    /// The training record.
    pub record: Option<Record>,
}

impl Artefact for Checkpoint {
    fn sizes(&self) -> Vec<usize> {
        Artefact::sizes(&self.dictionary)
    }

    fn id(&self) -> Result<String> {
        Artefact::id(&self.dictionary)
    }
}

impl Artefact for Record {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(self.id())
    }
}

/// The sample number of every row, where rows are tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples(pub Vec<u32>);

impl Artefact for Samples {
    fn sizes(&self) -> Vec<usize> {
        vec![self.0.len()]
    }

    fn id(&self) -> Result<String> {
        Ok(format!("blake3:{}", blake3::hash(bytemuck::cast_slice(&self.0)).to_hex()))
    }
}

/// A directory with a world that `etalon data` wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldDirectory(pub PathBuf);

impl Artefact for WorldDirectory {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(String::new())
    }
}

impl Artefact for Pool {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(self.name().into())
    }
}

/// The ground truth of a world.
#[derive(Debug)]
pub struct Truth {
    /// The true feature values of every row.
    pub codes: Arc<Codes>,
    /// One direction per feature.
    pub directions: Option<Arc<ActivationStore>>,
}

impl Artefact for Truth {
    fn sizes(&self) -> Vec<usize> {
        vec![self.codes.rows()]
    }

    fn id(&self) -> Result<String> {
        joined_ids(&self.codes, self.directions.as_deref())
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Truth>> {
        Ok(Some(Truth { codes: Arc::new(self.codes.select(rows)?), directions: self.directions.clone() }))
    }

    fn pooled(&self, samples: &[u32], count: usize, pool: Pool) -> Result<Option<Truth>> {
        let codes = Arc::new(self.codes.pooled(samples, count, pool)?);
        Ok(Some(Truth { codes, directions: self.directions.clone() }))
    }
}

/// The hash of the codes, followed by that of the activations if there are any.
fn joined_ids(codes: &Codes, activations: Option<&ActivationStore>) -> Result<String> {
    let codes = codes.id()?;
    Ok(match activations {
        Some(store) => format!("{codes} {}", store.id()?),
        None => codes,
    })
}

/// The output of one generator: row i is its output for the prompt of real row i.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Codes of the generated rows, from the dictionary of the real codes.
    pub codes: Arc<Codes>,
    /// Embeddings of the generated rows.
    pub embeddings: Option<Arc<ActivationStore>>,
}

impl Artefact for Generated {
    fn sizes(&self) -> Vec<usize> {
        vec![self.codes.rows(), self.codes.latents()]
    }

    fn id(&self) -> Result<String> {
        joined_ids(&self.codes, self.embeddings.as_deref())
    }

    fn keep_rows(&self, rows: &[usize]) -> Result<Option<Generated>> {
        Ok(Some(Generated { codes: Arc::new(self.codes.select(rows)?), embeddings: self.embeddings.clone() }))
    }
}

impl ByRow for Generated {
    type Batch<'a> = CodesView<'a>;

    fn batch(&self, rows: Range<usize>) -> Result<CodesView<'_>> {
        self.codes.view(rows)
    }
}

impl Artefact for TextRun {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(self.id())
    }
}

impl Artefact for EntitySet {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(self.id().to_string())
    }
}

impl Artefact for Arc<dyn SentenceEncoder> {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(SentenceEncoder::id(&**self))
    }
}

impl Artefact for Arc<dyn Judge> {
    fn sizes(&self) -> Vec<usize> {
        Vec::new()
    }

    fn id(&self) -> Result<String> {
        Ok(Judge::id(&**self))
    }
}
