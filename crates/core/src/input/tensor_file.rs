//! A file of named tensors that are read one at a time, for weights that are larger than the memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::format::Format;
use super::safetensors::{self, SafetensorsFile};
use super::shape::bytes_of;
use super::tensors::check_finite;
use super::torch::Checkpoint;
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};

/// A `.safetensors` or torch file, or a pickle of numpy arrays. Nothing in it is executed.
pub struct TensorFile {
    path: PathBuf,
    tensors: BTreeMap<String, Description>,
    content: Content,
    budget: Budget,
}

/// What the header of the file says about a tensor.
struct Description {
    shape: Vec<usize>,
    number: String,
}

enum Content {
    Safetensors(SafetensorsFile),
    Torch(Checkpoint),
}

impl TensorFile {
    /// Opens a file and reads the names and shapes of its tensors.
    pub fn open(path: &Path, budget: &Budget) -> Result<TensorFile> {
        let (content, tensors) = TensorFile::describe(path, budget).in_file(path)?;
        Ok(TensorFile { path: path.to_path_buf(), tensors, content, budget: budget.clone() })
    }

    fn describe(path: &Path, budget: &Budget) -> Result<(Content, BTreeMap<String, Description>)> {
        match Format::of(path)? {
            Format::Safetensors => {
                let file = safetensors::open(path)?;
                let describe = |name: String| {
                    let (shape, number) = file.describe(&name)?;
                    let shape = shape.to_vec();
                    Some((name, Description { shape, number }))
                };
                let tensors = file.names().into_iter().filter_map(describe).collect();
                Ok((Content::Safetensors(file), tensors))
            }
            Format::Torch => {
                let file = Checkpoint::open(path, budget)?;
                let describe = |(name, plan): (&String, &super::torch::ReadPlan)| {
                    (name.clone(), Description { shape: plan.shape().to_vec(), number: plan.number().to_string() })
                };
                let tensors = file.plans().iter().map(describe).collect();
                Ok((Content::Torch(file), tensors))
            }
            other => Err(InputError::new("not a file with named tensors")
                .expected("safetensors, a torch checkpoint, or a pickle of numpy arrays")
                .found(other.name())
                .advice("save the tensors with safetensors.torch.save_file")
                .into()),
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The format, for messages: `safetensors` or `torch`.
    pub fn format(&self) -> &'static str {
        match &self.content {
            Content::Safetensors(_) => "safetensors",
            Content::Torch(_) => "torch",
        }
    }

    /// The names of the tensors, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|tensor| tensor.shape.as_slice())
    }

    /// The number type of a tensor, such as `float16`.
    pub fn number(&self, name: &str) -> Option<&str> {
        self.tensors.get(name).map(|tensor| tensor.number.as_str())
    }

    /// Reads a tensor as `f32`, in C order. Values must be finite. The budget must have room for them; the caller
    /// reserves the memory if it keeps them.
    pub fn read(&self, name: &str) -> Result<Vec<f32>> {
        self.values(name).in_file(&self.path)
    }

    fn values(&self, name: &str) -> Result<Vec<f32>> {
        let Some(tensor) = self.tensors.get(name) else {
            return Err(Error::Bug(format!("no tensor `{name}` in {}", self.path.display())));
        };
        let bytes = bytes_of(&tensor.shape, 4).unwrap_or(u64::MAX);
        let _memory = self.budget.reserve(bytes, format!("the tensor `{name}`"))?;
        let values = match &self.content {
            Content::Safetensors(file) => file.values(name)?,
            Content::Torch(file) => file.values(name, &self.budget)?,
        };
        check_finite(name, &tensor.shape, &values)?;
        Ok(values)
    }
}
