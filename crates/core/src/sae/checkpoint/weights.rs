//! The tensors of a checkpoint, read by name and expected shape.

use std::path::{Path, PathBuf};

use crate::context::Budget;
use crate::error::{InputError, Result};
use crate::input::{Tensor, Tensors, read_tensors};

/// The tensors of one file.
pub(super) struct Weights {
    file: PathBuf,
    tensors: Tensors,
    /// All names in the file, also of tensors that were taken.
    names: Vec<String>,
}

impl Weights {
    /// Reads every tensor of a file.
    pub fn read(file: &Path, budget: &Budget) -> Result<Weights> {
        Ok(Weights::new(file, read_tensors(file, budget)?))
    }

    /// The tensors that were read from a file.
    pub fn new(file: &Path, tensors: Tensors) -> Weights {
        Weights { file: file.to_path_buf(), names: tensors.keys().cloned().collect(), tensors }
    }

    /// The names of the tensors that were not taken.
    pub fn rest(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The file, for error messages.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Renames tensors; drops those whose new name is `None`.
    pub fn renamed(mut self, rename: impl Fn(&str) -> Option<String>) -> Weights {
        let tensors = std::mem::take(&mut self.tensors);
        self.tensors = tensors.into_iter().filter_map(|(name, tensor)| Some((rename(&name)?, tensor))).collect();
        self
    }

    /// Whether there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The name of the first tensor with this suffix.
    pub fn with_suffix(&self, suffix: &str) -> Option<String> {
        self.tensors.keys().find(|name| name.ends_with(suffix)).cloned()
    }

    fn missing(&self, name: &str) -> InputError {
        let mut names: Vec<&str> = self.names.iter().map(String::as_str).take(20).collect();
        if self.names.len() > names.len() {
            names.push("…");
        }
        InputError::new("a tensor is missing")
            .expected(format!("`{name}`"))
            .found(if names.is_empty() { "no tensors".into() } else { names.join(", ") })
            .file(&self.file)
    }

    /// The two dimensions of a matrix.
    pub fn matrix(&self, name: &str) -> Result<(usize, usize)> {
        let tensor = self.tensors.get(name).ok_or_else(|| self.missing(name))?;
        match tensor.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(self.wrong_shape(name, "two dimensions", &tensor.shape).into()),
        }
    }

    fn wrong_shape(&self, name: &str, expected: &str, found: &[usize]) -> InputError {
        InputError::new("a tensor has the wrong shape")
            .expected(expected)
            .found(format!("{found:?}"))
            .at(format!("tensor `{name}`"))
            .file(&self.file)
    }

    /// Takes a tensor of a given shape.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        let Tensor { shape: found, values } = self.tensors.remove(name).ok_or_else(|| self.missing(name))?;
        if found != shape {
            return Err(self.wrong_shape(name, &format!("{shape:?}"), &found).into());
        }
        Ok(values)
    }

    /// Takes a matrix that is stored transposed, as `columns` × `rows`.
    pub fn take_transposed(&mut self, name: &str, rows: usize, columns: usize) -> Result<Vec<f32>> {
        Ok(transposed(&self.take(name, &[columns, rows])?, rows))
    }

    /// Takes a single number, stored as a scalar or as a list of one.
    pub fn take_number(&mut self, name: &str) -> Result<f32> {
        let Tensor { shape, values } = self.tensors.remove(name).ok_or_else(|| self.missing(name))?;
        match values[..] {
            [value] => Ok(value),
            _ => Err(self.wrong_shape(name, "a single number", &shape).into()),
        }
    }
}

/// The transpose of a matrix with rows of length `width`.
pub(super) fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let rows = values.len().checked_div(width).unwrap_or(0);
    let mut out = vec![0.0; values.len()];
    // In blocks, so that both sides stay in the cache.
    for first in (0..rows).step_by(16) {
        for column in 0..width {
            for row in first..rows.min(first + 16) {
                out[column * rows + row] = values[row * width + column];
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transposing_twice_is_the_identity() {
        let values: Vec<f32> = (0..6).map(|value| value as f32).collect();
        assert_eq!(transposed(&values, 3), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
        let values: Vec<f32> = (0..37 * 5).map(|value| value as f32).collect();
        assert_eq!(transposed(&transposed(&values, 5), 37), values);
    }
}
