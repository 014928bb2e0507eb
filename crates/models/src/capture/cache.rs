//! Captures that are kept in the cache, so that evaluations and trainings can name a network instead of a store.
//!
//! A cached capture is `captures/NAME`, where NAME is the beginning of its identity. Beside it is `NAME.lock`: locked by all
//! processes that read the capture, or by the one that writes or removes it. `use.json` in the capture says when and with
//! which copy of the network it was last used.

use std::cmp::Reverse;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use etalon::context::Context;
use etalon::error::{Command, Error, InputError, Result};
use etalon::store::disk;
use serde_json::{Value, json};

use super::letter_words::completed;
use super::{ABOUT, CaptureRequest, Captured, Prepared, finished};
use crate::data::{cache_directory, forget_inputs};

/// Characters of the identity in a name.
const NAME: usize = 16;

/// Time between two attempts to lock a capture that another process writes.
const WAIT: Duration = Duration::from_millis(50);

/// The file that records the last use.
const USE: &str = "use.json";

/// Ends the name of a directory that is being removed.
const REMOVED: &str = ".removed";

/// A capture in the cache. It is not removed while this value exists.
#[derive(Debug)]
pub struct Cached {
    /// The directory of the capture.
    pub directory: PathBuf,
    /// Its store, and its labels.
    pub captured: Captured,
    /// Locked until it is closed.
    _file: File,
}

/// What is known about a capture in the cache.
#[derive(Clone, Debug)]
pub struct CachedCapture {
    /// The name in the cache.
    pub name: String,
    /// The directory.
    pub directory: PathBuf,
    /// The size of all its files.
    pub bytes: u64,
    /// Whether it is complete; if not, the same capture continues it.
    pub finished: bool,
    /// The network, the input and the sites, as they were given; empty if it is not complete.
    pub model: String,
    /// The input.
    pub input: String,
    /// The sites.
    pub sites: Vec<String>,
    /// Milliseconds since 1970 at the last use, or at the last change of its directory if it was not used yet.
    pub used: u64,
}

/// Captures one site into the cache, or finds the capture there. Afterwards the captures that were not used for the longest
/// time are removed until all of them together have at most `most` bytes.
pub fn capture_cached(request: &CaptureRequest, most: u64, context: &Context) -> Result<Cached> {
    let root = root(request.options.cache.as_deref())?;
    let request = &completed(request, context)?;
    let prepared = Prepared::new(request, true, context)?;
    let name: String = prepared.id.trim_start_matches("blake3:").chars().take(NAME).collect();
    let directory = root.join(&name);
    disk::make_directory(&root)?;
    loop {
        let file = lock(&root, &name, Sharing::Read, context)?;
        if let Some(captured) = finished(&directory, &prepared.id)? {
            record_use(&directory, &prepared.path)?;
            make_room(&root, most)?;
            return Ok(Cached { directory, captured, _file: file });
        }
        drop(file);
        // Another process may have captured the same, or may have removed it: look again with the lock of a reader.
        let _file = lock(&root, &name, Sharing::Write, context)?;
        if finished(&directory, &prepared.id)?.is_none() {
            prepared.run(request, &directory, context)?;
        }
    }
}

/// All captures in the cache, the last used ones first.
pub fn cached(cache: Option<&Path>) -> Result<Vec<CachedCapture>> {
    list(&root(cache)?)
}

/// Removes a capture from the cache, or all of them. Returns the names of those that were removed, and of those that a
/// process uses.
pub fn clear_cached(cache: Option<&Path>, name: Option<&str>) -> Result<(Vec<String>, Vec<String>)> {
    let root = root(cache)?;
    let all: Vec<String> = list(&root)?.into_iter().map(|capture| capture.name).collect();
    let chosen = match name {
        None => all,
        Some(name) if all.iter().any(|other| other == name) => vec![name.to_string()],
        Some(name) => {
            let known: Vec<&str> = all.iter().map(String::as_str).collect();
            let error = InputError::new(format!("the cache has no capture `{name}`")).file(&root);
            return Err(match known.is_empty() {
                true => error.found("no captures").into(),
                false => error.one_of(name, &known).advice(format!("{} lists them", Command("cache"))).into(),
            });
        }
    };
    let (mut removed, mut used) = (Vec::new(), Vec::new());
    for name in chosen {
        let list = if remove(&root, &name)? { &mut removed } else { &mut used };
        list.push(name);
    }
    remove_leftovers(&root)?;
    if name.is_none() {
        forget_inputs(cache)?;
    }
    Ok((removed, used))
}

