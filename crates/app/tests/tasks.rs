//! `etalon tasks`, and the metrics of units, as users run them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::Sandbox;
use common::files::{npy, npy_f32};

const ROWS: usize = 40;

/// Images of 8 × 8 pixels, activations of three units (the last one is constant), and vectors of the images.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("images.npy", images(ROWS));
    let angle = |row: usize| row as f32 * 0.157;
    let activations = (0..ROWS).flat_map(|row| [angle(row).sin(), ((row * 17) % ROWS) as f32, 2.0]);
    sandbox.write("units.npy", npy_f32(&[ROWS, 3], &activations.collect::<Vec<_>>()));
    let vectors = (0..ROWS).flat_map(|row| [angle(row).sin(), angle(row).cos(), 0.3]);
    sandbox.write("vectors.npy", npy_f32(&[ROWS, 3], &vectors.collect::<Vec<_>>()));
    sandbox.write("units.csv", "model,layer,channel\nm,a,7\nm,a,8\nm,b,0\n");
    sandbox
}

fn images(count: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..count * 192).map(|index| (index / 192 * 5 + index % 192) as u8).collect();
    npy("|u1", false, &format!("({count}, 8, 8, 3)"), &bytes)
}

const INPUTS: &str = "--embeddings units.npy --similarity vectors.npy --tasks 2 --explanations 3";

#[test]
fn tasks_are_a_folder_with_images_a_page_and_answers() {
    let sandbox = sandbox();
    let command = format!("tasks {INPUTS} --images images.npy --units units.csv");
    let done = sandbox.done(&format!("{command} --simulate 30 --out tasks --json"));
    assert_eq!((done.json()["tasks"].as_u64(), done.json()["units"].as_u64()), (Some(4), Some(2)));
    // Two units, two tasks, four images on each side.
    let files = sandbox.files("tasks");
    assert_eq!(files.iter().filter(|name| name.ends_with(".png")).count(), 2 * 2 * 8, "{files:?}");
    let document = sandbox.json("tasks/tasks.json");
    let unit = &document["units"][1];
    assert_eq!(
        (unit["channel"].as_u64(), unit["layer"].as_str(), unit["mode"].as_str()),
        (Some(8), Some("a"), Some("natural"))
    );
    let task = &unit["tasks"][0];
    assert_eq!(task["lowest"]["explanations"].as_array().unwrap().len(), 3);
    let query = &task["highest"]["query"];
    let row = query["row"].as_u64().unwrap();
    assert_eq!(
        (query["file"].as_str(), query["id"].as_str()),
        (Some("unit_1/task_0/max_3.png"), Some(&*row.to_string()))
    );
    // The file shows the image of the row, and the unit is more active there than on the other query.
    let shown = image::open(sandbox.path("tasks").join("unit_1/task_0/max_3.png")).unwrap().to_rgb8();
    assert_eq!(u64::from(shown.as_raw()[0]), row * 5 % 256);
    let low = task["lowest"]["query"]["row"].as_u64().unwrap();
    assert!((row * 17) % ROWS as u64 > (low * 17) % ROWS as u64);
    let page = sandbox.read("tasks/index.html");
    assert_eq!(page.matches("<img").count(), 2 * 2 * 8);
    assert!(page.contains("unit_1/task_0/max_3.png") && page.contains("<h2>Unit 0</h2>") && !page.contains("Unit 2"));
    // The same again elsewhere, and fewer units.
    let again = sandbox.done(&format!("{command} --simulate 30 --out again"));
    assert!(again.err.contains("1 units are constant"), "{}", again.err);
    for name in ["tasks.json", "index.html", "responses.csv"] {
        assert_eq!(sandbox.read(&format!("tasks/{name}")), sandbox.read(&format!("again/{name}")));
    }
    sandbox.done(&format!("{command} --unit 1 --out one"));
    assert_eq!(sandbox.json("one/tasks.json")["units"].as_array().unwrap().len(), 1);
    assert!(!sandbox.path("one/responses.csv").exists());
    // Simulated people are read back, by number and by name.
    let his = format!("eval his {INPUTS} --responses tasks/responses.csv --json");
    let result = sandbox.done(&his).json();
    let result = result.as_array().map_or(result.clone(), |all| all[0].clone());
    assert_eq!(result["tables"]["latent"]["answers"], serde_json::json!([30, 30, 0]));
    let answers = sandbox.read("tasks/responses.csv");
    let named: String = answers.lines().map(|line| line.split_once(',').unwrap().1.to_string() + "\n").collect();
    sandbox.write("named.csv", named);
    let named = sandbox.done(&format!("eval his {INPUTS} --responses named.csv --units units.csv --json")).json();
    let named = named.as_array().map_or(named.clone(), |all| all[0].clone());
    assert_eq!(named["tables"]["latent"]["his"], result["tables"]["latent"]["his"]);
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn visualisations_have_their_own_images() {
    let sandbox = sandbox();
    // Three units, three images on each of two sides.
    sandbox.write("made.npy", images(18));
    sandbox.write("made-vectors.npy", npy_f32(&[18, 3], &(0..54).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>()));
    let command = format!("tasks {INPUTS} --images images.npy --visualisations made-vectors.npy");
    let refused = sandbox.run(&format!("{command} --out x"));
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("18 images as `--visualisation-images`"), "{}", refused.err);
    sandbox.done(&format!("{command} --visualisation-images made.npy --out tasks"));
    let unit = &sandbox.json("tasks/tasks.json")["units"][1];
    assert_eq!(unit["mode"].as_str(), Some("optimized"));
    for task in unit["tasks"].as_array().unwrap() {
        // Of unit 1, numbers 6 to 8 minimise it and 9 to 11 maximise it, in every task.
        for (side, first) in [("lowest", 6), ("highest", 9)] {
            let made = task[side]["explanations"].as_array().unwrap();
            let numbers: Vec<u64> = made.iter().map(|one| one["visualisation"].as_u64().unwrap()).collect();
            assert_eq!(numbers, [first, first + 1, first + 2]);
            assert!(task[side]["query"]["row"].is_u64());
        }
    }
}

