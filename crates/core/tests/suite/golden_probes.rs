//! Probes against scikit-learn 1.9 (`tests/golden/probes.json`: 240 sparse rows of 12 columns, drawn at random).
//!
//! Weights agree to 1e-4: scikit-learn stops its own search at about that distance, and it fits `f64` rows where ours are
//! `f32`. The stump is exact.
//!
//! `more_probes.json` was made from the same rows: `one_versus_rest` by `LogisticRegression(C=1, tol=1e-8)` for every class
//! of `y_multi`; `absolute` by `LogisticRegression(penalty="l1", solver="saga", tol=1e-10)` (which stops too early where all
//! weights are zero, so that no such case is here); `adamw` by PyTorch 2.15: a
//! `Linear(12, 1)` from the start that is given, `AdamW(lr)`, `binary_cross_entropy_with_logits` plus `absolute · Σ|w|`
//! on rows 0 to 159, epoch `e` in the order `(7 i + 13 e) mod 160`, the epoch that is best on rows 160 to 239 kept.
//!
//! `mlp.json` was made by PyTorch 2.15: `Linear`, `relu`, `Linear` from the start that is given, 80 steps of
//! `Adam(lr=0.01, eps=1e-12)` (so small that it does not matter where it is added) on all rows at once.

use etalon::codes::{Codes, Latent};
use etalon::probe::design::Design;
use etalon::probe::logistic::{Logistic, Probe, Target};
use etalon::probe::mlp::{Mlp, Network, TrainingSet};
use etalon::probe::newton::{LabelledTable, Penalty};
use etalon::probe::ridge::Ridge;
use etalon::probe::saebench_probe::{AdamW, LabelledRows};
use etalon::probe::tree::{Tree, TreeRows};
use etalon_kernel::bits::Bits;
use etalon_kernel::monitor::Silent;
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

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn assert_close(case: &str, probe: &Probe, expected: &Value, tolerance: f64) {
    let weights = numbers(expected.get("coef").unwrap_or(&expected["weights"]));
    let pairs = probe.weights.iter().zip(&weights);
    for (column, (found, expected)) in pairs.enumerate() {
        assert!((found - expected).abs() < tolerance, "{case}, column {column}: {found} {expected}");
    }
    let intercept = expected["intercept"].as_f64().unwrap();
    assert!((probe.intercept - intercept).abs() < tolerance, "{case}: {} {intercept}", probe.intercept);
}

#[test]
fn few_columns_and_absolute_weights() {
    let golden = golden();
    let few = LabelledTable { values: &golden.values, stride: WIDTH, width: WIDTH, positive: &golden.positive };
    let more = crate::golden_json("more_probes.json");
    let fit = |logistic: Logistic, penalty| logistic.fit_table(&few, penalty, None).unwrap();
    let balanced = Logistic { balanced: true, ..Logistic::default() };
    assert_close("c 1", &fit(Logistic::default(), Penalty::Squares), &golden.json["logistic_l2_c1"], 1e-4);
    assert_close("balanced", &fit(balanced, Penalty::Squares), &golden.json["logistic_l2_c1_balanced"], 1e-4);
    assert_close("absolute", &fit(Logistic::default(), Penalty::Absolute), &golden.json["logistic_l1_c1"], 1e-3);
    for case in more["absolute"].as_array().unwrap() {
        let probe = fit(Logistic { c: case["c"].as_f64().unwrap(), ..Logistic::default() }, Penalty::Absolute);
        assert!(probe.converged);
        assert_close(&format!("absolute, c {}", case["c"]), &probe, case, 1e-4);
        let zeros = |weights: &[f64]| weights.iter().filter(|weight| **weight == 0.0).count();
        assert_eq!(zeros(&probe.weights), zeros(&numbers(&case["coef"])));
    }
}

#[test]
fn one_versus_rest_and_ridge() {
    let golden = golden();
    let classes = numbers(&golden.json["y_multi"]);
    let rows = classes.len();
    let codes = Codes::from_dense(&golden.values, WIDTH).unwrap();
    let designs = [
        Design::Dense { values: &golden.values, width: WIDTH },
        Design::Sparse { codes: codes.all().unwrap(), latents: WIDTH },
    ];
    let yes: Vec<Bits> = [0.0, 1.0, 2.0].map(|c| Bits::of(rows, (0..rows).filter(|&row| classes[row] == c))).to_vec();
    let known = Bits::full(rows);
    let targets: Vec<Target<'_>> = yes.iter().map(|yes| Target { yes, known: &known }).collect();
    let more = crate::golden_json("more_probes.json");
    let truth: Vec<f64> = golden.positive.iter().map(|&yes| f64::from(u8::from(yes))).collect();
    for design in designs {
        for (class, probe) in Logistic::default().fit(&design, &targets).iter().enumerate() {
            assert_close(&format!("class {class}"), probe.as_ref().unwrap(), &more["one_versus_rest"][class], 1e-4);
        }
        assert_close("ridge", &Ridge::default().fit(&design, &truth)[0], &golden.json["ridge_a1"], 1e-6);
    }
}

