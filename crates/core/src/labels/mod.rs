//! What is known about the data: concept annotations, pairs that differ in one concept, splits; public data sets, and
//! worlds: synthetic data with known truth.

mod annotations;
mod cells;
mod coco;
mod cub;
mod dataset;
mod pairs;
mod read;
mod row_numbers;
mod splits;
mod syncoco;
mod syncub;
mod words;
pub mod worlds;

pub use annotations::{Annotations, Label};
pub use coco::read_coco;
pub use cub::read_cub;
pub use dataset::{Classes, DataSet};
pub use pairs::{Pair, PairSet};
pub use splits::Partition;
pub use syncoco::read_syncoco;
pub use syncub::read_syncub;
pub use words::{first_letter_prompts, read_words};

/// A concept: a column of the annotations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Concept(pub u32);
