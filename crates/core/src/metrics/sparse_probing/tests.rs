//! Synthetic data with one latent per class, worked examples, both profiles, and invalid inputs.

use super::*;
use crate::codes::Codes;
use crate::labels::{Annotations, Label};
use crate::metrics::testing;
use crate::run::Inputs;
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit};

fn run(inputs: &Inputs, profile: Profile, given: &[(&str, &str)], threads: usize) -> Scores {
    testing::scores(&SparseProbing, inputs, given, profile, threads).unwrap()
}

/// Two data sets of two and three classes; latent `c` fires on class `c`, others at random; the embedding mixes them.
fn world(rows: usize) -> Inputs {
    let classes = ["a/x", "a/y", "b/u", "b/v", "b/w"];
    let mut random = stream(3, "sparse_probing/test", 0);
    let (mut codes, mut embeddings) = (Vec::new(), Vec::new());
    let class = |row: usize| row % 5;
    for row in 0..rows {
        let code: Vec<f32> = (0..8)
            .map(|latent| match unit(&mut random) {
                _ if latent == class(row) => 1.0 + unit(&mut random) as f32,
                chance if chance < 0.2 => unit(&mut random) as f32,
                _ => 0.0,
            })
            .collect();
        let channel = |c: usize| (0..8).map(|l| code[l] * ((l * 5 + c * 3) % 7) as f32).sum::<f32>();
        embeddings.extend((0..6).map(channel));
        codes.extend(code);
    }
    let label = |row: usize, concept: usize| match (class(row) < 2) == (concept < 2) {
        false => Label::Unknown,
        true if class(row) == concept => Label::Yes,
        true => Label::No,
    };
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, 8).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(embeddings, 6).unwrap())
        .with(&LABELS, Annotations::new(classes.map(String::from).to_vec(), rows, label).unwrap())
}

#[test]
fn one_latent_per_class_is_selected_and_sufficient() {
    let inputs = world(500);
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = run(&inputs, profile, &[("repeats", "3")], 2);
        // Latent c is at least 1 on its class and below 1 elsewhere: a threshold is always right.
        assert!(scores.value("top_1_accuracy").unwrap() > 0.97, "{profile:?} {:?}", scores.headline);
        assert!(scores.value("top_1_channels_accuracy").unwrap() < 0.95);
        // The released probe stops early on so few rows.
        let whole = scores.value("all_latents_accuracy").unwrap();
        assert!(whole > if profile == Profile::Paper { 0.9 } else { 0.7 }, "{profile:?}: {whole}");
        assert!(scores.value("all_channels_accuracy").unwrap() > 0.6);
        let table = scores.table("concept").unwrap();
        let crate::results::Cells::WholeLists(latents) = table.column("latents").unwrap() else { panic!("latents") };
        assert_eq!(latents.iter().map(|list| list[0]).collect::<Vec<_>>()[2..], [2, 3, 4]);
        assert!(latents[0][0] < 2 && latents[1][0] < 2);
        assert_eq!(scores.table("group").unwrap().rows(), 2);
        assert!(scores.headline[0].interval.is_some());
        assert!(scores.notes.iter().any(|note| note.contains("more than the 8 latents")), "{:?}", scores.notes);
    }
}

#[test]
fn accuracies_match_the_worked_example() {
    // One latent, 1 on all 20 rows with the concept and on 4 of the 20 without. Every probe predicts yes where it fires.
    // With a test share of 0.5 the test part holds 10 and 10 rows; the accuracy is always 1 − fired / 20 for the
    // `fired` of the negatives in it, so that over many repeats it is 1 − 2/20 = 0.9 on average.
    let values: Vec<f32> = (0..40).map(|row| f32::from(u8::from(row < 24))).collect();
    let label = |row: usize, _: usize| if row < 20 { Label::Yes } else { Label::No };
    let inputs = Inputs::default()
        .with(&CODES, Codes::from_dense(&values, 1).unwrap())
        .with(&LABELS, Annotations::new(vec!["a".into()], 40, label).unwrap());
    let given =
        [("test_share", "0.5"), ("validation_share", "0"), ("repeats", "60"), ("sizes", "1"), ("full_repeats", "0")];
    let scores = run(&inputs, Profile::Paper, &given, 1);
    assert!((scores.value("top_1_accuracy").unwrap() - 0.9).abs() < 0.02, "{:?}", scores.headline);
    assert_eq!(scores.value("top_2_accuracy"), None);
    assert_eq!(scores.value("all_latents_accuracy"), None);
    assert!(scores.notes.iter().any(|note| note.contains("no embeddings")));
    assert!(scores.notes.iter().any(|note| note.contains("size 2 is not among")));
}

#[test]
fn results_do_not_depend_on_threads() {
    let inputs = world(150);
    for profile in [Profile::Paper, Profile::Reference] {
        testing::scores_with_any_threads(&SparseProbing, &inputs, &[("repeats", "2")], profile);
    }
}

#[test]
fn empty_classes_and_samples_without_rows_are_left_out() {
    let mut inputs = world(100);
    // Class `a/y` has no row any more: it is unknown everywhere but in one row, which no split can cover.
    let labels = inputs.share(&LABELS).unwrap();
    let label = |row: usize, concept: usize| match labels.label(row, crate::labels::Concept(concept as u32)) {
        Label::Yes if concept == 1 && row > 1 => Label::Unknown,
        label => label,
    };
    inputs.put(&LABELS, Annotations::new(labels.names().to_vec(), 100, label).unwrap());
    // Samples 0, 5 and 10 are of class `a/x` and had no rows to pool.
    let empty = |row: usize| [0, 5, 10].contains(&row);
    let blank = |values: Vec<f32>, width: usize| -> Vec<f32> {
        values.iter().enumerate().map(|(i, &v)| if empty(i / width) { 0.0 } else { v }).collect()
    };
    let all = inputs.share(&CODES).unwrap();
    let mut dense = vec![0.0; 800];
    for (row, latents, values) in all.all().unwrap().iter() {
        latents.iter().zip(values).for_each(|(&l, &v)| dense[row * 8 + l as usize] = v);
    }
    let store = inputs.get(&EMBEDDINGS).unwrap().tile(0..100).unwrap().values.to_vec();
    inputs.put(&CODES, Codes::from_dense(&blank(dense, 8), 8).unwrap());
    inputs.put(&EMBEDDINGS, ActivationStore::from_rows(blank(store, 6), 6).unwrap());
    let scores = run(&inputs, Profile::Paper, &[("repeats", "2")], 1);
    let table = scores.table("concept").unwrap();
    assert_eq!(table.column("accuracy").unwrap().number(1), None);
    assert!(table.column("accuracy").unwrap().number(2).is_some());
    assert_eq!(table.column("positives").unwrap().number(0), Some(17.0));
    assert!(scores.notes.iter().any(|note| note.starts_with("1 of 5 concepts")), "{:?}", scores.notes);
    assert!(scores.notes.iter().any(|note| note.starts_with("3 of 100 samples")), "{:?}", scores.notes);
}
