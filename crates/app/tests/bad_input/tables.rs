//! Labels and pairs as tables of text.

use crate::common::Sandbox;
use crate::common::files::npy_f32;
use crate::{Case, case};

fn labels(room: &Sandbox, name: &str, text: impl AsRef<[u8]>) -> String {
    room.write(name, text);
    format!("eval match --codes codes.npy --labels {name} --out out.json")
}

fn pairs(room: &Sandbox, name: &str, text: impl AsRef<[u8]>) -> String {
    room.write(name, text);
    format!("eval tapa --codes codes.npy --labels labels.csv --pairs {name} --out out.json")
}

pub fn cases() -> Vec<Case> {
    vec![
        case("csv: empty", |room| labels(room, "y.csv", ""), &["the file is empty", "file: y.csv"]),
        case("csv: only line ends", |room| labels(room, "y.csv", "\n\n\n"), &["names no concept", "file: y.csv"]),
        case(
            "csv: no rows",
            |room| labels(room, "y.csv", "red,round\n"),
            &["differ in rows", "expected: 8", "found: 0"],
        ),
        case(
            "csv: a header with an empty name",
            |room| labels(room, "y.csv", "red,,round\n0,1,0\n"),
            &["a column has no name", "column 2 of 3", "file: y.csv"],
        ),
        case(
            "csv: the same concept twice",
            |room| labels(room, "y.csv", "red,round,red\n0,1,0\n"),
            &["two columns have the same name", "found: red", "file: y.csv"],
        ),
        case(
            "csv: the same concept twice but for spaces",
            |room| labels(room, "y.csv", "red, red\n0,1\n"),
            &["same name", "red", "file: y.csv"],
        ),
        case(
            "csv: a short row",
            |room| labels(room, "y.csv", "red,round\n0,1\n1,0\n1\n0,0\n"),
            &["expected: 2 cells", "found: 1 cells", "at: line 4", "file: y.csv"],
        ),
        case(
            "csv: a long row after CRLF",
            |room| labels(room, "y.csv", "red,round\r\n0,1\r\n1,0,1\r\n"),
            &["expected: 2 cells", "found: 3 cells", "at: line 3", "file: y.csv"],
        ),
        case(
            "csv: a value that is no label",
            |room| labels(room, "y.csv", "red,round\n0,1\n1,maybe\n"),
            &["neither yes, no nor unknown", "found: `maybe`", "row 1", "line 3", "column `round`", "file: y.csv"],
        ),
        case(
            "csv: a score instead of a label",
            |room| labels(room, "y.csv", "red,round\n0,0.73\n"),
            &["found: `0.73`", "row 0", "line 2", "file: y.csv"],
        ),
        case(
            "csv: two samples of the same id",
            |room| labels(room, "y.csv", "image,red\na.png,1\nb.png,0\na.png,0\n"),
            &["two rows have the same id", "`a.png`, as in row 0", "row 2", "file: y.csv"],
        ),
        case(
            "csv: only ids",
            |room| labels(room, "y.csv", "image\na\nb\nc\nd\ne\nf\ng\nh\n"),
            &["no concept", "file: y.csv"],
        ),
        case(
            "csv: not UTF-8",
            |room| labels(room, "y.csv", b"red,r\xf6t\n0,1\n"),
            &["not UTF-8", "line 1", "save it as UTF-8", "file: y.csv"],
        ),
        case("csv: UTF-16", |room| labels(room, "y.csv", b"r\0e\0d\0\n\x000\0"), &["NUL", "line 1", "file: y.csv"]),
        case("csv: a NUL", |room| labels(room, "y.csv", b"red,round\n0,\x001\n"), &["NUL", "line 2", "file: y.csv"]),
        case(
            "csv: a line of more than 1 MB",
            |room| labels(room, "y.csv", format!("red,round\n0,{}\n", "1".repeat(1_100_000))),
            &["a line is too long", "at most 1048576 bytes", "line 2", "file: y.csv"],
        ),
        case(
            "csv: a quote that never ends",
            |room| labels(room, "y.csv", "red,round\n0,1\n\"1,0\n1,1\n"),
            &["a quote is opened and never closed", "line 3", "file: y.csv"],
        ),
        case(
            "jsonl: not JSON",
            |room| labels(room, "y.jsonl", "{\"red\": 1}\n{\"red\": \n"),
            &["not one JSON object", "line 2", "file: y.jsonl"],
        ),
        case(
            "jsonl: cut",
            |room| labels(room, "y.jsonl", "{\"red\": 1, \"round\": 0}\n{\"red\": 1, \"rou"),
            &["not one JSON object", "line 2", "file: y.jsonl"],
        ),
        case(
            "jsonl: a new key",
            |room| labels(room, "y.jsonl", "{\"red\": 1}\n{\"red\": 0, \"blue\": 1}\n"),
            &["key that the first line does not have", "one of red", "found: blue", "line 2", "file: y.jsonl"],
        ),
        case(
            "jsonl: the same key twice",
            |room| labels(room, "y.jsonl", "{\"red\": 1, \"red\": 0}\n"),
            &["twice", "red", "line 1", "file: y.jsonl"],
        ),
        case(
            "jsonl: nested",
            |room| labels(room, "y.jsonl", "{\"red\": [1]}\n"),
            &["a value is nested", "line 1, key `red`", "file: y.jsonl"],
        ),
        case(
            "array of labels: a score",
            |room| labels(room, "y.npy", npy_f32(&[8, 2], &[[0.0, 1.0].repeat(7), vec![0.0, 0.4]].concat())),
            &["1 for yes, 0 for no, -1 or NaN", "found: 0.4", "row 7, column 1", "threshold", "file: y.npy"],
        ),
        case(
            "labels: a directory",
            |room| {
                std::fs::create_dir(room.path("y.csv")).unwrap();
                "eval match --codes codes.npy --labels y.csv --out out.json".into()
            },
            &["expected: a regular file", "found: a directory", "file: y.csv"],
        ),
        case(
            "labels: missing",
            |_| "eval match --codes codes.npy --labels no.csv --out out.json".into(),
            &["no such file", "file: no.csv"],
        ),
        case(
            "pairs: no such column",
            |room| pairs(room, "p.csv", "before,then,added\n0,1,red\n"),
            &["no column `after`", "before, then, added", "the header", "file: p.csv"],
        ),
        case(
            "pairs: a row that is no number",
            |room| pairs(room, "p.csv", "before,after,added\n0,cat.png,red\n"),
            &["a row number, counted from 0", "found: `cat.png`", "column `after`", "file: p.csv"],
        ),
        case(
            "pairs: a concept that nobody labelled",
            |room| pairs(room, "p.csv", "before,after,added\n0,1,blue\n"),
            &["concept that the labels do not have", "found: `blue`", "column `added`", "file: p.csv"],
        ),
        case(
            "pairs: a row that the codes do not have",
            |room| pairs(room, "p.csv", "before,after,added\n0,4,red\n1,8,red\n"),
            &["row that the codes do not have", "a row below 8", "found: 8", "pair 1, column `after`", "file: p.csv"],
        ),
        case(
            "pairs: one that changes nothing",
            |room| pairs(room, "p.csv", "before,after,added,removed\n0,4,,\n"),
            &["a pair changes nothing", "row 0", "file: p.csv"],
        ),
    ]
}