#[test]
fn wrong_requests_leave_nothing_behind() {
    let sandbox = sandbox();
    sandbox.write("few.npy", images(12));
    sandbox.write("many.npy", images(ROWS + 1));
    sandbox.write("texts.txt", "no image\n");
    sandbox.write("there/file", "");
    let cases = [
        ("--images few.npy --out x", "expected: 40 images"),
        ("--images many.npy --out x", "found: 41"),
        ("--images texts.txt --out x", "images as `--images`"),
        ("--images images.npy --unit 3 --out x", "numbers from 0 to 2"),
        ("--images images.npy --tasks 20 --explanations 9 --out x", "at least 400"),
        ("--images images.npy --visualisation-images few.npy --out x", "vectors as `--visualisations`"),
        ("--images images.npy --out there", "exists already"),
        ("--images images.npy --out images.npy", "the same as"),
    ];
    for (arguments, expected) in cases {
        let inputs =
            if arguments.contains("--tasks") { "--embeddings units.npy --similarity vectors.npy" } else { INPUTS };
        let output = sandbox.run(&format!("tasks {inputs} {arguments}"));
        assert_eq!(output.code, Some(2), "{arguments}: {output:?}");
        assert!(output.err.contains(expected), "{arguments}: {}", output.err);
        assert!(!sandbox.path("x").exists(), "{arguments}");
    }
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn constant_units_are_null_with_a_note() {
    let sandbox = sandbox();
    let result = sandbox.done(&format!("eval mis {INPUTS} --json")).json();
    let result = result.as_array().map_or(result.clone(), |all| all[0].clone());
    assert!(result["tables"]["latent"]["mis"][2].is_null() && result["tables"]["latent"]["mis"][0].is_number());
    assert!(result["notes"][0].as_str().unwrap().starts_with("1 of 3 units are constant"), "{}", result["notes"]);
    // All units are constant: no headline has a value, and the notes say why.
    sandbox.write("constant.npy", npy_f32(&[ROWS, 2], &[1.5; 2 * ROWS]));
    let result = sandbox.done(&format!("eval mis {} --json", INPUTS.replace("units.npy", "constant.npy"))).json();
    let result = result.as_array().map_or(result.clone(), |all| all[0].clone());
    assert!(result["headline"]["mis"]["value"].is_null(), "{}", result["headline"]);
    assert!(result["notes"].to_string().contains("no unit has a score"));
}
