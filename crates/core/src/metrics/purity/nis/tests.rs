use std::path::PathBuf;

use etalon_kernel::layered_network::TargetRows;
use etalon_kernel::monitor::Silent;
use serde_json::Value;

use super::*;
use crate::context::{Budget, Context};
use crate::input::{self, Finite, Source};
use crate::metrics::testing::{self, codes, labels_by, scores_with_any_threads, with_work, yes_if};
use crate::run::{FACTORS, Inputs, LABELS, TASK_LABELS, load_codes, load_factors};
use niches::{Dense, correlations};

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/purity").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

fn list(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|value| value as u32).collect()
}

fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}, entry {index}: {a} and {b}");
    }
}

/// The weights of a helper network, which are 64-bit numbers.
fn double(name: &str) -> Vec<f64> {
    let bytes = std::fs::read(golden(name)).unwrap();
    let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    bytes[header..].as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect()
}

#[test]
fn the_curve_is_that_of_the_released_program() {
    let expected = json("nis_wide/expected.json");
    let layer = |number: usize| Layer {
        weights: double(&format!("nis_wide/w{number}.npy")),
        intercepts: double(&format!("nis_wide/b{number}.npy")),
    };
    let network = LayeredNetwork { layers: (0..3).map(layer).collect(), outputs: Outputs::Sigmoid };
    let budget = Budget::new(1 << 30);
    let factors = load_factors(&golden("binary/labels.npy"), &budget).unwrap();
    let inputs = Inputs::default()
        .with(&CODES, load_codes(&golden("binary/codes.npy"), &budget).unwrap())
        .with(&FACTORS, factors.clone());
    let context = Context::silent(1, 1 << 30).unwrap();
    with_work(&Nis, &inputs, &context, |job, _| {
        let dense = Dense::of_job(job)?;
        let (train, test) = (list(&expected["train_idx"]), list(&expected["test_idx"]));
        let usable: Vec<usize> = (0..4).collect();
        let outputs = output_classes(&factors, &usable);
        let correlation = numbers(&expected["train_correlation"]);
        let (mut curves, mut exact, mut masked_first) = (Vec::new(), 0.0, Vec::new());
        for concept in 0..4 {
            let niche = correlations(&dense, 1, &factors, concept, &train);
            let known: Vec<f64> = (0..5).map(|source| correlation[source * 4 + concept].abs()).collect();
            close(&niche, &known, 1e-9, "correlations");
            let masked = Masked { network: &network, dense: &dense, dimensions: 1, outputs: concept..concept + 1 };
            let area = |all: &[f64]| output_area(&factors, &outputs[concept..=concept], &test, all).unwrap().value;
            let unmasked = area(&masked.predictions(&test, &niche, &[2.0])[0]);
            close(&[unmasked], &[numbers(&expected["unmasked_auc_per_concept"])[concept]], 1e-9, "unmasked");
            let paper = &expected["paper"];
            let grid = Grid::of(Profile::Paper);
            let predictions = masked.predictions(&test, &niche, &grid.thresholds);
            let areas: Vec<f64> = predictions.iter().map(|all| area(all)).collect();
            let all = numbers(&paper["auc_per_concept"]);
            close(&areas, &(0..21).map(|beta| all[beta * 4 + concept]).collect::<Vec<_>>(), 1e-9, "paper");
            let steps = Grid::exact(&niche, 1.0);
            let at = masked.predictions(&test, &niche, &steps.thresholds);
            exact += at.iter().zip(&steps.weights).map(|(all, weight)| weight * area(all)).sum::<f64>() / 4.0;
            // Profile `reference`: predictions from one step to the next.
            let grid = Grid::of(Profile::Reference).thresholds;
            let steps = Grid::exact(&niche, REFERENCE_END).thresholds;
            let mut thresholds = [&grid[..], &steps[..]].concat();
            thresholds.sort_by(f64::total_cmp);
            thresholds.dedup();
            let predictions = masked.predictions(&test, &niche, &thresholds);
            let at = masked.predictions(&test, &niche, &[0.3]);
            let first: Vec<f64> = at[0][..5].to_vec();
            let known = &expected["at_beta_0.3"];
            let column =
                |key: &str| -> Vec<f64> { numbers(&known[key]).into_iter().skip(concept).step_by(4).collect() };
            close(&first, &column("masked_proba_first5"), 1e-9, "masked probabilities");
            let is_masked: Vec<f64> = niche.iter().map(|&own| f64::from(u8::from(own > 0.3))).collect();
            assert_eq!(is_masked, column("niche"));
            masked_first.push(first);
            curves.push((areas, niche, thresholds, predictions));
        }
        let weights = Grid::of(Profile::Paper).weights;
        let mean: f64 =
            curves.iter().flat_map(|(areas, ..)| areas.iter().zip(&weights).map(|(a, w)| a * w)).sum::<f64>() / 4.0;
        close(
            &[mean, exact],
            &[
                expected["paper"]["integral_trapezoid_21"].as_f64().unwrap(),
                expected["paper"]["exact_step_integral"].as_f64().unwrap(),
            ],
            1e-9,
            "integrals",
        );
        // Reference: the softmax across concepts.
        let niches = Niches {
            job,
            factors: &factors,
            usable: &usable,
            outputs: outputs.clone(),
            dimensions: 1,
            repeats: 1,
            hidden: 20,
        };
        let curves: Vec<ConceptCurve> = curves
            .into_iter()
            .map(|(_, niche, thresholds, predictions)| ConceptCurve {
                areas: Vec::new(),
                unmasked: None,
                integral: None,
                thresholds,
                predictions,
                niche,
            })
            .collect();
        let known = &expected["reference"];
        let areas = |thresholds: &[f64]| -> Vec<f64> {
            let at = |&threshold: &f64| niches.softmax_areas_of(&curves, &test, threshold);
            thresholds.iter().flat_map(at).map(|area| area.unwrap()).collect()
        };
        let integral = |grid: &Grid| -> f64 {
            let areas = areas(&grid.thresholds);
            areas.chunks(4).zip(&grid.weights).map(|(areas, weight)| weight * areas.iter().sum::<f64>() / 4.0).sum()
        };
        let grid = Grid::of(Profile::Reference);
        close(&areas(&grid.thresholds), &numbers(&known["auc_per_concept"]), 1e-9, "reference");
        let steps: Vec<f64> = curves.iter().flat_map(|curve| curve.niche.clone()).collect();
        close(
            &[integral(&grid), integral(&Grid::exact(&steps, REFERENCE_END))],
            &[known["integral"].as_f64().unwrap(), known["exact_step_integral_0_to_0.95"].as_f64().unwrap()],
            1e-9,
            "integrals of the reference",
        );
        for row in 0..5 {
            let mut own: Vec<f64> = masked_first.iter().map(|first: &Vec<f64>| first[row]).collect();
            Outputs::Softmax.normalise(&mut own);
            close(&own, &numbers(&expected["at_beta_0.3"]["softmax_first5"][row]), 1e-9, "softmax");
        }
        assert_eq!(niches.outputs_of(2), 2..3);
        Ok(())
    })
    .unwrap();
}

