use super::*;
use crate::labels::PairSet;
use crate::metrics::tapa::tests::{NAMES, codes_of, matched_rows, noisy, pairs_of, run};
use crate::metrics::testing::{self, column, scores_with_any_threads};
use crate::run::Inputs;

/// Labels from one string per row, with y, n or ? for every concept.
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

#[test]
fn worked_example() {
    // Pair 0 changes striped and solid. Red: on, off: a flip. Spotted is not annotated, absent has no latents.
    // Pair 1 changes red and solid. Striped: off, off. Spotted: off, on by latent 2: a flip.
    // Pair 2 adds solid. Striped: off, off. Red is labelled present before and absent after: touched, left out.
    let scores = run(&Stay, &inputs(), Profile::Paper);
    assert_eq!(scores.value("delta_stay"), Some(0.5));
    assert_eq!(scores.headline[0].n, 4);
    assert_eq!(column(&scores, "concept", "instances"), [2.0, 0.0, 1.0, 1.0, 0.0].map(Some));
    assert_eq!(column(&scores, "concept", "flips"), [0.0, 0.0, 1.0, 1.0, 0.0].map(Some));
    assert_eq!(
        scores.notes,
        [
            "1 of 5 concepts have no latents and are left out",
            "1 instances are left out: their label changes within a pair that does not list the concept",
        ]
    );
    assert!(scores.headline[0].interval.is_some());
}

#[test]
fn the_reference_profile_takes_present_concepts_only() {
    // Present before and not changed: red in pairs 0 and 2, both times on and then off.
    let scores = run(&Stay, &inputs(), Profile::Reference);
    assert_eq!(scores.value("delta_stay"), Some(1.0));
    assert_eq!(column(&scores, "concept", "instances"), [0.0, 0.0, 2.0, 0.0, 0.0].map(Some));
    assert!(scores.notes.is_empty());
}

#[test]
fn the_reference_profile_leaves_out_pairs_whose_added_concept_has_no_latents_of_its_own() {
    // Pair 2 adds red {2} and removes spotted {3, 2}: nothing is left of red, so the pair is lost. Then only pair 0 counts.
    let inputs = inputs().with(&PAIRS, pairs_of(&[(Some(1), Some(0)), (Some(2), Some(1)), (Some(2), Some(3))]));
    let scores = run(&Stay, &inputs, Profile::Reference);
    assert_eq!((scores.value("delta_stay"), scores.headline[0].n), (Some(1.0), 1));
    assert!(scores.notes[0].starts_with("1 of 3 pairs are left out"), "{:?}", scores.notes);
    assert!(run(&Stay, &inputs, Profile::Paper).notes.iter().all(|note| !note.contains("pairs are left out")));
}

#[test]
fn no_instance_is_undefined() {
    let none = matched_rows().with(&PAIRS, PairSet::default());
    let scores = run(&Stay, &none, Profile::Paper);
    assert_eq!((scores.value("delta_stay"), scores.headline[0].interval), (None, None));
    let unknown = inputs().with(&PAIR_LABELS, labels_of(&["?????"; 6]));
    let scores = run(&Stay, &unknown, Profile::Paper);
    assert_eq!(scores.value("delta_stay"), None);
    assert!(scores.notes.contains(&"no unchanged concept has latents and a known label: undefined".to_string()));
}

#[test]
fn labels_must_cover_the_images() {
    let short = inputs().with(&PAIR_LABELS, labels_of(&["nnnnn"]));
    let error = testing::scores(&Stay, &short, &[], Profile::Paper, 1).unwrap_err();
    assert!(error.is_input() && error.to_string().contains("6 rows"), "{error}");
}

#[test]
fn threads_do_not_change_the_scores() {
    let given = [("matcher", "fbmp,naive"), ("k", "1,3")];
    let scores = scores_with_any_threads(&Stay, &noisy(), &given, Profile::Paper);
    assert!(scores.value("delta_stay").unwrap() > 0.0);
}
