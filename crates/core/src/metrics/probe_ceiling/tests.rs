use etalon_kernel::random::stream;
use rand::Rng;

use super::*;
use crate::labels::Label;
use crate::metrics::testing::{self, column, labels_by, scores_with_any_threads, yes_if};
use crate::run::Inputs;
use crate::store::ActivationStore;

fn inputs(values: &[f32], width: usize, labels: &[Vec<Label>]) -> Inputs {
    let labels = labels_by(labels.len(), values.len() / width, |row, concept| labels[concept][row]);
    let store = ActivationStore::from_rows(values.to_vec(), width).unwrap();
    Inputs::default().with(&EMBEDDINGS, store).with(&LABELS, labels)
}

fn run(inputs: &Inputs, profile: Profile, given: &[(&str, &str)]) -> Scores {
    testing::scores(&ProbeCeiling, inputs, given, profile, 2).unwrap()
}

/// Rows of noise, and four concepts: the sign of a column, its opposite, noise, and the sign with unknown labels.
fn world(rows: usize, width: usize) -> (Vec<f32>, Vec<Vec<Label>>) {
    let mut random = stream(4, "probe_ceiling/test", 0);
    let values: Vec<f32> = (0..rows * width).map(|_| (random.next_u32() % 2000) as f32 / 1000.0 - 1.0).collect();
    let sign: Vec<Label> = values.chunks(width).map(|row| yes_if(row[0] > 0.0)).collect();
    let opposite: Vec<Label> = values.chunks(width).map(|row| yes_if(row[0] <= 0.0)).collect();
    let noise: Vec<Label> = (0..rows).map(|_| yes_if(random.next_u32().is_multiple_of(4))).collect();
    let gaps = sign.iter().enumerate().map(|(row, &l)| if row % 3 == 0 { Label::Unknown } else { l }).collect();
    (values, vec![sign, opposite, noise, gaps])
}

#[test]
fn probes_find_concepts_of_the_embeddings_and_no_others() {
    let (values, labels) = world(400, 5);
    let scores = run(&inputs(&values, 5, &labels), Profile::Paper, &[]);
    let cell = |name: &str, row: usize| column(&scores, "concept", name)[row].unwrap();
    for concept in [0, 1, 3] {
        assert!(cell("f1", concept) > 0.95, "concept {concept}: {}", cell("f1", concept));
        assert!(cell("auc", concept) > 0.99);
        assert!(cell("f1_best", concept) >= cell("f1", concept));
    }
    assert!((cell("auc", 2) - 0.5).abs() < 0.12, "{}", cell("auc", 2));
    // A probe for noise predicts no row, so some other probe fits it better by chance: F1 of a random half is
    // 2·(1/8)/(1/4 + 1/2) = 1/3.
    assert!(cell("f1", 2) < 0.1 && (cell("f1_best", 2) - 1.0 / 3.0).abs() < 0.1);
    assert_eq!(scores.notes, Vec::<String>::new());
}

#[test]
fn the_reference_finds_the_same_after_many_steps() {
    let (values, labels) = world(400, 5);
    let given = [("epochs", "300"), ("batch", "50"), ("learning_rate", "0.01")];
    let scores = run(&inputs(&values, 5, &labels), Profile::Reference, &given);
    let f1 = column(&scores, "concept", "f1")[0].unwrap();
    assert!(f1 > 0.95, "{f1}");
    assert_eq!(scores.notes, ["fitted on 200 rows and scored on the other 200"]);
}

#[test]
fn threads_do_not_change_the_scores() {
    let (values, labels) = world(150, 3);
    let labels: Vec<Vec<Label>> = (0..70).map(|concept| labels[concept % 4].clone()).collect();
    for profile in [Profile::Paper, Profile::Reference] {
        scores_with_any_threads(&ProbeCeiling, &inputs(&values, 3, &labels), &[("epochs", "3")], profile);
    }
}

#[test]
fn scale_of_the_columns_does_not_matter_when_standardised() {
    let (values, labels) = world(120, 3);
    let scaled: Vec<f32> = values.iter().enumerate().map(|(i, v)| v * [64.0, 1.0, 0.125][i % 3] + 4.0).collect();
    let cell = |values: &[f32], row: usize| {
        column(&run(&inputs(values, 3, &labels), Profile::Paper, &[]), "concept", "auc")[row].unwrap()
    };
    assert!((0..4).all(|row| (cell(&values, row) - cell(&scaled, row)).abs() < 1e-3));
}

#[test]
fn edge_cases_are_undefined_not_zero() {
    let values: Vec<f32> = (0..16).map(|i| (i % 5) as f32).collect();
    let edges = inputs(&values, 2, &[Label::No, Label::Yes, Label::Unknown].map(|label| vec![label; 8]));
    let scores = run(&edges, Profile::Paper, &[]);
    assert_eq!((scores.value("probe_f1"), scores.value("probe_auc")), (None, None));
    assert!(scores.notes[0].starts_with("3 of 3"), "{:?}", scores.notes);
    // The reference scores an empty concept 0; an unknown one stays undefined.
    let scores = run(&edges, Profile::Reference, &[("epochs", "200"), ("learning_rate", "0.1")]);
    assert_eq!(column(&scores, "concept", "f1"), [Some(0.0), Some(1.0), None]);
    for profile in [Profile::Paper, Profile::Reference] {
        for (values, labels) in [(&[][..], vec![vec![]]), (&[1.0, 2.0], vec![]), (&[1.0, 2.0], vec![vec![Label::Yes]])]
        {
            assert_eq!(run(&inputs(values, 2, &labels), profile, &[]).value("probe_f1"), None);
        }
    }
    // A constant column beside an informative one.
    let values: Vec<f32> = (0..80).flat_map(|row| [7.7, if row % 2 == 0 { 1.0 } else { -1.0 }]).collect();
    let labels = [(0..80).map(|row| yes_if(row % 2 == 0)).collect()];
    assert_eq!(run(&inputs(&values, 2, &labels), Profile::Paper, &[]).value("probe_f1"), Some(1.0));
}
