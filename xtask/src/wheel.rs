//! The Python package: builds its wheel, and tests it in an environment of its own.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::python::environment;
use crate::steps::{cargo, root, run, target};

/// What builds wheels.
const BUILDER: &str = "maturin==1.16.0";

/// What the tests need.
const PACKAGES: [&str; 5] = ["numpy==2.4.6", "scipy==1.17.1", "pandas==3.1.1", "pytest==9.2.0", "tqdm==4.70.1"];

/// Builds the wheel for this machine into `target/wheels`.
pub fn build() -> Result<()> {
    let programs = environment("wheel-venv", &[BUILDER])?.map_err(anyhow::Error::msg)?;
    let mut command = Command::new(programs.join("maturin"));
    command.args(["build", "--release", "--manifest-path"]).arg(root().join("crates/py/Cargo.toml"));
    run(command.arg("--out").arg(root().join("target/wheels")))
}

/// Runs the tests of the package. Returns why they were skipped, if Python or its packages cannot be had.
pub fn test() -> Result<Option<String>> {
    let programs = match environment("py-venv", &PACKAGES)? {
        Ok(programs) => programs,
        Err(why) => return Ok(Some(format!("Python packages cannot be installed: {why}"))),
    };
    let mut command = Command::new(programs.join("python"));
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).arg(root().join("crates/py/tests"));
    run(command.env("PYTHONPATH", package()?).env("PYTHONDONTWRITEBYTECODE", "1"))?;
    Ok(None)
}

/// A directory with the package: its Python files, and the module as the tests of Rust built it. A wheel would build everything
/// once more.
fn package() -> Result<PathBuf> {
    cargo(&["build", "--quiet", "--workspace", "--lib", "--bin", "etalon", "--test", "crash"])?;
    let directory = root().join("target/python");
    let package = directory.join("etalon");
    fs::create_dir_all(&package)?;
    for entry in fs::read_dir(root().join("crates/py/python/etalon"))? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), package.join(entry.file_name()))?;
        }
    }
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = target()?.join("debug").join(format!("{prefix}_etalon{suffix}"));
    fs::copy(&built, package.join("_etalon.abi3.so")).with_context(|| format!("cannot copy {}", built.display()))?;
    Ok(directory)
}
