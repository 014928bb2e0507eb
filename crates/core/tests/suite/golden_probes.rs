//! Probes against scikit-learn 1.9 (`tests/golden/probes.json`: 240 sparse rows of 12 columns, drawn at random).
//!
//! Weights agree to 1e-4: scikit-learn stops its own search at about that distance, and it fits `f64` rows where ours are
//! `f32`. The stump is exact.

use etalon::codes::{Codes, Latent};
use etalon::kernel::bits::Bits;
use etalon::probe::design::Design;
use etalon::probe::logistic::{Logistic, Target};
use etalon::probe::tree::{Sample, Tree};
use serde_json::Value;

struct Golden {
    json: Value,
    values: Vec<f32>,
    positive: Vec<bool>,
}

const WIDTH: usize = 12;

fn golden() -> Golden {
    let json = crate::golden_json("probes.json");
    let numbers =
        |value: &Value| -> Vec<f64> { value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect() };
    let values = json["x"].as_array().unwrap().iter().flat_map(numbers).map(|value| value as f32).collect();
    let positive = numbers(&json["y"]).iter().map(|&y| y == 1.0).collect();
    Golden { json, values, positive }
}

#[test]
fn logistic_regression() {
    let golden = golden();
    let rows = golden.positive.len();
    let yes = Bits::of(rows, (0..rows).filter(|&row| golden.positive[row]));
    let known = Bits::full(rows);
    let target = [Target { yes: &yes, known: &known }];
    let codes = Codes::from_dense(&golden.values, WIDTH).unwrap();
    let dense = Design::Dense { values: &golden.values, width: WIDTH };
    let sparse = Design::Sparse { codes: codes.all().unwrap(), latents: WIDTH };
    let cases = [
        ("logistic_l2_c1", Logistic::default()),
        ("logistic_l2_c001", Logistic { c: 0.01, ..Logistic::default() }),
        ("logistic_l2_c1_balanced", Logistic { balanced: true, ..Logistic::default() }),
    ];
    for (case, logistic) in cases {
        let expected = &golden.json[case];
        for design in [&dense, &sparse] {
            let probe = logistic.fit(design, &target).remove(0).unwrap();
            assert!(probe.converged);
            let weights = expected["coef"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
            for (column, (weight, expected)) in probe.weights.iter().zip(weights).enumerate() {
                assert!((weight - expected).abs() < 1e-4, "{case}, column {column}: {weight} {expected}");
            }
            let intercept = expected["intercept"].as_f64().unwrap();
            assert!((probe.intercept - intercept).abs() < 1e-4, "{case}: {} {intercept}", probe.intercept);
            let scores = design.scores(&probe.weights, 1);
            let right = (0..rows).filter(|&row| (scores[row] + probe.intercept >= 0.0) == golden.positive[row]).count();
            assert!((right as f64 / rows as f64 - expected["accuracy"].as_f64().unwrap()).abs() < 1e-12, "{case}");
        }
    }
}

#[test]
fn best_stump() {
    let golden = golden();
    let codes = Codes::from_dense(&golden.values, WIDTH).unwrap();
    let rows: Vec<(usize, bool)> = golden.positive.iter().copied().enumerate().collect();
    let sample = Sample::new(codes.all().unwrap(), &rows).unwrap();
    let tree = Tree::grow(&sample, Some(1), &[]);
    let split = tree.nodes[0].split.unwrap();
    let expected = &golden.json["stump"];
    assert_eq!(split.latent, Latent(expected["feature"].as_u64().unwrap() as u32));
    assert!((split.threshold - expected["threshold"].as_f64().unwrap()).abs() < 1e-9, "{}", split.threshold);
    let accuracy = split.right_answers() as f64 / rows.len() as f64;
    assert!((accuracy - expected["accuracy"].as_f64().unwrap()).abs() < 1e-12);
}
