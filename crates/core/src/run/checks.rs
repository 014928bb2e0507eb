//! Checks that the inputs of an evaluation fit together, before anything is computed from them.

use std::collections::BTreeMap;

use super::inputs::Inputs;
use super::role::{Axis, Item};
use super::roles::{CODES, GENERATED, LABELS, PAIR_CODES, PAIR_LABELS, PAIRS};
use super::sizes::{AxisSize, check_sizes};
use crate::error::{InFile, InputError, Result};

impl Inputs {
    /// Checks that all inputs fit together; see [`Inputs::check_axes`] and [`Inputs::check_pairs`].
    pub fn check(&self) -> Result<()> {
        self.check_axes()?;
        self.check_sources()?;
        self.check_similarity()?;
        self.check_pairs()
    }

    /// Checks that inputs with a common axis agree on its size, and on the names of concepts.
    pub fn check_axes(&self) -> Result<()> {
        self.check_axes_except(None)
    }

    /// [`Inputs::check_axes`], except of one axis.
    pub(crate) fn check_axes_except(&self, skipped: Option<Axis>) -> Result<()> {
        let is_checked = |axis: Axis| axis != Axis::Free && Some(axis) != skipped;
        let mut seen: BTreeMap<(Axis, &str), (&Item, usize)> = BTreeMap::new();
        for item in &self.0 {
            let sizes = item.value.sizes();
            for (&axis, size) in item.card().axes.iter().zip(sizes).filter(|(axis, _)| is_checked(**axis)) {
                let source = if axis == Axis::SourceRows { item.name.as_str() } else { "" };
                let (other, expected) = *seen.entry((axis, source)).or_insert((item, size));
                check_sizes(axis, measured(other, expected), measured(item, size))?;
                if axis == Axis::Concepts {
                    check_names(other, item)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that generators have distinct names and one row for every row under test.
    fn check_sources(&self) -> Result<()> {
        // All inputs with rows under test have the same number of them. Codes that a dictionary made have no file: the
        // embeddings that it encoded do.
        let tested = || self.0.iter().filter_map(|item| Some((item, item.rows(Axis::Rows)?)));
        let real = tested().find(|(item, _)| item.file.is_some()).or(tested().next()).filter(|_| self.has(&CODES));
        let mut names: Vec<&str> = Vec::new();
        for item in self.0.iter().filter(|item| item.is(&GENERATED)) {
            let name = item.name.as_str();
            if name.trim().is_empty() {
                return Err(InputError::new("a generator has no name").expected("NAME=PATH").into());
            }
            if names.contains(&name) {
                return Err(InputError::new(format!("two generators are called `{name}`"))
                    .expected("a different name for every generator")
                    .into());
            }
            names.push(name);
            if let (Some((real, expected)), Some(rows)) = (real, item.rows(Axis::SourceRows)) {
                check_sizes(Axis::SourceRows, measured(real, expected), measured(item, rows))?;
            }
        }
        for (name, generated) in self.all(&GENERATED) {
            let rows = generated.codes.rows();
            if let Some(store) = generated.embeddings.as_ref().filter(|store| store.rows() != rows) {
                return Err(InputError::new(format!("codes and embeddings of the generator `{name}` differ in rows"))
                    .expected(format!("{rows} rows"))
                    .found(format!("{} rows", store.rows()))
                    .advice("take both from the same run")
                    .into());
            }
        }
        Ok(())
    }

    /// Checks that pairs point to rows and concepts that exist.
    pub fn check_pairs(&self) -> Result<()> {
        let Some(pairs) = self.find(&PAIRS) else { return Ok(()) };
        let codes = self.find(&PAIR_CODES).or(self.find(&CODES));
        let labels = self.find(&LABELS).or(self.find(&PAIR_LABELS));
        let checked = pairs.check(
            codes.map_or(usize::MAX, |codes| codes.rows()),
            labels.map_or(usize::MAX, |labels| labels.concepts()),
        );
        match self.file(&PAIRS) {
            Some(file) => checked.in_file(file),
            None => checked,
        }
    }
}

/// An item and its size along an axis.
fn measured(item: &Item, size: usize) -> AxisSize<'_> {
    AxisSize { label: item.label(), size, file: item.file.as_deref() }
}

fn check_names(one: &Item, other: &Item) -> Result<()> {
    let (Some(expected), Some(found)) = (one.value.concept_names(), other.value.concept_names()) else {
        return Ok(());
    };
    match expected.iter().zip(found).position(|(expected, found)| expected != found) {
        None => Ok(()),
        Some(concept) => Err(InputError::new(format!("{} and {} name different concepts", one.label(), other.label()))
            .expected(format!("`{}` as concept {concept}{}", expected[concept], one.source()))
            .found(format!("`{}`{}", found[concept], other.source()))
            .advice(Axis::Concepts.help())
            .into()),
    }
}
