//! A tensor of a checkpoint as rows.

use super::super::source::key_error;
use super::super::tensors::Tensor;
use super::super::{RowReader, Shape, Source};
use super::read_tensors;
use crate::context::{Budget, Reservation};
use crate::error::Result;

/// Opens a tensor of a checkpoint as rows. Reads the whole checkpoint, which is small.
pub(in super::super) fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let mut tensors = read_tensors(&source.path, budget)?;
    let rows = |tensor: &Tensor| (2..=3).contains(&tensor.shape.len());
    let key = match &source.key {
        Some(key) => Some(key.clone()),
        None => {
            let mut names =
                tensors.iter().filter(|(_, tensor)| tensors.len() == 1 || rows(tensor)).map(|(name, _)| name);
            names.next().filter(|_| names.next().is_none()).cloned()
        }
    };
    let Some(tensor) = key.and_then(|key| tensors.remove(&key)) else {
        return Err(key_error(source.key.as_deref(), tensors.into_keys().collect()).into());
    };
    let shape = Shape::of(&tensor.shape)?;
    let memory = budget.reserve(tensor.values.len() as u64 * 4, "a tensor of a checkpoint")?;
    Ok(Box::new(TensorRows { values: tensor.values, used: 0, shape, _memory: memory }))
}

/// The rows of a tensor in memory.
struct TensorRows {
    values: Vec<f32>,
    /// Values that were read.
    used: usize,
    shape: Shape,
    _memory: Reservation,
}

impl RowReader for TensorRows {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        "torch tensor"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let rows = out.len().min(self.values.len() - self.used) / self.shape.width;
        let length = rows * self.shape.width;
        out[..length].copy_from_slice(&self.values[self.used..self.used + length]);
        self.used += length;
        Ok(rows)
    }
}
