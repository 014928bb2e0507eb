use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::matrices::Repeat;
use super::*;
use crate::context::{Budget, Context};
use crate::input::{self, Finite, Source};
use crate::labels::Factors;
use crate::labels::worlds;
use crate::metrics::purity::alignment::{greedy, optimal};
use crate::metrics::purity::areas::class_area;
use crate::metrics::purity::concepts::Split;
use crate::metrics::purity::oracle::closed_form;
use crate::metrics::testing::{self, codes, column, labels, scores_with_any_threads};
use crate::results::Profile;
use crate::run::{FACTORS, Inputs, LABELS, load_codes, load_factors};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/purity").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn budget() -> Budget {
    Budget::new(1 << 30)
}

fn list(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|value| value.as_u64().unwrap() as u32).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap_or(f64::NAN)],
    }
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}, entry {index}: {a} and {b}");
    }
}

#[test]
fn the_norm_matches_a_worked_example() {
    // P = 0.9 0.6 / 0.7 1.0, O = 1 0.5 / 0.5 1: differences −0.1 0.1 / 0.2 0, norm √0.06. Variances of 0.02 each: 0.08.
    let repeat = |purity: [Option<f64>; 4]| Repeat {
        purity: purity.to_vec(),
        oracle: [1.0, 0.5, 0.5, 1.0].map(Some).to_vec(),
        variances: vec![0.02; 4],
    };
    let all = repeat([0.9, 0.6, 0.7, 1.0].map(Some));
    assert!((all.norm() - 0.06f64.sqrt()).abs() < 1e-12 && (all.noise() - 0.08).abs() < 1e-12);
    let missing = repeat([Some(0.9), None, Some(0.7), Some(1.0)]);
    assert!((missing.norm() - 0.05f64.sqrt()).abs() < 1e-12 && (missing.noise() - 0.06).abs() < 1e-12);
}

#[test]
fn matrices_of_given_logits_are_those_of_the_released_program() {
    for (folder, data) in [("ois_binary", "binary"), ("ois_binary_more_codes", "binary"), ("ois_multi", "multi")] {
        let factors = load_factors(&golden(data).join("labels.npy"), &budget()).unwrap();
        let expected = json(&format!("{folder}/expected.json"));
        let concepts = factors.count();
        let areas = |file: &str, test: &[u32], sources: usize, is_oracle: bool| -> Vec<f64> {
            let path = golden(folder).join(file);
            let area = |source: usize, target: usize| {
                if is_oracle && source == target {
                    return 1.0;
                }
                let key = format!("{}:{source}_{target}", path.display());
                let logits = input::read_rows(&Source::parse(&key).unwrap(), Finite::Refuse, &budget()).unwrap();
                let truth: Vec<i32> = test.iter().map(|&row| factors.column(target)[row as usize]).collect();
                let scores: Vec<f64> = logits.values.iter().map(|&value| f64::from(value)).collect();
                class_area(&truth, &scores, logits.width).unwrap().value
            };
            (0..sources)
                .flat_map(|source| (0..concepts).map(move |target| (source, target)))
                .map(|(s, t)| area(s, t))
                .collect()
        };
        let sources = expected["purity_auc"].as_array().unwrap().len();
        let purity = areas("purity_logits.safetensors", &list(&expected["test_idx"]), sources, false);
        close(&purity, &numbers(&expected["purity_auc"]), 1e-7, folder);
        let oracle = areas("oracle_logits.safetensors", &list(&expected["oracle_test_idx"]), concepts, true);
        close(&oracle, &numbers(&expected["oracle_auc"]), 1e-7, folder);
        let split = Split { train: list(&expected["oracle_train_idx"]), test: list(&expected["oracle_test_idx"]) };
        for (entry, &expected) in numbers(&expected["oracle_closed_form"]).iter().enumerate() {
            let (source, target) = (entry / concepts, entry % concepts);
            if source != target && expected.is_finite() {
                let found = closed_form(factors.column(source), factors.column(target), &split).unwrap().value;
                assert!((found - expected).abs() < 1e-9, "{folder} {source} {target}: {found} {expected}");
            }
        }
        let norm = |source_of: &[usize]| {
            let picked: Vec<f64> =
                source_of.iter().flat_map(|&s| purity[s * concepts..][..concepts].to_vec()).collect();
            let some = |values: &[f64]| values.iter().copied().map(Some).collect();
            Repeat { purity: some(&picked), oracle: some(&oracle), variances: vec![0.0; oracle.len()] }.norm()
        };
        let scale = 2.0 / concepts as f64;
        if let Some(ois) = expected["ois"].as_f64() {
            assert!((norm(&(0..concepts).collect::<Vec<_>>()) * scale - ois).abs() < 1e-6, "{folder}");
        }
        let aligned: Vec<usize> = greedy(&purity, concepts).into_iter().flatten().collect();
        assert_eq!(aligned, list(&expected["alignment_greedy"]).iter().map(|&s| s as usize).collect::<Vec<_>>());
        let unnormalised = expected["ois_aligned_as_coded_unnormalised"].as_f64().unwrap();
        assert!((norm(&aligned) - unnormalised).abs() < 1e-6, "{folder}");
        let context = Context::silent(1, 1 << 20).unwrap();
        let best: Vec<usize> = optimal(&purity, concepts, &context).unwrap().into_iter().flatten().collect();
        assert_eq!(best, list(&expected["alignment_hungarian"]).iter().map(|&s| s as usize).collect::<Vec<_>>());
        assert!((norm(&best) * scale - expected["ois_hungarian_with_2_over_k"].as_f64().unwrap()).abs() < 1e-6);
    }
}

