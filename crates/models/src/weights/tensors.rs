//! Named tensors that are read on demand.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use etalon::context::Budget;
use etalon::error::{Error, InputError, Result};
use etalon::input::{Tensors, format_shape};

use super::change::Change;
use super::names::suggestion;
use super::randomised::{is_redrawn, redraw};
use super::source::{Source, finite};

/// The tensors of a model. Nothing but their names and shapes is in memory.
#[derive(Debug)]
pub struct Weights {
    tensors: BTreeMap<String, Stored>,
    budget: Budget,
    /// Values are drawn anew with this seed.
    randomised: Option<u64>,
}

/// A tensor in a file.
#[derive(Debug)]
pub(super) struct Stored {
    source: Source,
    /// What undoes the changes of the program that converted the model.
    change: Change,
    shape: Vec<usize>,
    number: String,
    asked: AtomicBool,
}

impl Stored {
    /// A tensor that is used as it is stored.
    pub fn new(source: Source, shape: &[usize], number: &str) -> Stored {
        let (shape, number) = (shape.to_vec(), number.to_string());
        Stored { source, change: Change::None, shape, number, asked: AtomicBool::new(false) }
    }

    /// A tensor that is changed after it is read.
    pub fn changed(mut self, change: Change) -> Stored {
        self.shape = change.shape(&self.shape);
        self.change = change;
        self
    }

    /// The shape after the change.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn length(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |length, &size| length.checked_mul(size))
    }

    fn read(&self, name: &str, budget: &Budget) -> Result<Vec<f32>> {
        let bytes = self.length().map_or(u64::MAX, |length| length as u64).saturating_mul(4);
        let copies = if self.change.copies() { 2 } else { 1 };
        let _memory = budget.reserve(bytes.saturating_mul(copies), format!("the tensor `{name}`"))?;
        let values = self.change.apply(self.source.read(self.length().unwrap_or(0), budget)?);
        // `etalon::input` has checked its own files.
        if !matches!(self.source, Source::File(..)) {
            finite(name, &self.shape, &values)?;
        }
        Ok(values)
    }
}

impl Weights {
    /// Tensors by name.
    pub(super) fn new(tensors: BTreeMap<String, Stored>, budget: &Budget) -> Weights {
        Weights { tensors, budget: budget.clone(), randomised: None }
    }

    /// The same tensors with matrices, convolutions and embeddings drawn anew.
    pub(super) fn randomised(self, seed: u64) -> Weights {
        Weights { randomised: Some(seed), ..self }
    }

    /// Tensors that are in memory: of a network that was made, not read.
    pub fn in_memory(tensors: Tensors, budget: &Budget) -> Weights {
        let stored =
            |tensor: etalon::input::Tensor| Stored::new(Source::Memory(tensor.values), &tensor.shape, "float32");
        Weights::new(tensors.into_iter().map(|(name, tensor)| (name, stored(tensor))).collect(), budget)
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// True if there is a tensor of this name.
    pub fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(Stored::shape)
    }

    /// The number type in which a tensor is stored, such as `float16` or `Q4_1`.
    pub fn number(&self, name: &str) -> Option<&str> {
        self.tensors.get(name).map(|tensor| tensor.number.as_str())
    }

    /// The memory that all tensors take as `f32`, in bytes.
    pub fn size(&self) -> u64 {
        let lengths = self.tensors.values().map(|tensor| tensor.length().map_or(u64::MAX, |length| length as u64));
        lengths.fold(0u64, |sum, length| sum.saturating_add(length)).saturating_mul(4)
    }

