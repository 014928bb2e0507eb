use std::collections::BTreeMap;

use etalon_kernel::random::{index, permutation, stream};

use super::*;
use crate::codes::CodesBuilder;
use crate::context::Context;
use crate::labels::worlds;
use crate::metrics::testing::{codes, column, scores_with_any_threads};
use crate::metrics::{evaluate, recipe};
use crate::results::Profile;
use crate::run::{Inputs, Truth};
use crate::store::ActivationStore;

fn run_with(inputs: &Inputs, memory: u64) -> Result<Scores> {
    let recipe = recipe(&Recovery, inputs, &BTreeMap::new(), Profile::Paper, 1)?;
    Ok(evaluate(&Recovery, inputs, &recipe, &Context::silent(2, memory)?)?.scores)
}

fn run(inputs: &Inputs) -> Scores {
    run_with(inputs, 1 << 30).unwrap()
}

fn inputs(codes: Codes, truth: Codes) -> Inputs {
    Inputs::default().with(&CODES, codes).with(&TRUTH, Truth { codes: truth.into(), directions: None })
}

fn set_true_directions(inputs: &mut Inputs, directions: ActivationStore) {
    let codes = inputs.find(&TRUTH).unwrap().codes.clone();
    inputs.put(&TRUTH, Truth { codes, directions: Some(directions.into()) });
}

fn copy(codes: &Codes, order: &[usize]) -> Codes {
    let mut builder = CodesBuilder::new(codes.latents());
    for (_, latents, values) in codes.all().unwrap().iter() {
        let mut row: Vec<(u32, f32)> =
            latents.iter().zip(values).map(|(&l, &value)| (order[l as usize] as u32, 3.0 * value)).collect();
        row.sort_by_key(|entry| entry.0);
        let (latents, values): (Vec<u32>, Vec<f32>) = row.into_iter().unzip();
        builder.push(&latents, &values).unwrap();
    }
    builder.finish()
}

fn rows(store: &ActivationStore, order: impl Iterator<Item = usize>) -> ActivationStore {
    let all = store.tile(0..store.rows()).unwrap();
    let values = order.flat_map(|row| all.row(row).to_vec()).collect();
    ActivationStore::from_rows(values, store.width()).unwrap()
}

fn world() -> worlds::World {
    let given = [("rows", "2000"), ("features", "60"), ("width", "24"), ("active", "4")];
    let given = given.map(|(name, value)| (name.to_string(), value.to_string()));
    worlds::make("superposition", &BTreeMap::from(given), 9, &Context::silent(2, 1 << 30).unwrap()).unwrap()
}

#[test]
fn worked_example() {
    // Feature 0 fires in rows 0 1 2, feature 1 in row 3, feature 2 never. Latent 0 fires in rows 0 1, latent 1 in
    // rows 0 1 2 3; latent 2 is negative in row 3 and so never fires.
    // F1(0,0) = 2·2/(3+2) = 0.8, F1(0,1) = 2·3/(3+4) = 6/7, F1(1,0) = 0, F1(1,1) = 2·1/(1+4) = 0.4.
    // Best in all: 0.8 + 0.4 = 1.2 > 6/7 + 0, so feature 0 does not get its best latent. The mean is 0.6.
    let truth = codes(&[1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3);
    let codes = codes(&[1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, -1.0], 3);
    let scores = run(&inputs(codes, truth));
    assert!((scores.value("recovery").unwrap() - 0.6).abs() < 1e-12);
    assert_eq!(scores.value("recovery_cosine"), None);
    assert_eq!(column(&scores, "feature", "latent"), [Some(0.0), Some(1.0), None]);
    assert_eq!(column(&scores, "feature", "f1")[2], None);
    assert!(scores.notes.iter().any(|note| note.contains("1 of 3 true features never fire")));
}

#[test]
fn the_truth_itself_scores_one_in_any_order() {
    let world = world();
    for seed in 0..2 {
        let order = if seed == 0 { (0..60).collect() } else { permutation(60, &mut stream(seed, "test", 0)) };
        let mut back = vec![0; 60];
        order.iter().enumerate().for_each(|(feature, &latent)| back[latent] = feature);
        let true_directions = world.directions.as_ref().unwrap();
        let mut inputs = inputs(copy(&world.codes, &order), copy(&world.codes, &(0..60).collect::<Vec<_>>()));
        inputs.put(&DIRECTIONS, rows(true_directions, back.into_iter()));
        set_true_directions(&mut inputs, rows(true_directions, 0..60));
        let scores = run(&inputs);
        for key in ["recovery", "recovery_cosine", "recovery_best_cosine"] {
            assert!((scores.value(key).unwrap() - 1.0).abs() < 1e-6, "{key}: {:?}", scores.value(key));
        }
        let expected: Vec<Option<f64>> = order.iter().map(|&latent| Some(latent as f64)).collect();
        assert_eq!(column(&scores, "feature", "latent"), expected);
        assert_eq!(column(&scores, "feature", "cosine_latent"), expected);
    }
}

fn noise(rows: usize, latents: usize) -> Codes {
    let mut random = stream(0, "noise", 0);
    let mut dense = vec![0f32; rows * latents];
    (0..rows * 4).for_each(|entry| dense[entry / 4 * latents + index(latents, &mut random)] = 1.0);
    codes(&dense, latents)
}

#[test]
fn chance_scores_low_and_threads_do_not_change_the_scores() {
    let inputs =
        inputs(noise(2000, 100), copy(&world().codes, &(0..60).collect::<Vec<_>>())).and(&NULLS, "", noise(2000, 100));
    let scores = scores_with_any_threads(&Recovery, &inputs, &[], Profile::Paper);
    assert!(scores.value("recovery").unwrap() < 0.25);
    assert_eq!(scores.value("recovery_null"), scores.value("recovery"));
    assert!(matches!(run_with(&inputs, 1000), Err(crate::error::Error::Memory { .. })));
}

#[test]
fn an_unassigned_feature_counts_zero_and_a_zero_direction_is_not_assigned() {
    // Two features, one latent that is feature 0: (1 + 0) / 2. Its direction is right, the other latent's is zero.
    let truth = codes(&[1.0, 0.0, 0.0, 1.0], 2);
    let codes = codes(&[1.0, 0.0, 0.0, 0.0], 2);
    let mut inputs = inputs(codes, truth);
    let store = |values: &[f32]| ActivationStore::from_rows(values.to_vec(), 2).unwrap();
    inputs.put(&DIRECTIONS, store(&[2.0, 0.0, 0.0, 0.0]));
    set_true_directions(&mut inputs, store(&[1.0, 0.0, 0.0, 1.0]));
    let scores = run(&inputs);
    assert_eq!(scores.value("recovery"), Some(0.5));
    assert_eq!(scores.value("recovery_cosine"), Some(0.5));
    // Feature 1 is orthogonal to the only direction with a length: its best cosine is 0.
    assert_eq!(scores.value("recovery_best_cosine"), Some(0.5));
    inputs.put(&DIRECTIONS, ActivationStore::from_rows(vec![1.0; 6], 3).unwrap());
    assert!(run_with(&inputs, 1 << 30).unwrap_err().to_string().contains("width"));
}

#[test]
fn empty_inputs_are_undefined() {
    for (rows, latents) in [(0, 3), (4, 0), (4, 3)] {
        let mut builder = CodesBuilder::new(latents);
        (0..rows).for_each(|_| builder.push(&[], &[]).unwrap());
        let scores = run(&inputs(builder.finish(), codes(&vec![0.0; rows * 2], 2)));
        assert_eq!(scores.value("recovery"), None);
    }
}
