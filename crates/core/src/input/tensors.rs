//! The named tensors of a checkpoint, whatever file they came in.

use std::collections::BTreeMap;
use std::path::Path;

use super::format::Format;
use super::shape::written;
use super::{npz, safetensors, torch};
use crate::context::{Budget, Reservation};
use crate::error::{InFile, InputError, Result};

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

/// Reads the tensors of a `.safetensors`, `.npz` or torch (`.pt`, `.pth`, `.bin`) file. Nothing in it is executed.
pub fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    let format = Format::of(path)?;
    let tensors = match format {
        Format::Npz => npz::read_tensors(path, budget),
        Format::Safetensors => safetensors::read_tensors(path, budget),
        Format::Torch => torch::read_tensors(path, budget),
        _ => Err(InputError::new("this is not a checkpoint of named tensors")
            .expected("a .safetensors, .npz, .pt, .pth or .bin file")
            .found(format.name())
            .into()),
    };
    tensors.in_file(path)
}

/// Collects tensors while their memory is asked for and their values are checked.
pub(super) struct Collector<'a> {
    budget: &'a Budget,
    memory: Vec<Reservation>,
    tensors: Tensors,
}

impl<'a> Collector<'a> {
    pub fn new(budget: &'a Budget) -> Collector<'a> {
        Collector { budget, memory: Vec::new(), tensors: Tensors::new() }
    }

    /// Asks for the memory of so many values, before they are allocated.
    pub fn reserve(&mut self, name: &str, length: usize) -> Result<()> {
        self.memory.push(self.budget.reserve((length as u64).saturating_mul(4), format!("the tensor `{name}`"))?);
        Ok(())
    }

    /// Adds a tensor; its name must be new and its values finite.
    pub fn insert(&mut self, name: String, tensor: Tensor) -> Result<()> {
        let bad = tensor.values.iter().filter(|value| !value.is_finite()).count();
        if let Some(first) = tensor.values.iter().position(|value| !value.is_finite()) {
            return Err(InputError::new(format!("{bad} values of a tensor are NaN or infinite"))
                .expected("finite numbers")
                .found(tensor.values[first])
                .at(format!("tensor `{name}` of {}, first at value {first}", written(&tensor.shape)))
                .advice("the training diverged, or the file is damaged")
                .into());
        }
        if self.tensors.contains_key(&name) {
            return Err(InputError::new("two tensors have the same name").found(name).into());
        }
        self.tensors.insert(name, tensor);
        Ok(())
    }

    /// The tensors.
    pub fn finish(self) -> Tensors {
        self.tensors
    }
}