#[test]
fn alignments_are_those_of_the_released_program() {
    let context = Context::silent(1, 1 << 20).unwrap();
    for (name, case) in json("alignment.json").as_object().unwrap() {
        let (scores, concepts) = (numbers(&case["matrix"]), case["greedy_row_of_column"].as_array().unwrap().len());
        let list = |key: &str| list(&case[key]).iter().map(|&row| Some(row as usize)).collect::<Vec<_>>();
        assert_eq!(greedy(&scores, concepts), list("greedy_row_of_column"), "{name}");
        assert_eq!(optimal(&scores, concepts, &context).unwrap(), list("hungarian_row_of_column"), "{name}");
    }
}

/// Codes and labels of a world with pure or impure scores.
fn world(mode: &str, rows: usize, seed: u64) -> Inputs {
    let given =
        [("mode", mode), ("rows", &rows.to_string())].map(|(name, value)| (name.to_string(), value.to_string()));
    let world =
        worlds::make("impure-codes", &BTreeMap::from(given), seed, &Context::silent(2, 1 << 30).unwrap()).unwrap();
    let values = world.activations.tile(0..rows).unwrap();
    let dense: Vec<f32> = (0..rows).flat_map(|row| values.row(row).to_vec()).collect();
    Inputs::default().with(&CODES, codes(&dense, 5)).with(&LABELS, world.labels)
}

fn run(inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    testing::scores(&Ois, inputs, given, profile, 2).unwrap()
}

#[test]
fn impure_scores_are_told_from_pure_ones() {
    for profile in [Profile::Paper, Profile::Reference] {
        let once = [("repeats", "1")];
        let [pure, impure] = ["pure", "impure"].map(|mode| run(&world(mode, 3000, 1), &once, profile));
        let value = |scores: &Scores, key: &str| scores.value(key).unwrap();
        assert!((0.03..0.09).contains(&value(&pure, "ois")), "{}", value(&pure, "ois"));
        assert!((0.16..0.30).contains(&value(&impure, "ois")), "{}", value(&impure, "ois"));
        assert!(value(&pure, "ois_corrected") < 0.05 && value(&impure, "ois_corrected") > 0.15);
        assert!((value(&pure, "ois") / value(&pure, "ois_noise") - 1.0).abs() < 0.4);
    }
    // A probe of ranks sees more of it, and so does a longer training.
    let given = [("probe_input", "ranks"), ("repeats", "1")];
    let ranks = run(&world("impure", 3000, 1), &given, Profile::Paper).value("ois").unwrap();
    assert!(ranks > 0.27, "{ranks}");
}

#[test]
fn threads_and_other_latents_do_not_change_the_score() {
    let inputs = world("impure", 400, 2);
    let one = scores_with_any_threads(&Ois, &inputs, &[("hidden", "8,16"), ("repeats", "2")], Profile::Paper);
    assert_eq!(column(&one, "helper", "hidden"), [Some(8.0), Some(16.0)]);
    let interval = one.headline[0].interval.unwrap();
    assert!(interval.low < one.value("ois").unwrap() && one.value("ois").unwrap() < interval.high);
    let once = run(&inputs, &[("hidden", "8"), ("repeats", "1")], Profile::Paper);
    assert!(once.headline[0].interval.is_none());
    // Two constant latents more: with alignment they are not chosen.
    let codes = inputs.find(&CODES).unwrap();
    let wider: Vec<f32> =
        codes.all().unwrap().iter().flat_map(|(_, _, values)| [values, &[0.0, 3.0]].concat()).collect();
    let labels = inputs.share(&LABELS).unwrap();
    let inputs = Inputs::default().with(&CODES, testing::codes(&wider, 7)).with(&LABELS, labels);
    for candidates in ["0", "1"] {
        let given = [("align", "optimal"), ("candidates", candidates), ("hidden", "8"), ("repeats", "2")];
        let aligned = run(&inputs, &given, Profile::Paper);
        assert_eq!(column(&aligned, "concept", "representation"), [0, 1, 2, 3, 4].map(|i| Some(f64::from(i))));
        assert_eq!(aligned.value("ois"), one.value("ois"));
    }
}

