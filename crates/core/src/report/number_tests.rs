//! Page, text table and explorer show the same numbers, and no number mixes different inputs.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use super::gather::Gathered;
use super::tests::stored;
use super::words::{interval, short};
use super::*;
use crate::results::{Interval, Scores, Table};

/// One run with a score per concept.
fn run(name: &str, seed: u64, labels: &str, concepts: &[f64]) -> Stored {
    let mean = concepts.iter().sum::<f64>() / concepts.len() as f64;
    let mut scores = Scores::default();
    scores.headline("score", Some(mean), Some(Interval { low: mean - 0.1, high: mean + 0.1 }), concepts.len());
    scores.tables.push(
        Table::new("concept")
            .words("name", (0..concepts.len()).map(|concept| format!("concept {concept}")))
            .numbers("f1", concepts.iter().copied().map(Some)),
    );
    let mut stored = stored("fantasy", seed, json!({}), json!({"inputs": name}), scores);
    stored.result.recipe.inputs.insert("labels".into(), format!("blake3:{labels}"));
    Stored::new(stored.result, stored.about).unwrap()
}

/// Scores 0.1, 0.3, … 0.9 of five concepts, plus `gain`.
fn concepts(gain: f64) -> Vec<f64> {
    (0..5).map(|concept| 0.1 + 0.2 * f64::from(concept) + gain).collect()
}

/// Three seeds of one set; another that is a little better on every concept; one that is far below.
fn results() -> Vec<Stored> {
    let mut results: Vec<Stored> = [0.0, 0.01, 0.02]
        .iter()
        .enumerate()
        .map(|(seed, &gain)| run("first", seed as u64, "l", &concepts(gain)))
        .collect();
    results.extend([run("second", 0, "l", &concepts(0.03)), run("third", 0, "l", &concepts(-0.4))]);
    results
}

fn cell<'a>(board: &'a Value, set: &str) -> &'a Value {
    let data = &board["data"][0];
    let index = data["sets"].as_array().unwrap().iter().position(|one| one["label"] == set).unwrap();
    let cells = data["cells"].as_array().unwrap();
    &cells.iter().find(|cell| cell["set"] == index).unwrap()["scores"]["score"]
}

#[test]
fn page_table_and_explorer_show_the_same_numbers() {
    let results = results();
    let gathered = Gathered::of(&results);
    let (page, table, board) =
        (page("x", &results, &Options::default()).unwrap(), text_table(&results), board(&results));
    for (set, about) in gathered.sets.iter().enumerate() {
        let found = gathered.main(0, set).unwrap();
        let (value, noise) = (found.value.unwrap(), found.interval.unwrap());
        let shown = cell(&board, &about.label);
        assert_eq!((shown["value"].as_f64(), shown["runs"].as_u64()), (Some(value), Some(found.runs as u64)));
        assert_eq!((shown["low"].as_f64(), shown["high"].as_f64()), (Some(noise.low), Some(noise.high)));
        assert!(page.contains(&format!("{}</span> · <span>n 5", interval(noise))), "{}", interval(noise));
        let line = table.lines().find(|line| line.starts_with(&about.label)).unwrap();
        assert!(line.contains(&format!("{} ±{}", short(value), short((noise.high - noise.low) / 2.0))), "{line}");
    }
    // So are the marks: the first is within noise of the best (three seeds at 0, 0.01 and 0.02 below it are
    // known to ± 4.3 · 0.01 / √3 = 0.0248), the third is not.
    let differences = &board["data"][0]["differences"][0];
    assert_eq!((&differences["first"], &differences["second"]), (&json!([1, 2, 2]), &json!([0, 0, 1])));
    assert_eq!(differences["noise"], json!([true, false, false]));
    assert_eq!(differences["paired"], json!([true, true, true]));
    let marks = ["first", "second", "third"].map(|set| {
        let line = table.lines().find(|line| line.starts_with(set)).unwrap();
        line.chars().last().unwrap()
    });
    assert_eq!((marks[0], marks[1]), ('~', '*'));
    assert!(marks[2].is_ascii_digit());
    assert!(page.contains("<td class=\"number unclear\">") && page.contains("<td class=\"number best\">"));
}

#[test]
fn other_inputs_under_one_name_are_never_averaged() {
    let at = |stored: Stored, second: u64| Stored {
        written: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(second)),
        ..stored
    };
    let old = at(run("mine", 0, "wrong labels", &concepts(0.0)), 1);
    let new = [0, 1].map(|seed| at(run("mine", seed, "corrected labels", &concepts(0.2)), 2));
    let fresh = text_table(&new);
    let line = |text: &str| text.lines().find(|line| line.starts_with("mine")).map(str::to_string).unwrap();
    let all = [vec![old.clone()], new.to_vec()].concat();
    assert_eq!(line(&text_table(&all)), line(&fresh));
    assert!(text_table(&all).contains("1 superseded result not shown"), "{}", text_table(&all));
    assert!(!fresh.contains("superseded"));
    let text = page("x", &all, &Options::default()).unwrap();
    assert!(text.contains("Superseded results (1)") && text.contains(&old.id));
    assert_eq!(csv(&all).unwrap(), csv(&new).unwrap());
    assert_eq!(figures(&all), figures(&new));
    let board = board(&all);
    assert_eq!(cell(&board, "mine")["value"], json!(concepts(0.2).iter().sum::<f64>() / 5.0));
    assert_eq!(board["data"][0]["superseded"][0]["id"], json!(old.id));
    // Without file times one of them is current, and still nothing is averaged.
    let untimed: Vec<Stored> = [&old, &new[0]].map(|stored| Stored { written: None, ..stored.clone() }).to_vec();
    let value = cell(&super::board(&untimed), "mine")["value"].as_f64().unwrap();
    assert!((value - 0.5).abs() < 1e-12 || (value - 0.7).abs() < 1e-12, "{value}");
}

#[test]
fn the_explorer_receives_agreement_and_baselines() {
    // Two measures on four sets that agree in their order, and two untrained ones of which only the mean is a baseline.
    let mut results = Vec::new();
    for (name, latents, value) in
        [("a", 1, 0.1), ("b", 2, 0.2), ("c", 3, 0.3), ("d", 4, 0.9), ("untrained", 1, 0.0), ("untrained", 2, 0.1)]
    {
        for (metric, factor) in [("one", 1.0), ("two", 0.5)] {
            let mut scores = Scores::default();
            scores.headline("score", Some(factor * value), None, 4);
            results.push(stored(metric, 0, json!({}), json!({"inputs": name, "latents": latents}), scores));
        }
    }
    let board = board(&results);
    let data = &board["data"][0];
    assert_eq!(data["agreement"]["measures"], json!([0, 1]));
    assert_eq!(data["agreement"]["cells"][0][1], json!({"value": 1.0, "n": 4, "chance": true}));
    assert_eq!(data["baselines"][0], json!({"measure": 0, "key": "score", "name": "untrained", "value": 0.05}));
    // The noise is unknown.
    assert_eq!(data["differences"][0]["noise"][0], Value::Null);
    assert_eq!(data["differences"][0]["low"][0], Value::Null);
}
