//! Content addresses of inputs that were computed before, so that an unchanged input is not read again to recognise it.
//!
//! `inputs/NAME` in the cache has the address. NAME is a hash of the options and, for every file of the input, of its path, length,
//! number, and times of the last change of content and of attributes. A file that changed less than a moment ago is not trusted: it
//! could change again without a new time.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use etalon::error::Result;
use etalon::store::disk;

use super::cache::cache_directory;
use super::identity::InputAddress;
use super::options::InputOptions;

/// Seconds for which a changed file is not trusted: some file systems store times in steps of two seconds.
const MOMENT: i64 = 3;

/// Most addresses that are kept; they are all removed when there are more.
const MOST: usize = 10_000;

/// Where they are in the cache.
const DIRECTORY: &str = "inputs";

/// Length of a content address: `blake3:` and 64 letters.
const ADDRESS: usize = 71;

/// Where the address of an input is, or will be, recorded.
pub(super) struct KnownAddress {
    file: PathBuf,
}

impl KnownAddress {
    /// The record of an input with these files; `None` if a file cannot be trusted or there is no cache.
    pub fn of(files: &[PathBuf], options: &InputOptions) -> Option<KnownAddress> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs() as i64;
        let root = directory(options.cache.as_deref())?;
        let mut hash = blake3::Hasher::new_derive_key("etalon input files v1");
        let mut text = |text: &[u8]| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text);
        };
        text(format!("{:?}", InputOptions { cache: None, ..options.clone() }).as_bytes());
        for file in files {
            let about = fs::metadata(file).ok()?;
            if about.mtime().max(about.ctime()) > now - MOMENT {
                return None;
            }
            text(std::path::absolute(file).ok()?.as_os_str().as_encoded_bytes());
            let times = [about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec()].map(i64::to_le_bytes);
            text(&[about.len(), about.dev(), about.ino()].map(u64::to_le_bytes).concat());
            text(&times.concat());
        }
        Some(KnownAddress { file: root.join(hash.finalize().to_hex().as_str()) })
    }

    /// The recorded address.
    pub fn read(&self) -> Option<InputAddress> {
        let text = String::from_utf8(disk::read(&self.file).ok()?).ok()?;
        let (id, items) = text.strip_suffix('\n')?.split_once(' ')?;
        let valid = id.len() == ADDRESS && id.starts_with("blake3:");
        Some(InputAddress { id: id.to_string(), items: items.parse().ok()? }).filter(|_| valid)
    }

    /// Records an address. A cache that cannot be written costs time, nothing else.
    pub fn write(&self, address: &InputAddress) {
        let Some(root) = self.file.parent() else { return };
        let count = fs::read_dir(root).map_or(0, Iterator::count);
        let cleared = if count >= MOST { disk::remove_directory(root) } else { Ok(()) };
        let _ = cleared
            .and_then(|()| disk::make_directory(root))
            .and_then(|()| disk::write(&self.file, format!("{} {}\n", address.id, address.items).as_bytes()));
    }
}

/// Removes all records.
pub fn forget_inputs(cache: Option<&Path>) -> Result<()> {
    disk::remove_directory(&cache_directory(cache)?.join(DIRECTORY))
}

/// The directory of the records.
fn directory(cache: Option<&Path>) -> Option<PathBuf> {
    Some(cache_directory(cache).ok()?.join(DIRECTORY))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use etalon::context::Context;

    use super::super::known_input_id;
    use super::*;

    #[test]
    fn an_unchanged_input_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let options = InputOptions { cache: Some(folder.path().join("cache")), ..InputOptions::default() };
        let context = Context::silent(1, 1 << 24).unwrap();
        let id = |options: &InputOptions| known_input_id(path.to_str().unwrap(), options, &context).unwrap();
        let write = |text: &str| {
            fs::write(&path, text).unwrap();
            let before = SystemTime::now() - Duration::from_secs(60);
            File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
        };
        let records = || fs::read_dir(folder.path().join("cache/inputs")).map_or(0, Iterator::count);
        write("{\"text\": \"one\"}\n");
        let one = id(&options);
        // Its attributes have just changed.
        assert_eq!(records(), 0);
        std::thread::sleep(Duration::from_secs(MOMENT as u64 + 1));
        assert_eq!((id(&options), records()), (one.clone(), 1));
        // What is recorded is used: a wrong record shows that.
        let record = KnownAddress::of(std::slice::from_ref(&path), &options).unwrap();
        let wrong = InputAddress { id: format!("blake3:{}", "a".repeat(64)), items: 7 };
        record.write(&wrong);
        assert_eq!(id(&options), wrong);
        let limited = InputOptions { limit: vec![1], ..options.clone() };
        assert_eq!(id(&limited), one);
        // Damage is not.
        fs::write(&record.file, "blake3:0 1\n").unwrap();
        assert_eq!(id(&options), one);
        // Another content of the same length and time.
        write("{\"text\": \"two\"}\n");
        assert_ne!(id(&options), one);
    }
}
