//! A class that one small latent identifies, both profiles, and few rows.

use super::*;
use crate::codes::Codes;
use crate::labels::{Annotations, Label};
use crate::metrics::testing;
use crate::results::Profile;
use crate::run::Inputs;
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit};

fn run(inputs: &Inputs, profile: Profile, given: &[(&str, &str)], threads: usize) -> Scores {
    testing::scores(&SaeProbes, inputs, given, profile, threads).unwrap()
}

/// Latent 1 is small and identifies the class; latent 0 is a thousand times larger and weakly related to it.
fn world(rows: usize) -> Inputs {
    let mut random = stream(4, "sae_probes/test", 0);
    let (mut codes, mut embeddings) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let yes = row % 2 == 0;
        let large = 1000.0 + 200.0 * unit(&mut random) as f32 + if yes { 10.0 } else { 0.0 };
        let small = if yes { 0.1 + 0.1 * unit(&mut random) as f32 } else { 0.0 };
        codes.extend([large, small, unit(&mut random) as f32]);
        embeddings.extend([small * 10.0 + unit(&mut random) as f32, unit(&mut random) as f32]);
    }
    let label = |row: usize, _: usize| if row.is_multiple_of(2) { Label::Yes } else { Label::No };
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, 3).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(embeddings, 2).unwrap())
        .with(&LABELS, Annotations::new(vec!["a".into()], rows, label).unwrap())
}

#[test]
fn latents_are_compared_on_their_own_scale() {
    // The plain difference prefers latent 0 (10 against 0.15); divided by the means (1100 and 0.15) it is 0.009 against 1.
    let inputs = world(400);
    for profile in [Profile::Paper, Profile::Reference] {
        for penalty in ["absolute", "squares"] {
            let given = [("repeats", "2"), ("sizes", "1,5"), ("penalty", penalty)];
            let scores = run(&inputs, profile, &given, 2);
            assert_eq!(scores.value("probes_1_auc"), Some(1.0), "{profile:?} {penalty}");
            assert!(scores.value("probes_channels_auc").unwrap() > 0.9);
            assert_eq!(scores.value("probes_20_auc"), None);
            let table = scores.table("concept").unwrap();
            // 400 rows: 300 are training rows.
            assert_eq!(table.column("rows_trained").unwrap().number(0), Some(300.0));
            assert_eq!(table.column("rows_tested").unwrap().number(0), Some(100.0));
        }
    }
}

#[test]
fn few_rows_are_split_and_threads_do_not_matter() {
    let inputs = world(60);
    let paper = testing::scores_with_any_threads(&SaeProbes, &inputs, &[("repeats", "2")], Profile::Paper);
    assert!(paper.value("probes_1_auc").is_some());
    // The first headline number is that of the card and has a column, so that differences are paired by concept.
    assert_eq!((CARD.headline[0].key, paper.headline[0].key.as_str()), ("probes_20_auc", "probes_20_auc"));
    let by_concept = paper.table("concept").unwrap().column("probes_20_auc").unwrap().number(0).unwrap();
    assert!((by_concept - paper.value("probes_20_auc").unwrap()).abs() < 1e-12);
    let reference = run(&inputs, Profile::Reference, &[], 1);
    assert_eq!(reference.value("probes_1_auc"), None);
    assert!(reference.notes.iter().any(|note| note.starts_with("1 of 1 concepts")), "{:?}", reference.notes);
    // Eight training rows: pairs are held out. Several repeats, because both test rows can be of one class.
    assert!(run(&world(10), Profile::Paper, &[("repeats", "8")], 1).value("probes_1_auc").is_some());
}

/// Sums over columns in another order are rounded otherwise, as they are by other vector instructions. Penalties that are as
/// good as each other must not be chosen by such a rounding.
#[test]
fn rounding_does_not_change_the_choice_of_penalties() {
    const ROWS: usize = 240;
    const WIDTH: usize = 24;
    let mut random = stream(5, "sae_probes/test", 1);
    let mut draw = |row: usize, column: usize| unit(&mut random) as f32 + if row % 2 == column % 5 { 0.2 } else { 0.0 };
    let rows: Vec<Vec<f32>> = (0..ROWS).map(|row| (0..WIDTH).map(|column| draw(row, column)).collect()).collect();
    let label = |row: usize, _: usize| if row.is_multiple_of(2) { Label::Yes } else { Label::No };
    let auc = |order: &dyn Fn(usize) -> usize| {
        let values: Vec<f32> = rows.iter().flat_map(|row| (0..WIDTH).map(|column| row[order(column)])).collect();
        let inputs = Inputs::default()
            .with(&CODES, Codes::from_dense(&values, WIDTH).unwrap())
            .with(&EMBEDDINGS, ActivationStore::from_rows(values, WIDTH).unwrap())
            .with(&LABELS, Annotations::new(vec!["a".into()], ROWS, label).unwrap());
        let scores = run(&inputs, Profile::Paper, &[("repeats", "4"), ("sizes", "20")], 1);
        ["probes_20_auc", "probes_channels_auc"].map(|key| scores.value(key).unwrap())
    };
    let (forwards, backwards) = (auc(&|column| column), auc(&|column| WIDTH - 1 - column));
    assert!(forwards[0] > 0.6 && forwards[0] < 1.0, "{forwards:?}");
    assert_eq!(forwards, backwards);
}
