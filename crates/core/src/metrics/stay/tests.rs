use super::*;
use crate::labels::PairSet;
use crate::metrics::tapa::tests::{NAMES, codes_of, matched_rows, noisy, pairs_of, run};
use crate::run::Inputs;

/// Labels by one letter per concept: y, n or ?.
fn labels_of(rows: &[&str]) -> Annotations {
    let label = |row: usize, concept: usize| match rows[row].as_bytes()[concept] {
        b'y' => Label::Yes,
        b'n' => Label::No,
        _ => Label::Unknown,
    };
    Annotations::new(NAMES.map(String::from).to_vec(), rows.len(), label).unwrap()
}

/// Striped has latent 0, solid 1, red 2, spotted 3 and 2, absent none (see `matched_rows`).
fn inputs() -> Inputs {
    matched_rows()
        .with(&PAIRS, pairs_of(&[(Some(1), Some(0)), (Some(2), Some(1)), (Some(1), None)]))
        .with(&PAIR_CODES, codes_of(&[&[0, 2], &[1, 3], &[1], &[2], &[2], &[1]]))
        .with(&PAIR_LABELS, labels_of(&["yny?n", "nyy?n", "nynnn", "nnynn", "nny?n", "nyn?n"]))
}

fn whole(scores: &Scores, name: &str) -> Vec<f64> {
    let column = scores.table("concept").unwrap().column(name).unwrap();
    (0..column.len()).map(|row| column.number(row).unwrap()).collect()
}

#[test]
fn a_hand_worked_example() {
    // Pair 0 changes striped and solid. Red: on, off: a flip. Spotted is not annotated, absent has no latents.
    // Pair 1 changes red and solid. Striped: off, off. Spotted: off, on by latent 2: a flip.
    // Pair 2 adds solid. Striped: off, off. Red is labelled present before and absent after: touched, left out.
    let scores = run(&Stay, &inputs(), &[], Profile::Paper, 1);
    assert_eq!(scores.value("delta_stay"), Some(0.5));
    assert_eq!(scores.headline[0].n, 4);
    assert_eq!(whole(&scores, "instances"), [2.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(whole(&scores, "flips"), [0.0, 0.0, 1.0, 1.0, 0.0]);
    assert_eq!(
        scores.notes,
        [
            "concepts without latents, which are no instances: 1 of 5",
            "left out because labels differ within a pair that does not say so: 1 instances",
        ]
    );
    assert!(scores.headline[0].interval.is_some());
}

#[test]
fn the_reference_profile_looks_at_present_concepts_only() {
    // Present before and not changed: red in pairs 0 and 2, both times on and then off.
    let scores = run(&Stay, &inputs(), &[], Profile::Reference, 1);
    assert_eq!(scores.value("delta_stay"), Some(1.0));
    assert_eq!(whole(&scores, "instances"), [0.0, 0.0, 2.0, 0.0, 0.0]);
    assert!(scores.notes.is_empty());
}

#[test]
fn nothing_to_look_at_is_undefined() {
    let none = matched_rows().with(&PAIRS, PairSet::default());
    let scores = run(&Stay, &none, &[], Profile::Paper, 1);
    assert_eq!((scores.value("delta_stay"), scores.headline[0].interval), (None, None));
    let unknown = inputs().with(&PAIR_LABELS, labels_of(&["?????"; 6]));
    let scores = run(&Stay, &unknown, &[], Profile::Paper, 1);
    assert_eq!(scores.value("delta_stay"), None);
    assert!(scores.notes.contains(&"no untouched concept to look at: undefined".to_string()));
}

#[test]
fn labels_must_cover_the_images() {
    let short = inputs().with(&PAIR_LABELS, labels_of(&["nnnnn"]));
    let error = crate::metrics::testing::scores(&Stay, &short, &[], Profile::Paper, 1).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("6 rows"), "{error}");
}

#[test]
fn threads_do_not_change_a_bit() {
    let given = [("matcher", "fbmp,naive"), ("k", "1,3")];
    let one = run(&Stay, &noisy(), &given, Profile::Paper, 1);
    assert!(one.value("delta_stay").unwrap() > 0.0);
    assert_eq!(run(&Stay, &noisy(), &given, Profile::Paper, 2), one);
    assert_eq!(run(&Stay, &noisy(), &given, Profile::Paper, 7), one);
}
