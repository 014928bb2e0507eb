//! Checks that the inputs of an evaluation fit together, before anything is computed from them.

use std::collections::BTreeMap;

use super::inputs::Inputs;
use super::role::{Axis, Item};
use super::roles::{CODES, GENERATED, LABELS, PAIR_CODES, PAIR_LABELS, PAIRS};
use crate::error::{InFile, InputError, Result};

impl Inputs {
    /// Checks that all inputs fit together; see [`Inputs::check_axes`] and [`Inputs::check_pairs`].
    pub fn check(&self) -> Result<()> {
        self.check_axes()?;
        self.check_sources()?;
        self.check_pairs()
    }

    /// Checks that inputs with a common axis agree on its size, and on the names of concepts.
    pub fn check_axes(&self) -> Result<()> {
        let mut seen: BTreeMap<(Axis, &str), (&Item, usize)> = BTreeMap::new();
        for item in &self.0 {
            let sizes = item.value.sizes();
            for (&axis, size) in item.card().axes.iter().zip(sizes).filter(|(axis, _)| **axis != Axis::Free) {
                let source = if axis == Axis::SourceRows { item.name.as_str() } else { "" };
                let (other, expected) = *seen.entry((axis, source)).or_insert((item, size));
                if size != expected {
                    return Err(different_sizes(axis, (other, expected), (item, size)).into());
                }
                if axis == Axis::Concepts {
                    check_names(other, item)?;
                }
            }
        }
        Ok(())
    }

    /// Checks that generators have distinct names and one row for every row under test.
    fn check_sources(&self) -> Result<()> {
        let real = self.find(&CODES).map(|codes| codes.rows());
        let mut names: Vec<&str> = Vec::new();
        for (name, generated) in self.all(&GENERATED) {
            if name.trim().is_empty() {
                return Err(InputError::new("a generator has no name").expected("NAME=PATH").into());
            }
            if names.contains(&name) {
                return Err(InputError::new(format!("two generators are called `{name}`"))
                    .expected("a different name for every generator")
                    .into());
            }
            names.push(name);
            let embeddings = generated.embeddings.as_ref().map(|store| store.rows());
            let rows = generated.codes.rows();
            for (expected, found, advice) in [
                (real, Some(rows), "generate one row per real row, in its order"),
                (Some(rows), embeddings, "take both from the same run"),
            ] {
                if let (Some(expected), Some(found)) = (expected, found)
                    && expected != found
                {
                    return Err(InputError::new(format!("the generator `{name}` has a different number of rows"))
                        .expected(format!("{expected} rows"))
                        .found(format!("{found} rows"))
                        .advice(advice)
                        .into());
                }
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

fn different_sizes(axis: Axis, (one, expected): (&Item, usize), (other, found): (&Item, usize)) -> InputError {
    let unit = axis.name();
    InputError::new(format!("{} and {} differ in {unit}", one.label(), other.label()))
        .expected(format!("{expected} {unit}{}", one.source()))
        .found(format!("{found} {unit}{}", other.source()))
        .advice(axis.help())
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
