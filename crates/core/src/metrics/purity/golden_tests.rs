//! Disentanglement measures against the released programs: whole matrices, both data sets.

use std::path::PathBuf;

use serde_json::Value;

use super::information::{entropy, equal_width, mutual_information};
use super::{Explicitness, Mig, Modularity, Sap};
use crate::context::Budget;
use crate::input::{self, Finite, Source};
use crate::labels::Factors;
use crate::metrics::purity::areas::class_area;
use crate::metrics::testing::{self, column};
use crate::probe::single_svc::SingleSvc;
use crate::probe::softmax_regression::{SoftmaxRegression, WideRows};
use crate::results::Profile;
use crate::run::{CODES, FACTORS, Inputs, load_codes, load_factors};
use etalon_kernel::monitor::Silent;
use etalon_kernel::small_networks::{LANES, Lanes, Size, SmallNetworks, Training, UNKNOWN};

pub(super) const CODE_COUNT: usize = 5;

pub(super) fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/purity").join(name)
}

pub(super) fn json(name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(golden(name)).unwrap()).unwrap()
}

pub(super) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(values) => values.iter().flat_map(numbers).collect(),
        value => vec![value.as_f64().unwrap()],
    }
}

pub(super) fn list(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|value| value as u32).collect()
}

pub(super) fn close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (index, (a, b)) in found.iter().zip(expected).enumerate() {
        assert!((a - b).abs() <= tolerance, "{what}, entry {index}: {a} and {b}");
    }
}

pub(super) struct Data {
    pub name: &'static str,
    /// One list per code.
    pub codes: Vec<Vec<f32>>,
    pub factors: Factors,
    pub expected: Value,
}

impl Data {
    pub fn both() -> [Data; 2] {
        ["binary", "multi"].map(|name| {
            let budget = Budget::new(1 << 30);
            let source = Source::parse(&golden(name).join("codes.npy").display().to_string()).unwrap();
            let dense = input::read_rows(&source, Finite::Refuse, &budget).unwrap();
            let code = |code: usize| dense.values.iter().skip(code).step_by(CODE_COUNT).copied().collect();
            Data {
                name,
                codes: (0..CODE_COUNT).map(code).collect(),
                factors: load_factors(&golden(name).join("labels.npy"), &budget).unwrap(),
                expected: json(&format!("{name}/metrics.json")),
            }
        })
    }

    pub fn inputs(&self) -> Inputs {
        let codes = load_codes(&golden(self.name).join("codes.npy"), &Budget::new(1 << 30)).unwrap();
        Inputs::default().with(&CODES, codes).with(&FACTORS, self.factors.clone())
    }

    pub fn rows(&self) -> usize {
        self.factors.rows()
    }

    fn wide(&self, code: usize) -> Vec<f64> {
        self.codes[code].iter().map(|&value| f64::from(value)).collect()
    }

    pub fn classes(&self, concept: usize, rows: impl Iterator<Item = usize>) -> Vec<u32> {
        rows.map(|row| self.factors.column(concept)[row] as u32).collect()
    }

    /// Everything but some rows.
    pub fn without(&self, test: &[u32]) -> Vec<usize> {
        (0..self.rows()).filter(|row| !test.contains(&(*row as u32))).collect()
    }
}

