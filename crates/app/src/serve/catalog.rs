//! Everything that can be asked for, under its exact address. A static export is the same table written to disk.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use etalon::context::Budget;
use etalon::error::{Error, Result};
use etalon::results::Archive;

use super::answer::{self, Answer};
use super::bundle;
use super::content::Content;
use super::directions::Directions;

const JSON: &str = "application/json; charset=utf-8";

/// Longer answers are written while they are sent.
const LARGEST_WHOLE: u64 = 1 << 20;

/// A results directory with everything beside the results. Reads it again when the page is loaded and files have changed.
pub struct Catalog {
    directory: PathBuf,
    title: String,
    /// The memory for the content of the directory.
    memory: u64,
    /// The file of directions that was named; it need not be in the directory.
    directions: Option<PathBuf>,
    /// Held while the directory is read again, so that only one request does it.
    snapshot: Mutex<Snapshot>,
    current: Mutex<Arc<Content>>,
}

/// Which state of the directory was read last.
struct Snapshot {
    stamp: Stamp,
    /// What was read before; slow readers may still use it.
    previous: Weak<Content>,
}

/// Names, lengths and times of the files: what changes when a run adds results.
type Stamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

impl Catalog {
    /// Reads a results directory. Directions that are named must be readable; those beside the results are a problem to
    /// show when they are not.
    pub fn open(directory: &Path, title: String, directions: Option<&Path>, budget: &Budget) -> Result<Catalog> {
        Archive::open_existing(directory)?;
        let memory = budget.left();
        directions.map(|path| Directions::read(path, &Budget::new(memory))).transpose()?;
        let snapshot = Snapshot { stamp: stamp(directory), previous: Weak::new() };
        let content = Content::read(directory, &title, directions, memory)?;
        Ok(Catalog {
            directory: directory.into(),
            title,
            memory,
            directions: directions.map(PathBuf::from),
            snapshot: Mutex::new(snapshot),
            current: Mutex::new(Arc::new(content)),
        })
    }

    /// How many results there are.
    pub fn results(&self) -> usize {
        self.content().results()
    }

    /// Every address of the data, in order.
    pub fn addresses(&self) -> Vec<String> {
        self.content().addresses()
    }

    /// The answer to an address; `None` when there is nothing under it.
    pub fn get(&self, path: &str) -> Result<Option<Answer>> {
        match path {
            "/" | "/index.html" => return Ok(Some(Answer::whole("text/html; charset=utf-8", bundle::PAGE))),
            "/app.js" => return Ok(Some(Answer::whole("text/javascript; charset=utf-8", bundle::SCRIPT))),
            "/app.css" => return Ok(Some(Answer::whole("text/css; charset=utf-8", bundle::STYLE))),
            "/api/v1/manifest.json" => self.refresh()?,
            _ => {}
        }
        let content = self.content();
        match path.strip_prefix("/img/") {
            Some(hash) => {
                let picture = content.samples.pictures.open(hash);
                Ok(picture.map(|picture| Answer::image(picture.kind, picture.length, picture.file)))
            }
            None => json(content, path),
        }
    }

    fn content(&self) -> Arc<Content> {
        lock(&self.current).clone()
    }

    fn refresh(&self) -> Result<()> {
        let mut snapshot = lock(&self.snapshot);
        let stamp = stamp(&self.directory);
        // While an answer from the last content but one is being sent, the page shows the current one: there are never
        // more than two in memory.
        if snapshot.stamp == stamp || snapshot.previous.strong_count() > 0 {
            return Ok(());
        }
        let current = self.content();
        let memory = self.memory.saturating_sub(current.memory);
        let content = Content::read(&self.directory, &self.title, self.directions.as_deref(), memory)?;
        *snapshot = Snapshot { stamp, previous: Arc::downgrade(&current) };
        *lock(&self.current) = Arc::new(content);
        Ok(())
    }
}

/// Nothing that a lock here protects is left half changed by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(directory: &Path) -> Stamp {
    let mut stamp = Stamp::new();
    for folder in
        [directory.to_path_buf(), directory.join("results"), directory.join("layouts"), directory.join("images")]
    {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Folders change their time with every file that is being written.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                stamp.push((entry.path(), metadata.len(), metadata.modified().ok()));
            }
        }
    }
    stamp.sort();
    stamp
}

/// Short JSON as it is; long JSON is written twice, once for its tag and length and once while it is sent, so that
/// memory does not depend on how many browsers read it and how slowly.
fn json(content: Arc<Content>, path: &str) -> Result<Option<Answer>> {
    let known = lock(&content.long).get(path).cloned();
    let (tag, length) = match known {
        Some(known) => known,
        None => {
            let mut measure = BufWriter::with_capacity(1 << 16, Measure::default());
            let written = content.write(path, &mut measure)?;
            let measure = measure.into_inner().map_err(|error| Error::Bug(format!("JSON of {path}: {error}")))?;
            if !written {
                return Ok(None);
            }
            if measure.length <= LARGEST_WHOLE {
                return Ok(Some(Answer::whole(JSON, measure.bytes)));
            }
            let found = (answer::tag(&measure.hash.finalize()), measure.length);
            lock(&content.long).insert(path.into(), found.clone());
            found
        }
    };
    let path = path.to_string();
    let write = move |out: &mut dyn Write| content.write(&path, out).map(drop).map_err(std::io::Error::other);
    Ok(Some(Answer::streamed(JSON, tag, length, write)))
}

/// The hash and length of what is written, and its bytes while they are few.
#[derive(Default)]
struct Measure {
    hash: blake3::Hasher,
    length: u64,
    bytes: Vec<u8>,
}

impl Write for Measure {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        if self.length <= LARGEST_WHOLE {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes = Vec::new();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