#[test]
fn linear_probe_of_saebench() {
    let golden = golden();
    let more = crate::golden_json("more_probes.json");
    let (values, positive) = (golden.values.split_at(160 * WIDTH), golden.positive.split_at(160));
    let trained = LabelledRows { design: Design::Dense { values: values.0, width: WIDTH }, positive: positive.0 };
    let judged = LabelledRows { design: Design::Dense { values: values.1, width: WIDTH }, positive: positive.1 };
    for case in more["adamw"].as_array().unwrap() {
        let (number, whole) =
            (|key: &str| case[key].as_f64().unwrap(), |key: &str| case[key].as_u64().unwrap() as usize);
        let settings = AdamW {
            learning_rate: number("learning_rate"),
            decay: 0.01,
            absolute: number("absolute"),
            batch: whole("batch"),
            epochs: whole("epochs"),
            patience: whole("patience"),
        };
        let intercept = case["start"]["intercept"].as_f64().unwrap();
        let start = Probe { weights: numbers(&case["start"]["weights"]), intercept, converged: true };
        let mut epochs = 0;
        let order = |epoch| {
            epochs += 1;
            (0..160).map(|row| (row * 7 + epoch * 13) % 160).collect()
        };
        let probe = settings.fit_from(&start, &trained, &judged, order, &Silent).unwrap();
        assert_eq!(epochs, whole("epochs_run"));
        assert_close("adamw", &probe, case, 1e-4);
        assert!((judged.evaluate(&probe).accuracy().unwrap() - number("accuracy")).abs() < 1e-6);
    }
}

#[test]
fn small_networks_of_pytorch() {
    let golden = crate::golden_json("mlp.json");
    for name in ["two", "three"] {
        let case = &golden[name];
        let whole = |key: &str| case[key].as_u64().unwrap() as usize;
        let floats = |list: &Value| numbers(list).iter().map(|&value| value as f32).collect::<Vec<f32>>();
        let network = |parts: &Value| {
            let [first, hidden_intercepts, second, intercepts] = [0, 1, 2, 3].map(|part| floats(&parts[part]));
            Network { width: whole("width"), first, hidden_intercepts, second, intercepts }
        };
        let (values, classes) = (floats(&case["rows"]), whole("classes"));
        let truth: Vec<u32> = numbers(&case["truth"]).iter().map(|&class| class as u32).collect();
        let lesson = TrainingSet { values: &values, width: whole("width"), truth: &truth, classes, number: 0 };
        let (learning_rate, epochs) = (case["learning_rate"].as_f64().unwrap(), whole("steps"));
        let mlp = Mlp { hidden: whole("hidden"), learning_rate, epochs, batch: truth.len(), epsilon: 1e-12, seed: 0 };
        let (found, end) = (mlp.fit_from(network(&case["start"]), &lesson), network(&case["end"]));
        let parts = |n: &Network| [&n.first[..], &n.hidden_intercepts, &n.second, &n.intercepts].concat();
        for (index, (ours, theirs)) in parts(&found).iter().zip(parts(&end)).enumerate() {
            assert!((ours - theirs).abs() < 1e-4, "{name}, weight {index}: {ours} and {theirs}");
        }
        let (scores, outputs) = (found.scores(&values), found.outputs());
        for (ours, theirs) in scores.iter().zip(floats(&case["scores"])) {
            assert!((ours - theirs).abs() < 1e-3, "{name}: {ours} and {theirs}");
        }
        let best = |row: &[f32]| match row {
            [score] => u32::from(*score > 0.0),
            row => (0..row.len()).fold(0, |best, class| if row[class] > row[best] { class } else { best }) as u32,
        };
        let right = truth.iter().zip(scores.chunks(outputs)).filter(|(class, row)| **class == best(row)).count();
        let accuracy = right as f64 / truth.len() as f64;
        assert!((accuracy - case["accuracy"].as_f64().unwrap()).abs() < 1e-6, "{name}: {accuracy}");
    }
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
    let sample = TreeRows::new(codes.all().unwrap(), &rows).unwrap();
    let tree = Tree::grow(&sample, Some(1), &[]);
    let split = tree.nodes[0].split.unwrap();
    let expected = &golden.json["stump"];
    assert_eq!(split.latent, Latent(expected["feature"].as_u64().unwrap() as u32));
    assert!((split.threshold - expected["threshold"].as_f64().unwrap()).abs() < 1e-9, "{}", split.threshold);
    let accuracy = split.correct() as f64 / rows.len() as f64;
    assert!((accuracy - expected["accuracy"].as_f64().unwrap()).abs() < 1e-12);
}
