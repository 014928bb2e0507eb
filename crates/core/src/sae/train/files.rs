//! The files of an unfinished training: the state of every dictionary, and `training.json`, which is written last and
//! refers to them. An interrupted training resumes from them and ends with the same bytes.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::context::Budget;
use crate::error::{Error, InputError, Key, Result};
use crate::input::{Tensors, read_tensors};
use crate::sae::checkpoint::write_tensors;
use crate::store::{Lock, disk};

const INDEX: &str = "training.json";

/// The contents of `training.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Index {
    /// Hash of settings and data; a different training must not resume here.
    pub recipe: String,
    /// Steps done.
    pub step: u64,
    /// The divisor of inputs, one per dictionary.
    pub units: Vec<f32>,
    /// The state of early stopping, one per dictionary.
    pub stops: Vec<Stop>,
    /// The training curves so far, one per dictionary.
    pub records: Vec<Record>,
}

/// The state of early stopping.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Stop {
    /// The smallest held-out error and its step.
    pub best: Option<(f64, u64)>,
    /// Consecutive evaluations without a smaller error.
    pub misses: u32,
    /// Whether training has stopped.
    pub stopped: bool,
}

/// The directory of an unfinished training.
pub(super) struct Files {
    directory: PathBuf,
    _lock: Lock,
}

impl Files {
    /// Locks the directory that belongs to an output.
    pub fn open(out: &Path) -> Result<Files> {
        let mut name = out.file_name().unwrap_or_default().to_os_string();
        name.push(".training");
        let directory = out.with_file_name(name);
        let lock = Lock::take(&directory)?;
        Ok(Files { directory, _lock: lock })
    }

    /// The index of an earlier run of the same training. Refuses the files of a different training.
    pub fn index(&self, recipe: &str) -> Result<Option<Index>> {
        let path = self.directory.join(INDEX);
        if !path.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&path).map_err(Error::io("read the state of a training", &path))?;
        let index: Index = serde_json::from_str(&text)
            .map_err(|error| InputError::new("the state of a training is damaged").found(error).file(&path))?;
        if index.recipe != recipe {
            return Err(InputError::new("the directory contains a different unfinished training")
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
        write_tensors(&self.state(job, step, best), tensors)
    }

    /// Reads the state of a dictionary.
    pub fn load(&self, job: usize, step: u64, best: bool, budget: &Budget) -> Result<Tensors> {
        read_tensors(&self.state(job, step, best), budget)
    }

    /// Makes a step the one to resume from, and removes older states.
    pub fn commit(&self, index: &Index) -> Result<()> {
        let text = serde_json::to_string_pretty(index).map_err(|error| Error::Bug(format!("JSON: {error}")))?;
        disk::write(&self.directory.join(INDEX), format!("{text}\n").as_bytes())?;
        let mut current = Vec::new();
        for (job, stop) in index.stops.iter().enumerate() {
            current.push(self.state(job, index.step, false));
            current.extend(stop.best.map(|(_, step)| self.state(job, step, true)));
        }
        self.clean(|path| current.contains(path))
    }

    /// Removes the states that `keep` rejects.
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

    /// Removes all files. The index goes first, so that no run resumes from incomplete states.
    pub fn finish(self) -> Result<()> {
        disk::remove(&self.directory.join(INDEX))?;
        self.clean(|_| false)?;
        let directory = self.directory.clone();
        drop(self);
        // Fails, and keeps the directory, if it contains other files.
        let _ = std::fs::remove_dir(&directory);
        Ok(())
    }
}
