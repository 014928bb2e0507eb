//! A folder of dictionaries stands for that many sets: `sae = "saes/*"`.

use std::fs;
use std::path::Path;

use crate::error::{Error, InputError, Result};
use crate::sae::checkpoint;

/// What stands for every dictionary of a folder.
const ALL: &str = "*";

/// The folder, if a path names all dictionaries in it.
pub fn folder_of(path: &str) -> Option<&str> {
    path.strip_suffix(ALL).filter(|folder| folder.ends_with('/'))
}

/// The names of the dictionaries in a folder, in order.
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
        return Err(InputError::new("this folder holds no dictionaries")
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
    fn only_a_whole_last_part_stands_for_all() {
        assert_eq!(folder_of("saes/*"), Some("saes/"));
        assert_eq!(folder_of("a/b/*"), Some("a/b/"));
        for one in ["saes", "saes/topk*", "*", "saes/*/x"] {
            assert_eq!(folder_of(one), None, "{one}");
        }
    }

    #[test]
    fn a_folder_without_dictionaries_is_refused() {
        let room = tempfile::tempdir().unwrap();
        fs::write(room.path().join("notes.txt"), "none").unwrap();
        let error = dictionaries(room.path()).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("no dictionaries"), "{error}");
        assert!(dictionaries(&room.path().join("nowhere")).is_err());
    }
}
