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

/// The name of a dictionary without its seed, if it ends like those that a training grid writes: `topk-64-k8-seed1`.
fn without_seed(name: &str) -> Option<&str> {
    name.trim_end_matches(|digit: char| digit.is_ascii_digit())
        .strip_suffix("-seed")
        .filter(|rest| rest.len() + 5 < name.len())
}

/// The other dictionaries of a folder that differ from one of them only in their seed.
pub fn other_seeds<'a>(name: &'a str, all: &'a [String]) -> impl Iterator<Item = &'a String> {
    all.iter()
        .filter(move |other| *other != name && without_seed(name).is_some_and(|stem| without_seed(other) == Some(stem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionaries_that_differ_in_their_seed_are_found() {
        let all =
            ["topk-64-k8-seed0", "topk-64-k8-seed1", "topk-64-k4-seed1", "topk-64-k8", "topk-64-k8-seed", "seed3"];
        let all = all.map(String::from);
        let others = |name: &str| other_seeds(name, &all).cloned().collect::<Vec<_>>();
        assert_eq!(others("topk-64-k8-seed0"), ["topk-64-k8-seed1"]);
        assert_eq!(others("topk-64-k8-seed1"), ["topk-64-k8-seed0"]);
        for alone in ["topk-64-k4-seed1", "topk-64-k8", "topk-64-k8-seed", "seed3"] {
            assert!(others(alone).is_empty(), "{alone}");
        }
    }

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
