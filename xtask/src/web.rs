//! Builds the explorer's pages from `web/src` into `web/dist`, which is committed so that `cargo build` needs no Node.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{output, program, root, run};

/// The files that the program embeds.
const BUILT: [&str; 4] = ["index.html", "app.js", "app.css", "hashes.txt"];

/// Names of Chromium executables.
const BROWSERS: [&str; 5] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];

/// Builds the pages.
pub fn build() -> Result<()> {
    install()?;
    npm(&["run", "build"])
}

/// Checks that the committed pages match their sources.
pub fn check() -> Result<()> {
    install()?;
    npm(&["run", "check"])?;
    let (built, committed) = (root().join("target/web-fresh"), root().join("web/dist"));
    let target = built.display().to_string();
    npm(&["run", "build", "--", "--logLevel", "warn", "--emptyOutDir", "--outDir", &target])?;
    let differs = |name: &&&str| fs::read(built.join(name)).ok() != fs::read(committed.join(name)).ok();
    let stale: Vec<&&str> = BUILT.iter().filter(differs).collect();
    fs::remove_dir_all(&built).with_context(|| format!("cannot remove {target}"))?;
    if !stale.is_empty() {
        bail!("run `cargo xtask web`: {stale:?} in web/dist do not match web/src");
    }
    Ok(())
}

/// Tests the explorer in a browser.
pub fn test() -> Result<()> {
    drive("web/tests/run.mjs")
}

/// Updates the screenshots of the README.
pub fn shots() -> Result<()> {
    drive("web/tests/shots.mjs")
}

/// Runs a script that needs a fresh build of the program and a browser.
fn drive(script: &str) -> Result<()> {
    install()?;
    let browser = browser()?;
    let mut command = Command::new("node");
    command.arg(script).env("ETALON", program()?).env("PLAYWRIGHT_BROWSERS_PATH", own_browsers());
    run(browser.iter().fold(&mut command, |command, path| command.env("CHROMIUM", path)))
}

/// The Chromium of this machine; `None` for Playwright's own, which is downloaded if necessary.
fn browser() -> Result<Option<PathBuf>> {
    if let Some(named) = std::env::var_os("CHROMIUM") {
        return Ok(Some(named.into()));
    }
    if let Some(found) = on_path() {
        return Ok(Some(found));
    }
    let fetch = |more: Option<&str>| {
        let mut command = Command::new("node");
        command.args(["web/node_modules/playwright-core/cli.js", "install", "chromium"]).args(more);
        run(command.env("PLAYWRIGHT_BROWSERS_PATH", own_browsers()))
    };
    // It needs system libraries, which only root can install and which may be installed already.
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if (is_root && fetch(Some("--with-deps")).is_ok()) || fetch(None).is_ok() {
        return Ok(None);
    }
    // If Playwright's server is unreachable, the system's package server may be reachable.
    if is_root {
        let packages = |words: &[&str]| run(Command::new("apt-get").arg("--yes").args(words));
        let _ = packages(&["update"]).and_then(|()| packages(&["install", "--no-install-recommends", "chromium"]));
    }
    on_path().map(Some).context(
        "Chromium is required to test the explorer and could not be downloaded: install it, or pass the path of the \
         program in CHROMIUM",
    )
}

/// Chromium on the `PATH`.
fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = |folder: PathBuf| BROWSERS.map(|name| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
    std::env::split_paths(&path).flat_map(named).find(|program| program.is_file())
}

/// Download directory of Playwright: in this project instead of the home directory.
fn own_browsers() -> PathBuf {
    root().join("target/browsers")
}

/// Installs the packages of the lock file, once.
fn install() -> Result<()> {
    let (lock, done) = (root().join("web/package-lock.json"), root().join("web/node_modules/.installed"));
    let locked = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&done).ok().as_ref() == Some(&locked) {
        return Ok(());
    }
    npm(&["ci", "--ignore-scripts", "--no-audit", "--no-fund"])?;
    fs::write(&done, locked).with_context(|| format!("cannot write {}", done.display()))
}

fn npm(arguments: &[&str]) -> Result<()> {
    run(Command::new("npm").args(["--prefix", "web"]).args(arguments))
        .context("the explorer is built and tested with Node 20 or later")
}
