//! One writer per directory.

use std::fs::{self, File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

use super::disk;
use crate::error::{Error, InputError, Result};

/// The name of the lock file.
pub const NAME: &str = ".lock";

/// Held while a directory is written; readers need none.
///
/// The system holds the lock for the process, not the file: it ends with the process however that dies, so a lock is
/// never stale. The file names the process for the message to the second writer.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// The directory was not there before: if nothing comes to lie in it, it goes again.
    made: bool,
    /// Locked until it is closed.
    _file: File,
}

impl Lock {
    /// Takes the lock, making the directory if need be, and removes what dead writers left half-written.
    pub fn take(directory: &Path) -> Result<Lock> {
        let made = !directory.exists();
        disk::make_directory(directory)?;
        let path = directory.join(NAME);
        loop {
            disk::crash_point();
            let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
            let mut file = options.map_err(Error::io("lock a directory", &path))?;
            match file.try_lock() {
                Ok(()) => {}
                // Some cluster file systems have no locks. Two writers then do the same work and write the same bytes.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(Error::io("lock a directory", &path)(error)),
                Err(TryLockError::WouldBlock) => return Err(held(&mut file, directory).into()),
            }
            // The last writer may have removed the file between our opening and locking it.
            let there = fs::metadata(&path).map(|there| (there.dev(), there.ino())).ok();
            let ours = file.metadata().map(|ours| (ours.dev(), ours.ino())).ok();
            if there == ours && ours.is_some() {
                let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                let text = format!("process {} on {}", std::process::id(), host.trim());
                let written = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
                written.map_err(Error::io("lock a directory", &path))?;
                let lock = Lock { path, made, _file: file };
                remove_orphans(directory)?;
                return Ok(lock);
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked, so that nobody locks a file that is about to go. Left behind, it does no harm.
        let _ = disk::remove(&self.path);
        if let Some(directory) = self.path.parent().filter(|_| self.made) {
            // Refused by the system unless it is empty.
            let _ = fs::remove_dir(directory);
        }
    }
}

fn held(file: &mut File, directory: &Path) -> InputError {
    let mut holder = String::new();
    let _ = file.take(200).read_to_string(&mut holder);
    InputError::new("another process is writing to this directory")
        .found(if holder.is_empty() { "a writer that did not give its name".into() } else { holder })
        .advice("wait until it has ended, or choose another directory")
        .file(directory)
}

fn remove_orphans(directory: &Path) -> Result<()> {
    for name in names(directory)? {
        if disk::owner(&name).is_some_and(|process| !is_alive(process)) {
            disk::remove(&directory.join(name))?;
        }
    }
    Ok(())
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

/// The names in a directory, sorted; none if there is no directory.
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
    fn the_second_writer_is_told_who_the_first_is() {
        let directory = tempfile::tempdir().unwrap();
        let lock = Lock::take(directory.path()).unwrap();
        let error = Lock::take(directory.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        assert_eq!(names(directory.path()).unwrap(), [""; 0]);
        Lock::take(directory.path()).unwrap();
    }

    #[test]
    fn what_the_dead_left_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let orphan = format!(".a.f32.{}-0.tmp", child.id());
        let ours = format!(".a.f32.{}-7.tmp", std::process::id());
        for name in [NAME, &orphan, &ours] {
            fs::write(directory.path().join(name), "process 1").unwrap();
        }
        let _lock = Lock::take(directory.path()).unwrap();
        assert_eq!(names(directory.path()).unwrap(), [ours, NAME.into()]);
    }
}