/// Where the network of a cached capture was when it was last used.
pub(super) fn last_model(capture: &Path) -> Option<String> {
    let value: Value = serde_json::from_slice(&disk::read(&capture.join(USE)).ok()?).ok()?;
    value["model"].as_str().map(str::to_string)
}

fn root(cache: Option<&Path>) -> Result<PathBuf> {
    Ok(cache_directory(cache)?.join("captures"))
}

fn record_use(directory: &Path, model: &Path) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
    let model = std::path::absolute(model).unwrap_or_else(|_| model.to_path_buf());
    disk::write(&directory.join(USE), format!("{}\n", json!({"used": now, "model": model})).as_bytes())
}

/// Milliseconds since 1970 at the last change of a directory or of one in it; 0 if it is unknown.
fn changed(directory: &Path) -> u64 {
    let of = |path: &Path| -> Option<u64> {
        let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_millis() as u64)
    };
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| of(&entry.path())).chain(of(directory)).max().unwrap_or(0)
}

fn list(root: &Path) -> Result<Vec<CachedCapture>> {
    let json = |path: &Path| -> Option<Value> { serde_json::from_slice(&disk::read(path).ok()?).ok() };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let mut captures = Vec::new();
    for name in names(root)? {
        let directory = root.join(&name);
        if name.ends_with(REMOVED) || !directory.is_dir() {
            continue;
        }
        let about = json(&directory.join(ABOUT));
        let finished = about.is_some();
        let about = about.unwrap_or_default();
        captures.push(CachedCapture {
            bytes: size(&directory),
            finished,
            model: text(&about["model"]["name"]),
            input: text(&about["input"]),
            sites: about["sites"].as_array().into_iter().flatten().map(text).collect(),
            used: json(&directory.join(USE))
                .and_then(|value| value["used"].as_u64())
                .unwrap_or_else(|| changed(&directory)),
            name,
            directory,
        });
    }
    captures.sort_by(|a, b| (Reverse(a.used), &a.name).cmp(&(Reverse(b.used), &b.name)));
    Ok(captures)
}

/// The names in a directory, sorted; none if it does not exist.
fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("list the cache", directory))?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(Error::io("list the cache", directory))?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// The size of all files below a directory. Files that disappear meanwhile do not count.
fn size(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.metadata() {
        Ok(about) if about.is_dir() => size(&entry.path()),
        Ok(about) => about.len(),
        Err(_) => 0,
    };
    entries.map(of).sum()
}

/// Removes captures, the least recently used first, until all of them fit. Those that a process reads or writes stay.
fn make_room(root: &Path, most: u64) -> Result<()> {
    let captures = list(root)?;
    let mut total: u64 = captures.iter().map(|capture| capture.bytes).sum();
    for capture in captures.iter().rev() {
        if total <= most {
            break;
        }
        if remove(root, &capture.name)? {
            total -= capture.bytes;
        }
    }
    Ok(())
}

/// Removes a capture; returns false if a process uses it.
fn remove(root: &Path, name: &str) -> Result<bool> {
    let Some(_file) = try_lock(root, name, Sharing::Write)? else { return Ok(false) };
    let (directory, removed) = (root.join(name), root.join(format!("{name}{REMOVED}")));
    // Renamed first: a half removed capture must not look like a finished one.
    if directory.exists() {
        disk::rename_directory(&directory, &removed)?;
        disk::remove_directory(&removed)?;
    }
    disk::remove(&lock_path(root, name))?;
    Ok(true)
}

/// Removes what killed processes have not removed to the end.
fn remove_leftovers(root: &Path) -> Result<()> {
    let left = names(root)?.into_iter().filter(|name| name.ends_with(REMOVED));
    left.map(|name| root.join(name)).try_for_each(|path| disk::remove_directory(&path))
}

/// What a lock allows others to do.
#[derive(Clone, Copy)]
enum Sharing {
    /// Others may read.
    Read,
    /// Others may do nothing.
    Write,
}

fn lock_path(root: &Path, name: &str) -> PathBuf {
    root.join(format!("{name}.lock"))
}

