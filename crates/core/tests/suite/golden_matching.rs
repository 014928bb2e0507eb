//! The matchers in profile `reference` against the released program of the paper; see `tests/golden/matching/README.md`.

use etalon::codes::Latent;
use etalon::labels::Concept;
use etalon::results::{Cells, Profile, Scores};
use etalon::run::{CODES, Inputs, LABELS};
use etalon_kernel::nnls;
use serde_json::Value;

use crate::{golden_json, matching_inputs};

fn scores(params: &[(&str, &str)]) -> Scores {
    crate::scores("match", &matching_inputs(), params, Profile::Reference)
}

fn coalitions(scores: &Scores) -> Vec<Vec<i64>> {
    match scores.table("concept").unwrap().column("coalition").unwrap() {
        Cells::WholeLists(lists) => lists.clone(),
        _ => panic!("coalitions are lists"),
    }
}

fn steps(scores: &Scores) -> Vec<Vec<f64>> {
    match scores.table("concept").unwrap().column("f1_by_step").unwrap() {
        Cells::NumberLists(lists) => lists.iter().map(|list| list.iter().map(|f1| f1.unwrap()).collect()).collect(),
        _ => panic!("steps are lists"),
    }
}

fn whole_lists(value: &Value) -> Vec<Vec<i64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn number_lists(value: &Value) -> Vec<Vec<f64>> {
    serde_json::from_value(value.clone()).unwrap()
}

fn assert_close(found: &[Vec<f64>], expected: &[Vec<f64>], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (concept, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "concept {concept}");
        for (step, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() <= tolerance, "concept {concept}, step {step}: {a} instead of {b}");
        }
    }
}

#[test]
fn binary_pursuit_agrees_in_every_choice_and_every_step() {
    let golden = golden_json("matching/expected.json");
    for beta in ["0.25", "0.5", "1.0"] {
        let expected = &golden[format!("fbmp_beta_{beta}")];
        let scores = scores(&[("matcher", "fbmp"), ("beta", beta), ("k", "20")]);
        assert_eq!(coalitions(&scores), whole_lists(&expected["coalition"]), "beta {beta}");
        assert_close(&steps(&scores), &number_lists(&expected["f1_by_step"]), 1e-12);
    }
}

#[test]
fn cutting_one_run_gives_every_k() {
    let golden = &golden_json("matching/expected.json")["fbmp_beta_0.5"];
    let scores = scores(&[("k", "1,3,20")]);
    let by_step = number_lists(&golden["f1_by_step"]);
    let table = scores.table("strategy").unwrap();
    for (row, k) in [1, 3, 20].into_iter().enumerate() {
        let mean = by_step.iter().map(|steps| steps[k - 1]).sum::<f64>() / by_step.len() as f64;
        assert!((table.column("match_score").unwrap().number(row).unwrap() - mean).abs() < 1e-12, "k {k}");
    }
}

#[test]
fn non_negative_pursuit_agrees_in_every_choice_and_every_step() {
    let golden = &golden_json("matching/expected.json")["nnomp"];
    let scores = scores(&[("matcher", "nnomp"), ("k", "20")]);
    assert_eq!(coalitions(&scores), whole_lists(&golden["coalition"]));
    assert_close(&steps(&scores), &number_lists(&golden["f1_by_step"]), 1e-9);
}

#[test]
fn one_to_one_agrees() {
    let golden = &golden_json("matching/expected.json")["f1_eps"];
    let scores = scores(&[("matcher", "one-to-one")]);
    let latents: Vec<i64> = serde_json::from_value(golden["latent"].clone()).unwrap();
    let expected: Vec<f64> = serde_json::from_value(golden["score"].clone()).unwrap();
    assert_eq!(coalitions(&scores), latents.iter().map(|&latent| vec![latent]).collect::<Vec<_>>());
    let expected: Vec<Vec<f64>> = expected.into_iter().map(|score| vec![score]).collect();
    assert_close(&steps(&scores), &expected, 1e-12);
}

/// For each concept, how many of the latents with the best F1 alone form a set that no tie makes ambiguous.
fn unambiguous(inputs: &Inputs) -> Vec<Vec<bool>> {
    let (codes, labels) = (inputs.get(&CODES).unwrap(), inputs.get(&LABELS).unwrap());
    let columns = codes.columns().unwrap();
    let of_concept = |concept: u32| {
        let yes = labels.yes(Concept(concept));
        let f1 = |latent: u32| {
            let fired = columns.fired(Latent(latent), 1e-8);
            2.0 * fired.count_and(yes) as f64 / (fired.count() + yes.count()) as f64
        };
        let mut scores: Vec<f64> =
            (0..codes.latents() as u32).map(f1).map(|f1| if f1 > 0.0 { f1 } else { 0.0 }).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        (1..=10).map(|size| scores[size - 1] != scores[size]).collect()
    };
    (0..labels.concepts() as u32).map(of_concept).collect()
}

#[test]
fn naive_coalitions_agree_where_scores_do_not_tie() {
    let golden = number_lists(&golden_json("matching/expected.json")["naive_top10"]["f1_by_size"]);
    let found = steps(&scores(&[("matcher", "naive"), ("k", "10")]));
    let mut compared = 0;
    for (concept, clear) in unambiguous(&matching_inputs()).into_iter().enumerate() {
        for size in (0..10).filter(|&size| clear[size]) {
            let (a, b) = (found[concept][size], golden[concept][size]);
            assert!((a - b).abs() <= 1e-12, "concept {concept}, {} latents: {a} instead of {b}", size + 1);
            compared += 1;
        }
    }
    assert!(compared > 200, "only {compared} of 240 could be compared");
}

#[test]
fn least_squares_agree() {
    let golden = &golden_json("stats.json")["nnls"];
    let rows = number_lists(&golden["a"]);
    let b: Vec<f64> = serde_json::from_value(golden["b"].clone()).unwrap();
    let x: Vec<f64> = serde_json::from_value(golden["x"].clone()).unwrap();
    let columns: Vec<Vec<f64>> = (0..x.len()).map(|column| rows.iter().map(|row| row[column]).collect()).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let gram: Vec<f64> = columns.iter().flat_map(|a| columns.iter().map(|c| dot(a, c))).collect();
    let products: Vec<f64> = columns.iter().map(|column| dot(column, &b)).collect();
    for weights in [nnls::from_columns(&columns, &b), nnls::from_products(&gram, &products).unwrap()] {
        weights.iter().zip(&x).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{weights:?} instead of {x:?}"));
    }
}
