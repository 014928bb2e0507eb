//! Result files that earlier versions wrote stay readable: nothing in them is lost, and reports show them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::Sandbox;
use etalon::context::Budget;
use etalon::results::{Archive, Stored};
use serde_json::{Value, json};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/old-results");

/// The entries of a directory, sorted by name.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

/// The fields of a file: those of the result, `about`, and the check, which only the file has.
fn fields(stored: &Stored, check: &Value) -> Value {
    let mut value = stored.result.to_json().unwrap();
    value["about"] = json!(stored.about);
    value["check"] = check.clone();
    value
}

#[test]
fn old_results_are_read_completely() {
    for version in entries(Path::new(FOLDER)) {
        let (results, damaged) = Archive::open_existing(&version).unwrap().read_all(&Budget::new(1 << 26)).unwrap();
        assert_eq!(damaged, [], "{}", version.display());
        let files = entries(&version.join("results"));
        assert!(!files.is_empty() && results.len() == files.len(), "{}", version.display());
        for (stored, file) in results.iter().zip(&files) {
            let value: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
            assert_eq!(fields(stored, &value["check"]), value, "{}", file.display());
        }
    }
}

#[test]
fn reports_show_old_results() {
    for version in entries(Path::new(FOLDER)) {
        let (sandbox, files) = (Sandbox::new(), entries(&version.join("results")));
        for file in &files {
            let name = file.file_name().unwrap().to_string_lossy();
            sandbox.write(&format!("old/results/{name}"), fs::read(file).unwrap());
        }
        sandbox.done("verify old");
        let output = sandbox.done("report old --json");
        assert_eq!((output.json()["results"].as_u64(), output.err.as_str()), (Some(files.len() as u64), ""));
        let table = sandbox.read("old/report/results.csv");
        for file in &files {
            let result: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
            for (key, headline) in result["headline"].as_object().unwrap() {
                let value = headline["value"].as_f64().map_or(String::new(), |value| value.to_string());
                let row = format!(",{key},{value},");
                let metric = result["metric"].as_str().unwrap();
                assert!(table.lines().any(|line| line.starts_with(metric) && line.contains(&row)), "{row}\n{table}");
            }
        }
    }
}
