//! Every metric run unit by unit in other processes gives the same bits as in one process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::everything::{self, Of, Size};
use common::{Sandbox, without_seconds};

/// Runs a cell as a scheduler would: queries the missing units and runs them, last units first, until it is done.
fn drive(sandbox: &Sandbox, cell: &str) {
    for _ in 0..60 {
        let output = sandbox.done(&format!("unit b.toml --cell {cell} --json")).json();
        if output["done"] == true {
            return;
        }
        let stage = output["stage"].as_str().unwrap();
        let missing: Vec<u64> = output["missing"].as_array().unwrap().iter().filter_map(|unit| unit.as_u64()).collect();
        let (first, middle, end) = (missing[0], missing[missing.len() / 2], missing[missing.len() - 1] + 1);
        for (from, to) in [(middle, end), (first, middle)] {
            if from < to {
                sandbox.done(&format!("unit b.toml --cell {cell} --stage {stage} --unit {from}..{to}"));
            }
        }
    }
    panic!("{cell} never ends");
}

#[test]
fn units_in_other_processes_give_the_same_files() {
    let sandbox = Sandbox::new();
    everything::make(&sandbox, &Size { rows: 300, features: 12, width: 8, latents: 16 });
    let mut all = 0;
    for of in [Of::World, Of::Network] {
        everything::write_study(&sandbox, of, "a.toml", "a");
        let metrics = everything::write_study(&sandbox, of, "b.toml", "b");
        let output = sandbox.done("run a.toml --json").json();
        assert_eq!(output["failed"].as_array().unwrap().len(), 0, "{output}");
        let cells = sandbox.done("unit b.toml --json").json();
        let cells: Vec<&str> = cells["cells"].as_array().unwrap().iter().filter_map(|cell| cell.as_str()).collect();
        assert_eq!(cells.len(), metrics);
        cells.iter().for_each(|cell| drive(&sandbox, cell));
        all += metrics;
    }
    let files = sandbox.files("a/results");
    assert_eq!(files, sandbox.files("b/results"));
    assert!(files.len() >= all && all == everything::metrics(&sandbox).len(), "{files:?}");
    for file in files {
        let (at_once, in_pieces) =
            (sandbox.read(&format!("a/results/{file}")), sandbox.read(&format!("b/results/{file}")));
        assert_eq!(without_seconds(&at_once), without_seconds(&in_pieces), "{file}");
    }
    assert_eq!(sandbox.files("b/units"), Vec::<String>::new());
}

#[test]
fn wrong_cells_and_units_are_named() {
    let sandbox = Sandbox::new();
    everything::make(&sandbox, &Size { rows: 60, features: 6, width: 4, latents: 8 });
    sandbox.write(
        "b.toml",
        "metrics = [\"monosemanticity\"]\n[[set]]\nname = \"all\"\nsae = \"sae0\"\nworld = \"world\"\n",
    );
    for (options, words) in [
        ("--cell no:match:0", "no such cell"),
        ("--cell all:monosemanticity:0 --stage 0-00 --unit x", "`--unit` is not a unit"),
        ("--cell all:monosemanticity:0 --stage 0-00", "`--unit` is required"),
    ] {
        let output = sandbox.run(&format!("unit b.toml {options}"));
        assert!(output.code == Some(2) && output.err.contains(words), "{options}: {output:#?}");
    }
}