#[test]
fn information() {
    for data in Data::both() {
        let matrix = |rows: usize| -> Vec<f64> {
            (0..CODE_COUNT)
                .flat_map(|code| {
                    let bins = equal_width(&data.wide(code)[..rows], 20);
                    let of = |concept| mutual_information(&bins, &data.classes(concept, 0..rows)).value;
                    (0..data.factors.count()).map(of).collect::<Vec<_>>()
                })
                .collect()
        };
        let expected = &data.expected["mig_dl"];
        for (row, ids) in expected["bin_ids_first6_rows"].as_array().unwrap().iter().enumerate() {
            let found: Vec<u32> = (0..CODE_COUNT).map(|code| equal_width(&data.wide(code), 20)[row] + 1).collect();
            assert_eq!(found, list(ids), "{}", data.name);
        }
        close(&matrix(data.rows()), &numbers(&expected["mi_nats"]), 1e-9, data.name);
        let entropies: Vec<f64> =
            (0..data.factors.count()).map(|c| entropy(&data.classes(c, 0..data.rows())).value).collect();
        close(&entropies, &numbers(&expected["entropy_nats"]), 1e-9, data.name);
        // Ross's reading bins the classes, too, which merges none of them; in bits.
        let ross = &data.expected["mig_ross"];
        let classes = |concept: usize| {
            let classes = data.classes(concept, 0..data.rows()).into_iter().map(f64::from).collect::<Vec<_>>();
            equal_width(&classes, 20)
        };
        let bits: Vec<f64> = (0..CODE_COUNT)
            .flat_map(|code| {
                let bins = equal_width(&data.wide(code), 20);
                let of = |concept| mutual_information(&bins, &classes(concept)).value / 2f64.ln();
                (0..data.factors.count()).map(of).collect::<Vec<_>>()
            })
            .collect();
        close(&bits, &numbers(&ross["mi_bits"]), 1e-9, "bits");
        let entropies: Vec<f64> =
            (0..data.factors.count()).map(|concept| entropy(&classes(concept)).value / 2f64.ln()).collect();
        close(&entropies, &numbers(&ross["entropy_bits"]), 1e-9, "entropies in bits");
        let modularity = &data.expected["modularity_explicitness"];
        close(&matrix(data.rows() / 2), &numbers(&modularity["mi_nats_train"]), 1e-9, data.name);
        for (profile, mig, key) in [
            (Profile::Paper, expected["score"].as_f64(), "modularity_all_rows"),
            (Profile::Reference, data.expected["mig_ross"]["score"].as_f64(), "modularity"),
        ] {
            let found = testing::scores(&Mig, &data.inputs(), &[], profile, 2).unwrap().value("mig").unwrap();
            close(&[found], &[mig.unwrap()], 1e-9, "mig");
            let found = testing::scores(&Modularity, &data.inputs(), &[], profile, 2).unwrap();
            close(&[found.value("modularity").unwrap()], &[modularity[key].as_f64().unwrap()], 1e-9, key);
        }
    }
}

#[test]
fn single_latents_predict_as_liblinear_does() {
    for data in Data::both() {
        for (key, share) in [("train_fraction_0.2", "0.2"), ("train_fraction_0.5", "0.5")] {
            let expected = &data.expected["sap"][key];
            let train = expected["n_train"].as_u64().unwrap() as usize;
            for code in 0..CODE_COUNT {
                for concept in 0..data.factors.count() {
                    let count = data.factors.classes(concept);
                    let found =
                        SingleSvc { c: 0.01 }.fit(&data.wide(code)[..train], &data.classes(concept, 0..train), count);
                    let tight = &expected["svc_tight_optimum"][code][concept];
                    close(&found.iter().map(|d| d.slope).collect::<Vec<_>>(), &numbers(&tight["w"]), 1e-6, "slopes");
                    close(
                        &found.iter().map(|d| d.intercept).collect::<Vec<_>>(),
                        &numbers(&tight["b"]),
                        1e-6,
                        "intercepts",
                    );
                }
            }
            let scores =
                testing::scores(&Sap, &data.inputs(), &[("train_share", share)], Profile::Reference, 2).unwrap();
            close(&[scores.value("sap").unwrap()], &[expected["score"].as_f64().unwrap()], 1e-9, key);
            let accuracies = numbers(&expected["accuracy"]);
            let best = column(&scores, "concept", "best_accuracy");
            for (concept, best) in best.into_iter().enumerate() {
                let all = (0..CODE_COUNT).map(|code| accuracies[code * data.factors.count() + concept]);
                close(&[best.unwrap()], &[all.fold(0.0, f64::max)], 1e-9, key);
            }
        }
    }
}

