//! The files of an unfinished training: the state of every dictionary, and `training.json`, which is written last and
//! refers to them. An interrupted training resumes from them and ends with the same bytes.
//!
//! `training.json` has the hash of every state, and ends with a checksum of the lines above it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::record::Record;
use super::shuffle_buffer::BufferState;
use crate::context::Budget;
use crate::error::{Error, InputError, Key, Result};
use crate::input::{Tensor, Tensors, open_regular, read_tensors};
use crate::sae::checkpoint::write_tensors;
use crate::store::{Lock, disk};

const INDEX: &str = "training.json";

/// The last field of the index: a checksum of the text before it.
const CHECK: &str = ",\n  \"check\": ";

/// The field of the index with the hashes of the states, by file name.
const HASHES: &str = "files";

/// The tensor of held-out rows.
const ROWS: &str = "rows";

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
    /// What is subtracted from inputs, one per dictionary; empty for nothing.
    #[serde(default)]
    pub centres: Vec<Vec<f32>>,
    /// The state of early stopping, one per dictionary.
    pub stops: Vec<Stop>,
    /// The training curves so far, one per dictionary.
    pub records: Vec<Record>,
    /// The shuffle buffer, if rows come from a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<BufferState>,
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
    /// The hashes of the states in the directory, by file name.
    hashes: Mutex<BTreeMap<String, String>>,
    _lock: Lock,
}

impl Files {
    /// Locks the directory that belongs to an output.
    pub fn open(out: &Path) -> Result<Files> {
        let mut name = out.file_name().unwrap_or_default().to_os_string();
        name.push(".training");
        let directory = out.with_file_name(name);
        let lock = Lock::take(&directory)?;
        Ok(Files { directory, hashes: Mutex::default(), _lock: lock })
    }

    /// The index of an earlier run of the same training of `jobs` dictionaries. Refuses the files of a different
    /// training.
    pub fn index(&self, recipe: &str, jobs: usize) -> Result<Option<Index>> {
        let path = self.directory.join(INDEX);
        if !path.exists() {
            return Ok(None);
        }
        let text = disk::read(&path).map_err(Error::io("read the state of a training", &path))?;
        let (index, hashes) = parse(&text).map_err(|found| self.damaged(found, &path))?;
        *self.hashes() = hashes;
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
        if [index.units.len(), index.stops.len(), index.records.len()] != [jobs; 3] {
            return Err(self.damaged(format!("not the numbers of {jobs} dictionaries"), &path).into());
        }
        Ok(Some(index))
    }

    fn state(&self, job: usize, step: u64, best: bool) -> PathBuf {
        self.directory.join(format!("{}-{job}-{step}.safetensors", if best { "best" } else { "state" }))
    }

    /// Writes the state of a dictionary.
    pub fn save(&self, job: usize, step: u64, best: bool, tensors: &Tensors) -> Result<()> {
        let path = self.state(job, step, best);
        let hash = write_tensors(&path, tensors)?;
        self.hashes().insert(name_of(&path), hash.to_hex().to_string());
        Ok(())
    }

    /// Reads the state of a dictionary and compares its hash with the one in the index.
    pub fn load(&self, job: usize, step: u64, best: bool, budget: &Budget) -> Result<Tensors> {
        self.read(&self.state(job, step, best), budget)
    }

