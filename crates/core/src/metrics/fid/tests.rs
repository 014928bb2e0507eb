use std::sync::Arc;

use super::frechet::{Fill, Moments, Part, Products, by_covariances};
use super::*;
use crate::codes::Codes;
use crate::context::Context;
use crate::metrics::testing::with_work;
use crate::metrics::{evaluate, recipe};
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS, Generated, Inputs};
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit};

fn cloud(rows: usize, width: usize, seed: u64, shift: f32) -> Vec<f32> {
    let mut random = stream(seed, "fid test", 0);
    let mut normal = || (0..12).map(|_| unit(&mut random)).sum::<f64>() as f32 - 6.0;
    (0..rows * width).map(|index| normal() * (1.0 + (index % width) as f32 * 0.1) + shift).collect()
}

fn store(values: &[f32], width: usize) -> Arc<ActivationStore> {
    Arc::new(ActivationStore::from_rows(values.to_vec(), width).unwrap())
}

fn inputs(real: Vec<f32>, generated: Vec<f32>, width: usize) -> Inputs {
    let codes = |values: &[f32]| Arc::new(Codes::from_dense(values, width).unwrap());
    let painter = Generated { codes: codes(&generated), embeddings: Some(store(&generated, width)) };
    Inputs::default()
        .with(&CODES, codes(&real))
        .with(&EMBEDDINGS, store(&real, width))
        .and(&GENERATED, "painter", painter)
}

fn run(inputs: &Inputs, given: &[(&str, &str)], threads: usize) -> Result<Scores> {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = recipe(&Fid, inputs, &given, Profile::Paper, 1)?;
    Ok(evaluate(&Fid, inputs, &recipe, &Context::silent(threads, 1 << 30)?)?.scores)
}

#[test]
fn distances_are_those_of_a_worked_example() {
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
fn covariances_and_products_agree() {
    let (rows, width) = (60, 9);
    let inputs = inputs(cloud(rows, width, 1, 0.0), cloud(rows, width, 2, 0.4), width);
    let short = run(&inputs, &[("most_rows", "20")], 2).unwrap();
    // The form by products, on all rows, gives the same number.
    let groups: Vec<u8> = (0..rows).map(|row| (row % GROUPS) as u8).collect();
    let dense = |codes: &Codes, row: usize, into: &mut [f64]| {
        let view = codes.view(row..row + 1).unwrap();
        view.row(0).0.iter().zip(view.row(0).1).for_each(|(&l, &value)| into[l as usize] = f64::from(value));
    };
    let (real, other) = (inputs.get(&CODES).unwrap(), &*inputs.get(&GENERATED).unwrap().codes);
    let row = |codes: &Codes, row: usize| {
        let mut values = vec![0.0; width];
        dense(codes, row, &mut values);
        values
    };
    let products = |a: &Codes, b: &Codes| -> Vec<Vec<f64>> {
        let cell = |i: usize, j: usize| row(a, i).iter().zip(row(b, j)).map(|(x, y)| x * y).sum();
        (0..rows).map(|i| (0..rows).map(|j| cell(i, j)).collect()).collect()
    };
    let (between, within) = (products(real, other), [products(real, real), products(other, other)]);
    let long = Products { groups: &groups, between: &between, within: [&within[0], &within[1]] };
    let context = Context::silent(1, 1 << 30).unwrap();
    let checked = with_work(&Fid, &inputs, &context, |job, _| {
        let moments = |codes: &Codes| {
            let fill: &Fill<'_> = &|row, into| {
                dense(codes, row, into);
                Ok(())
            };
            let group = |group: usize| (0..rows).filter(|row| row % GROUPS == group).collect::<Vec<_>>();
            (0..GROUPS).map(|g| Moments::of(&group(g), fill, &vec![0.3; width], job).unwrap()).collect::<Vec<_>>()
        };
        let (a, b) = (moments(real), moments(other));
        let distance = |part: Part| by_covariances((&a, part), (&b, part), job).unwrap().unwrap();
        for part in [Part::All, Part::Half(true), Part::Without(3)] {
            let (one, two) = (distance(part), long.distance([part, part], job)?.unwrap());
            assert!((one - two).abs() < 1e-6 * one.max(1.0), "{part:?}: {one} and {two}");
        }
        assert!((distance(Part::All) - short.value("fid_codes").unwrap()).abs() < 1e-9);
        Ok(())
    });
    checked.unwrap();
    assert!(run(&inputs, &[("most_rows", "8")], 2).unwrap().value("fid_codes").is_some());
}

#[test]
fn equal_distributions_have_no_corrected_distance_with_any_number_of_threads() {
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
    // It comes first, and its values without groups pair differences.
    assert_eq!(moved.headline[0].key, "fid_features_corrected");
    assert_eq!(moved.table("jackknife").unwrap().column("fid_codes_corrected").unwrap().len(), GROUPS);
}

#[test]
fn embeddings_of_another_width_are_refused() {
    let wrong = inputs(cloud(30, 4, 1, 0.0), cloud(30, 4, 2, 0.0), 4);
    let mut painter = wrong.get(&GENERATED).unwrap().clone();
    painter.embeddings = Some(store(&[0.5; 90], 3));
    let wrong = wrong.without(&GENERATED).and(&GENERATED, "painter", painter);
    let text = run(&wrong, &[], 1).unwrap_err().to_string();
    assert!(text.contains("painter") && text.contains("4 values per row"), "{text}");
}
