use std::collections::BTreeMap;

use super::*;
use crate::metrics::testing::scores_with_any_threads;
use crate::metrics::{recipe, testing};
use crate::run::Inputs;
use crate::store::ActivationStore;
use etalon_kernel::product::dot;
use etalon_kernel::random::{permutation, stream, unit};

fn store(values: &[f32], width: usize) -> ActivationStore {
    ActivationStore::from_rows(values.to_vec(), width).unwrap()
}

fn run(inputs: &Inputs, profile: Profile, given: &[(&str, &str)]) -> Scores {
    testing::scores(&Stability, inputs, given, profile, 2).unwrap()
}

fn inputs(mine: ActivationStore, others: Vec<ActivationStore>) -> Inputs {
    others.into_iter().fold(Inputs::default().with(&DIRECTIONS, mine), |inputs, other| inputs.and(&OTHERS, "", other))
}

fn near(found: Option<f64>, expected: f64) -> bool {
    found.is_some_and(|found| (found - expected).abs() < 1e-6)
}

#[test]
fn worked_example() {
    // A: (1, 0), (0, 1). B: (3, 4), (0, 2). Cosines: (0.6, 0), (0.8, 1). Straight 0.6 + 1 beats crossed 0 + 0.8.
    let mine = || store(&[1.0, 0.0, 0.0, 1.0], 2);
    let scores = run(&inputs(mine(), vec![store(&[3.0, 4.0, 0.0, 2.0], 2)]), Profile::Paper, &[]);
    assert!(near(scores.value("stability"), 0.8));
    assert_eq!(scores.value("stability_over_0_7"), Some(0.5));
    assert_eq!(scores.value("stability_over_0_9"), Some(0.5));
    assert!(near(scores.value("cosine_hungarian_sum"), 0.4) && near(scores.value("cosine_hungarian_mean"), 0.2));
    assert_eq!(scores.value("stability_spread"), None);
    let latents = scores.table("latent").unwrap();
    assert_eq!(latents.column("partner_by_other"), Some(&Cells::WholeLists(vec![vec![0], vec![1]])));
    // A third dictionary is A with its signs turned: −0.6 and −0.8 cross over with 0 and −1 to B, 0 and 0 to A.
    let turned = store(&[-1.0, 0.0, 0.0, -1.0], 2);
    let three = inputs(mine(), vec![store(&[3.0, 4.0, 0.0, 2.0], 2), turned]);
    let scores = run(&three, Profile::Paper, &[]);
    // Latent 0: (0.6 + 0) / 2; latent 1: (1 + 0) / 2.
    assert!(near(scores.value("stability"), 0.4), "{scores:?}");
    // Pairs: 0.8, 0, and B with the third: crossed (−0.8 + 0) / 2 = −0.4 beats straight (−0.6 − 1) / 2.
    assert!(near(scores.value("stability_all_pairs"), 0.4 / 3.0));
    assert!(near(scores.value("stability_spread"), deviation(&[0.8, 0.0, -0.4]).unwrap()));
    // Without signs the third is A: (0.6 + 1) / 2 and (1 + 1) / 2.
    let ignored = run(&three, Profile::Paper, &[("sign", "ignored")]);
    assert!(near(ignored.value("stability"), 0.9));
}

#[test]
fn a_direction_of_length_zero_is_left_out_or_has_loss_one() {
    let given = inputs(store(&[1.0, 0.0, 0.0, 0.0], 2), vec![store(&[1.0, 0.0, 0.0, 1.0], 2)]);
    let scores = run(&given, Profile::Paper, &[]);
    assert_eq!((scores.value("stability"), scores.value("cosine_hungarian_sum")), (Some(1.0), Some(0.0)));
    assert!(scores.notes.iter().any(|note| note.contains("1 of 2 latents")));
    let scores = run(&given, Profile::Reference, &[]);
    assert_eq!((scores.value("stability"), scores.value("cosine_hungarian_sum")), (Some(0.5), Some(1.0)));
    // More latents than the other dictionary has: one has no partner.
    let given = inputs(store(&[1.0, 0.0, 0.0, 1.0], 2), vec![store(&[0.0, 1.0], 2)]);
    assert_eq!(run(&given, Profile::Paper, &[]).value("stability"), Some(1.0));
    let none = inputs(store(&[0.0, 0.0], 2), vec![store(&[0.0, 1.0], 2)]);
    assert_eq!(run(&none, Profile::Paper, &[]).value("stability"), None);
    let narrow = inputs(store(&[1.0, 0.0], 2), vec![store(&[1.0], 1)]);
    let error = recipe(&Stability, &narrow, &BTreeMap::new(), Profile::Paper, 0).unwrap_err().to_string();
    assert!(error.contains("`directions` and `other` differ in values per row"), "{error}");
}

