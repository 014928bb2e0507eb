//! Packaged data sets by name. The program knows where they are; the library only asks it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::Result;

/// The file or folder of a packaged name, or the error that says how to get it.
pub type FindPackage = fn(&str) -> Result<PathBuf>;

static FIND: OnceLock<FindPackage> = OnceLock::new();

/// Makes packaged names available. A program that has packages calls this once, before it loads inputs.
pub fn provide_packages(find: FindPackage) {
    FIND.get_or_init(|| find);
}

/// A path relative to `base`, or else what the program knows under that name.
pub(crate) fn packaged_path(text: &str, base: &Path) -> Result<PathBuf> {
    let path = base.join(text);
    match FIND.get() {
        Some(find) if !path.exists() => find(text),
        _ => Ok(path),
    }
}
