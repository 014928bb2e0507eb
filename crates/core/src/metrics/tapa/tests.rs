use etalon_kernel::random::{index, stream};

use super::*;
use crate::codes::Codes;
use crate::labels::{Annotations, PairSet};
use crate::metrics::testing::{self, codes, column, labels_by, scores_with_any_threads, yes_if};
use crate::run::{Inputs, PAIR_CODES};

pub(in crate::metrics) fn run(metric: &dyn Metric, inputs: &Inputs, profile: Profile) -> Scores {
    testing::scores(metric, inputs, &[], profile, 1).unwrap()
}

pub(in crate::metrics) fn codes_of(rows: &[&[usize]]) -> Codes {
    let mut values = vec![0.0; rows.len() * 4];
    for (row, latents) in rows.iter().enumerate() {
        latents.iter().for_each(|latent| values[row * 4 + latent] = 1.0);
    }
    codes(&values, 4)
}

pub(in crate::metrics) const NAMES: [&str; 5] = ["striped", "solid", "red", "spotted", "absent"];

/// Seven rows that match striped to latent 0, solid to 1, red to 2, spotted to 3 and 2, and absent to nothing.
///
/// For spotted (rows 4, 5, 6): latent 3 fires in 4 and 5, F1 = 4/5; with latent 2 (rows 2 and 6) the union is rows
/// 2, 4, 5, 6 and F1 = 6/7, so both are taken. In profile `reference`, absent gets latent 0.
pub(in crate::metrics) fn matched_rows() -> Inputs {
    let rows: [&[usize]; 7] = [&[0], &[1], &[2], &[], &[3], &[3], &[2]];
    let concept = [Some(0), Some(1), Some(2), None, Some(3), Some(3), Some(3)];
    let label = |row: usize, c: usize| yes_if(concept[row] == Some(c));
    Inputs::default()
        .with(&CODES, codes_of(&rows))
        .with(&LABELS, Annotations::new(NAMES.map(String::from).to_vec(), 7, label).unwrap())
}

/// Pairs of rows 2p and 2p + 1.
pub(in crate::metrics) fn pairs_of(changes: &[(Option<u32>, Option<u32>)]) -> PairSet {
    let pair = |(index, &(added, removed)): (usize, &(Option<u32>, Option<u32>))| Pair {
        before: 2 * index,
        after: 2 * index + 1,
        added: added.map(Concept),
        removed: removed.map(Concept),
    };
    PairSet { pairs: changes.iter().enumerate().map(pair).collect() }
}

fn inputs() -> Inputs {
    let changes = [(Some(0), Some(1)), (Some(0), Some(1)), (Some(3), Some(2)), (Some(2), Some(3)), (Some(4), Some(1))];
    matched_rows()
        .with(&PAIRS, pairs_of(&changes))
        .with(&PAIR_CODES, codes_of(&[&[1], &[0], &[0, 1], &[0, 1], &[2], &[3], &[3], &[2], &[1], &[1]]))
}

fn close(scores: &Scores, key: &str, expected: f64) {
    let value = scores.value(key).unwrap();
    assert!((value - expected).abs() < 1e-12, "{key} is {value}, not {expected}");
}

