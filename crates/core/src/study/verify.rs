//! Verification of every byte of a directory that Etalon wrote: a store, codes, a dictionary, a world, results, or a
//! directory of several of them.

use std::fs;
use std::path::Path;

use crate::context::Budget;
use crate::error::{Error, InputError, Result};
use crate::load;
use crate::results::Archive;
use crate::sae::checkpoint;
use crate::store;

/// What [`verify`] read.
#[derive(Debug, Default)]
pub struct Checked {
    /// Number of files.
    pub files: usize,
    /// Number of bytes.
    pub bytes: u64,
    /// Their types, such as "activations" and "results".
    pub kinds: Vec<String>,
}

/// Checks a directory and its subdirectories; the error names the first damaged file.
pub fn verify(directory: &Path, budget: &Budget) -> Result<Checked> {
    if !directory.is_dir() {
        return Err(InputError::new("there is no such directory")
            .expected("a store, codes, a world or a results directory")
            .found(if directory.exists() { "a file" } else { "nothing" })
            .file(directory)
            .into());
    }
    let mut checked = Checked::default();
    visit(directory, &mut checked, budget)?;
    if checked.files == 0 {
        return Err(InputError::new("the directory holds nothing that Etalon wrote")
            .expected("a store, codes, a dictionary, a world or a results directory")
            .file(directory)
            .into());
    }
    checked.kinds.sort();
    checked.kinds.dedup();
    Ok(checked)
}

fn visit(directory: &Path, checked: &mut Checked, budget: &Budget) -> Result<()> {
    if directory.join("manifest.json").exists() {
        let store = store::verify(directory)?;
        checked.files += store.files;
        checked.bytes += store.bytes;
        checked.kinds.push(store.format);
        return Ok(());
    }
    if directory.join("world.json").is_file() {
        let (files, bytes) = load::verify_tables(directory)?;
        checked.files += files;
        checked.bytes += bytes;
        checked.kinds.push("world".into());
    }
    if checkpoint::is_etalon(directory) {
        let loaded = checkpoint::load(directory, budget)?;
        checked.files += 2;
        checked.bytes += loaded.bytes;
        checked.kinds.push("etalon-sae".into());
        return Ok(());
    }
    if directory.join("results").is_dir() {
        let archive = Archive::open(directory)?;
        let (whole, damaged) = archive.check(budget)?;
        if let Some(damaged) = damaged.first() {
            return Err(InputError::new("a result is damaged")
                .found(&damaged.reason)
                .advice("delete the file and run the study again")
                .file(&damaged.file)
                .into());
        }
        let (files, bytes) = archive.size()?;
        checked.files += files;
        checked.bytes += bytes;
        if whole > 0 {
            checked.kinds.push("results".into());
        }
    }
    let mut subdirectories = Vec::new();
    for entry in fs::read_dir(directory).map_err(Error::io("list a directory", directory))? {
        let path = entry.map_err(Error::io("list a directory", directory))?.path();
        if path.is_dir() && !path.is_symlink() {
            subdirectories.push(path);
        }
    }
    subdirectories.sort();
    subdirectories.iter().try_for_each(|path| visit(path, checked, budget))
}
