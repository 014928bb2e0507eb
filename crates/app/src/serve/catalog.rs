//! All resources by exact address. A static export is the same table written to disk.

use std::fs;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use etalon::context::Budget;
use etalon::error::{Error, Result};
use etalon::results::Archive;

use super::bundle;
use super::content::Content;
use super::directions::Directions;
use super::response::{Resource, tag};

const JSON: &str = "application/json; charset=utf-8";

/// Longer responses are written while they are sent.
const MAX_IN_MEMORY: u64 = 1 << 20;

/// A results directory and the files next to the results. Reads it again when the page is loaded and files have changed.
pub struct Catalog {
    directory: PathBuf,
    title: String,
    /// Memory limit of the content.
    memory: u64,
    /// The file given with `--directions`, which may be elsewhere.
    directions: Option<PathBuf>,
    /// Locked while the directory is read again, so that only one request does it.
    snapshot: Mutex<Snapshot>,
    current: Mutex<Arc<Content>>,
}

/// The state of the directory that was read last.
struct Snapshot {
    stamp: Stamp,
    /// The content before that, which slow readers may still use.
    previous: Weak<Content>,
}

/// Names, lengths and modification times of the files.
type Stamp = Vec<(PathBuf, u64, Option<SystemTime>)>;

impl Catalog {
    /// Reads a results directory. Unreadable directions are an error if given explicitly, and a listed problem if found next
    /// to the results.
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

    /// Number of results.
    pub fn results(&self) -> usize {
        self.content().results()
    }

    /// All data addresses, in order.
    pub fn addresses(&self) -> Vec<String> {
        self.content().addresses()
    }

    /// The resource at an address, if any.
    pub fn get(&self, path: &str) -> Result<Option<Resource>> {
        match path {
            "/" | "/index.html" => return Ok(Some(Resource::whole("text/html; charset=utf-8", bundle::PAGE))),
            "/app.js" => return Ok(Some(Resource::whole("text/javascript; charset=utf-8", bundle::SCRIPT))),
            "/app.css" => return Ok(Some(Resource::whole("text/css; charset=utf-8", bundle::STYLE))),
            "/api/v1/manifest.json" => self.refresh()?,
            _ => {}
        }
        let content = self.content();
        match path.strip_prefix("/img/") {
            Some(hash) => {
                let picture = content.samples.pictures.open(hash);
                Ok(picture.map(|picture| Resource::image(picture.kind, picture.length, picture.file)))
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
        // While a response from the previous content is still being sent, keep the current one: at most two are in memory.
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

/// Ignores poisoning: no panic can leave the protected values half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stamp(directory: &Path) -> Stamp {
    let mut stamp = Stamp::new();
    for folder in
        [directory.to_path_buf(), directory.join("results"), directory.join("layouts"), directory.join("images")]
    {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // Skip folders, whose time changes with every temporary file.
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

/// The JSON of an address. Long JSON is written twice, once for its tag and length and once while it is sent, so memory
/// does not depend on the number and speed of readers.
fn json(content: Arc<Content>, path: &str) -> Result<Option<Resource>> {
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
            if measure.length <= MAX_IN_MEMORY {
                return Ok(Some(Resource::whole(JSON, measure.bytes)));
            }
            let measured = (tag(&measure.hash.finalize()), measure.length);
            lock(&content.long).insert(path.into(), measured.clone());
            measured
        }
    };
    let path = path.to_string();
    let write = move |out: &mut dyn Write| content.write(&path, out).map(drop).map_err(std::io::Error::other);
    Ok(Some(Resource::streamed(JSON, tag, length, write)))
}

/// Hash and length of the written bytes, and the bytes themselves up to [`MAX_IN_MEMORY`].
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
        if self.length <= MAX_IN_MEMORY {
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
