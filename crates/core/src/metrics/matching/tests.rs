//! Matchers against worked examples, against a direct implementation of the definition, and in edge cases.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{index, stream};

use super::firing::Firing;
use super::target::{Pursuit, Target};
use super::*;
use crate::codes::{Codes, Latent};
use crate::context::Context;
use crate::labels::{Annotations, Concept, Label};
use crate::metrics::testing::{self, codes as dense, column, labels, labels_by, scores_with_any_threads, yes_if};
use crate::results::Cells;
use crate::run::Inputs;

/// Codes from rows of 0 and 1.
fn codes(rows: &[&[u8]], latents: usize) -> Codes {
    let values: Vec<f32> = rows.iter().flat_map(|row| row.iter().map(|&cell| f32::from(cell))).collect();
    dense(&values, latents)
}

fn inputs_of(codes: Codes, labels: Annotations) -> Inputs {
    Inputs::default().with(&CODES, codes).with(&LABELS, labels)
}

fn run_on(inputs: &Inputs, params: &[(&str, &str)], profile: Profile) -> Scores {
    testing::scores(&Match, inputs, params, profile, 2).unwrap()
}

fn run(codes: Codes, labels: Annotations, params: &[(&str, &str)], profile: Profile) -> Scores {
    run_on(&inputs_of(codes, labels), params, profile)
}

fn coalitions(scores: &Scores) -> Vec<Vec<i64>> {
    match scores.table("concept").unwrap().column("coalition").unwrap() {
        Cells::WholeLists(lists) => lists.clone(),
        _ => panic!("coalitions are lists"),
    }
}

fn steps(scores: &Scores) -> Vec<Vec<Option<f64>>> {
    match scores.table("concept").unwrap().column("f1_by_step").unwrap() {
        Cells::NumberLists(lists) => lists.clone(),
        _ => panic!("steps are lists"),
    }
}

fn has_note(scores: &Scores, text: &str) -> bool {
    scores.notes.iter().any(|note| note.contains(text))
}

const FOUR_ROWS: &[&[u8]] = &[&[1, 0, 1], &[0, 1, 1], &[0, 0, 1], &[0, 0, 0]];

#[test]
fn worked_example_with_four_rows_and_three_latents() {
    // rows        z0 z1 z2   y
    //  0           1  0  1   y
    //  1           0  1  1   y
    //  2           0  0  1   n
    //  3           0  0  0   n
    // Alone: F1(z0) = 2·1/(2+1) = 2/3, F1(z1) = 2/3, F1(z2) = 2·2/(2+3) = 4/5. One-to-one takes z2.
    // Pursuit, β = 0.5, residual {0, 1}: 1.25·1/(0.25·2 + 1) = 0.8333 for z0 and z1, 1.25·2/(0.5 + 3) = 0.714 for z2:
    // z0 by the lower index, F1 = 2/3. Residual {1}: z0 0, z1 1.25/(0.25 + 1) = 1, z2 1.25/3.25: z1, F1 = 1. Residual empty.
    let scores =
        run(codes(FOUR_ROWS, 3), labels(&["yynn"]), &[("matcher", "fbmp,one-to-one,naive,nnomp")], Profile::Paper);
    // Naive takes z2, z0, z1, whose union is rows 0-2: F1 = 4/5. The non-negative pursuit: scaled latents correlate with y
    // as 1, 1 and 2/√3 = 1.155, so z2 first with weight 2/√3, that is 2/3 of z2 in rows 0-2: above 0.5, F1 = 4/5.
    // The residual is (1/3, 1/3, −2/3, 0): z0 next. In the end y = z0 + z1 exactly: F1 = 1.
    assert_eq!(coalitions(&scores), [vec![0, 1], vec![2], vec![2, 0, 1], vec![2, 0, 1]]);
    assert_eq!(column(&scores, "concept", "f1"), [Some(1.0), Some(0.8), Some(0.8), Some(1.0)]);
    assert_eq!(column(&scores, "concept", "precision"), [Some(1.0), Some(2.0 / 3.0), Some(2.0 / 3.0), Some(1.0)]);
    assert_eq!(column(&scores, "concept", "recall"), [Some(1.0); 4]);
    assert_eq!(steps(&scores)[0], [Some(2.0 / 3.0), Some(1.0)]);
    assert_eq!(scores.value("match_score"), Some(1.0));
}