fn noise(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "stability test", 0);
    (0..rows * width).map(|_| unit(&mut random) as f32 - 0.5).collect()
}

#[test]
fn greedy_equals_the_definition_and_is_close_to_the_optimum() {
    // 300 directions in three dimensions share all their neighbours, so that candidates run out.
    let (latents, width) = (300, 3);
    let (a, b) = (noise(latents, width, 1), noise(latents - 7, width, 2));
    let given = inputs(store(&a, width), vec![store(&b, width)]);
    let greedy = scores_with_any_threads(&Stability, &given, &[("exact", "10")], Profile::Paper);
    let cosine = |i: usize, j: usize| {
        let (a, b) = (&a[i * width..][..width], &b[j * width..][..width]);
        dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
    };
    let mut all: Vec<(usize, usize)> = (0..latents).flat_map(|i| (0..latents - 7).map(move |j| (i, j))).collect();
    all.sort_by(|&(a, b), &(c, d)| cosine(c, d).total_cmp(&cosine(a, b)));
    let (mut rows, mut columns, mut total) = (vec![false; latents], vec![false; latents], 0.0);
    for (i, j) in all {
        if !rows[i] && !columns[j] {
            (rows[i], columns[j]) = (true, true);
            total += cosine(i, j);
        }
    }
    assert!((greedy.value("stability").unwrap() - total / (latents - 7) as f64).abs() < 1e-4);
    let optimal = run(&given, Profile::Paper, &[]);
    let (best, found) = (optimal.value("stability").unwrap(), greedy.value("stability").unwrap());
    assert!(best >= found - 1e-9 && found > 0.8 * best, "{best} {found}");
    let bound = greedy.table("pair").unwrap().column("bound").unwrap().number(0).unwrap();
    assert!(bound >= best);
    assert!(greedy.notes.iter().any(|note| note.contains("greedily")));
}

#[test]
fn no_assignment_exceeds_the_bound() {
    let bound_and_cosine = |given: &Inputs, exact: &str| {
        let scores = run(given, Profile::Paper, &[("exact", exact)]);
        let table = scores.table("pair").unwrap();
        ["bound", "cosine"].map(|name| table.column(name).unwrap().number(0).unwrap())
    };
    // Cosines in single precision are off by 1e-8, up or down.
    for seed in 0..20 {
        let a = noise(40, 7, seed);
        let given = inputs(store(&a, 7), vec![store(&a, 7)]);
        for exact in ["4096", "10"] {
            let [bound, cosine] = bound_and_cosine(&given, exact);
            assert!(bound >= cosine, "{seed}: {bound} {cosine}");
        }
    }
    // Two latents, one partner: (1, 0) has cosine 1 with it, (0, 1) has 0. The bound is that of the best, 1, not the mean ½.
    let given = inputs(store(&[1.0, 0.0, 0.0, 1.0], 2), vec![store(&[1.0, 0.0], 2)]);
    assert_eq!((bound_and_cosine(&given, "4096"), bound_and_cosine(&given, "1")), ([1.0; 2], [1.0; 2]));
}

#[test]
fn the_order_of_directions_does_not_matter() {
    let (latents, width) = (80, 20);
    let a = noise(latents, width, 3);
    let order = permutation(latents, &mut stream(1, "stability order", 0));
    let b: Vec<f32> = order.iter().flat_map(|&row| a[row * width..][..width].to_vec()).collect();
    for exact in ["4096", "10"] {
        let scores = run(&inputs(store(&a, width), vec![store(&b, width)]), Profile::Paper, &[("exact", exact)]);
        assert!(near(scores.value("stability"), 1.0));
        let table = scores.table("latent").unwrap();
        let Some(Cells::WholeLists(partners)) = table.column("partner_by_other") else { panic!("no partners") };
        assert!(order.iter().enumerate().all(|(index, &row)| partners[row] == [index as i64]));
    }
}