#[test]
fn other_readings_of_sap() {
    for data in Data::both() {
        let expected = &data.expected["sap"];
        let of = |reading: &str| {
            let given = [("sap_reading", reading)];
            testing::scores(&Sap, &data.inputs(), &given, Profile::Reference, 2).unwrap()
        };
        let training = of("training").value("sap").unwrap();
        close(&[training], &[expected["ross_on_training_rows"].as_f64().unwrap()], 1e-9, data.name);
        let correlation = of("correlation");
        close(
            &[correlation.value("sap").unwrap()],
            &[expected["continuous_r2"]["score"].as_f64().unwrap()],
            1e-9,
            data.name,
        );
        let matrix = numbers(&expected["continuous_r2"]["matrix"]);
        for (concept, best) in column(&correlation, "concept", "best_accuracy").into_iter().enumerate() {
            let all = (0..CODE_COUNT).map(|code| matrix[code * data.factors.count() + concept]);
            close(&[best.unwrap()], &[all.fold(0.0, f64::max)], 1e-9, data.name);
        }
    }
}

#[test]
fn explicitness() {
    for data in Data::both() {
        let expected = &data.expected["modularity_explicitness"];
        let scores = testing::scores(&Explicitness, &data.inputs(), &[], Profile::Reference, 2).unwrap();
        // The library stops before the optimum.
        let areas: Vec<f64> = column(&scores, "concept", "auc").into_iter().flatten().collect();
        close(&areas, &numbers(&expected["explicitness_test_per_factor"]), 2e-4, "areas");
        close(
            &[scores.value("explicitness").unwrap()],
            &[expected["explicitness_test"].as_f64().unwrap()],
            1e-4,
            "mean",
        );
        let half = data.rows() / 2;
        let scaled: Vec<Vec<f64>> = (0..CODE_COUNT)
            .map(|code| {
                let values = data.wide(code);
                let mean = values[..half].iter().sum::<f64>() / half as f64;
                let deviation = (values[..half].iter().map(|v| (v - mean).powi(2)).sum::<f64>() / half as f64).sqrt();
                values.iter().map(|value| (value - mean) / deviation).collect()
            })
            .collect();
        let rows: Vec<f64> = (0..data.rows()).flat_map(|row| scaled.iter().map(move |code| code[row])).collect();
        for concept in 0..data.factors.count() {
            let tight = &expected["logistic_tight_optimum"][concept];
            let train = WideRows { values: &rows[..half * CODE_COUNT], width: CODE_COUNT };
            let classes = data.classes(concept, 0..half);
            let model =
                SoftmaxRegression::default().fit(train, &classes, data.factors.classes(concept), &Silent).unwrap();
            let weights: Vec<f64> =
                model.weights.chunks(CODE_COUNT + 1).flat_map(|w| w[..CODE_COUNT].to_vec()).collect();
            close(&weights, &numbers(&tight["coef"]), 1e-6, "weights");
            let truth: Vec<i32> = data.factors.column(concept)[half..].to_vec();
            let logits: Vec<f64> =
                rows[half * CODE_COUNT..].chunks(CODE_COUNT).flat_map(|row| model.logits(row)).collect();
            let area = class_area(&truth, &logits, model.outputs()).unwrap().value;
            close(&[area], &[tight["auc_test"].as_f64().unwrap()], 1e-9, "area");
        }
    }
}

#[test]
fn constant_codes() {
    let case = &json("edge_cases.json")["constant_code"];
    let codes: Vec<f32> = numbers(&case["codes"]).into_iter().map(|value| value as f32).collect();
    let labels: Vec<f32> = numbers(&case["labels"]).into_iter().map(|value| value as f32).collect();
    let inputs = Inputs::default()
        .with(&CODES, testing::codes(&codes, 3))
        .with(&FACTORS, Factors::from_array(&labels, 2).unwrap());
    let mig = testing::scores(&Mig, &inputs, &[], Profile::Paper, 1).unwrap();
    close(&[mig.value("mig").unwrap()], &[case["mig_dl"].as_f64().unwrap()], 1e-6, "mig");
    // Two latents count; the constant one is left out of the paper's mean and is 0 in that of the program.
    let paper = testing::scores(&Modularity, &inputs, &[], Profile::Paper, 1).unwrap();
    assert!(paper.notes.iter().any(|note| note.contains("1 of 3 latents")), "{:?}", paper.notes);
    close(
        &[paper.value("modularity").unwrap() * 2.0 / 3.0],
        &[case["modularity"].as_f64().unwrap()],
        1e-6,
        "modularity",
    );
}

