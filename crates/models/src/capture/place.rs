//! Where the network and the images of a capture are, for programs that run in another directory than the capture did.

use std::path::{Component, Path, PathBuf};

use crate::open::Tower;

/// The path of a model from the directory of its capture, if the user gave a relative path and not a name.
pub(super) fn relative_model(model: &str, directory: &Path) -> Option<String> {
    let model = Path::new(Tower::split(model).0);
    if model.is_absolute() || !model.exists() {
        return None;
    }
    from_directory(model, directory)
}

/// The path of a file for a table in a directory: from there if the user gave a relative path, else as it is.
pub(super) fn from_directory(path: &Path, directory: &Path) -> Option<String> {
    if path.is_absolute() {
        return Some(path.to_str()?.to_string());
    }
    // Links are resolved, because `..` behind a link leads to its target.
    let (path, directory) = (path.canonicalize().ok()?, directory.canonicalize().ok()?);
    Some(relative(&directory, &path)?.to_str()?.to_string())
}

/// The model of a capture, if the path from its directory leads to one and the name does not.
pub(super) fn of_model(name: &str, path: Option<&str>, directory: &Path) -> Option<PathBuf> {
    let named = Path::new(Tower::split(name).0).exists();
    path.map(|path| directory.join(path)).filter(|path| !named && path.exists())
}

/// The way from a directory to a path, both absolute and without `..`.
fn relative(from: &Path, to: &Path) -> Option<PathBuf> {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared);
    if shared == 0 || up.clone().any(|part| !matches!(part, Component::Normal(_))) {
        return None;
    }
    Some(up.map(|_| Component::ParentDir).chain(to.components().skip(shared)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_by_hand() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/a/b/capture", "/a/model"), Some(PathBuf::from("../../model")));
        assert_eq!(way("/a", "/a/model/x"), Some(PathBuf::from("model/x")));
        assert_eq!(way("/a/b", "/c"), Some(PathBuf::from("../../c")));
    }

    #[test]
    fn a_model_is_found_from_the_capture() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(scratch.path().join("a/capture")).unwrap();
        std::fs::write(scratch.path().join("model"), "x").unwrap();
        let directory = scratch.path().join("a/capture");
        let found = of_model("nowhere/model", Some("../../model"), &directory).unwrap();
        assert_eq!(std::fs::read(found).unwrap(), b"x");
        assert_eq!(of_model("nowhere/model", None, &directory), None);
        assert_eq!(relative_model("smollm2", &directory), None);
        assert_eq!(relative_model(scratch.path().join("model").to_str().unwrap(), &directory), None);
    }
}
