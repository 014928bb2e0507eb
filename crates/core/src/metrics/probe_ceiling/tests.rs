use etalon_kernel::random::stream;
use rand::Rng;

use super::*;
use crate::labels::{Annotations, Label};
use crate::metrics::testing;
use crate::run::Inputs;
use crate::store::ActivationStore;

fn run(
    values: &[f32],
    width: usize,
    labels: &[Vec<Label>],
    profile: Profile,
    given: &[(&str, &str)],
    threads: usize,
) -> Result<Scores> {
    let names = (0..labels.len()).map(|concept| format!("concept {concept}")).collect();
    let labels = Annotations::new(names, values.len() / width, |row, concept| labels[concept][row])?;
    let store = ActivationStore::from_rows(values.to_vec(), width)?;
    let inputs = Inputs::default().with(&EMBEDDINGS, store).with(&LABELS, labels);
    testing::scores(&ProbeCeiling, &inputs, given, profile, threads)
}

/// Rows of noise, and labels that are a sign of it, of a column or of nothing, some unknown.
fn world(rows: usize, width: usize) -> (Vec<f32>, Vec<Vec<Label>>) {
    let mut random = stream(4, "probe_ceiling/test", 0);
    let values: Vec<f32> = (0..rows * width).map(|_| (random.next_u32() % 2000) as f32 / 1000.0 - 1.0).collect();
    let yes = |is: bool| if is { Label::Yes } else { Label::No };
    let seen: Vec<Label> = values.chunks(width).map(|row| yes(row[0] > 0.0)).collect();
    let opposite: Vec<Label> = values.chunks(width).map(|row| yes(row[0] <= 0.0)).collect();
    let noise: Vec<Label> = (0..rows).map(|_| yes(random.next_u32().is_multiple_of(4))).collect();
    let gaps = seen.iter().enumerate().map(|(row, &l)| if row % 3 == 0 { Label::Unknown } else { l }).collect();
    (values, vec![seen, opposite, noise, gaps])
}

#[test]
fn what_is_in_the_embeddings_is_found_and_nothing_else() {
    let (values, labels) = world(400, 5);
    let scores = run(&values, 5, &labels, Profile::Paper, &[], 2).unwrap();
    let table = scores.table("concept").unwrap();
    let cell = |name: &str, row: usize| table.column(name).unwrap().number(row).unwrap();
    for concept in [0, 1, 3] {
        assert!(cell("f1", concept) > 0.95, "concept {concept}: {}", cell("f1", concept));
        assert!(cell("auc", concept) > 0.99);
        assert!(cell("f1_best", concept) >= cell("f1", concept));
    }
    assert!((cell("auc", 2) - 0.5).abs() < 0.12, "{}", cell("auc", 2));
    // A probe for noise never says yes, so some other probe fits it better by chance: F1 of a random half is
    // 2·(1/8)/(1/4 + 1/2) = 1/3.
    assert!(cell("f1", 2) < 0.1 && (cell("f1_best", 2) - 1.0 / 3.0).abs() < 0.1);
    assert_eq!(scores.notes, Vec::<String>::new());
}

#[test]
fn the_reference_learns_the_same_in_many_steps() {
    let (values, labels) = world(400, 5);
    let given = [("epochs", "300"), ("batch", "50"), ("learning_rate", "0.01")];
    let scores = run(&values, 5, &labels, Profile::Reference, &given, 2).unwrap();
    let f1 = scores.table("concept").unwrap().column("f1").unwrap().number(0).unwrap();
    assert!(f1 > 0.95, "{f1}");
    assert_eq!(scores.notes, ["fitted on 200 rows and scored on the other 200"]);
}

#[test]
fn threads_change_nothing() {
    let (values, labels) = world(150, 3);
    let labels: Vec<Vec<Label>> = (0..70).map(|concept| labels[concept % 4].clone()).collect();
    for profile in [Profile::Paper, Profile::Reference] {
        let once = run(&values, 3, &labels, profile, &[("epochs", "3")], 1).unwrap();
        for threads in [2, 7] {
            assert_eq!(run(&values, 3, &labels, profile, &[("epochs", "3")], threads).unwrap(), once);
        }
    }
}

#[test]
fn scale_of_the_columns_does_not_matter_when_standardised() {
    let (values, labels) = world(120, 3);
    let scaled: Vec<f32> = values.iter().enumerate().map(|(i, v)| v * [64.0, 1.0, 0.125][i % 3] + 4.0).collect();
    let cell = |values: &[f32], row| {
        let scores = run(values, 3, &labels, Profile::Paper, &[], 1).unwrap();
        scores.table("concept").unwrap().column("auc").unwrap().number(row).unwrap()
    };
    assert!((0..4).all(|row| (cell(&values, row) - cell(&scaled, row)).abs() < 1e-3));
}

#[test]
fn edges_are_undefined_not_zero() {
    let values: Vec<f32> = (0..16).map(|i| (i % 5) as f32).collect();
    let all = |label: Label| vec![label; 8];
    let labels = [all(Label::No), all(Label::Yes), all(Label::Unknown)];
    let scores = run(&values, 2, &labels, Profile::Paper, &[], 1).unwrap();
    assert_eq!((scores.value("probe_f1"), scores.value("probe_auc")), (None, None));
    assert!(scores.notes[0].starts_with("3 of 3"), "{:?}", scores.notes);
    // The reference keeps what it can count: an empty concept is 0, an unknown one is nothing.
    let scores =
        run(&values, 2, &labels, Profile::Reference, &[("epochs", "200"), ("learning_rate", "0.1")], 1).unwrap();
    let f1: Vec<Option<f64>> =
        (0..3).map(|row| scores.table("concept").unwrap().column("f1").unwrap().number(row)).collect();
    assert_eq!(f1, [Some(0.0), Some(1.0), None]);
    for profile in [Profile::Paper, Profile::Reference] {
        assert_eq!(run(&[], 2, &[vec![]], profile, &[], 1).unwrap().value("probe_f1"), None);
        assert_eq!(run(&[1.0, 2.0], 2, &[], profile, &[], 1).unwrap().value("probe_f1"), None);
        assert_eq!(run(&[1.0, 2.0], 2, &[vec![Label::Yes]], profile, &[], 1).unwrap().value("probe_f1"), None);
    }
    // A constant column next to a useful one.
    let values: Vec<f32> = (0..80).flat_map(|row| [7.7, if row % 2 == 0 { 1.0 } else { -1.0 }]).collect();
    let labels = [(0..80).map(|row| if row % 2 == 0 { Label::Yes } else { Label::No }).collect()];
    assert_eq!(run(&values, 2, &labels, Profile::Paper, &[], 1).unwrap().value("probe_f1"), Some(1.0));
}