#[test]
fn worked_example() {
    // Pair 0 turns latent 1 into 0: added +1, removed −1. Pair 1 keeps both: 0, 0.
    // Pair 2 adds spotted {3, 2}: on before by latent 2, on after by 3: 0; it removes red {2}: −1.
    // Pair 3 adds red {2}: +1; it removes spotted {3, 2}: on, on: 0. Pair 4 adds absent {}: 0, and solid stays on: 0.
    let scores = run(&Tapa, &inputs(), Profile::Paper);
    assert_eq!(column(&scores, "pair", "delta_add"), [1.0, 0.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(column(&scores, "pair", "delta_rem"), [-1.0, 0.0, -1.0, 0.0, 0.0].map(Some));
    close(&scores, "delta_add", 0.4);
    close(&scores, "delta_rem", -0.4);
    close(&scores, "tapa_score", 0.8);
    // By concept: striped 1/2, spotted 0, red 1, absent 0: mean 3/8. Solid −1/3, red −1, spotted 0: mean −4/9.
    close(&scores, "tapa_score_macro", 3.0 / 8.0 + 4.0 / 9.0);
    assert_eq!(scores.headline.iter().map(|headline| headline.n).collect::<Vec<_>>(), [5, 5, 5, 5]);
    assert_eq!(
        scores.notes,
        ["5 pairs: the added concept has no latents in 1, the removed one in 0, both share a latent in 2"]
    );
    assert_eq!(column(&scores, "concept", "pairs_removed"), [0.0, 3.0, 1.0, 1.0, 0.0].map(Some));
    assert_eq!(column(&scores, "concept", "removed_stay_on"), [0.0, 2.0, 0.0, 1.0, 0.0].map(Some));
    assert_eq!(column(&scores, "concept", "removed_off"), [0.0, 1.0, 1.0, 0.0, 0.0].map(Some));
    assert_eq!(column(&scores, "concept", "added_on"), [1.0, 0.0, 1.0, 0.0, 0.0].map(Some));
    assert_eq!(column(&scores, "concept", "added_stay_off"), [0.0, 0.0, 0.0, 0.0, 1.0].map(Some));
    assert_eq!(column(&scores, "concept", "delta_add"), [Some(0.5), None, Some(1.0), Some(0.0), Some(0.0)]);
    assert!(scores.headline.iter().all(|headline| headline.interval.is_some()));
}

#[test]
fn the_reference_profile_changes_the_pairs_that_share_a_latent_and_no_other() {
    // Without latent 2, pair 2 adds {3}: +1, and removes {}: 0. Pair 3 adds {}: lost. Pair 4 adds {0}, off and off.
    let (paper, reference) = (run(&Tapa, &inputs(), Profile::Paper), run(&Tapa, &inputs(), Profile::Reference));
    let adds = column(&reference, "pair", "delta_add");
    let removes = column(&reference, "pair", "delta_rem");
    assert_eq!((adds[2], removes[2]), (Some(1.0), Some(0.0)));
    assert_eq!((adds[3], removes[3]), (None, None));
    for pair in [0, 1, 4] {
        assert_eq!(adds[pair], column(&paper, "pair", "delta_add")[pair], "pair {pair}");
        assert_eq!(removes[pair], column(&paper, "pair", "delta_rem")[pair], "pair {pair}");
    }
    // Four pairs: added 1 + 0 + 1 + 0, removed −1 + 0 + 0 + 0.
    close(&reference, "delta_add", 0.5);
    close(&reference, "delta_rem", -0.25);
    close(&reference, "tapa_score", 0.75);
    assert_eq!(
        reference.notes,
        [
            "5 pairs: the added concept has no latents in 1, the removed one in 1, both share a latent in 2",
            "1 of 5 pairs are left out, as in the released code: their added concept has no latents",
        ]
    );
    assert_eq!(column(&reference, "strategy", "pairs"), [Some(4.0)]);
}

#[test]
fn delta_add_is_undefined_with_removals_only() {
    let inputs = matched_rows()
        .with(&PAIRS, pairs_of(&[(None, Some(1)), (None, Some(2))]))
        .with(&PAIR_CODES, codes_of(&[&[1], &[], &[2], &[2]]));
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = run(&Tapa, &inputs, profile);
        assert_eq!(scores.value("delta_add"), None);
        close(&scores, "delta_rem", -0.5);
        close(&scores, "tapa_score", 0.5);
        assert_eq!(scores.notes.len(), 2);
        assert!(scores.notes[1].starts_with("no pair adds a concept"), "{:?}", scores.notes);
    }
}

#[test]
fn no_pair_has_no_score_and_one_pair_has_no_interval() {
    let none = matched_rows().with(&PAIRS, PairSet::default());
    let scores = run(&Tapa, &none, Profile::Paper);
    assert!(scores.headline.iter().all(|headline| headline.value.is_none() && headline.n == 0));
    assert!(scores.notes.iter().any(|note| note.starts_with("no pair is left")));
    // Without `pair_codes`, pairs refer to rows of the codes: row 1 (solid) becomes row 0 (striped).
    let pair = Pair { before: 1, after: 0, added: Some(Concept(0)), removed: Some(Concept(1)) };
    let one = matched_rows().with(&PAIRS, PairSet { pairs: vec![pair] });
    let scores = run(&Tapa, &one, Profile::Paper);
    close(&scores, "tapa_score", 2.0);
    assert!(scores.headline.iter().all(|headline| headline.interval.is_none()));
}

#[test]
fn the_threshold_applies_to_pairs() {
    // At threshold 1 nothing fires: no matches, no response.
    let scores = testing::scores(&Tapa, &inputs(), &[("threshold", "1")], Profile::Paper, 1).unwrap();
    close(&scores, "tapa_score", 0.0);
}

/// Three hundred rows and pairs of them, six concepts, twelve latents, noise everywhere.
pub(in crate::metrics) fn noisy() -> Inputs {
    let mut random = stream(3, "tapa/noisy", 0);
    let concepts: Vec<usize> = (0..300).map(|_| index(6, &mut random)).collect();
    let mut values = vec![0.0f32; 300 * 12];
    for (row, &concept) in concepts.iter().enumerate() {
        let noise = index(12, &mut random);
        values[row * 12 + noise] = 0.5;
        values[row * 12 + concept * 2 + index(2, &mut random)] = 1.0;
    }
    let label = |row: usize, concept: usize| yes_if(concepts[row] == concept);
    let pair = |row: usize| Pair {
        before: row,
        after: row + 1,
        added: Some(Concept(concepts[row + 1] as u32)),
        removed: (!row.is_multiple_of(3)).then(|| Concept(concepts[row] as u32)),
    };
    let pairs = (0..299).filter(|&row| concepts[row] != concepts[row + 1]).map(pair).collect();
    Inputs::default()
        .with(&CODES, codes(&values, 12))
        .with(&LABELS, labels_by(6, 300, label))
        .with(&PAIRS, PairSet { pairs })
}

#[test]
fn threads_and_other_strategies_do_not_change_the_scores() {
    let inputs = noisy();
    let given = [("matcher", "fbmp,naive,one-to-one"), ("k", "1,3"), ("beta", "0.5,1")];
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = scores_with_any_threads(&Tapa, &inputs, &given, profile);
        assert_eq!(scores.table("strategy").unwrap().rows(), 7);
        let alone = testing::scores(&Tapa, &inputs, &[("k", "3"), ("beta", "1")], profile, 1).unwrap();
        assert_eq!(column(&scores, "strategy", "tapa_score")[3], alone.value("tapa_score"));
        assert!(alone.value("tapa_score").unwrap() > 0.5);
    }
}