#[test]
fn concepts_that_share_candidates_have_representations_of_their_own() {
    // Latent 2 is best for all three concepts, which are nearly the same: one candidate per concept is one in all.
    let rows = 120;
    let bit = |row: usize, concept: usize| (row.is_multiple_of(2)) != (row == concept);
    let values: Vec<f32> = (0..rows)
        .flat_map(|row| {
            let noise = |step: usize| (row * step % 17) as f32 / 17.0;
            [noise(5), noise(7), f32::from(u8::from(row.is_multiple_of(2))), noise(11), noise(3)]
        })
        .collect();
    let inputs = Inputs::default()
        .with(&CODES, codes(&values, 5))
        .with(&LABELS, testing::labels_by(3, rows, |row, concept| testing::yes_if(bit(row, concept))));
    for align in ["greedy", "optimal"] {
        let given = [("align", align), ("candidates", "1"), ("hidden", "8"), ("repeats", "1")];
        let scores = run(&inputs, &given, Profile::Paper);
        let mut chosen: Vec<usize> =
            column(&scores, "concept", "representation").into_iter().map(|source| source.unwrap() as usize).collect();
        chosen.sort_unstable();
        assert!(chosen.contains(&2), "{align}: {chosen:?}");
        chosen.dedup();
        assert_eq!(chosen.len(), 3, "{align}: {chosen:?}");
    }
}

#[test]
fn representations_may_have_several_latents_and_concepts_several_classes() {
    let factors = load_factors(&golden("multi/labels.npy"), &budget()).unwrap();
    let codes = load_codes(&golden("multi/codes.npy"), &budget()).unwrap();
    let inputs = Inputs::default().with(&CODES, codes).with(&FACTORS, factors.clone());
    let scores = run(&inputs, &[("align", "optimal"), ("repeats", "2")], Profile::Paper);
    assert!(scores.value("ois").is_some_and(|ois| (0.0..1.0).contains(&ois)));
    // More representations than concepts are aligned greedily in both profiles; the program does not divide by k/2.
    let [paper, reference] = [Profile::Paper, Profile::Reference]
        .map(|profile| run(&inputs, &[("batch", "128"), ("candidates", "0"), ("repeats", "1")], profile));
    assert_eq!(paper.table("concept"), reference.table("concept"));
    let (paper, reference) = (paper.value("ois").unwrap(), reference.value("ois").unwrap());
    assert!((paper * 1.5 - reference).abs() < 1e-12, "{paper} {reference}");
    // Every concept as two latents, one of which is noise-free.
    let rows = factors.rows();
    let wide: Vec<f32> = (0..rows)
        .flat_map(|row| (0..3).flat_map(|c| [factors.column(c)[row] as f32, 1.0]).collect::<Vec<_>>())
        .collect();
    let inputs = Inputs::default().with(&CODES, testing::codes(&wide, 6)).with(&FACTORS, factors);
    let scores = run(&inputs, &[("dimensions", "2"), ("epochs", "200"), ("repeats", "1")], Profile::Paper);
    let own = column(&scores, "concept", "own_auc");
    assert!(own.iter().flatten().all(|&area| area > 0.95), "{own:?}");
    let error = testing::scores(&Ois, &inputs, &[("dimensions", "4")], Profile::Paper, 1).unwrap_err().to_string();
    assert!(error.contains("6 latents") && error.contains("a multiple of 4"), "{error}");
}

#[test]
fn a_shared_split_has_less_noise() {
    let inputs = world("pure", 2000, 4);
    let noise = |split: &str| {
        let given = [("oracle_split", split), ("repeats", "4"), ("hidden", "8")];
        let scores = run(&inputs, &given, Profile::Paper);
        (scores.value("ois").unwrap(), scores.value("ois_noise").unwrap())
    };
    let (shared, separate) = (noise("shared"), noise("separate"));
    assert!(shared.1 < separate.1, "{shared:?} {separate:?}");
    for (score, noise) in [shared, separate] {
        assert!((score / noise - 1.0).abs() < 0.35, "{score} {noise}");
    }
}

#[test]
fn edge_cases_are_undefined() {
    let undefined = |codes: crate::codes::Codes, labels: crate::labels::Annotations, note: &str| {
        let scores = run(&Inputs::default().with(&CODES, codes).with(&LABELS, labels), &[], Profile::Paper);
        assert!(scores.value("ois").is_none() && scores.notes[0].contains(note), "{:?}", scores.notes);
    };
    undefined(codes(&[1.0; 4], 1), labels(&["yynn"]), "too few");
    let alternating = "yn".repeat(30);
    undefined(codes(&[1.0; 60], 1), labels(&[&alternating, &alternating]), "1 representations cannot stand for 2");
    undefined(codes(&[1.0; 60], 1), labels(&[&"y".repeat(60)]), "two classes");
    // A class that never occurs is noted, and constant codes tell nothing: 0.5 instead of 1.
    let classes = Factors::new(vec!["a".into()], vec![(0..60).map(|row| 2 * (row % 2)).collect()]).unwrap();
    let inputs = Inputs::default().with(&CODES, codes(&[1.0; 60], 1)).with(&FACTORS, classes);
    let scores = run(&inputs, &[], Profile::Paper);
    assert_eq!(scores.value("ois"), Some(1.0));
    assert!(scores.notes.iter().any(|note| note.contains("class 1 of `a`")), "{:?}", scores.notes);
}