#[test]
fn an_unknown_row_is_ignored() {
    // As above with row 2 unknown: z2 is then perfect, and wins the pursuit too: 1.25·2/(0.5 + 2) = 1.
    let params = [("matcher", "fbmp,one-to-one,naive,nnomp"), ("k", "1")];
    let scores = run(codes(FOUR_ROWS, 3), labels(&["yy?n"]), &params, Profile::Paper);
    assert_eq!(coalitions(&scores), [[2], [2], [2], [2]]);
    assert_eq!(column(&scores, "concept", "f1"), [Some(1.0); 4]);
    assert_eq!(column(&scores, "concept", "precision"), [Some(1.0); 4]);
    assert!(has_note(&scores, "1 of 4 labels are unknown"), "{:?}", scores.notes);
}

#[test]
fn a_concept_without_rows_is_undefined_in_paper_and_latent_zero_in_reference() {
    let rows: &[&[u8]] = &[&[1, 0], &[0, 1], &[0, 1]];
    let inputs = inputs_of(codes(rows, 2), labels(&["nyy", "nnn"]));
    let params = [("matcher", "fbmp,one-to-one,naive,nnomp"), ("k", "2")];
    let paper = run_on(&inputs, &params, Profile::Paper);
    assert_eq!(coalitions(&paper)[1], [0i64; 0]);
    assert_eq!(column(&paper, "concept", "f1")[..2], [Some(1.0), None]);
    assert_eq!(paper.value("match_score"), Some(0.5));
    assert_eq!(paper.value("match_score_present"), Some(1.0));
    assert!(has_note(&paper, "1 of 2 concepts has no positive row"), "{:?}", paper.notes);
    let reference = run_on(&inputs, &params, Profile::Reference);
    // fbmp records latent 0, one-to-one too, naive the highest indices first, nnomp nothing.
    let found = coalitions(&reference);
    assert_eq!([&found[1], &found[3], &found[5]], [&vec![0], &vec![0], &vec![1, 0]]);
    assert!(found[7].is_empty());
    assert_eq!(column(&reference, "concept", "f1")[1], Some(0.0));
}

#[test]
fn shared_latents_are_listed() {
    let rows: &[&[u8]] = &[&[1, 1], &[1, 0], &[0, 0], &[0, 1]];
    let scores = run(codes(rows, 2), labels(&["yynn", "yynn", "ynny"]), &[], Profile::Paper);
    let table = scores.table("latent").unwrap();
    assert_eq!(table.column("concepts"), Some(&Cells::WholeLists(vec![vec![0, 1], vec![2]])));
    assert_eq!(table.column("names"), Some(&Cells::Text(vec!["c0; c1".into(), "c2".into()])));
    assert_eq!(column(&scores, "latent", "fired"), [Some(2.0), Some(2.0)]);
    assert!(has_note(&scores, "1 of 2 latents selected"), "{:?}", scores.notes);
}

/// A random case with duplicate, always-on and dead latents, ties, empty and full concepts.
fn random_case(seed: u64) -> (Codes, Annotations) {
    let mut random = stream(seed, "matching case", 0);
    let (rows, latents, concepts) =
        (1 + index(90, &mut random), 1 + index(30, &mut random), 1 + index(24, &mut random));
    let one_in = 1 + index(12, &mut random);
    let mut values: Vec<f32> = (0..rows * latents)
        .map(|_| if index(one_in + 1, &mut random) == 0 { 1.0 + index(3, &mut random) as f32 } else { 0.0 })
        .collect();
    for row in values.chunks_exact_mut(latents) {
        row[latents - 1] = row[0];
        if seed.is_multiple_of(3) {
            row[latents / 2] = 2.0;
        }
    }
    let unknown = seed.is_multiple_of(2);
    let shared = index(latents, &mut random);
    let cells: Vec<Label> = (0..rows * concepts)
        .map(|cell| match (cell % concepts, index(8, &mut random)) {
            (0, _) => Label::No,
            (1, _) => Label::Yes,
            (_, 0) if unknown => Label::Unknown,
            (_, 1..=2) => Label::Yes,
            (_, 3..=4) if values[cell / concepts * latents + shared] > 0.0 => Label::Yes,
            _ => Label::No,
        })
        .collect();
    (dense(&values, latents), labels_by(concepts, rows, |row, concept| cells[row * concepts + concept]))
}