    /// Reads a tensor as `f32`, in C order. It must exist and have this shape, and its values must be finite.
    ///
    /// The budget must have room for the values; the caller reserves the memory if it keeps them.
    pub fn tensor(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>> {
        match self.optional(name, shape)? {
            Some(values) => Ok(values),
            None => Err(self.missing(name, shape).into()),
        }
    }

    /// Reads a tensor that may be missing.
    pub fn optional(&self, name: &str, shape: &[usize]) -> Result<Option<Vec<f32>>> {
        let Some(tensor) = self.tensors.get(name) else { return Ok(None) };
        tensor.asked.store(true, Ordering::Relaxed);
        if tensor.shape != shape {
            let error = InputError::new(format!("the tensor `{name}` has the wrong shape"))
                .expected(format_shape(shape))
                .found(format_shape(&tensor.shape))
                .advice("check that the configuration and the weights are of the same model");
            return Err(located(error.into(), tensor.source.path()));
        }
        let mut values = tensor.read(name, &self.budget).map_err(|error| located(error, tensor.source.path()))?;
        if let Some(seed) = self.randomised
            && is_redrawn(&tensor.shape)
        {
            redraw(name, seed, &mut values);
        }
        Ok(Some(values))
    }

    /// The tensors that were not read, sorted. A network that leaves some unread does not fit the file.
    pub fn unread(&self) -> Vec<String> {
        let unread = self.tensors.iter().filter(|(_, tensor)| !tensor.asked.load(Ordering::Relaxed));
        unread.map(|(name, _)| name.clone()).collect()
    }

    /// Name, shape and number type of every tensor, for hashes.
    pub(super) fn describe(&self) -> impl Iterator<Item = (&str, &[usize], &str)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), &tensor.shape[..], tensor.number.as_str()))
    }

    /// Adds all values to a hash, for tensors that are in no file.
    pub(super) fn hash_values(&self, hash: &mut blake3::Hasher) -> Result<()> {
        for (name, tensor) in &self.tensors {
            for value in tensor.read(name, &self.budget)? {
                hash.update(&value.to_le_bytes());
            }
        }
        Ok(())
    }

    fn missing(&self, name: &str, shape: &[usize]) -> InputError {
        let error = InputError::new(format!("the tensor `{name}` is missing"))
            .expected(format!("a tensor `{name}` of {}", format_shape(shape)))
            .found(format!("{} other tensors", self.tensors.len()));
        let error = match suggestion(name, self.names()) {
            Some(close) => error.advice(format!(
                "the closest name is `{close}`; check that the file has the weights of this architecture"
            )),
            None => error.advice("check that the file has the weights of this architecture"),
        };
        match self.tensors.values().find_map(|tensor| tensor.source.path()) {
            Some(path) => error.file(path),
            None => error,
        }
    }
}

/// Adds the file to an input error.
fn located(error: Error, path: Option<&Path>) -> Error {
    match (error, path) {
        (Error::Input(input), Some(path)) => input.file(path).into(),
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon::input::Tensor;

    fn weights(budget: &Budget) -> Weights {
        let tensor = |shape: &[usize], values: &[f32]| Tensor { shape: shape.to_vec(), values: values.to_vec() };
        let tensors = [
            ("layer.0.weight".to_string(), tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])),
            ("layer.0.bias".to_string(), tensor(&[2], &[1.0, f32::NAN])),
            ("step".to_string(), tensor(&[], &[7.0])),
        ];
        Weights::in_memory(tensors.into(), budget)
    }

    #[test]
    fn tensors_are_read_by_name_and_shape() {
        let weights = weights(&Budget::new(1 << 10));
        assert_eq!(weights.names().collect::<Vec<_>>(), ["layer.0.bias", "layer.0.weight", "step"]);
        assert_eq!((weights.has("step"), weights.shape("step"), weights.size()), (true, Some(&[][..]), 28));
        assert_eq!(weights.number("layer.0.weight"), Some("float32"));
        assert_eq!(weights.tensor("layer.0.weight", &[2, 2]).unwrap(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(weights.optional("step", &[]).unwrap(), Some(vec![7.0]));
        assert_eq!(weights.optional("other", &[9]).unwrap(), None);
        assert_eq!(weights.unread(), ["layer.0.bias"]);
    }

    #[test]
    fn errors_name_the_tensor_and_what_was_expected() {
        let weights = weights(&Budget::new(1 << 10));
        let error = |name: &str, shape: &[usize]| weights.tensor(name, shape).unwrap_err().to_string();
        let missing = error("layer.1.weight", &[2, 2]);
        assert!(missing.starts_with("the tensor `layer.1.weight` is missing\n  expected: "), "{missing}");
        assert!(missing.contains("2 × 2") && missing.contains("closest name is `layer.0.weight`"), "{missing}");
        let shape = error("layer.0.weight", &[4]);
        assert!(shape.contains("`layer.0.weight` has the wrong shape\n  expected: 4\n  found: 2 × 2"), "{shape}");
        let finite = error("layer.0.bias", &[2]);
        assert!(finite.contains("`layer.0.bias`") && finite.contains("value 1 of 2 is NaN"), "{finite}");
    }

    #[test]
    fn values_need_room_in_the_budget() {
        let budget = Budget::new(16);
        let weights = weights(&budget);
        let kept = budget.reserve(1, "something").unwrap();
        assert!(weights.tensor("layer.0.weight", &[2, 2]).unwrap_err().to_string().contains("`layer.0.weight`"));
        drop(kept);
        weights.tensor("layer.0.weight", &[2, 2]).unwrap();
        assert_eq!(budget.left(), 16);
    }
}
