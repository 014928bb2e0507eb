//! Inputs that are right one by one and do not belong together.

use crate::common::files::{npy_f32, scipy};
use crate::common::{CODES, Sandbox};
use crate::{Case, case};

fn with_truth(room: &Sandbox, rows: usize) -> String {
    room.done(&format!("data tabular-toy --rows {rows} --out world"));
    "eval recovery --codes codes.npy --truth world --out out.json".into()
}

pub fn cases() -> Vec<Case> {
    vec![
        case(
            "labels and codes",
            |room| {
                room.write("y.csv", "red,round\n0,0\n1,1\n");
                "eval match --codes codes.npy --labels y.csv --out out.json".into()
            },
            &["`--codes` and `--labels` differ in rows", "expected: 8 rows", "found: 2 rows", "same split"],
        ),
        case(
            "embeddings and codes",
            |room| {
                room.write("x.npy", npy_f32(&[4, 8], &[0.5; 32]));
                "eval cknna --codes codes.npy --embeddings x.npy --out out.json".into()
            },
            &["`--codes` and `--embeddings` differ in rows", "expected: 8 rows", "found: 4 rows", "same split"],
        ),
        case(
            "labels and embeddings",
            |room| {
                room.write("x.npy", npy_f32(&[4, 8], &[0.5; 32]));
                "eval probe_ceiling --embeddings x.npy --labels labels.csv --out out.json".into()
            },
            &["`--embeddings` and `--labels` differ in rows", "expected: 4 rows", "found: 8 rows"],
        ),
        case(
            "pair codes and codes",
            |room| {
                room.write("p.npy", npy_f32(&[6, 4], &CODES));
                "eval tapa --codes codes.npy --labels labels.csv --pairs pairs.csv --pair-codes p.npy --out out.json"
                    .into()
            },
            &[
                "`--codes` and `--pair-codes` differ in latents",
                "expected: 3 latents",
                "found: 4 latents",
                "same dictionary",
            ],
        ),
        case(
            "pairs and pair codes",
            |room| {
                room.write("p.npy", npy_f32(&[2, 3], &CODES[..6]));
                "eval tapa --codes codes.npy --labels labels.csv --pairs pairs.csv --pair-codes p.npy --out out.json"
                    .into()
            },
            &["a pair names a row that the codes do not have", "a row below 2", "found: 4", "file: pairs.csv"],
        ),
        case(
            "pair labels and pair codes",
            |room| {
                room.write("p.npy", npy_f32(&[8, 3], &CODES));
                room.write("py.csv", "red,round\n1,0\n0,1\n");
                "eval stay --codes codes.npy --labels labels.csv --pairs pairs.csv --pair-codes p.npy \
                 --pair-labels py.csv --out out.json"
                    .into()
            },
            &["`--pair-codes` and `--pair-labels` differ in rows", "expected: 8 rows", "found: 2 rows"],
        ),
        case(
            "pair embeddings and pair codes",
            |room| {
                room.write("p.npy", npy_f32(&[8, 3], &CODES));
                room.write("pe.npy", npy_f32(&[6, 4], &CODES));
                "eval tapa --codes codes.npy --labels labels.csv --pairs pairs.csv --pair-codes p.npy \
                 --pair-embeddings pe.npy --out out.json"
                    .into()
            },
            &["`--pair-codes` and `--pair-embeddings` differ in rows", "expected: 8 rows", "found: 6 rows"],
        ),
        case(
            "labels and pair labels",
            |room| {
                room.write("py.csv", "round,red\n".to_string() + &"1,0\n".repeat(8));
                "eval stay --codes codes.npy --labels labels.csv --pairs pairs.csv --pair-codes codes.npy \
                 --pair-labels py.csv --out out.json"
                    .into()
            },
            &["`--labels` and `--pair-labels` name different concepts", "use the same concepts in the same order"],
        ),
        case(
            "null codes and codes",
            |room| {
                room.write("n.npz", scipy(7, 3, &[0, 1, 1, 1, 1, 1, 1, 1], &[2], &[1.0]));
                "eval match --codes codes.npy --labels labels.csv --null codes.npy --null n.npz --out out.json".into()
            },
            &["`--codes` and `--null` differ in rows", "expected: 8 rows", "found: 7 rows"],
        ),
        case(
            "directions and codes",
            |room| {
                room.write("d.npy", npy_f32(&[4, 4], &[0.5; 16]));
                with_truth(room, 8) + " --directions d.npy"
            },
            &["`--codes` and `--directions` differ in latents", "expected: 3 latents", "found: 4 latents"],
        ),
        case(
            "true codes and codes",
            |room| with_truth(room, 9),
            &["`--codes` and `--truth` differ in rows", "expected: 8 rows", "found: 9 rows"],
        ),
        case(
            "truth that is no world",
            |room| {
                room.write("w/readme.txt", "nothing");
                "eval recovery --codes codes.npy --truth w --out out.json".into()
            },
            &["holds no true features", "etalon data", "file: w"],
        ),
        case(
            "a world that is none",
            |_| "eval probe_ceiling --world nowhere --out out.json".into(),
            &["holds no world", "world.json", "file: nowhere"],
        ),
        case(
            "an input that is missing",
            |_| "eval match --codes codes.npy --out out.json".into(),
            &["`match` lacks an input", "expected: codes, labels", "found: no labels", "help: add `--labels`"],
        ),
        case(
            "all inputs missing",
            |_| "eval stay --out out.json".into(),
            &["`stay` lacks an input", "help: add `--codes`, `--labels`, `--pairs`, `--pair-labels`"],
        ),
        case(
            "one of several metrics lacks an input",
            |_| "eval match,monosemanticity --codes codes.npy --labels labels.csv --out out.json".into(),
            &["`monosemanticity` lacks an input", "add `--embeddings`"],
        ),
        case(
            "the sanity check without embeddings",
            |_| "sanity --codes codes.npy --labels labels.csv --out out".into(),
            &["`--embeddings` is required", "--embeddings"],
        ),
        case(
            "the sanity check without codes",
            |_| "sanity --embeddings embeddings.npy --labels labels.csv --out out".into(),
            &["`--codes` is required", "--codes"],
        ),
    ]
}