    fn read(&self, path: &Path, budget: &Budget) -> Result<Tensors> {
        let (file, _) = open_regular(path)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file).map_err(Error::io("read the state of a training", path))?;
        let found = hasher.finalize().to_hex().to_string();
        if self.hashes().get(&name_of(path)) != Some(&found) {
            return Err(self.damaged("another checksum than in training.json".into(), path).into());
        }
        read_tensors(path, budget)
    }

    fn held_out(&self) -> PathBuf {
        self.directory.join("held-out.safetensors")
    }

    /// Writes the held-out rows of a stream, once.
    pub fn save_held_out(&self, rows: &[f32]) -> Result<()> {
        let path = self.held_out();
        if self.hashes().contains_key(&name_of(&path)) {
            return Ok(());
        }
        let tensors = Tensors::from([(ROWS.to_string(), Tensor { shape: vec![rows.len()], values: rows.to_vec() })]);
        let hash = write_tensors(&path, &tensors)?;
        self.hashes().insert(name_of(&path), hash.to_hex().to_string());
        Ok(())
    }

    /// Reads the held-out rows of a stream.
    pub fn load_held_out(&self, budget: &Budget) -> Result<Vec<f32>> {
        let path = self.held_out();
        let rows = self.read(&path, budget)?.remove(ROWS).map(|tensor| tensor.values);
        rows.ok_or_else(|| self.damaged(format!("no tensor `{ROWS}`"), &path).into())
    }

    fn damaged(&self, found: String, file: &Path) -> InputError {
        InputError::new("the state of an unfinished training is damaged")
            .found(found)
            .advice(format!("remove the directory {} to train from the beginning", self.directory.display()))
            .file(file)
    }

    fn hashes(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, String>> {
        // A poisoned lock means that another thread panicked; the map is valid after every operation.
        self.hashes.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Makes a step the one to resume from, and removes older states.
    pub fn commit(&self, index: &Index) -> Result<()> {
        disk::write(&self.directory.join(INDEX), text(index, &self.hashes())?.as_bytes())?;
        let mut current: Vec<PathBuf> = index.stream.iter().map(|_| self.held_out()).collect();
        for (job, stop) in index.stops.iter().enumerate() {
            current.push(self.state(job, index.step, false));
            current.extend(stop.best.map(|(_, step)| self.state(job, step, true)));
        }
        self.hashes().retain(|name, _| current.iter().any(|path| name_of(path) == *name));
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

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The text of an index with the hashes of its states.
fn text(index: &Index, hashes: &BTreeMap<String, String>) -> Result<String> {
    let bug = |error: serde_json::Error| Error::Bug(format!("JSON: {error}"));
    let mut fields = serde_json::to_value(index).map_err(bug)?;
    fields[HASHES] = json!(hashes);
    let text = serde_json::to_string_pretty(&fields).map_err(bug)?;
    let body = text.strip_suffix("\n}").ok_or_else(|| Error::Bug("an index is not a JSON object".into()))?;
    Ok(format!("{body}{CHECK}\"{}\"\n}}\n", checksum(body)))
}

/// An index and the hashes of its states; the error describes the damage.
fn parse(bytes: &[u8]) -> Result<(Index, BTreeMap<String, String>), String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text")?;
    let (body, check) = text.rsplit_once(CHECK).ok_or("no checksum")?;
    if check.trim_end() != format!("\"{}\"\n}}", checksum(body)) {
        return Err("a wrong checksum".into());
    }
    let mut fields: Value = serde_json::from_str(&format!("{body}\n}}")).map_err(|error| error.to_string())?;
    let hashes = fields.as_object_mut().and_then(|fields| fields.remove(HASHES)).unwrap_or_default();
    let hashes = serde_json::from_value(hashes).map_err(|error| error.to_string())?;
    Ok((serde_json::from_value(fields).map_err(|error| error.to_string())?, hashes))
}

fn checksum(text: &str) -> String {
    format!("crc32c:{:08x}", crc32c::crc32c(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flipped_bit_in_the_index_is_found() {
        let record = Record::default();
        let index = Index {
            recipe: "r".into(),
            step: 7,
            units: vec![0.1],
            centres: vec![vec![0.3, -0.1]],
            stops: vec![Stop::default()],
            records: vec![record],
            stream: None,
        };
        let hashes = BTreeMap::from([("state-0-7.safetensors".to_string(), "00".to_string())]);
        let bytes = text(&index, &hashes).unwrap().into_bytes();
        let (read, found) = parse(&bytes).unwrap();
        assert_eq!((read.step, read.units, read.centres, found), (7, vec![0.1], index.centres, hashes));
        // The line break at the end has no meaning.
        for position in 0..bytes.len() - 1 {
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[position] ^= 1 << bit;
                assert!(parse(&wrong).is_err(), "byte {position}, bit {bit}");
            }
        }
    }
}