/// The pursuit as defined: every score from scratch in every step.
fn pursuit_by_definition(
    codes: &Codes,
    yes: &Bits,
    known: &Bits,
    beta: f64,
    steps: usize,
    profile: Profile,
) -> (Vec<u32>, Vec<f64>) {
    let columns = codes.columns().unwrap();
    let fired: Vec<Bits> = (0..codes.latents() as u32)
        .map(|latent| {
            let mut rows = columns.fired(Latent(latent), 0.0);
            rows.intersect(known);
            rows
        })
        .collect();
    let quotient = |b: f64, hits: usize, truth: usize, predicted: usize| {
        let below = b * b * truth as f64 + predicted as f64;
        if below == 0.0 { 0.0 } else { (1.0 + b * b) * hits as f64 / below }
    };
    let (mut residual, mut union) = (yes.clone(), Bits::empty(codes.rows()));
    let (mut chosen, mut by_step): (Vec<u32>, Vec<f64>) = (Vec::new(), Vec::new());
    for step in 0..steps {
        let mut best = (0, f64::NEG_INFINITY);
        for (latent, rows) in fired.iter().enumerate() {
            let score = quotient(beta, residual.count_and(rows), residual.count(), rows.count());
            if score > best.1 {
                best = (latent, score);
            }
        }
        residual.subtract(&fired[best.0]);
        union.union(&fired[best.0]);
        let f1 = quotient(1.0, union.count_and(yes), yes.count(), union.count());
        let before = by_step.last().copied().unwrap_or(0.0);
        let kept_anyway = step == 0 && profile == Profile::Reference;
        if f1 <= before && !kept_anyway {
            break;
        }
        chosen.push(best.0 as u32);
        by_step.push(f1);
    }
    (chosen, by_step)
}

#[test]
fn the_fast_pursuit_equals_the_definition() {
    let context = Context::silent(1, 1 << 30).unwrap();
    for seed in 0..150 {
        let (codes, labels) = random_case(seed);
        let lists = Firing::in_form(&codes, 0.0, codes.entries(), false, &context).unwrap();
        let bits = Firing::in_form(&codes, 0.0, codes.entries(), true, &context).unwrap();
        for concept in (0..labels.concepts() as u32).map(Concept) {
            let (yes, known) = (labels.yes(concept), labels.known(concept));
            for (beta, profile) in [(0.25, Profile::Paper), (0.5, Profile::Reference), (1.0, Profile::Paper)] {
                let expected = pursuit_by_definition(&codes, yes, known, beta, 12, profile);
                for firing in [&lists, &bits] {
                    let target = Target::new(firing, yes, known);
                    let found = fbmp::pursue(&target, beta, 12, profile, &context).unwrap();
                    assert_eq!((found.latents, found.f1), expected, "seed {seed}, {concept:?}, beta {beta}");
                }
            }
            for profile in [Profile::Paper, Profile::Reference] {
                let both: Vec<[Pursuit; 2]> = [&lists, &bits]
                    .map(|firing| Target::new(firing, yes, known))
                    .iter()
                    .map(|target| [naive::pursue(target, 7, profile), naive::one_to_one(target, profile)])
                    .collect();
                assert_eq!(both[0], both[1], "seed {seed}, {concept:?}");
            }
        }
    }
}

