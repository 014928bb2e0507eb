use super::*;
use crate::metrics::testing::{self, scores_with_any_threads};
use crate::results::Profile;
use crate::run::Inputs;
use crate::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, unit};

fn run(inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    testing::scores(&Cknna, inputs, given, profile, 2).unwrap()
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| unit(random)).sum::<f64>() - 6.0
}

/// Four hidden factors; codes are their positive and negative parts, embeddings a noisy mixture of them.
fn world(rows: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let mut random = stream(seed, "cknna/world", 0);
    let (mut codes, mut embeddings) = (Vec::new(), Vec::new());
    for _ in 0..rows {
        let hidden: Vec<f64> = (0..4).map(|_| normal(&mut random)).collect();
        codes.extend(hidden.iter().flat_map(|h| [h.max(0.0) as f32, (-h).max(0.0) as f32]));
        embeddings.extend((0..6).map(|axis| (hidden[axis % 4] + hidden[(axis + 1) % 4] + normal(&mut random)) as f32));
    }
    (codes, embeddings)
}

fn inputs((codes, embeddings): (Vec<f32>, Vec<f32>)) -> Inputs {
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, 8).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(embeddings, 6).unwrap())
}

/// The definition with dense matrices.
fn oracle(codes: &[f32], embeddings: &[f32], k: usize) -> f64 {
    let n = codes.len() / 8;
    let kernel = |values: &[f32], width: usize| -> Vec<Vec<f64>> {
        let row = |row: usize| &values[row * width..][..width];
        (0..n).map(|i| (0..n).map(|j| etalon_kernel::product::dot(row(i), row(j))).collect()).collect()
    };
    let mask = |kernel: &[Vec<f64>]| -> Vec<Vec<bool>> {
        let near = |(i, row): (usize, &Vec<f64>)| {
            let mut order: Vec<usize> = (0..n).filter(|&j| j != i).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            (0..n).map(|j| order[..k].contains(&j)).collect()
        };
        kernel.iter().enumerate().map(near).collect()
    };
    let (left, right) = (kernel(codes, 8), kernel(embeddings, 6));
    let similarity = |u: &[Vec<f64>], v: &[Vec<f64>]| {
        let (near, far) = (mask(u), mask(v));
        let cell = |m: &[Vec<f64>], i: usize, j: usize| if near[i][j] && far[i][j] { m[i][j] } else { 0.0 };
        let (mut trace, mut both, mut sum_u, mut sum_v) = (0.0, 0.0, 0.0, 0.0);
        for i in 0..n {
            for j in 0..n {
                trace += cell(u, i, j) * cell(v, j, i);
                sum_u += cell(u, i, j);
                sum_v += cell(v, i, j);
                both += (0..n).map(|m| cell(u, i, m) * cell(v, m, j)).sum::<f64>();
            }
        }
        let n = n as f64;
        (trace + sum_u * sum_v / ((n - 1.0) * (n - 2.0)) - 2.0 * both / (n - 2.0)) / (n * (n - 3.0))
    };
    similarity(&left, &right) / (similarity(&left, &left) * similarity(&right, &right)).sqrt()
}

#[test]
fn lists_of_neighbours_equal_dense_matrices() {
    let (codes, embeddings) = world(70, 1);
    let expected = oracle(&codes, &embeddings, 5);
    let scores = run(&inputs((codes, embeddings)), &[("neighbours", "5")], Profile::Paper);
    assert!((scores.value("cknna").unwrap() - expected).abs() < 1e-12);
    assert_eq!(scores.headline[0].n, 70);
    // The values without groups, for paired differences.
    assert_eq!(scores.table("jackknife").unwrap().column("cknna").unwrap().len(), GROUPS);
}

#[test]
fn threads_do_not_change_the_scores() {
    let inputs = inputs(world(1000, 2));
    for given in [&[][..], &[("sample", "600")][..]] {
        let scores = scores_with_any_threads(&Cknna, &inputs, given, Profile::Paper);
        assert!(scores.headline[0].interval.is_some());
    }
}

#[test]
fn a_sample_is_noted() {
    let inputs = inputs(world(300, 3));
    let scores = run(&inputs, &[("sample", "100")], Profile::Paper);
    assert_eq!(scores.headline[0].n, 100);
    assert_eq!(scores.notes, ["a sample of 100 of 300 rows"]);
    let all = run(&inputs, &[("sample", "5000")], Profile::Paper);
    assert_eq!(all, run(&inputs, &[], Profile::Paper));
}

#[test]
fn too_few_rows_and_dead_codes_are_undefined() {
    for rows in [0, 1, 13] {
        let scores = run(&inputs(world(rows, 4)), &[], Profile::Paper);
        assert_eq!(scores.value("cknna"), None);
        assert_eq!(scores.notes, [format!("{rows} rows are too few for 10 neighbours: undefined")]);
    }
    let dead = inputs((vec![0.0; 160], world(20, 4).1));
    assert_eq!(run(&dead, &[], Profile::Paper).value("cknna"), None);
    assert_eq!(run(&dead, &[], Profile::Reference).value("cknna"), Some(0.0));
}

#[test]
fn a_representation_agrees_with_itself() {
    let (_, embeddings) = world(60, 6);
    let inputs = Inputs::default()
        .with(&CODES, Codes::from_dense(&embeddings, 6).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(embeddings, 6).unwrap());
    assert!((run(&inputs, &[], Profile::Paper).value("cknna").unwrap() - 1.0).abs() < 1e-12);
}

#[test]
fn the_interval_covers_the_expected_value() {
    // 120 samples of 160 rows. The truth is their mean; a 95 % interval that errs on the wide side misses at most
    // 12 of them, and one that is far too wide would miss none while being longer than six standard deviations.
    let trials: Vec<(f64, Interval)> = (0..120)
        .map(|trial| {
            let scores = run(&inputs(world(160, 100 + trial)), &[("neighbours", "5")], Profile::Paper);
            (scores.value("cknna").unwrap(), scores.headline[0].interval.unwrap())
        })
        .collect();
    let values: Vec<f64> = trials.iter().map(|trial| trial.0).collect();
    let truth = mean(&values).unwrap();
    let missed = trials.iter().filter(|(_, interval)| !(interval.low..=interval.high).contains(&truth)).count();
    let length = mean(&trials.iter().map(|(_, i)| i.high - i.low).collect::<Vec<_>>()).unwrap();
    let spread = etalon_kernel::statistics::deviation(&values).unwrap();
    assert!(missed <= 12, "missed {missed} of 120");
    assert!((3.0..10.0).contains(&(length / spread)), "length {length}, spread {spread}");
}
