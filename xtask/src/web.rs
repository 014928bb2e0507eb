//! The pages of the explorer: built from `web/src` into `web/dist`, which is committed so that `cargo build` needs no Node.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, output, root, run};

/// The files that the program embeds.
const BUILT: [&str; 4] = ["index.html", "app.js", "app.css", "hashes.txt"];

/// The browser of the tests.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Builds the pages.
pub fn build() -> Result<()> {
    install()?;
    npm(&["run", "build"])
}

/// Are the committed pages what their sources give? Without Node nobody can say; then this is passed over aloud.
pub fn check() -> Result<()> {
    if Command::new("npm").arg("--version").output().is_err() {
        eprintln!("there is no npm: whether web/dist is fresh was not checked");
        return Ok(());
    }
    install()?;
    npm(&["run", "check"])?;
    let (built, kept) = (root().join("target/web-fresh"), root().join("web/dist"));
    let target = built.display().to_string();
    npm(&["run", "build", "--", "--logLevel", "warn", "--emptyOutDir", "--outDir", &target])?;
    let differs = |name: &&&str| fs::read(built.join(name)).ok() != fs::read(kept.join(name)).ok();
    let stale: Vec<&&str> = BUILT.iter().filter(differs).collect();
    fs::remove_dir_all(&built).with_context(|| format!("cannot remove {target}"))?;
    if !stale.is_empty() {
        bail!("run `cargo xtask web`: {stale:?} in web/dist differ from what web/src gives");
    }
    Ok(())
}

/// Drives the explorer of this program in a real browser.
pub fn test() -> Result<()> {
    install()?;
    if std::env::var_os("CHROMIUM").is_none() && !Path::new(CHROMIUM).exists() {
        run(Command::new("apt-get").args(["install", "--yes", "--no-install-recommends", "chromium"]))
            .context("the tests need Chromium: install it, or name it in CHROMIUM")?;
    }
    cargo(&["build", "--package", "etalon-app"])?;
    let mut command = Command::new("node");
    run(command.arg("web/tests/run.mjs").env("ETALON", program()?))
}

/// Where cargo put the program.
fn program() -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let about = output(Command::new(cargo).args(["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
    let about: serde_json::Value = serde_json::from_str(&about)?;
    let target = about["target_directory"].as_str().context("cargo does not name its target directory")?;
    Ok(format!("{target}/debug/etalon{}", std::env::consts::EXE_SUFFIX))
}

/// Installs exactly what the lock file names, once.
fn install() -> Result<()> {
    let (lock, done) = (root().join("web/package-lock.json"), root().join("web/node_modules/.installed"));
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&done).ok().as_ref() == Some(&wanted) {
        return Ok(());
    }
    npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    fs::write(&done, wanted).with_context(|| format!("cannot write {}", done.display()))
}

fn npm(arguments: &[&str]) -> Result<()> {
    run(Command::new("npm").args(["--prefix", "web"]).args(arguments))
}
