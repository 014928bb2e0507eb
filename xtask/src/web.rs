//! The pages of the explorer: built from `web/src` into `web/dist`, which is committed so that `cargo build` needs no Node.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::steps::{cargo, output, root, run};

/// The files that the program embeds.
const BUILT: [&str; 4] = ["index.html", "app.js", "app.css", "hashes.txt"];

/// Programs that are Chromium, as systems call them.
const BROWSERS: [&str; 5] = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome"];

/// Builds the pages.
pub fn build() -> Result<()> {
    install()?;
    npm(&["run", "build"])
}

/// Are the committed pages what their sources give?
pub fn check() -> Result<()> {
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
    drive("web/tests/run.mjs")
}

/// Makes the pictures of the README anew, from what the program computes now.
pub fn shots() -> Result<()> {
    drive("web/tests/shots.mjs")
}

/// Runs a script that needs the program, of this moment, and a browser.
fn drive(script: &str) -> Result<()> {
    install()?;
    let browser = browser()?;
    cargo(&["build", "--package", "etalon-app"])?;
    let mut command = Command::new("node");
    command.arg(script).env("ETALON", program()?).env("PLAYWRIGHT_BROWSERS_PATH", own_browsers());
    run(browser.iter().fold(&mut command, |command, path| command.env("CHROMIUM", path)))
}

/// A Chromium of this machine; nothing stands for Playwright's own, which is fetched if need be.
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
    // It needs libraries of the system, which only the administrator can install, and which may be there already.
    let is_root = output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    if (is_root && fetch(Some("--with-deps")).is_ok()) || fetch(None).is_ok() {
        return Ok(None);
    }
    // Where Playwright's server cannot be reached, that of the system may be.
    if is_root {
        let packages = |words: &[&str]| run(Command::new("apt-get").arg("--yes").args(words));
        let _ = packages(&["update"]).and_then(|()| packages(&["install", "--no-install-recommends", "chromium"]));
    }
    on_path().map(Some).context(
        "the explorer is tested in Chromium, and there is none here and none could be fetched: install it, or name the \
         program in CHROMIUM",
    )
}

/// Chromium where programs are looked for.
fn on_path() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = |folder: PathBuf| BROWSERS.map(|name| folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)));
    std::env::split_paths(&path).flat_map(named).find(|program| program.is_file())
}

/// Where Playwright keeps what it fetches: in this project, and not in the home of the person who tests it.
fn own_browsers() -> PathBuf {
    root().join("target/browsers")
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
        .context("the explorer is built and tested with Node 20 or later")
}
