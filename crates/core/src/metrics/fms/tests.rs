use etalon_kernel::bits::Bits;
use etalon_kernel::random::stream;
use rand::Rng;

use super::*;
use crate::codes::Codes;
use crate::context::Context;
use crate::labels::{Annotations, Label};
use crate::metrics::testing::{self, codes, column, labels, labels_by, scores_with_any_threads, yes_if};
use crate::run::Inputs;

fn inputs(codes: Codes, labels: Annotations) -> Inputs {
    Inputs::default().with(&CODES, codes).with(&LABELS, labels)
}

fn run(inputs: &Inputs, profile: Profile) -> Scores {
    testing::scores(&Fms, inputs, &[], profile, 2).unwrap()
}

#[test]
fn worked_example() {
    // Rows + + + + - - - -. Latent 0: 3 of 4 positives fire; latent 1: the other positive; latent 2: dead.
    // Tree: latent 0 first (left 1+ 4-, right 3+), then latent 1: a = 1/2, 7/8, 1.
    // accuracy = 7/8; global = 1 − (1 − 7/8) = 7/8. Cut 1: latent 1 (left 3+ 4-, right 1+): (4 + 1)/8 = 5/8.
    // Cuts 2..9: nothing splits: 1/2. local: 2·(7/8 − 5/8) = 1/2, then 2·(7/8 − 1/2) = 3/4 eight times; mean 13/18.
    // fms = 7/8 · (13/18 + 7/8)/2.
    let dense = [
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0],
    ]
    .concat();
    let inputs = inputs(codes(&dense, 3), labels(&["yyyynnnn"]));
    let close =
        |found: Option<f64>, expected: f64| assert!((found.unwrap() - expected).abs() < 1e-12, "{found:?} {expected}");
    let scores = run(&inputs, Profile::Paper);
    close(scores.value("fms"), 7.0 / 8.0 * (13.0 / 18.0 + 7.0 / 8.0) / 2.0);
    close(column(&scores, "concept", "accuracy_stump")[0], 7.0 / 8.0);
    close(column(&scores, "concept", "ms_global")[0], 7.0 / 8.0);
    close(column(&scores, "concept", "ms_local")[0], 13.0 / 18.0);
    assert_eq!(column(&scores, "concept", "latent"), [Some(0.0)]);
    // Reference: the level without a split enters: global = 1 − ((1/2 − 7/8) + (1 − 7/8))/2 = 9/8; only the first cut
    // has a split: fms = 7/8 · (1/2 + 9/8)/2.
    let scores = testing::scores(&Fms, &inputs, &[("reference_batch", "0")], Profile::Reference, 1).unwrap();
    close(scores.value("fms"), 7.0 / 8.0 * (1.0 / 2.0 + 9.0 / 8.0) / 2.0);
}

#[test]
fn a_perfect_latent_scores_one_on_held_out_rows_too() {
    let values: Vec<f32> = (0..40).map(|row| f32::from(u8::from(row % 2 == 0))).collect();
    let labels = labels_by(1, 40, |row, _| yes_if(row % 2 == 0));
    let scores = run(&inputs(codes(&values, 1), labels), Profile::Paper);
    assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (Some(1.0), Some(1.0)));
}

#[test]
fn noise_scores_high_only_on_the_rows_of_selection() {
    let mut random = stream(0, "fms/noise", 0);
    let values: Vec<f32> =
        (0..60 * 200).map(|_| (random.next_u32() % 8) as f32 * (random.next_u32() % 2) as f32).collect();
    let truth: Vec<bool> = (0..12 * 60).map(|_| random.next_u32().is_multiple_of(2)).collect();
    let labels = labels_by(12, 60, |row, concept| yes_if(truth[concept * 60 + row]));
    let scores = run(&inputs(codes(&values, 200), labels), Profile::Paper);
    let held_out = scores.value("fms_held_out").unwrap();
    assert!((held_out - 0.25).abs() < 0.06, "{held_out}");
    let accuracy = column(&scores, "concept", "accuracy_stump")[0].unwrap();
    assert!(accuracy > 0.6, "{accuracy}");
}

#[test]
fn threads_and_dead_latents_do_not_change_the_scores() {
    let mut random = stream(1, "fms/threads", 0);
    let values: Vec<f32> = (0..90 * 6).map(|_| (random.next_u32() % 5) as f32).collect();
    let wider: Vec<f32> = values.chunks(6).flat_map(|row| row.iter().copied().chain([0.0, 0.0])).collect();
    let cells: Vec<Label> = (0..7 * 90)
        .map(|_| [Label::Yes, Label::No, Label::No, Label::Unknown][random.next_u32() as usize % 4])
        .collect();
    let labels = || labels_by(7, 90, |row, concept| cells[concept * 90 + row]);
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = scores_with_any_threads(&Fms, &inputs(codes(&values, 6), labels()), &[], profile);
        assert_eq!(run(&inputs(codes(&wider, 8), labels()), profile), scores);
    }
}

#[test]
fn the_last_batch_is_misplaced_in_the_reference() {
    // 5 rows in batches of 2: batch 2 has one row (row 4), which overwrites row 2 · 1 = 2; row 4 itself stays empty.
    let codes = codes(&[10.0, 11.0, 12.0, 13.0, 14.0], 1);
    let yes = Bits::of(5, [4]);
    let context = Context::silent(1, 1000).unwrap();
    let order = RowOrder::released(5, 2);
    let misplaced = order.codes(&codes, false, &context).unwrap();
    let rows: Vec<f32> =
        (0..5).map(|row| misplaced.all().unwrap().row(row).1.first().copied().unwrap_or(0.0)).collect();
    assert_eq!(rows, [10.0, 11.0, 14.0, 13.0, 0.0]);
    assert_eq!(order.bits(&yes, false).rows().collect::<Vec<_>>(), [2]);
    // The note says so, and only where rows move: two rows are less than a batch.
    let noted = |rows: usize, batch: &str| {
        let inputs = inputs(testing::codes(&vec![1.0; rows], 1), labels_by(1, rows, |row, _| yes_if(row == 0)));
        let scores = testing::scores(&Fms, &inputs, &[("reference_batch", batch)], Profile::Reference, 1).unwrap();
        scores.notes.iter().any(|note| note.contains("are lost"))
    };
    assert_eq!([noted(5, "2"), noted(2, "1024"), noted(4, "2"), noted(5, "0")], [true, false, false, false]);
    // Whole batches only: nothing moves.
    let whole = RowOrder::released(5, 5);
    assert_eq!(whole.codes(&codes, false, &context).unwrap().all().unwrap().row(4).1, [14.0]);
}

#[test]
fn edge_cases_are_undefined_not_zero() {
    let ones = |rows: usize| codes(&vec![1.0; rows * 2], 2);
    // Empty, full, unknown, and a concept whose rows no latent splits.
    let edges = inputs(ones(4), labels(&["nnnn", "yyyy", "????", "ynyn"]));
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = run(&edges, profile);
        assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (None, None));
        assert!(scores.notes.iter().any(|note| note.starts_with("4 of 4")), "{:?}", scores.notes);
        for labels in [labels_by(1, 0, |_, _| Label::Yes), labels(&["y"]), labels_by(0, 1, |_, _| Label::Yes)] {
            assert_eq!(run(&inputs(ones(labels.rows()), labels), profile).value("fms"), None);
        }
    }
    // One row of each class: a stump, but no held-out rows.
    let scores = run(&inputs(codes(&[1.0, 0.0], 1), labels(&["yn"])), Profile::Paper);
    assert_eq!((scores.value("fms"), scores.value("fms_held_out")), (Some(1.0), None));
}
