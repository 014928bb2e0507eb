//! The directory of what Etalon fetched or computed and can fetch or compute again.

use std::path::{Path, PathBuf};

use etalon::error::{InputError, Result};

/// The cache directory: the given one, or else the first that is set of `ETALON_CACHE`, `XDG_CACHE_HOME/etalon` and
/// `~/.cache/etalon`.
pub fn cache_directory(given: Option<&Path>) -> Result<PathBuf> {
    choose(given, |name| std::env::var_os(name).map(PathBuf::from))
}

fn choose(given: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    // An empty variable counts as unset, and the XDG specification ignores relative paths.
    let set = |name: &str| variable(name).filter(|path| !path.as_os_str().is_empty());
    given
        .map(Path::to_path_buf)
        .or_else(|| set("ETALON_CACHE"))
        .or_else(|| set("XDG_CACHE_HOME").filter(|path| path.is_absolute()).map(|path| path.join("etalon")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/etalon")))
        .ok_or_else(|| {
            InputError::new("the cache directory is unknown")
                .expected("ETALON_CACHE, XDG_CACHE_HOME or HOME in the environment")
                .advice("set ETALON_CACHE to a directory")
                .into()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_set_wins() {
        let choose = |given: Option<&str>, set: &[(&str, &str)]| {
            let variable = |name: &str| set.iter().find(|(other, _)| *other == name).map(|(_, path)| path.into());
            super::choose(given.map(Path::new), variable).map(|path| path.display().to_string())
        };
        let all = [("ETALON_CACHE", "e"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
        assert_eq!(choose(Some("given"), &all).unwrap(), "given");
        assert_eq!(choose(None, &all).unwrap(), "e");
        assert_eq!(choose(None, &all[1..]).unwrap(), "/x/etalon");
        assert_eq!(choose(None, &[("ETALON_CACHE", ""), ("XDG_CACHE_HOME", "x"), all[2]]).unwrap(), "/h/.cache/etalon");
        assert!(choose(None, &[]).unwrap_err().is_input());
    }
}
