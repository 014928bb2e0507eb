use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::frechet::{Moments, Rows};
use super::*;
use crate::budget::Budget;
use crate::codes::Codes;
use crate::kernel::random::unit;
use crate::metrics::{evaluate, recipe};
use crate::progress::Silent;
use crate::results::Profile;
use crate::run::{Engine, Inputs, Model};
use crate::store::ActivationStore;

fn cloud(rows: usize, width: usize, seed: u64, shift: f32) -> Vec<f32> {
    let mut random = stream(seed, "fid test", 0);
    let mut normal = || (0..12).map(|_| unit(&mut random)).sum::<f64>() as f32 - 6.0;
    (0..rows * width).map(|at| normal() * (1.0 + (at % width) as f32 * 0.1) + shift).collect()
}

fn inputs(real: Vec<f32>, generated: Vec<f32>, width: usize) -> Inputs {
    let codes = |values: &[f32]| Arc::new(Codes::from_dense(values, width).unwrap());
    let store = |values: Vec<f32>| Some(Arc::new(ActivationStore::from_rows(values, width).unwrap()));
    let models = vec![Model { name: "painter".into(), codes: codes(&generated), embeddings: store(generated) }];
    Inputs { codes: Some(codes(&real)), embeddings: store(real), models, ..Inputs::default() }
}

fn run(inputs: &Inputs, given: &[(&str, &str)], threads: usize) -> Result<Scores> {
    let cancel = AtomicBool::new(false);
    let engine = Engine::new(threads, Budget::new(1 << 30), &Silent, &cancel)?;
    let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let recipe = recipe(&Fid, inputs, &given, Profile::Paper, 1)?;
    Ok(evaluate(&Fid, inputs, recipe, &engine)?.scores)
}

#[test]
fn by_hand() {
    // Real −1, 1 twice over (mean 0, variance 4/3), generated 1, 5 twice over (mean 3, variance 16/3):
    // 9 + (√(4/3) − √(16/3))² = 9 + 4/3.
    let (real, generated) = ([-1.0f32, 1.0, -1.0, 1.0], [1.0f32, 5.0, 1.0, 5.0]);
    let scores = run(&inputs(real.to_vec(), generated.to_vec(), 1), &[], 1).unwrap();
    for key in ["fid_features", "fid_codes"] {
        assert!((scores.value(key).unwrap() - (9.0 + 4.0 / 3.0)).abs() < 1e-12, "{key}: {:?}", scores.value(key));
    }
    assert_eq!(scores.value("fid_reconstructions"), None);
    assert!(scores.notes.iter().any(|note| note.contains("without the dictionary")));
    // Two dimensions that do not mix: the sum of both.
    let rows = |x: &[f32], y: &[f32]| {
        [(0, 0), (0, 1), (1, 0), (1, 1)].iter().flat_map(|&(i, j)| [x[i], y[j]]).collect::<Vec<_>>()
    };
    let scores = run(&inputs(rows(&real, &real), rows(&generated, &real), 2), &[], 1).unwrap();
    assert!((scores.value("fid_features").unwrap() - (9.0 + 4.0 / 3.0)).abs() < 1e-12);
}

#[test]
fn both_forms_agree() {
    let (rows, width) = (60, 9);
    let inputs = inputs(cloud(rows, width, 1, 0.0), cloud(rows, width, 2, 0.4), width);
    let short = run(&inputs, &[("most_rows", "20")], 2).unwrap();
    // Fewer allowed than there are latents: the products of eight rows; with all rows they give the same number.
    let groups: Vec<u8> = (0..rows).map(|row| (row % GROUPS) as u8).collect();
    let dense = |codes: &Codes, row: usize, into: &mut [f64]| {
        let view = codes.view(row..row + 1).unwrap();
        view.row(0).0.iter().zip(view.row(0).1).for_each(|(&l, &value)| into[l as usize] = f64::from(value));
    };
    let (real, other) = (inputs.codes.clone().unwrap(), inputs.models[0].codes.clone());
    let row = |codes: &Codes, at: usize| {
        let mut line = vec![0.0; width];
        dense(codes, at, &mut line);
        line
    };
    let products = |a: &Codes, b: &Codes| -> Vec<f64> {
        let cell = |at: usize| row(a, at / rows).iter().zip(row(b, at % rows)).map(|(x, y)| x * y).sum();
        (0..rows * rows).map(cell).collect()
    };
    let (between, within) = (products(&real, &other), [products(&real, &real), products(&other, &other)]);
    let long = frechet::Products { groups: [&groups, &groups], between: &between, within: [&within[0], &within[1]] };
    let fill = |codes: Arc<Codes>| {
        move |at: usize, into: &mut [f64]| {
            dense(&codes, at, into);
            Ok(())
        }
    };
    let (fill_real, fill_other) = (fill(real.clone()), fill(other.clone()));
    let moments = |fill| Moments::new(&Rows { dimensions: width, groups: &groups, fill }, &vec![0.3; width]).unwrap();
    let (a, b) = (moments(&fill_real), moments(&fill_other));
    for part in [Part::All, Part::Half(true), Part::Without(3)] {
        let (one, two) = (a.distance(part, &b, part).unwrap().unwrap(), long.distance([part, part]).unwrap().unwrap());
        assert!((one - two).abs() < 1e-6 * one.max(1.0), "{part:?}: {one} and {two}");
    }
    assert!((a.distance(Part::All, &b, Part::All).unwrap().unwrap() - short.value("fid_codes").unwrap()).abs() < 1e-9);
    assert!(run(&inputs, &[("most_rows", "8")], 2).unwrap().value("fid_codes").is_some());
}

#[test]
fn equal_distributions_are_corrected_to_nothing_and_threads_do_not_matter() {
    let (rows, width) = (400, 12);
    let same = inputs(cloud(rows, width, 3, 0.0), cloud(rows, width, 4, 0.0), width);
    let scores = run(&same, &[], 1).unwrap();
    let value = |key: &str| scores.value(key).unwrap();
    assert!(value("fid_features_corrected").abs() < 0.5 * value("fid_features"));
    assert!((value("fid_features_half") / value("fid_features_floor") - 1.0).abs() < 0.5);
    assert!(value("fid_features_half") > 1.4 * value("fid_features"));
    assert!(scores == run(&same, &[], 2).unwrap() && scores == run(&same, &[], 7).unwrap());
    // Shifted by 1 in each of 12 dimensions: 12, and the interval contains it.
    let moved = run(&inputs(cloud(rows, width, 3, 0.0), cloud(rows, width, 4, 1.0), width), &[], 2).unwrap();
    let corrected = moved.headline.iter().find(|headline| headline.key == "fid_features_corrected").unwrap();
    let interval = corrected.interval.unwrap();
    assert!(interval.low < 12.0 && 12.0 < interval.high, "{corrected:?}");
}

#[test]
fn widths_must_agree() {
    let mut wrong = inputs(cloud(30, 4, 1, 0.0), cloud(30, 4, 2, 0.0), 4);
    wrong.models[0].embeddings = Some(Arc::new(ActivationStore::from_rows(vec![0.5; 90], 3).unwrap()));
    let text = run(&wrong, &[], 1).unwrap_err().to_string();
    assert!(text.contains("painter") && text.contains("4 values per row"), "{text}");
}
