//! Activations of units, distances of images, and answers of people.

use crate::common::Sandbox;
use crate::common::files::npy_f32;
use crate::{Case, case};

/// Distances of the eight rows of the small inputs, with one change.
fn distances(room: &Sandbox, change: impl Fn(&mut Vec<f32>)) -> String {
    let mut values: Vec<f32> = (0..64usize).map(|index| (index / 8).abs_diff(index % 8) as f32).collect();
    change(&mut values);
    room.write("d.npy", npy_f32(&[8, values.len() / 8], &values));
    "eval mis --codes codes.npy --distances d.npy --tasks 1 --explanations 1 --out out.json".into()
}

fn responses(room: &Sandbox, name: &str, text: &str) -> String {
    room.write(name, text);
    room.write("units.csv", "layer,channel,mis\na,0,0.5\na,1,0.6\na,2,0.7\n");
    format!("eval his --units units.csv --responses {name} --out out.json")
}

pub fn cases() -> Vec<Case> {
    vec![
        case(
            "distances: not square",
            |room| distances(room, |values| values.truncate(40)),
            &["not square", "expected: 8 × 8", "found: 8 × 5", "file: d.npy"],
        ),
        case(
            "distances: not symmetric",
            |room| distances(room, |values| values[8 * 5 + 2] = 9.0),
            &["not symmetric", "found: 3 and 9", "row 5, column 2", "file: d.npy"],
        ),
        case(
            "distances: NaN",
            |room| distances(room, |values| values[8 * 5 + 2] = f32::NAN),
            &["not finite", "row 5", "file: d.npy"],
        ),
        case(
            "distances: infinite",
            |room| distances(room, |values| values[3] = f32::INFINITY),
            &["not finite", "row 0", "file: d.npy"],
        ),
        case(
            "distances: negative",
            |room| distances(room, |values| values[8 * 6 + 1] = -5.0),
            &["negative", "found: -5", "row 6, column 1", "file: d.npy"],
        ),
        case(
            "distances: similarities",
            |room| distances(room, |values| values.iter_mut().for_each(|value| *value = 1.0 - *value / 8.0)),
            &["to itself is not 0", "row 0, column 0", "subtract", "file: d.npy"],
        ),
        case(
            "distances: of other rows",
            |room| {
                room.write("d.npy", npy_f32(&[2, 2], &[0.0, 1.0, 1.0, 0.0]));
                "eval mis --codes codes.npy --distances d.npy --tasks 1 --explanations 1 --out out.json".into()
            },
            &["differ in rows", "expected: 8 rows", "found: 2"],
        ),
        case(
            "distances and vectors",
            |room| distances(room, |_| ()) + " --similarity embeddings.npy",
            &["both distances and vectors", "expected: one of them"],
        ),
        case(
            "tasks: too few images",
            |_| "eval mis --codes codes.npy --embeddings embeddings.npy --out out.json".into(),
            &["too few images for the tasks", "expected: at least 400", "found: 8", "`--tasks`", "`--explanations`"],
        ),
        case(
            "tasks: too few images for the unused rank",
            |_| {
                "eval mis --codes codes.npy --embeddings embeddings.npy --tasks 2 --explanations 1 --profile reference --out out.json"
                    .into()
            },
            &["expected: at least 9", "unused rank", "found: 8"],
        ),
        case(
            "tasks: queries among explanations",
            |_| {
                "eval mis --codes codes.npy --embeddings embeddings.npy --tasks 1 --explanations 3 --query-quantile 0.2 --out out.json"
                    .into()
            },
            &["among the explanations", "expected: at least 0.3750, rank 3", "found: 0.2, rank 1"],
        ),
        case(
            "tasks: no similarity",
            |_| "eval mis --embeddings embeddings.npy --tasks 1 --explanations 1 --out out.json".into(),
            &["`mis` lacks an input", "`--similarity`"],
        ),
        case(
            "units: not one line per unit",
            |room| {
                room.write("units.csv", "layer\na\nb\n");
                "eval mis --codes codes.npy --embeddings embeddings.npy --units units.csv --tasks 1 --explanations 1 --out out.json"
                    .into()
            },
            &["3 latents", "2 latents"],
        ),
        case(
            "visualisations: not as many as units and explanations",
            |room| {
                room.write("v.npy", npy_f32(&[4, 4], &[0.5; 16]));
                "eval mis --codes codes.npy --embeddings embeddings.npy --visualisations v.npy --tasks 1 --explanations 1 --out out.json"
                    .into()
            },
            &["not one feature visualisation per unit", "expected: 6 × 4", "found: 4 × 4", "`--explanations`"],
        ),
        case(
            "responses: no answers",
            |room| responses(room, "r.csv", "layer,channel\na,0\n"),
            &["no column `correct`", "found: layer, channel", "file: r.csv"],
        ),
        case(
            "responses: no units",
            |room| responses(room, "r.csv", "correct,layer\n1,a\n"),
            &["no column `channel`", "file: r.csv"],
        ),
        case(
            "responses: not an answer",
            |room| responses(room, "r.csv", "correct,unit\n1,0\nmaybe,1\n"),
            &["invalid `correct`", "found: `maybe`", "line 3", "file: r.csv"],
        ),
        case(
            "responses: not JSON",
            |room| responses(room, "r.json", "[{\"unit\": 1, \"correct\": true}\n"),
            &["a line of trials is not JSON", "line 1", "file: r.json"],
        ),
        case(
            "responses: numbers instead of trials",
            |room| responses(room, "r.json", "[1, 2]"),
            &["a trial is not an object", "found: 1", "file: r.json"],
        ),
    ]
}
