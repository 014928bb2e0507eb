//! Temporary files that killed processes have left.
//!
//! A temporary file is orphaned if its process has ended and no process holds a lock on it. The process number alone does not
//! suffice: the process may run on another machine that shares the directory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use rustix::process::{Pid, test_kill_process};

/// Possible orphans by directory, listed when this process first writes a file there: directories can be large.
static FOUND: Mutex<BTreeMap<PathBuf, Vec<String>>> = Mutex::new(BTreeMap::new());

/// Removes the orphans of a directory whose lock this process holds.
pub(super) fn remove_all(directory: &Path) {
    temporaries(directory).iter().for_each(|name| remove(directory, name));
}

/// Removes the orphans of files with a name. Other files are left alone: the directory may be anybody's.
pub(super) fn remove_for(directory: &Path, target: &str) {
    // A poisoned lock means that another thread panicked; the list is valid after every operation.
    let mut found = FOUND.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let names = match found.get_mut(directory) {
        Some(names) => names,
        None => found.entry(directory.to_path_buf()).or_insert(temporaries(directory)),
    };
    let is_its = |name: &mut String| target_and_process(name).is_some_and(|(its, _)| its == target);
    let orphans: Vec<String> = names.extract_if(.., is_its).collect();
    drop(found);
    orphans.iter().for_each(|name| remove(directory, name));
}

/// The names of the temporary files of a directory, sorted; none if it cannot be listed.
fn temporaries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| target_and_process(name).is_some());
    names.sort();
    names
}

/// Removes a file if it is an orphan. Best effort: one that remains is harmless.
fn remove(directory: &Path, name: &str) {
    let Some((_, process)) = target_and_process(name) else { return };
    let path = directory.join(name);
    let is_held = || !path.is_file() || File::open(&path).is_ok_and(|file| file.try_lock().is_err());
    if !is_alive(process) && !is_held() {
        let _ = fs::remove_file(&path);
    }
}

/// The final name and the process of a temporary file, from its name.
pub(super) fn target_and_process(name: &str) -> Option<(&str, u32)> {
    let (target, number) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    Some((target, number.split_once('-')?.0.parse().ok()?))
}

fn is_alive(process: u32) -> bool {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process) != Err(rustix::io::Errno::SRCH))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Lock, disk, lock};

    /// The number of a process that has ended.
    fn ended() -> u32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    #[test]
    fn a_lock_removes_all_orphans_of_its_directory() {
        let directory = tempfile::tempdir().unwrap();
        let (orphan, held) = (format!(".a.f32.{}-0.tmp", ended()), format!(".b.f32.{}-0.tmp", ended()));
        let ours = format!(".a.f32.{}-7.tmp", std::process::id());
        for name in [lock::NAME, &orphan, &held, &ours] {
            fs::write(directory.path().join(name), "process 1").unwrap();
        }
        // A process on another machine.
        let other = File::open(directory.path().join(&held)).unwrap();
        other.try_lock().unwrap();
        let _lock = Lock::take(directory.path()).unwrap();
        let mut expected = [ours, held, lock::NAME.into()];
        expected.sort();
        assert_eq!(lock::names(directory.path()).unwrap(), expected);
    }

    #[test]
    fn a_new_file_removes_the_orphans_of_its_name_only() {
        let directory = tempfile::tempdir().unwrap();
        let (same, other) = (format!(".a.npy.{}-0.tmp", ended()), format!(".b.npy.{}-0.tmp", ended()));
        for name in [&same, &other] {
            fs::write(directory.path().join(name), "half").unwrap();
        }
        disk::write(&directory.path().join("a.npy"), b"whole").unwrap();
        assert_eq!(lock::names(directory.path()).unwrap(), [other, "a.npy".into()]);
    }
}