#[test]
fn binary_pursuit_never_falls_and_starts_like_one_to_one_for_beta_one() {
    for seed in 0..40 {
        let (codes, labels) = random_case(seed);
        let concepts = labels.concepts();
        let params = [("matcher", "fbmp,one-to-one,naive"), ("beta", "1"), ("k", "1,9")];
        let scores = run(codes, labels, &params, Profile::Paper);
        let found = coalitions(&scores);
        // Strategies: fbmp k=1, fbmp k=9, one-to-one, naive k=1, naive k=9.
        assert_eq!(found[..concepts], found[2 * concepts..3 * concepts]);
        assert_eq!(found[..concepts], found[3 * concepts..4 * concepts]);
        let f1 = column(&scores, "concept", "f1");
        for concept in 0..concepts {
            assert!(f1[concepts + concept] >= f1[concept]);
        }
    }
}

#[test]
fn non_negative_pursuit_takes_the_same_path_as_the_tall_form() {
    // The tall form: correlations from the residual itself, weights from the columns themselves.
    for seed in 0..60 {
        let (codes, labels) = random_case(2 * seed + 1);
        let columns = codes.columns().unwrap();
        let atoms: Vec<Vec<f64>> = (0..codes.latents() as u32)
            .map(|latent| {
                let mut column = vec![0.0; codes.rows()];
                let (rows, values) = columns.latent(Latent(latent));
                rows.iter().zip(values).for_each(|(&row, &value)| column[row as usize] = f64::from(value));
                let norm = column.iter().map(|value| value * value).sum::<f64>().sqrt();
                column.iter().map(|value| if norm > 0.0 { value / norm } else { 0.0 }).collect()
            })
            .collect();
        for concept in (0..labels.concepts() as u32).map(Concept) {
            let yes = labels.yes(concept);
            let target: Vec<f64> = (0..codes.rows()).map(|row| f64::from(u8::from(yes.contains(row)))).collect();
            let steps = codes.latents().min(6);
            let context = Context::silent(1, 1 << 30).unwrap();
            let scaled = nnomp::Atoms::new(&codes, &context).unwrap();
            let scaled = nnomp::ScaledCodes::new(&codes, &scaled, &context).unwrap();
            let found = nnomp::pursue(scaled, yes, labels.known(concept), steps).unwrap();
            // Each latent had the largest correlation with the residual of the latents before it.
            for (step, &latent) in found.latents.iter().enumerate() {
                let before: Vec<Vec<f64>> = found.latents[..step].iter().map(|&l| atoms[l as usize].clone()).collect();
                let weights = etalon_kernel::nnls::from_columns(&before, &target);
                let mut residual = target.clone();
                for (column, weight) in before.iter().zip(&weights) {
                    residual.iter_mut().zip(column).for_each(|(r, a)| *r -= weight * a);
                }
                let correlation = |l: usize| atoms[l].iter().zip(&residual).map(|(a, r)| a * r).sum::<f64>();
                let largest = (0..atoms.len()).map(correlation).fold(f64::NEG_INFINITY, f64::max);
                assert!(largest - correlation(latent as usize) < 1e-9, "seed {seed}, {concept:?}, step {step}");
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_scores() {
    let (codes, labels) = random_case(11);
    let values: Vec<f32> = (0..codes.rows() * 20).map(|cell| f32::from(u8::from(cell % 7 < 3))).collect();
    let null = || dense(&values, 20);
    let inputs = inputs_of(codes, labels).and(&NULLS, "", null()).and(&NULLS, "", null());
    let params =
        [("matcher", "fbmp,naive,nnomp,one-to-one"), ("beta", "0.25,0.5,1"), ("k", "1,3,5"), ("row_groups", "5")];
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = scores_with_any_threads(&Match, &inputs, &params, profile);
        assert_eq!(scores.table("strategy").unwrap().rows(), 3 * 3 + 3 + 3 + 1);
    }
}

#[test]
fn the_interval_over_rows_is_computed_on_request() {
    let (codes, labels) = random_case(3);
    let inputs = inputs_of(codes, labels);
    let cell = |scores: &Scores, name: &str| column(scores, "strategy", name)[0];
    let plain = run_on(&inputs, &[], Profile::Paper);
    assert_eq!((cell(&plain, "low_rows"), cell(&plain, "high_rows")), (None, None));
    let grouped = run_on(&inputs, &[("row_groups", "5")], Profile::Paper);
    let [low, value, high] = ["low_rows", "match_score", "high_rows"].map(|name| cell(&grouped, name).unwrap());
    assert!(low < value && value < high, "{low} {value} {high}");
    assert_eq!(plain.value("match_score"), grouped.value("match_score"));
    let refused = testing::scores(&Match, &inputs, &[("row_groups", "2")], Profile::Paper, 2).unwrap_err();
    assert!(refused.to_string().contains("too few groups"), "{refused}");
}

#[test]
fn nulls_are_subtracted_strategy_by_strategy() {
    // The codes are perfect; a null that always fires has F1 = 2·2/(2 + 4) = 2/3, one that never fires 0.
    let on: &[&[u8]] = &[&[1], &[1], &[1], &[1]];
    let off: &[&[u8]] = &[&[0], &[0], &[0], &[0]];
    let inputs = inputs_of(codes(&[&[1], &[1], &[0], &[0]], 1), labels(&["yynn", "yynn"]))
        .and(&NULLS, "", codes(on, 1))
        .and(&NULLS, "", codes(off, 1));
    let scores = run_on(&inputs, &[("matcher", "fbmp,one-to-one")], Profile::Paper);
    for name in ["null_score", "delta_match_score"] {
        let expected = if name == "null_score" { 1.0 / 3.0 } else { 2.0 / 3.0 };
        assert!(column(&scores, "strategy", name).iter().all(|v| (v.unwrap() - expected).abs() < 1e-15), "{name}");
    }
    assert!((scores.value("delta_match_score").unwrap() - 2.0 / 3.0).abs() < 1e-15);
    // Deviation of 2/3 and 0 with n − 1: 2/3 / √2.
    assert!((column(&scores, "strategy", "null_deviation")[0].unwrap() - 2.0 / 3.0 / 2f64.sqrt()).abs() < 1e-15);
}

#[test]
fn chance_matches_score_low_on_held_out_rows() {
    // 300 latents of pure noise: the best of them fits a rare concept by chance, and only on the rows of selection.
    let mut random = stream(5, "noise", 0);
    let (rows, latents) = (200, 300);
    let values: Vec<f32> = (0..rows * latents).map(|_| f32::from(u8::from(index(10, &mut random) == 0))).collect();
    let cells: Vec<bool> = (0..rows * 20).map(|_| index(10, &mut random) == 0).collect();
    let noise = labels_by(20, rows, |row, concept| yes_if(cells[row * 20 + concept]));
    let scores = run(dense(&values, latents), noise, &[], Profile::Paper);
    let (optimistic, held_out) = (scores.value("match_score").unwrap(), scores.value("match_score_held_out").unwrap());
    assert!(optimistic > 0.3 && held_out < 0.2, "{optimistic} and {held_out}");
    // A latent that is the concept keeps its score.
    let perfect: Vec<f32> = (0..40).map(|row| f32::from(u8::from(row % 3 == 0))).collect();
    let truth = labels(&["ynnynnynnynnynnynnynnynnynnynnynnynnynny"]);
    let scores = run(dense(&perfect, 1), truth, &[("matcher", "fbmp,nnomp")], Profile::Paper);
    assert_eq!(column(&scores, "strategy", "match_score_held_out"), [Some(1.0), Some(1.0)]);
}

#[test]
fn the_rows_of_the_short_batch_are_lost_in_reference_only() {
    // 7 rows in batches of 3: row 6 overwrites row 2, and row 6 becomes empty. The latent fires in rows 2 and 6, the
    // concept is in row 2 only: F1 = 2·1/(1 + 2) = 2/3 in `paper`; in `reference` the concept has no row left.
    let rows: &[&[u8]] = &[&[0], &[0], &[1], &[0], &[0], &[0], &[1]];
    let inputs = inputs_of(codes(rows, 1), labels(&["nnynnnn"]));
    let paper = run_on(&inputs, &[], Profile::Paper);
    assert_eq!(paper.value("match_score"), Some(2.0 / 3.0));
    let reference = run_on(&inputs, &[("reference_batch", "3")], Profile::Reference);
    assert_eq!(reference.value("match_score"), Some(0.0));
    assert!(has_note(&reference, "set `reference_batch` to 0"), "{:?}", reference.notes);
    let kept = run_on(&inputs, &[("reference_batch", "0")], Profile::Reference);
    assert_eq!(kept.value("match_score"), Some(2.0 / 3.0));
}

#[test]
fn the_note_about_a_cut_run_names_the_number_of_its_steps() {
    // Four rows, three latents and two concepts: the released fbmp takes min(20, 4, 2) = 2 steps.
    let inputs = inputs_of(codes(FOUR_ROWS, 3), labels(&["yynn", "nnnn"]));
    let scores = run_on(&inputs, &[("k", "3")], Profile::Reference);
    assert!(has_note(&scores, "`fbmp beta=0.5 k=3` is cut at 2 latents"), "{:?}", scores.notes);
    // Two latents at most, and three of three: nothing is cut. In `paper` the run ends at k.
    for (params, profile) in [
        ([("k", "2")], Profile::Reference),
        ([("matcher", "nnomp")], Profile::Reference),
        ([("k", "3")], Profile::Paper),
    ] {
        assert!(!has_note(&run_on(&inputs, &params, profile), "is cut at"));
    }
}

#[test]
fn the_matched_sets_of_reference_end_at_the_best_step_of_the_whole_run() {
    let inputs = inputs_of(codes(FOUR_ROWS, 3), labels(&["yynn", "nnnn"]));
    let matchers = [("matcher", "naive,nnomp")];
    let scores = run_on(&inputs, &matchers, Profile::Reference);
    assert_eq!(coalitions(&scores)[0], [2, 1, 0]);
    assert_eq!(steps(&scores)[3], [Some(0.0); 3]);
    let given = matchers.map(|(name, value)| (name.to_string(), value.to_string())).into();
    let params = CARD.params(Profile::Reference, &given).unwrap();
    let context = Context::silent(2, 1 << 20).unwrap();
    let sets = testing::with_work(&Match, &inputs, &context, |job, work| {
        let job = Job { inputs: job.inputs, params: &params, profile: Profile::Reference, seed: 0, context: &context };
        matched_sets(&job, work, &Strategy::from_params(&job)?)
    });
    let sets = sets.unwrap();
    // Naive: 4/5 with z2 alone, and no more with z1 and z0: the set ends after z2. All zero: after the first, z2.
    assert_eq!(sets[0], [vec![Latent(2)], vec![Latent(2)]]);
    // The non-negative pursuit needs all three for F1 = 1; for the empty concept the released code ends with latent 0.
    assert_eq!(sets[1], [vec![Latent(2), Latent(0), Latent(1)], vec![Latent(0)]]);
}

#[test]
fn empty_inputs_are_undefined_not_an_error() {
    let every = [("matcher", "fbmp,one-to-one,naive,nnomp"), ("k", "1,4")];
    let cases = [
        (codes(&[], 3), labels(&["", ""])),
        (codes(&[], 0), labels(&[])),
        (dense(&[1.0], 1), labels(&["y"])),
        (dense(&[1.0, 0.0], 1), labels(&["??", "ny"])),
        (codes(&[&[0, 0], &[0, 0]], 2), labels(&["yn", "nn", "yy"])),
        (codes(&[&[1], &[1]], 1), labels(&["yy", "??", "nn"])),
    ];
    for (codes, labels) in cases {
        let concepts = labels.concepts();
        let inputs = inputs_of(codes, labels);
        for profile in [Profile::Paper, Profile::Reference] {
            let scores = run_on(&inputs, &every, profile);
            assert_eq!(scores.value("delta_match_score"), None);
            assert_eq!(scores.table("concept").unwrap().rows(), 7 * concepts);
        }
    }
}
