//! Every metric, unit by unit in other processes: the same bits as at once.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::everything::{self, Size};
use common::{Room, without_seconds};

/// Runs a cell as a scheduler would: asks what is missing and runs it, the last units first, until it is done.
fn drive(room: &Room, cell: &str) {
    for _ in 0..60 {
        let said = room.done(&format!("unit b.toml --cell {cell} --json")).json();
        if said["done"] == true {
            return;
        }
        let stage = said["stage"].as_str().unwrap();
        let missing: Vec<u64> = said["missing"].as_array().unwrap().iter().filter_map(|unit| unit.as_u64()).collect();
        let (first, middle, end) = (missing[0], missing[missing.len() / 2], missing[missing.len() - 1] + 1);
        for (from, to) in [(middle, end), (first, middle)] {
            if from < to {
                room.done(&format!("unit b.toml --cell {cell} --stage {stage} --unit {from}..{to}"));
            }
        }
    }
    panic!("{cell} never ends");
}

#[test]
fn units_in_other_processes_give_the_same_files() {
    let room = Room::new();
    everything::make(&room, &Size { rows: 300, features: 12, width: 8, latents: 16 });
    everything::write_study(&room, "a.toml", "a");
    everything::write_study(&room, "b.toml", "b");
    let said = room.done("run a.toml --json").json();
    assert_eq!(said["failed"].as_array().unwrap().len(), 0, "{said}");
    let cells = room.done("unit b.toml --json").json();
    let cells: Vec<&str> = cells["cells"].as_array().unwrap().iter().filter_map(|cell| cell.as_str()).collect();
    assert_eq!(cells.len(), everything::metrics(&room).len());
    for cell in cells {
        drive(&room, cell);
    }
    let files = room.files("a/results");
    assert_eq!(files, room.files("b/results"));
    assert!(files.len() >= 20, "{files:?}");
    for file in files {
        let (at_once, in_pieces) = (room.read(&format!("a/results/{file}")), room.read(&format!("b/results/{file}")));
        assert_eq!(without_seconds(&at_once), without_seconds(&in_pieces), "{file}");
    }
    assert_eq!(room.files("b/units"), Vec::<String>::new());
}

#[test]
fn wrong_cells_and_units_are_named() {
    let room = Room::new();
    everything::make(&room, &Size { rows: 60, features: 6, width: 4, latents: 8 });
    room.write(
        "b.toml",
        "metrics = [\"monosemanticity\"]\n[[set]]\nname = \"all\"\nsae = \"sae0\"\nworld = \"world\"\n",
    );
    for (options, words) in [
        ("--cell no:match:0", "no such cell"),
        ("--cell all:monosemanticity:0 --stage 0-00 --unit x", "`--unit` is not a unit"),
        ("--cell all:monosemanticity:0 --stage 0-00", "`--unit` is required"),
    ] {
        let said = room.run(&format!("unit b.toml {options}"));
        assert!(said.code == Some(2) && said.err.contains(words), "{options}: {said:#?}");
    }
}
