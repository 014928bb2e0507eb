//! A training on disk, beside its output: the state of every dictionary, and `training.json`, written last, which names it.
//! An interrupted training resumes from there and ends with the same bytes.

use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::context::Budget;
use crate::error::{Error, InputError, Key, Result};
use crate::input::{Tensors, read_tensors};
use crate::store::{Lock, disk};

const INDEX: &str = "training.json";

/// What `training.json` says.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    /// What is trained on what; another training must not resume here.
    pub recipe: String,
    /// Steps done.
    pub step: u64,
    /// What inputs are divided by, one per dictionary.
    pub units: Vec<f32>,
    /// Where early stopping stands, one per dictionary.
    pub stops: Vec<Stop>,
    /// How it went so far, one per dictionary.
    pub records: Vec<Record>,
}

/// Where early stopping stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stop {
    /// The smallest error on held-out rows, and the step that reached it.
    pub best: Option<(f64, u64)>,
    /// How often in a row it was not reached.
    pub misses: u32,
    /// The training is over.
    pub stopped: bool,
}

/// The directory of an unfinished training.
pub(super) struct Files {
    directory: PathBuf,
    _lock: Lock,
}

impl Files {
    /// Opens the directory that belongs to an output.
    pub fn open(out: &Path) -> Result<Files> {
        let mut name = out.file_name().unwrap_or_default().to_os_string();
        name.push(".training");
        let directory = out.with_file_name(name);
        let lock = Lock::take(&directory)?;
        Ok(Files { directory, _lock: lock })
    }

    /// Where an earlier run of the same training stopped. What belongs to another one is refused.
    pub fn index(&self, recipe: &str) -> Result<Option<Index>> {
        let path = self.directory.join(INDEX);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(Error::io("read the state of a training", &path))?;
        let index: Index = serde_json::from_str(&text)
            .map_err(|error| InputError::new("the state of a training is damaged").found(error).file(&path))?;
        if index.recipe != recipe {
            return Err(InputError::new("another training is unfinished here")
                .expected("the same options and the same activations as before")
                .advice(format!(
                    "finish it with the same options, choose another {}, or remove this directory",
                    Key("out")
                ))
                .file(&self.directory)
                .into());
        }
        Ok(Some(index))
    }

    fn state(&self, job: usize, step: u64, best: bool) -> PathBuf {
        self.directory.join(format!("{}-{job}-{step}.safetensors", if best { "best" } else { "state" }))
    }

    /// Writes the state of a dictionary.
    pub fn save(&self, job: usize, step: u64, best: bool, tensors: &Tensors) -> Result<()> {
        let bug = |error: safetensors::SafeTensorError| Error::Bug(format!("tensors cannot be written: {error}"));
        let mut views = Vec::new();
        for (name, tensor) in tensors {
            let bytes = bytemuck::cast_slice(&tensor.values);
            views.push((name.as_str(), TensorView::new(Dtype::F32, tensor.shape.clone(), bytes).map_err(bug)?));
        }
        disk::write(&self.state(job, step, best), &safetensors::serialize(views, None).map_err(bug)?)
    }

    /// Reads it back.
    pub fn load(&self, job: usize, step: u64, best: bool, budget: &Budget) -> Result<Tensors> {
        read_tensors(&self.state(job, step, best), budget)
    }

    /// Makes a step the one to resume from, and removes older states.
    pub fn commit(&self, index: &Index) -> Result<()> {
        let text = serde_json::to_string_pretty(index).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(&self.directory.join(INDEX), format!("{text}\n").as_bytes())?;
        let mut wanted = Vec::new();
        for (job, stop) in index.stops.iter().enumerate() {
            wanted.push(self.state(job, index.step, false));
            wanted.extend(stop.best.map(|(_, step)| self.state(job, step, true)));
        }
        self.clean(|path| wanted.contains(path))
    }

    fn clean(&self, keep: impl Fn(&PathBuf) -> bool) -> Result<()> {
        let listed = std::fs::read_dir(&self.directory).map_err(Error::io("list a directory", &self.directory))?;
        let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            if path.extension().is_some_and(|extension| extension == "safetensors") && !keep(&path) {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    /// Removes everything, the index first: without it nothing is taken for a state.
    pub fn finish(self) -> Result<()> {
        disk::remove(&self.directory.join(INDEX))?;
        self.clean(|_| false)?;
        let directory = self.directory.clone();
        drop(self);
        // The lock file is gone; if anything of others is left, the directory stays.
        let _ = std::fs::remove_dir(&directory);
        Ok(())
    }
}
