//! The named tensors of a checkpoint, independent of the file format.

use std::collections::BTreeMap;

use super::shape::format_shape;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// An array of any number of dimensions, in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The dimensions; none for a single number.
    pub shape: Vec<usize>,
    /// The values, the last index changing fastest.
    pub values: Vec<f32>,
}

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// Collects tensors: reserves their memory and checks their values.
pub(super) struct Collector<'a> {
    budget: &'a Budget,
    memory: Vec<Reservation>,
    tensors: Tensors,
}

impl<'a> Collector<'a> {
    pub fn new(budget: &'a Budget) -> Collector<'a> {
        Collector { budget, memory: Vec::new(), tensors: Tensors::new() }
    }

    /// Reserves memory for `length` values. Call it before they are allocated.
    pub fn reserve(&mut self, name: &str, length: usize) -> Result<()> {
        self.memory.push(self.budget.reserve((length as u64).saturating_mul(4), format!("the tensor `{name}`"))?);
        Ok(())
    }

    /// Adds a tensor; its name must be new and its values finite.
    pub fn insert(&mut self, name: String, tensor: Tensor) -> Result<()> {
        check_finite(&name, &tensor.shape, &tensor.values)?;
        if self.tensors.contains_key(&name) {
            return Err(InputError::new("two tensors have the same name")
                .expected("unique names")
                .found(name)
                .advice("rename one of them and save the file again")
                .into());
        }
        self.tensors.insert(name, tensor);
        Ok(())
    }

    /// The tensors.
    pub fn finish(self) -> Tensors {
        self.tensors
    }
}

/// Refuses tensors with NaN or infinite values.
pub(super) fn check_finite(name: &str, shape: &[usize], values: &[f32]) -> Result<()> {
    // Chunks without an exit in between are checked with vector instructions.
    let wrong = |values: &[f32]| values.iter().fold(false, |wrong, value| wrong | !value.is_finite());
    if !values.chunks(1 << 12).any(wrong) {
        return Ok(());
    }
    let mut bad = values.iter().enumerate().filter(|(_, value)| !value.is_finite());
    let Some((first, value)) = bad.next() else { return Ok(()) };
    Err(InputError::new(format!("{} values of a tensor are NaN or infinite", 1 + bad.count()))
        .expected("finite numbers")
        .found(value)
        .at(format!("tensor `{name}` of {}, first at value {first}", format_shape(shape)))
        .advice("check whether the training diverged, or copy the file again")
        .into())
}