#[test]
fn training_is_that_of_scikit_learn() {
    let trace = json("mlp_training_trace.json");
    let layers = |weights: &str, biases: &str| -> Vec<Layer> {
        let (weights, biases) = (trace[weights].as_array().unwrap(), trace[biases].as_array().unwrap());
        weights.iter().zip(biases).map(|(w, b)| Layer { weights: numbers(w), intercepts: numbers(b) }).collect()
    };
    let mut network = LayeredNetwork { layers: layers("initial_weights", "initial_biases"), outputs: Outputs::Sigmoid };
    let rows = trace["rows"].as_u64().unwrap() as usize;
    let source = Source::parse(&golden("binary/codes.npy").display().to_string()).unwrap();
    let values = input::read_rows(&source, Finite::Refuse, &Budget::new(1 << 30)).unwrap();
    let factors = load_factors(&golden("binary/labels.npy"), &Budget::new(1 << 30)).unwrap();
    let targets: Vec<f32> =
        (0..rows).flat_map(|row| (0..4).map(|c| factors.column(c)[row] as f32).collect::<Vec<_>>()).collect();
    let data = TargetRows { values: &values.values[..rows * 5], width: 5, targets: &targets };
    let training = LayeredTraining { epochs: 4, batch: 32, ..LayeredTraining::default() };
    let orders: Vec<Vec<usize>> = trace["epoch_order"]
        .as_array()
        .unwrap()
        .iter()
        .map(|order| numbers(order).into_iter().map(|row| row as usize).collect())
        .collect();
    let losses = network.train(&training, data, |epoch| orders[epoch].clone(), &Silent).unwrap();
    close(&losses, &numbers(&trace["loss_curve"]), 1e-9, "losses");
    for (found, expected) in network.layers.iter().zip(layers("final_weights", "final_biases")) {
        close(&found.weights, &expected.weights, 1e-9, "weights");
        close(&found.intercepts, &expected.intercepts, 1e-9, "intercepts");
    }
}

