//! All writes to disk: write a temporary file, sync it, rename it, sync its directory.
//!
//! A file under its final name is therefore complete. With the feature `crash-points`, the process aborts just before the
//! n-th of these operations (`ETALON_CRASH_AT=n`), so that tests can stop it everywhere.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::orphans;
use crate::error::{Error, InputError, Result};

/// Numbers the temporary files of this process, so that two threads never share one.
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Called before every operation that changes the disk.
pub(super) fn crash_point() {
    #[cfg(feature = "crash-points")]
    {
        static DONE: AtomicU64 = AtomicU64::new(0);
        let operation = DONE.fetch_add(1, Ordering::SeqCst) + 1;
        let last = std::env::var("ETALON_CRASH_AT").ok().and_then(|text| text.parse::<u64>().ok());
        if last == Some(operation) {
            std::process::abort();
        }
    }
}

/// A file that appears under its final name only when it is finished. Dropped before that, it is removed.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Creates a temporary file in the directory of the final one; creates the directory if it does not exist. Removes
    /// temporary files for the same name that a killed process has left.
    pub fn create(target: &Path) -> Result<NewFile> {
        check_target(target)?;
        let directory = parent(target);
        make_directory(directory)?;
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        orphans::remove_for(directory, &name);
        loop {
            let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
            let temporary = directory.join(format!(".{name}.{}-{serial}.tmp", std::process::id()));
            crash_point();
            let file = File::create(&temporary).map_err(Error::io("create a file", &temporary))?;
            // Locked until it is closed, which tells other processes, also on other machines, that it is not left over.
            let locked = file.try_lock();
            if !matches!(locked, Err(TryLockError::WouldBlock)) && temporary.exists() {
                return Ok(NewFile { file, temporary, target: target.to_path_buf(), finished: false });
            }
        }
    }

    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        crash_point();
        self.file.write_all(bytes).map_err(Error::io("write", &self.temporary))
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(mut self) -> Result<()> {
        crash_point();
        self.file.sync_all().map_err(Error::io("sync a file", &self.temporary))?;
        crash_point();
        fs::rename(&self.temporary, &self.target).map_err(Error::io("rename a file", &self.target))?;
        self.finished = true;
        sync_directory(parent(&self.target))
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        crash_point();
        self.file.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // Best effort: a leftover temporary file is harmless, and the next writer of the same file removes it.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Refuses targets that exist and are not files: a rename onto `/dev/null` would replace the device.
pub fn check_target(target: &Path) -> Result<()> {
    match fs::metadata(target) {
        Ok(existing) if !existing.is_file() => Err(InputError::new("a file cannot be written to this path")
            .expected("a new path, or a file to replace")
            .found(if existing.is_dir() { "a directory" } else { "a device, a pipe or a socket" })
            .advice("give the path of a file")
            .file(target)
            .into()),
        _ => Ok(()),
    }
}

/// Writes a whole file, atomically and durably.
pub fn write(target: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = NewFile::create(target)?;
    file.write(bytes)?;
    file.finish()
}

/// Reads a whole regular file. Refuses pipes and devices, which could block or never end.
pub fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let about = fs::metadata(file)?;
    if !about.is_file() {
        let found = if about.is_dir() { "a directory" } else { "a pipe, a device or a socket" };
        return Err(std::io::Error::new(ErrorKind::InvalidInput, format!("{found} instead of a regular file")));
    }
    let mut bytes = Vec::with_capacity(about.len() as usize);
    File::open(file)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a directory and its parents. They are durable once a file in them is.
pub fn make_directory(directory: &Path) -> Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    crash_point();
    fs::create_dir_all(directory).map_err(Error::io("create a directory", directory))
}

/// Removes a file, if it exists.
pub fn remove(file: &Path) -> Result<()> {
    crash_point();
    match fs::remove_file(file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove a file", file)(error)),
        _ => Ok(()),
    }
}

/// Removes a directory and everything in it, if it exists.
pub fn remove_directory(directory: &Path) -> Result<()> {
    crash_point();
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove a directory", directory)(error)),
        _ => Ok(()),
    }
}

/// Gives a finished directory its name. What had that name before is removed, so that a crash leaves the old directory, no
/// directory, or the new one.
pub fn rename_directory(finished: &Path, target: &Path) -> Result<()> {
    make_directory(parent(target))?;
    remove_directory(target)?;
    crash_point();
    fs::rename(finished, target).map_err(Error::io("rename a directory", target))?;
    sync_directory(parent(target))
}

/// Whether a file is a temporary one of [`NewFile`], from its name.
pub fn is_temporary(name: &str) -> bool {
    orphans::target_and_process(name).is_some()
}

fn sync_directory(directory: &Path) -> Result<()> {
    crash_point();
    File::open(directory).and_then(|handle| handle.sync_all()).map_err(Error::io("sync a directory", directory))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(directory) if !directory.as_os_str().is_empty() => directory,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unfinished_file_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("deep/a.bin");
        let mut file = NewFile::create(&target).unwrap();
        file.write(b"half").unwrap();
        drop(file);
        assert_eq!(fs::read_dir(directory.path().join("deep")).unwrap().count(), 0);
        write(&target, b"whole").unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"whole");
        assert_eq!(fs::read_dir(directory.path().join("deep")).unwrap().count(), 1);
    }
}
