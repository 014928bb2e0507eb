//! What people say is in the data: concept annotations, pairs that differ in one thing, splits.

mod annotations;
mod pairs;

pub use annotations::{Annotations, Label};
pub use pairs::{Pair, PairSet};

/// A concept: a column of the annotations.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Concept(pub u32);
