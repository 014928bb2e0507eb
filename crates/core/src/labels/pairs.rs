//! Pairs of rows that differ in one named thing.

use super::Concept;
use crate::error::{InputError, Result};

/// Two rows that differ in what was added and what was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The row before the change.
    pub before: usize,
    /// The row after it.
    pub after: usize,
    /// The concept that `after` has and `before` has not.
    pub added: Option<Concept>,
    /// The concept that `before` has and `after` has not.
    pub removed: Option<Concept>,
}

/// Pairs in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairSet {
    /// The pairs.
    pub pairs: Vec<Pair>,
}

impl PairSet {
    /// Checks that every pair lies within `rows` rows and `concepts` concepts, and changes something.
    pub fn check(&self, rows: usize, concepts: usize) -> Result<()> {
        for (place, pair) in self.pairs.iter().enumerate() {
            for (side, row) in [("before", pair.before), ("after", pair.after)] {
                if row >= rows {
                    return Err(InputError::new("a pair names a row that the codes do not have")
                        .expected(format!("a row below {rows}"))
                        .found(row)
                        .at(format!("pair {place}, column `{side}`"))
                        .advice("rows are counted from 0 in the codes of the pairs")
                        .into());
                }
            }
            for (side, concept) in [("added", pair.added), ("removed", pair.removed)] {
                if let Some(concept) = concept.filter(|concept| concept.0 as usize >= concepts) {
                    return Err(InputError::new("a pair names a concept that the labels do not have")
                        .expected(format!("a concept below {concepts}"))
                        .found(concept.0)
                        .at(format!("pair {place}, column `{side}`"))
                        .into());
                }
            }
            if pair.added.is_none() && pair.removed.is_none() {
                return Err(InputError::new("a pair changes nothing")
                    .expected("a concept in `added`, in `removed`, or in both")
                    .found("both empty")
                    .at(format!("pair {place}"))
                    .into());
            }
        }
        Ok(())
    }

    /// The content address.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for pair in &self.pairs {
            let concept = |concept: Option<Concept>| concept.map_or(u64::MAX, |concept| u64::from(concept.0));
            for part in [pair.before as u64, pair.after as u64, concept(pair.added), concept(pair.removed)] {
                hash.update(&part.to_le_bytes());
            }
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }
}