/// Waits for a lock.
fn lock(root: &Path, name: &str, sharing: Sharing, context: &Context) -> Result<File> {
    loop {
        context.check()?;
        if let Some(file) = try_lock(root, name, sharing)? {
            return Ok(file);
        }
        std::thread::sleep(WAIT);
    }
}

/// A locked file, or `None` if another process has a lock that excludes it.
fn try_lock(root: &Path, name: &str, sharing: Sharing) -> Result<Option<File>> {
    let path = lock_path(root, name);
    loop {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(Error::io("lock a capture", &path))?;
        let locked = match sharing {
            Sharing::Read => file.try_lock_shared(),
            Sharing::Write => file.try_lock(),
        };
        match locked {
            Ok(()) => {}
            // Some cluster file systems have no locks.
            Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(Error::io("lock a capture", &path)(error)),
            Err(TryLockError::WouldBlock) => return Ok(None),
        }
        // The process that removed the capture may have removed the file between our opening and locking it.
        let number = |about: fs::Metadata| (about.dev(), about.ino());
        let (current, ours) = (fs::metadata(&path).map(number).ok(), file.metadata().map(number).ok());
        if current == ours && ours.is_some() {
            return Ok(Some(file));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A finished capture of `bytes` bytes that was used at a time.
    fn make(root: &Path, name: &str, bytes: usize, used: u64) {
        let directory = root.join(name);
        fs::create_dir_all(directory.join("sites/a")).unwrap();
        let about = json!({"id": name, "model": {"name": "m"}, "input": "i", "sites": ["a"]}).to_string();
        let used = json!({"used": used, "model": "/m"}).to_string();
        fs::write(directory.join("sites/a/x"), vec![0; bytes - about.len() - used.len()]).unwrap();
        fs::write(directory.join(ABOUT), about).unwrap();
        fs::write(directory.join(USE), used).unwrap();
    }

    fn names_of(root: &Path) -> Vec<String> {
        list(root).unwrap().into_iter().map(|capture| capture.name).collect()
    }

    #[test]
    fn the_least_recently_used_captures_are_removed_unless_they_are_used() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("captures");
        for (name, used) in [("a", 3), ("b", 1), ("c", 2), ("d", 4)] {
            make(&root, name, 1000, used);
        }
        assert_eq!(names_of(&root), ["d", "a", "c", "b"]);
        let first = &list(&root).unwrap()[0];
        assert_eq!((first.bytes, first.model.as_str(), first.input.as_str()), (1000, "m", "i"));
        assert_eq!(last_model(&root.join("a")).as_deref(), Some("/m"));
        make_room(&root, 4000).unwrap();
        assert_eq!(names_of(&root).len(), 4);
        // b is the oldest, but it is used. An interrupted capture is as old as its last change, and is removed like others
        // unless a process continues it.
        let lock = try_lock(&root, "b", Sharing::Read).unwrap().unwrap();
        assert!(try_lock(&root, "b", Sharing::Read).unwrap().is_some());
        for name in ["e", "f"] {
            make(&root, name, 1000, 0);
        }
        for (name, file) in [("e", ABOUT), ("e", USE), ("f", ABOUT), ("f", USE)] {
            fs::remove_file(root.join(name).join(file)).unwrap();
        }
        assert!(list(&root).unwrap()[..2].iter().all(|capture| !capture.finished && capture.used > 1 << 40));
        let written = try_lock(&root, "f", Sharing::Write).unwrap().unwrap();
        make_room(&root, 2000).unwrap();
        assert_eq!(names_of(&root), ["f", "b"]);
        drop(written);
        make(&root, "d", 1000, u64::MAX / 2);
        make(&root, "c", 1000, u64::MAX / 2 - 1);
        make_room(&root, 3000).unwrap();
        assert_eq!(names_of(&root), ["d", "c", "b"]);
        assert_eq!(clear_cached(Some(scratch.path()), None).unwrap(), (vec!["d".into(), "c".into()], vec!["b".into()]));
        drop(lock);
        fs::create_dir(root.join("x.removed")).unwrap();
        assert_eq!(clear_cached(Some(scratch.path()), Some("b")).unwrap().0, ["b"]);
        assert_eq!(names(&root).unwrap(), [""; 0]);
        let error = clear_cached(Some(scratch.path()), Some("b")).unwrap_err().to_string();
        assert!(error.contains("no capture `b`"), "{error}");
    }
}
