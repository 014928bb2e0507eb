//! One writer per directory.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{disk, orphans};
use crate::error::{Error, InputError, Result};

/// The name of the lock file.
pub const NAME: &str = ".lock";

/// A lock on a directory while it is written; readers need none.
///
/// The operating system releases the lock when the process ends, however it ends, so a lock is never stale. The file
/// contains the process id, for the error message of a second writer.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// The lock created the directory: it is removed again if it stays empty.
    created: bool,
    /// Locked until it is closed.
    _file: File,
}

impl Lock {
    /// Takes the lock and removes temporary files of processes that have ended. Creates the directory if needed.
    pub fn take(directory: &Path) -> Result<Lock> {
        let created = !directory.exists();
        disk::make_directory(directory)?;
        let path = directory.join(NAME);
        loop {
            disk::crash_point();
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = options.map_err(Error::io("lock a directory", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                // Some cluster file systems have no locks. Two writers then write the same bytes.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(Error::io("lock a directory", &path)(error)),
                Err(TryLockError::WouldBlock) => return Err(held(&mut file, directory).into()),
            }
            // The last writer may have removed the file between our opening and locking it.
            let current = fs::metadata(&path).map(|file| (file.dev(), file.ino())).ok();
            let ours = file.metadata().map(|file| (file.dev(), file.ino())).ok();
            if current == ours && ours.is_some() {
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let text = format!("process {} on {}", std::process::id(), host.trim());
                let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
                written.map_err(Error::io("lock a directory", &path))?;
                let lock = Lock { path, created, _file: file };
                orphans::remove_all(directory);
                return Ok(lock);
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed before it is unlocked, so that no process locks a file that is then removed. A leftover is harmless.
        let _ = disk::remove(&self.path);
        if let Some(directory) = self.path.parent().filter(|_| self.created) {
            // Fails unless the directory is empty.
            let _ = fs::remove_dir(directory);
        }
    }
}

fn held(file: &mut File, directory: &Path) -> InputError {
    let mut holder = String::new();
    let _ = file.take(200).read_to_string(&mut holder);
    InputError::new("another process is writing to this directory")
        .found(if holder.is_empty() { "an unknown process".into() } else { holder })
        .advice("wait until it has ended, or choose another directory")
        .file(directory)
}

/// The names in a directory, sorted; none if it does not exist.
pub fn names(directory: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io("list a directory", directory))?,
    };
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let names: std::io::Result<Vec<String>> = entries.map(name).collect();
    let mut names = names.map_err(Error::io("list a directory", directory))?;
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_names_the_process_that_holds_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert_eq!(names(directory.path()).unwrap(), [""; 0]);
        Lock::take(directory.path()).unwrap();
    }
}