/// Evaluates a metric of purity with factors.
fn factors(room: &Sandbox, text: &str) -> String {
    room.write("f.csv", text);
    "eval ois --codes codes.npy --factors f.csv --out out.json".into()
}

/// Factors, task labels and options of the metrics of purity.
pub fn purity() -> Vec<Case> {
    vec![
        case(
            "factors: a number that is not whole",
            |room| factors(room, "a\n0\n1\n0.5\n1\n0\n1\n0\n1\n"),
            &["not an integer", "found: `0.5`", "row 2", "column `a`", "f.csv"],
        ),
        case(
            "factors: a class beyond the limit",
            |room| factors(room, "a\n0\n1\n12345\n1\n0\n1\n0\n1\n"),
            &["expected: an integer from 0 to 9999", "found: 12345", "row 2", "column `a`", "f.csv"],
        ),
        case(
            "factors: too few rows",
            |room| factors(room, "a\n0\n1\n"),
            &["differ in rows", "expected: 8", "found: 2"],
        ),
        case("factors: no column", |room| factors(room, "\n"), &["f.csv"]),
        case(
            "task labels: missing",
            |_| "eval ctl --codes codes.npy --labels labels.csv --out out.json".into(),
            &["task-labels"],
        ),
        case(
            "task labels: two columns",
            |_| "eval ctl --codes codes.npy --labels labels.csv --task-labels labels.csv --out out.json".into(),
            &["one column", "found: 2 columns: red, round", "labels.csv"],
        ),
        case(
            "task labels: needed for balanced rows",
            |_| "eval nis --balance task --codes codes.npy --labels labels.csv --out out.json".into(),
            &["balance", "task-labels"],
        ),
        case(
            "representations: latents that cannot be divided",
            |_| "eval ois --dimensions 2 --codes codes.npy --labels labels.csv --out out.json".into(),
            &["expected: a multiple of 2 latents", "found: 3 latents"],
        ),
        case(
            "representations: an unknown alignment",
            |_| "eval ois --align best --codes codes.npy --labels labels.csv --out out.json".into(),
            &["align", "best"],
        ),
    ]
}
