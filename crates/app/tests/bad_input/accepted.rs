//! Unusual but valid input: the same numbers in another format give the same result.

use serde_json::Value;

use crate::common::files::{le, npy, npy_f32, safetensors, scipy, zip};
use crate::common::{CODES, LABELS, Sandbox, embeddings};

/// The headline of a file of codes.
fn headline(room: &Sandbox, codes: &str, labels: &str) -> Value {
    let said = room.done(&format!("eval match --codes {codes} --labels {labels} --json"));
    said.json()["headline"].clone()
}

#[test]
fn arrays_of_every_format() {
    let room = Sandbox::with_inputs();
    let expected = headline(&room, "codes.npy", "labels.csv");
    let columns: Vec<f32> = (0..3).flat_map(|column| (0..8).map(move |row| CODES[row * 3 + column])).collect();
    let big: Vec<u8> = CODES.iter().flat_map(|value| value.to_be_bytes()).collect();
    let double: Vec<u8> = CODES.iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect();
    // 0.3 and 0.7 have no exact half, and only whether a latent fires matters here.
    let half: Vec<u8> = CODES.iter().flat_map(|&value| if value > 0.0 { [0, 0x3c] } else { [0, 0] }).collect();
    let tensor = r#"{"z":{"dtype":"F32","shape":[8,3],"data_offsets":[0,96]}}"#;
    let entries: Vec<(usize, f32)> = CODES.iter().copied().enumerate().filter(|(_, value)| *value != 0.0).collect();
    let starts: Vec<i64> =
        (0..9).map(|row| entries.iter().filter(|(index, _)| *index < row * 3).count() as i64).collect();
    let indices: Vec<i64> = entries.iter().map(|(index, _)| (index % 3) as i64).collect();
    let values: Vec<f32> = entries.iter().map(|(_, value)| *value).collect();
    for (name, bytes) in [
        ("fortran.npy", npy("<f4", true, "(8, 3)", &le(&columns))),
        ("big.npy", npy(">f4", false, "(8, 3)", &big)),
        ("double.npy", npy("<f8", false, "(8, 3)", &double)),
        ("half.npy", npy("<f2", false, "(8, 3)", &half)),
        ("three.npy", npy_f32(&[4, 2, 3], &CODES)),
        ("named.safetensors", safetensors(tensor, &le(&CODES))),
        ("sparse.npz", scipy(8, 3, &starts, &indices, &values)),
        ("dense.npz", zip(&[("z.npy", &npy_f32(&[8, 3], &CODES))])),
    ] {
        room.write(name, bytes);
        assert_eq!(headline(&room, name, "labels.csv"), expected, "{name}");
    }
    assert_eq!(headline(&room, "dense.npz:z", "labels.csv"), expected);
    assert_eq!(headline(&room, "named.safetensors:z", "labels.csv"), expected);
    // One dimension is one latent.
    room.write("one.npy", npy_f32(&[8], &[0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
    headline(&room, "one.npy", "labels.csv");
}

#[test]
fn labels_of_every_format() {
    let room = Sandbox::with_inputs();
    let expected = headline(&room, "codes.npy", "labels.csv");
    let words = LABELS.replace('1', "Yes").replace('0', "no");
    let lines = LABELS.lines().skip(1).map(|line| {
        let (red, round) = line.split_once(',').unwrap();
        format!("{{\"red\": {red}, \"round\": {round}}}\n")
    });
    for (name, text) in [
        ("bom.csv", format!("\u{feff}{LABELS}")),
        ("crlf.csv", LABELS.replace('\n', "\r\n")),
        ("bom_crlf.csv", format!("\u{feff}{}", LABELS.replace('\n', "\r\n"))),
        ("words.csv", words),
        ("no_last_line_end.csv", LABELS.trim_end().into()),
        ("tabs.tsv", LABELS.replace(',', "\t")),
        ("lines.jsonl", lines.collect()),
    ] {
        room.write(name, text);
        assert_eq!(headline(&room, "codes.npy", name), expected, "{name}");
    }
    let ids: String = LABELS.lines().enumerate().fold(String::new(), |text, (row, line)| {
        let id = if row == 0 { "image".into() } else { format!("\"{row}, a.png\"") };
        format!("{text}{id},{line}\n")
    });
    room.write("ids.csv", ids);
    assert_eq!(headline(&room, "codes.npy", "ids.csv"), expected);
}

#[test]
fn rows_with_nan_can_be_dropped() {
    let room = Sandbox::with_inputs();
    let mut values = embeddings();
    values[5] = f32::NAN;
    values[30] = f32::NEG_INFINITY;
    room.write("x.npy", npy_f32(&[8, 4], &values));
    let said = room.done("data array --from x.npy --nan drop-rows --out store --json");
    assert_eq!((said.json()["rows"].as_u64(), said.json()["width"].as_u64()), (Some(6), Some(4)));
    assert_eq!(room.json("store/manifest.json")["dropped_rows"], 2);
    room.done("verify store");
    // In an evaluation the codes and labels lose the same rows.
    let said = room.done("eval probe_ceiling,cknna --codes codes.npy --labels labels.csv --embeddings x.npy --neighbours 2 --nan drop-rows --json");
    assert!(said.json().as_array().unwrap().iter().all(|result| result["headline"].is_object()));
}

#[test]
fn undefined_is_null_with_a_note() {
    let room = Sandbox::with_inputs();
    room.write("y.csv", "never,unknown\n".to_string() + &"0,?\n".repeat(8));
    let said = room.done("eval match --codes codes.npy --labels y.csv --json");
    let result = said.json();
    assert!(result["headline"]["match_score_present"]["value"].is_null(), "{result:#}");
    assert!(!result["notes"].as_array().unwrap().is_empty());
    assert!(!said.out.contains("NaN"));
}

#[test]
fn labels_that_look_like_formulas_are_only_names() {
    let room = Sandbox::with_inputs();
    room.write("y.csv", LABELS.replace("red,round", "=cmd(),<script>alert(1)</script>"));
    room.write(
        "s.toml",
        "metrics = [\"match\"]\n[[set]]\nname = \"=a&<b>\"\ncodes = \"codes.npy\"\nlabels = \"y.csv\"\n",
    );
    room.done("run s.toml");
    let page = room.read("s-results/report/index.html");
    assert!(!page.contains("<script>alert") && !page.contains("<b>"));
    assert!(
        !room.read("s-results/report/results.csv").lines().any(|line| line.contains(",=") || line.starts_with('='))
    );
}

#[test]
fn a_dropped_row_is_dropped_from_everything() {
    let room = Sandbox::with_inputs();
    let mut values = embeddings();
    let width = values.len() / 8;
    let without: Vec<f32> = [&values[..2 * width], &values[3 * width..]].concat();
    values[2 * width] = f32::NAN;
    room.write("spoilt.npy", npy_f32(&[8, width], &values));
    room.write("seven.npy", npy_f32(&[7, width], &without));
    room.write("seven_codes.npy", npy_f32(&[7, 3], &[&CODES[..6], &CODES[9..]].concat()));
    let score = |arguments: &str| {
        let said = room.done(&format!("eval monosemanticity --json {arguments}"));
        said.json()["headline"].clone()
    };
    assert_eq!(
        score("--codes codes.npy --embeddings spoilt.npy --nan drop-rows"),
        score("--codes seven_codes.npy --embeddings seven.npy"),
    );
}
