//! Metrics of purity on inputs that leave them without an answer: a number, or `null` with a note that says why, or an
//! error that says what was expected and found.

use serde_json::Value;

use crate::common::Sandbox;
use crate::common::files::npy_f32;

const METRICS: [&str; 13] = [
    "ois",
    "nis",
    "sap",
    "mig",
    "r4",
    "dci",
    "modularity",
    "explicitness",
    "concept_alignment",
    "concept_auc",
    "task_auc",
    "ctl",
    "icl",
];

/// A table of one or more columns.
fn table(names: &str, rows: usize, cells: impl Fn(usize) -> String) -> String {
    format!("{names}\n") + &(0..rows).map(|row| cells(row) + "\n").collect::<String>()
}

/// Runs a metric; returns its result, or `None` if it is refused as it should be.
fn result(room: &Sandbox, metric: &str, inputs: &str) -> Option<Value> {
    let said = room.run(&format!("eval {metric} {inputs} --json"));
    assert!(!said.err.contains("panicked") && !said.err.contains("internal error"), "{metric}: {}", said.err);
    assert!(!said.out.contains("NaN"), "{metric}: {}", said.out);
    if said.code == Some(2) {
        for part in ["error: ", "expected: ", "found: "] {
            assert!(said.err.contains(part), "{metric} does not say `{part}`: {}", said.err);
        }
        return None;
    }
    assert_eq!(said.code, Some(0), "{metric}: {}", said.err);
    let result = said.json();
    let missing: Vec<&String> = result["headline"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(_, number)| number["value"].is_null())
        .map(|(name, _)| name)
        .collect();
    assert!(missing.is_empty() || !notes(&result).is_empty(), "{metric}: {missing:?} without a note");
    Some(result)
}

fn notes(result: &Value) -> Vec<String> {
    result["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap().to_string()).collect()
}

fn is_null(result: &Value, key: &str) -> bool {
    result["headline"][key]["value"].is_null()
}

fn says(result: &Value, text: &str) -> bool {
    notes(result).iter().any(|note| note.contains(text))
}

/// Codes of two latents, labels of two concepts, and a task, of some rows.
fn room(rows: usize) -> Sandbox {
    let room = Sandbox::new();
    let values: Vec<f32> =
        (0..rows).flat_map(|row| [(row * 7 % 11) as f32 / 11.0, (row * 5 % 13) as f32 / 13.0]).collect();
    room.write("z.npy", npy_f32(&[rows, 2], &values));
    room.write("y.csv", table("a,b", rows, |row| format!("{},{}", row % 2, row / 2 % 2)));
    room.write("t.csv", table("task", rows, |row| (row % 3).to_string()));
    room
}

#[test]
fn a_class_that_never_occurs() {
    let room = room(60);
    room.write("f.csv", table("a,b", 60, |row| format!("{},{}", 2 * (row % 2), row / 2 % 3)));
    room.write("never.csv", table("a,b", 60, |row| format!("{},0", row % 2)));
    for metric in METRICS {
        let inputs = "--codes z.npy --factors f.csv --task-labels t.csv";
        let found = result(&room, metric, inputs).unwrap();
        // Classes are columns of the task where the task is predicted.
        assert!(metric == "task_auc" || says(&found, "no row has class 1 of `a`"), "{metric}: {:?}", notes(&found));
        // A concept that is never present: the others count.
        if let Some(found) = result(&room, metric, "--codes z.npy --labels never.csv --task-labels t.csv") {
            assert!(metric == "task_auc" || !notes(&found).is_empty(), "{metric}: {found:#}");
        }
    }
}

#[test]
fn constant_codes() {
    let room = room(60);
    room.write("z.npy", npy_f32(&[60, 2], &[0.5; 120]));
    for metric in METRICS {
        let Some(found) = result(&room, metric, "--codes z.npy --labels y.csv --task-labels t.csv") else { continue };
        let value = |key: &str| found["headline"][key]["value"].as_f64();
        match metric {
            // Nothing is told: the areas are 1/2, and 1 from their own.
            "mig" => assert_eq!(value("mig"), Some(0.0)),
            "nis" => assert_eq!(value("nis_unmasked"), Some(0.5)),
            "modularity" => assert!(is_null(&found, "modularity")),
            _ => {}
        }
    }
}

#[test]
fn fewer_rows_than_parts_of_a_split() {
    let room = room(3);
    for metric in METRICS {
        let Some(found) = result(&room, metric, "--codes z.npy --labels y.csv --task-labels t.csv") else { continue };
        if ["ois", "nis"].contains(&metric) {
            assert!(is_null(&found, metric) && says(&found, "3 rows are too few"), "{metric}: {:?}", notes(&found));
        }
    }
}

#[test]
fn fewer_representations_than_concepts() {
    let room = room(60);
    room.write("one.npy", npy_f32(&[60, 1], &(0..60).map(|row| (row % 7) as f32).collect::<Vec<f32>>()));
    for metric in METRICS {
        let Some(found) = result(&room, metric, "--codes one.npy --labels y.csv --task-labels t.csv") else { continue };
        match metric {
            "ois" => assert!(is_null(&found, "ois") && says(&found, "1 representations cannot stand for 2 concepts")),
            "dci" => assert!(is_null(&found, "completeness") && says(&found, "fewer than two")),
            _ => {}
        }
    }
}
