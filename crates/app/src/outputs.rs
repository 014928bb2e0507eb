//! Refuses outputs that would replace an input or another output, however their paths are written.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use etalon::error::{InputError, Result};
use etalon::input::Source;

/// The files and directories that a command reads and writes, with the options that name them.
#[derive(Default)]
pub struct Paths {
    inputs: Vec<(String, PathBuf)>,
    outputs: Vec<(String, PathBuf)>,
}

impl Paths {
    /// Adds an input. A key of an array in the file (`x.npz:codes`) is not part of the path.
    pub fn input(mut self, option: &str, path: impl AsRef<Path>) -> Paths {
        let path = path.as_ref();
        let file = Source::parse(&path.to_string_lossy()).map_or(path.to_path_buf(), |source| source.path);
        self.inputs.push((option.into(), file));
        self
    }

    /// Adds several inputs, by key.
    pub fn inputs(self, given: impl IntoIterator<Item = (&'static str, PathBuf)>) -> Paths {
        given.into_iter().fold(self, |paths, (key, path)| paths.input(&format!("--{key}"), path))
    }

    /// Adds an output, if it is given.
    pub fn output<P: AsRef<Path>>(mut self, option: &str, path: Option<P>) -> Paths {
        self.outputs.extend(path.map(|path| (option.to_string(), path.as_ref().to_path_buf())));
        self
    }

    /// Refuses an output that is an input, a file of an input directory, or another output.
    pub fn check(&self) -> Result<()> {
        for (index, (option, output)) in self.outputs.iter().enumerate() {
            let written = Identity::of(output);
            for (other, path) in self.outputs[..index].iter().chain(&self.inputs) {
                let used = Identity::of(path);
                let replaces_part = path.is_dir() && output.is_file() && written.path.starts_with(&used.path);
                if written.is(&used) || replaces_part {
                    let what = if replaces_part { "is a file of" } else { "is the same as" };
                    return Err(InputError::new(format!("`{option}` {what} `{other}`"))
                        .expected("a path that is not read or written otherwise")
                        .found(path.display())
                        .advice("choose another path")
                        .file(output)
                        .into());
                }
            }
        }
        Ok(())
    }
}

/// What a path refers to, whatever links and detours it contains.
struct Identity {
    path: PathBuf,
    /// Device and number of a file that exists: equal for hard links.
    number: Option<(u64, u64)>,
}

impl Identity {
    fn of(path: &Path) -> Identity {
        let number = fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
        Identity { path: resolved(path), number }
    }

    fn is(&self, other: &Identity) -> bool {
        self.path == other.path || (self.number.is_some() && self.number == other.number)
    }
}

/// The path without links; of one that does not exist, as far as its parents do.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    if let Ok(path) = fs::canonicalize(&absolute) {
        return path;
    }
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => resolved(parent).join(name),
        _ => absolute,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_under_several_names_is_recognised() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        fs::write(path("x.npy"), "x").unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder/part"), "part").unwrap();
        std::os::unix::fs::symlink("x.npy", path("link.npy")).unwrap();
        std::os::unix::fs::symlink("folder", path("other")).unwrap();
        fs::hard_link(path("x.npy"), path("hard.npy")).unwrap();
        let check = |input: &str, output: &str| {
            Paths::default().input("--in", path(input)).output("--out", Some(path(output))).check()
        };
        for (input, output) in [
            ("x.npy", "x.npy"),
            ("x.npy", "folder/../x.npy"),
            ("x.npy", "link.npy"),
            ("link.npy", "./x.npy"),
            ("x.npy", "hard.npy"),
            ("x.npz:codes", "x.npz"),
            ("folder", "folder/part"),
            ("folder", "other/part"),
            ("folder", "other"),
        ] {
            let error = check(input, output).unwrap_err().to_string();
            assert!(error.contains("`--out` is") && error.contains("`--in`"), "{input} {output}: {error}");
        }
        for (input, output) in [("x.npy", "y.npy"), ("folder", "folder/new"), ("folder/part", "folder")] {
            assert!(check(input, output).is_ok(), "{input} {output}");
        }
        let twice = Paths::default().output("--out", Some(path("new"))).output("--log", Some(path("folder/../new")));
        assert!(twice.check().is_err() && Paths::default().output("--out", None::<&Path>).check().is_ok());
    }
}