#[test]
fn probes_are_trained_as_keras_does() {
    let trace = json("probe_training_trace.json");
    let [binary, multi] = Data::both();
    for (key, data) in [("binary", &binary), ("multi", &multi)] {
        let case = &trace[key];
        let number = |name: &str| case[name].as_u64().unwrap() as usize;
        let (rows, classes, hidden) = (number("rows"), number("classes"), number("hidden"));
        let outputs = if classes > 2 { classes } else { 1 };
        // Weights are stored by input; ours by output.
        let by_output = |name: &str| -> Vec<f32> {
            let weights = numbers(&case[name]);
            (0..outputs)
                .flat_map(|o| (0..hidden).map(|u| weights[u * outputs + o] as f32).collect::<Vec<_>>())
                .collect()
        };
        let plain = |name: &str| -> Vec<f32> { numbers(&case[name]).into_iter().map(|value| value as f32).collect() };
        let mut networks = SmallNetworks::new(Size { width: 1, hidden, outputs });
        networks.set(0, &[plain("W1"), vec![0.0; hidden], by_output("W2"), vec![0.0; outputs]].concat());
        let values = &data.codes[number("code")][..rows];
        let truth: Vec<Lanes> = data.factors.column(number("concept"))[..rows]
            .iter()
            .map(|&class| {
                let mut lanes = [UNKNOWN; LANES];
                lanes[0] = class as f32;
                lanes
            })
            .collect();
        let orders: Vec<Vec<u32>> = case["epoch_order"].as_array().unwrap().iter().map(list).collect();
        let training = Training { epochs: orders.len(), batch: number("batch"), ..Training::default() };
        let start = networks.clone();
        networks.train(&training, values, &truth, |epoch| orders[epoch].clone(), &Silent).unwrap();
        let expected = [plain("final_W1"), plain("final_b1"), by_output("final_W2"), plain("final_b2")].concat();
        for (index, (found, expected)) in networks.get(0).iter().zip(&expected).enumerate() {
            assert!((found - expected).abs() < 1e-5, "{key}, weight {index}: {found} and {expected}");
        }
        let logits: Vec<f64> = networks.scores(&values[..6]).iter().map(|lanes| f64::from(lanes[0])).collect();
        close(&logits, &numbers(&case["logits_first6"]), 1e-5, key);
        // The loss of an epoch is the mean over its rows, each with the weights before its batch: those after a training
        // that ends with the batch before.
        let loss = |epoch: usize, first: usize| -> f64 {
            let mut networks = start.clone();
            let ending = Training { epochs: epoch + 1, ..training };
            let order =
                |number: usize| if number < epoch { orders[number].clone() } else { orders[epoch][..first].to_vec() };
            networks.train(&ending, values, &truth, order, &Silent).unwrap();
            let batch = &orders[epoch][first..(first + training.batch).min(rows)];
            let of_row = |&row: &u32| {
                let logits: Vec<f64> =
                    networks.scores(&values[row as usize..][..1]).iter().map(|lanes| f64::from(lanes[0])).collect();
                let class = truth[row as usize][0] as usize;
                match outputs {
                    1 => (1.0 + logits[0].exp()).ln() - logits[0] * class as f64,
                    _ => logits.iter().map(|logit| logit.exp()).sum::<f64>().ln() - logits[class],
                }
            };
            batch.iter().map(of_row).sum()
        };
        let losses: Vec<f64> = (0..orders.len())
            .map(|epoch| (0..rows).step_by(training.batch).map(|first| loss(epoch, first)).sum::<f64>() / rows as f64)
            .collect();
        close(&losses, &numbers(&case["epoch_loss"]), 1e-6, "losses");
    }
}
