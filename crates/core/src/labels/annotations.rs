//! Concept annotations with three values: yes, no, unknown.

use super::Concept;
use super::ids::RowIds;
use crate::error::{Error, InputError, Result};
use etalon_kernel::bits::Bits;

/// The annotation of one concept in one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// The concept is present.
    Yes,
    /// The concept is absent.
    No,
    /// Not annotated.
    Unknown,
}

/// Concepts × rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Annotations {
    rows: usize,
    names: Vec<String>,
    yes: Vec<Bits>,
    known: Vec<Bits>,
    /// The ids of the rows, if they have any.
    pub(super) row_ids: Option<RowIds>,
}

impl Annotations {
    /// Annotations from a function of row and concept. Names must be unique.
    pub fn new(names: Vec<String>, rows: usize, mut label: impl FnMut(usize, usize) -> Label) -> Result<Annotations> {
        check_names(&names)?;
        let (mut yes, mut known) = (vec![Bits::empty(rows); names.len()], vec![Bits::empty(rows); names.len()]);
        for row in 0..rows {
            for concept in 0..names.len() {
                match label(row, concept) {
                    Label::Yes => {
                        yes[concept].insert(row);
                        known[concept].insert(row);
                    }
                    Label::No => known[concept].insert(row),
                    Label::Unknown => {}
                }
            }
        }
        Ok(Annotations { rows, names, yes, known, row_ids: None })
    }

    /// Annotations from the rows where each concept is present; every cell is known. Names must be unique.
    pub fn from_yes(names: Vec<String>, rows: usize, yes: Vec<Bits>) -> Result<Annotations> {
        check_names(&names)?;
        if yes.len() != names.len() || yes.iter().any(|bits| bits.len() != rows) {
            return Err(Error::Bug(format!("{} names for {} columns of {rows} rows", names.len(), yes.len())));
        }
        let known = vec![Bits::full(rows); names.len()];
        Ok(Annotations { rows, names, yes, known, row_ids: None })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of concepts.
    pub fn concepts(&self) -> usize {
        self.names.len()
    }

    /// The names of the concepts, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of a concept.
    pub fn name(&self, concept: Concept) -> &str {
        &self.names[concept.0 as usize]
    }

    /// The concept with a name.
    pub fn find(&self, name: &str) -> Option<Concept> {
        self.names.iter().position(|other| other == name).map(|index| Concept(index as u32))
    }

    /// The rows where the concept is present.
    pub fn yes(&self, concept: Concept) -> &Bits {
        &self.yes[concept.0 as usize]
    }

    /// The rows where the concept is annotated.
    pub fn known(&self, concept: Concept) -> &Bits {
        &self.known[concept.0 as usize]
    }

    /// One cell.
    pub fn label(&self, row: usize, concept: Concept) -> Label {
        match (self.known(concept).contains(row), self.yes(concept).contains(row)) {
            (false, _) => Label::Unknown,
            (true, true) => Label::Yes,
            (true, false) => Label::No,
        }
    }

    /// The annotations of some rows, in the order given.
    pub fn select(&self, rows: &[usize]) -> Annotations {
        let pick = |bits: &Bits| {
            Bits::of(
                rows.len(),
                rows.iter().enumerate().filter(|&(_, &row)| bits.contains(row)).map(|(index, _)| index),
            )
        };
        Annotations {
            rows: rows.len(),
            names: self.names.clone(),
            yes: self.yes.iter().map(pick).collect(),
            known: self.known.iter().map(pick).collect(),
            row_ids: self.row_ids.as_ref().map(|ids| ids.select(rows)),
        }
    }

    /// The content address of names and cells.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new();
        hash.update(&(self.rows as u64).to_le_bytes());
        for (concept, name) in self.names.iter().enumerate() {
            hash.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            for bits in [&self.yes[concept], &self.known[concept]] {
                bits.rows().for_each(|row| {
                    hash.update(&(row as u64).to_le_bytes());
                });
                hash.update(&u64::MAX.to_le_bytes());
            }
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }
}

/// Refuses names that occur twice.
fn check_names(names: &[String]) -> Result<()> {
    let mut sorted: Vec<&String> = names.iter().collect();
    sorted.sort();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(()),
        Some(pair) => Err(InputError::new("two concepts have the same name")
            .expected("unique names")
            .found(format!("`{}`", pair[0]))
            .advice("rename one of them")
            .into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_three_values() {
        let cells = [Label::Yes, Label::No, Label::Unknown];
        let labels =
            Annotations::new(vec!["a".into(), "b".into()], 3, |row, concept| cells[(row + concept) % 3]).unwrap();
        assert_eq!(labels.label(2, Concept(0)), Label::Unknown);
        assert_eq!(labels.label(2, Concept(1)), Label::Yes);
        assert_eq!(labels.select(&[2, 2]).yes(Concept(1)).count(), 2);
        assert_eq!(labels.find("b"), Some(Concept(1)));
        assert!(Annotations::new(vec!["a".into(), "a".into()], 0, |_, _| Label::No).is_err());
    }
}
