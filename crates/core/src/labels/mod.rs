//! What is known about the data: concept annotations, pairs that differ in one concept, splits; public data sets, and
//! worlds: synthetic data with known truth.
//!
//! ```
//! use etalon::labels::{Annotations, Concept, Label};
//!
//! // Row 0 is striped, row 1 is not, row 2 is not annotated.
//! let striped = [Label::Yes, Label::No, Label::Unknown];
//! let labels = Annotations::new(vec!["striped".into()], 3, |row, _| striped[row])?;
//! assert_eq!((labels.rows(), labels.concepts()), (3, 1));
//! assert_eq!(labels.label(2, Concept(0)), Label::Unknown);
//! # Ok::<(), etalon::error::Error>(())
//! ```

mod annotations;
mod cells;
mod coco;
mod cub;
mod dataset;
mod edited_pairs;
mod entities;
mod factors;
mod ids;
mod pairs;
mod read;
mod row_ids;
mod splits;
mod syncoco;
mod syncub;
mod words;
pub mod worlds;

pub use annotations::{Annotations, Label};
pub use coco::read_coco;
pub use cub::read_cub;
pub use dataset::{Classes, DataSet};
pub use entities::{EntityAttribute, EntityKind, EntitySet, PLACEHOLDER, PromptSplit};
pub use factors::{Factors, MOST_CLASSES};
pub use pairs::{Pair, PairSet};
pub use splits::Partition;
pub use syncoco::read_syncoco;
pub use syncub::read_syncub;
pub use words::{first_letter_prompts, read_words};

/// A concept: a column of the annotations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Concept(pub u32);
