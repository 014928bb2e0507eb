//! `sae = "saes/*"` in a study: a set for every dictionary of a folder.

use std::fs;
use std::path::Path;

use crate::error::{Error, InputError, Result};
use crate::sae::checkpoint;

/// The last part of a path that means all dictionaries of a folder.
const ALL: &str = "*";

/// The folder, if a path means all dictionaries in it.
pub fn folder_of(path: &str) -> Option<&str> {
    path.strip_suffix(ALL).filter(|folder| folder.ends_with('/'))
}

/// The names of the dictionaries in a folder, sorted.
pub fn dictionaries(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list the dictionaries", folder))? {
        let entry = entry.map_err(Error::io("list the dictionaries", folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && checkpoint::is_known(&entry.path()) {
            names.push(name);
        }
    }
    names.sort();
    if names.is_empty() {
        return Err(InputError::new("the folder holds no dictionaries")
            .expected("a directory or file per dictionary, such as a training grid writes")
            .file(folder)
            .into());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_star_as_the_last_part_means_all() {
        assert_eq!(folder_of("saes/*"), Some("saes/"));
        assert_eq!(folder_of("a/b/*"), Some("a/b/"));
        for one in ["saes", "saes/topk*", "*", "saes/*/x"] {
            assert_eq!(folder_of(one), None, "{one}");
        }
    }

    #[test]
    fn a_folder_without_dictionaries_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("notes.txt"), "none").unwrap();
        let error = dictionaries(scratch.path()).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("no dictionaries"), "{error}");
        assert!(dictionaries(&scratch.path().join("nowhere")).is_err());
    }
}
