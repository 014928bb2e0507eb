//! Runs `etalon demo --real`, a network from its file to a report, and checks the numbers that matter.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::steps::{cargo, program, root, target};

/// The packages of the demo.
const PACKAGES: [&str; 2] = ["stories15m", "brown"];

/// Most minutes that the demo may take on two cores, here without optimisation of the program itself.
const MINUTES: f64 = 5.0;

/// Headline values by metric and key; then by the name of the dictionary.
type Numbers = BTreeMap<(String, String), BTreeMap<String, f64>>;

/// Runs the demo. Returns why it was skipped, if its packages are neither in the cache nor can be fetched.
pub fn check() -> Result<Option<String>> {
    // The program of the tests: building an optimised one takes longer than the demo does without.
    let program = program()?;
    let (cache, out) = (root().join("target/demo-cache"), root().join("target/demo-real"));
    for name in PACKAGES {
        if let Some(why) = fetch(&program, &cache, name)? {
            return Ok(Some(why));
        }
    }
    if out.exists() {
        fs::remove_dir_all(&out).with_context(|| format!("cannot remove {}", out.display()))?;
    }
    let began = Instant::now();
    let mut command = Command::new(&program);
    command.args(["demo", "--real", "--quiet", "--out"]).arg(&out).env("ETALON_CACHE", &cache);
    crate::steps::run(&mut command)?;
    let minutes = began.elapsed().as_secs_f64() / 60.0;
    if minutes > MINUTES {
        eprintln!(
            "── warning: the demo took {minutes:.1} minutes; it is meant to take less than {MINUTES} on two cores"
        );
    }
    ensure!(out.join("results/report/index.html").is_file(), "the demo wrote no report");
    compare(&numbers(&out.join("results/results"))?)?;
    Ok(None)
}

/// Builds the optimised program.
pub fn release_program() -> Result<PathBuf> {
    cargo(&["build", "--quiet", "--release", "--bin", "etalon"])?;
    Ok(target()?.join("release").join(format!("etalon{}", std::env::consts::EXE_SUFFIX)))
}

/// Fetches a package into the cache of the tests; returns the message if that is not possible.
pub fn fetch(program: &Path, cache: &Path, name: &str) -> Result<Option<String>> {
    let mut command = Command::new(program);
    command.args(["fetch", name, "--cache"]).arg(cache);
    let done = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    match done.status.code() {
        Some(0) => Ok(None),
        // The client or the connection is missing.
        Some(2) => Ok(Some(String::from_utf8_lossy(&done.stderr).trim().to_string())),
        _ => bail!("`etalon fetch {name}` ended with {}\n{}", done.status, String::from_utf8_lossy(&done.stderr)),
    }
}

/// The headline values of all results in a directory.
fn numbers(results: &Path) -> Result<Numbers> {
    let mut files: Vec<PathBuf> = fs::read_dir(results)
        .with_context(|| format!("cannot list {}", results.display()))?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    files.sort();
    let mut numbers = Numbers::new();
    for file in files {
        let result: Value = serde_json::from_slice(&fs::read(&file)?)?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
        let (metric, name) = (text(&result["metric"]), text(&result["about"]["inputs"]));
        for (key, headline) in result["headline"].as_object().into_iter().flatten() {
            if let Some(value) = headline["value"].as_f64() {
                numbers.entry((metric.clone(), key.clone())).or_default().insert(name.clone(), value);
            }
        }
    }
    Ok(numbers)
}

/// Trained dictionaries are above the untrained one and above that of the network with weights drawn anew.
fn compare(numbers: &Numbers) -> Result<()> {
    let of = |metric: &str, key: &str, name: &str| -> Result<Vec<f64>> {
        let all = numbers.get(&(metric.to_string(), key.to_string())).with_context(|| format!("no {metric} {key}"))?;
        let chosen: Vec<f64> = all.iter().filter(|(other, _)| kind(other) == name).map(|(_, value)| *value).collect();
        ensure!(!chosen.is_empty(), "no {metric} {key} of a {name} dictionary: {:?}", all.keys());
        Ok(chosen)
    };
    let least = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for (metric, key, others) in [
        ("core", "explained_variance", &["untrained", "randomised"][..]),
        ("loss_recovered", "ce_loss_score", &["untrained"]),
        ("match", "match_score", &["untrained", "randomised"]),
        ("sparse_probing", "top_1_accuracy", &["untrained", "randomised"]),
    ] {
        let trained = of(metric, key, "trained")?;
        ensure!(trained.len() == 4, "{} trained dictionaries instead of 4", trained.len());
        for other in others {
            let (low, high) = (least(&trained), most(&of(metric, key, other)?));
            ensure!(low > high, "{metric} {key}: a trained dictionary has {low}, the {other} one {high}");
        }
    }
    let explained = least(&of("core", "explained_variance", "trained")?);
    ensure!(explained > 0.75, "trained dictionaries explain {explained} of the variance");
    let recovered = least(&of("loss_recovered", "ce_loss_score", "trained")?);
    ensure!(recovered > 0.95, "trained dictionaries recover {recovered} of the loss");
    Ok(())
}

/// What kind of dictionary a name of inputs means.
fn kind(name: &str) -> &'static str {
    if name.contains("untrained") {
        "untrained"
    } else if name.contains("randomised") {
        "randomised"
    } else {
        "trained"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of four trained dictionaries, an untrained one, and one of a randomised network.
    fn made(trained: f64) -> Numbers {
        let names = ["topk-512", "topk-2048", "jumprelu", "batch_topk", "untrained-2048", "randomised network"];
        let values = [trained, 1.0, 1.0, 1.0, 0.6, 0.5];
        let all: BTreeMap<String, f64> = names.iter().map(|name| name.to_string()).zip(values).collect();
        let keys = [
            ("core", "explained_variance"),
            ("loss_recovered", "ce_loss_score"),
            ("match", "match_score"),
            ("sparse_probing", "top_1_accuracy"),
        ];
        keys.map(|(metric, key)| ((metric.to_string(), key.to_string()), all.clone())).into_iter().collect()
    }

    #[test]
    fn a_dictionary_that_learned_nothing_is_found() {
        compare(&made(0.97)).unwrap();
        assert!(compare(&made(0.55)).unwrap_err().to_string().contains("the untrained one 0.6"));
        assert!(compare(&made(0.7)).unwrap_err().to_string().contains("explain 0.7"));
        assert!(compare(&Numbers::new()).is_err());
    }
}