/// Two concepts; the second latent is the first concept too.
fn leaky() -> Inputs {
    let rows = 200;
    let bit = |row: usize, concept: usize| (row * 7 / (concept + 1) % 5).is_multiple_of(2);
    let values: Vec<f32> =
        (0..rows).flat_map(|row| [bit(row, 0), bit(row, 1), bit(row, 0)].map(|bit| f32::from(u8::from(bit)))).collect();
    Inputs::default()
        .with(&CODES, codes(&values, 3))
        .with(&LABELS, labels_by(2, rows, |row, concept| yes_if(bit(row, concept))))
}

#[test]
fn everything_is_masked_at_zero_and_nothing_at_one() {
    let scores = scores_with_any_threads(&Nis, &leaky(), &[("hidden", "20,8"), ("repeats", "2")], Profile::Paper);
    assert_eq!(testing::column(&scores, "niche", "beta").len(), 2 * 21);
    let (low, high) = (testing::column(&scores, "helper", "low"), testing::column(&scores, "helper", "high"));
    assert_eq!(scores.headline[0].interval.map(|i| (Some(i.low), Some(i.high))), Some((low[0], high[0])));
    let areas = testing::column(&scores, "threshold", "niche_impurity");
    assert_eq!(areas.len(), 21);
    assert_eq!(areas[0], Some(0.5));
    assert_eq!(areas[20], scores.value("nis_unmasked"));
    assert!(scores.value("nis_unmasked").unwrap() > 0.99);
    let given = [("integral", "exact"), ("repeats", "2")];
    let exact = testing::scores(&Nis, &leaky(), &given, Profile::Paper, 1).unwrap();
    assert!((exact.value("nis").unwrap() - scores.value("nis").unwrap()).abs() < 0.05);
    let reference = testing::scores(&Nis, &leaky(), &[], Profile::Reference, 1).unwrap();
    assert_eq!(testing::column(&reference, "threshold", "beta").len(), 20);
    assert!(reference.value("nis").unwrap() <= 0.95 && reference.headline[0].interval.is_none());
    let exact = scores_with_any_threads(&Nis, &leaky(), &[("integral", "exact")], Profile::Reference);
    let (exact, trapezoid) = (exact.value("nis").unwrap(), reference.value("nis").unwrap());
    assert!(exact != trapezoid && (exact - trapezoid).abs() < 0.05, "{exact} {trapezoid}");
}

#[test]
fn bad_inputs_are_undefined() {
    let undefined = |inputs: Inputs, part: &str| {
        for profile in [Profile::Paper, Profile::Reference] {
            let scores = testing::scores(&Nis, &inputs, &[], profile, 1).unwrap();
            assert!(scores.value("nis").is_none(), "{part}");
            assert!(scores.notes.iter().any(|note| note.contains(part)), "{part}: {:?}", scores.notes);
        }
    };
    undefined(Inputs::default().with(&CODES, codes(&[1.0; 4], 1)).with(&LABELS, testing::labels(&["ynyn"])), "too few");
    let one_class = testing::labels(&[&"y".repeat(60)]);
    undefined(Inputs::default().with(&CODES, codes(&[1.0; 60], 1)).with(&LABELS, one_class), "two classes");
    // Constant codes tell nothing: 1/2 everywhere, and fewer representations than concepts are allowed.
    let constant = leaky().with(&CODES, codes(&[0.5; 200], 1));
    let scores = testing::scores(&Nis, &constant, &[("repeats", "2")], Profile::Paper, 1).unwrap();
    assert!((scores.value("nis").unwrap() - 0.5).abs() < 1e-12 && scores.value("nis_unmasked") == Some(0.5));
}

#[test]
fn rows_are_balanced_by_task() {
    let task = Factors::new(vec!["task".into()], vec![(0..200).map(|row| i32::from(row % 10 == 0)).collect()]).unwrap();
    let inputs = leaky().with(&TASK_LABELS, task);
    let context = Context::silent(1, 1 << 30).unwrap();
    with_work(&Nis, &inputs, &context, |job, _| {
        let rows: Vec<u32> = (0..200).collect();
        let drawn = balanced(job, &rows, "train", 0)?;
        assert_eq!((drawn.len(), drawn.iter().filter(|&&row| row % 10 == 0).count()), (40, 20));
        Ok(())
    })
    .unwrap();
    assert!(
        testing::scores(&Nis, &inputs, &[("balance", "task")], Profile::Reference, 1).unwrap().value("nis").is_some()
    );
    let error = testing::scores(&Nis, &leaky(), &[("balance", "task")], Profile::Paper, 1).unwrap_err().to_string();
    assert!(error.contains("task"), "{error}");
}
