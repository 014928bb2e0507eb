use std::sync::Arc;

use super::alignment::align;
use super::partner_stats::Association;
use super::*;
use crate::codes::Codes;
use crate::context::Context;
use crate::metrics::{evaluate, recipe};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, EMBEDDINGS, GENERATED, Generated, Inputs};
use crate::store::ActivationStore;
use etalon_kernel::eigen::symmetric;
use etalon_kernel::lanczos::LanczosParams;
use etalon_kernel::random::{permutation, stream, unit};

fn inputs(real: &[f32], generated: &[f32], latents: usize) -> Inputs {
    let codes = |values: &[f32]| Codes::from_dense(values, latents).unwrap();
    let painter = Generated { codes: Arc::new(codes(generated)), embeddings: None };
    Inputs::default().with(&CODES, codes(real)).and(&GENERATED, "painter", painter)
}

fn run(inputs: &Inputs, given: &[(&str, &str)], profile: Profile, threads: usize) -> Scores {
    let given = given.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let recipe = recipe(&Cooccurrence, inputs, &given, profile, 1).unwrap();
    evaluate(&Cooccurrence, inputs, &recipe, &Context::silent(threads, 1 << 30).unwrap()).unwrap().scores
}

/// Sparse codes whose latents come in families that fire together.
fn made(rows: usize, latents: usize, seed: u64) -> Vec<f32> {
    let mut random = stream(seed, "cooccurrence test", 0);
    let mut dense = vec![0f32; rows * latents];
    for row in dense.chunks_exact_mut(latents) {
        let family = (unit(&mut random) * 4.0) as usize;
        for (latent, value) in row.iter_mut().enumerate() {
            let chance = if latent % 4 == family { 0.5 } else { 0.04 };
            if unit(&mut random) < chance {
                *value = 0.2 + unit(&mut random) as f32;
            }
        }
    }
    dense
}

/// The matrix, by its definition.
fn dense_matrix(values: &[f32], latents: usize) -> Vec<f64> {
    let mut matrix = vec![0.0; latents * latents];
    for row in values.chunks_exact(latents) {
        for i in 0..latents {
            for j in 0..latents {
                matrix[i * latents + j] += f64::from(row[i]) * f64::from(row[j]);
            }
        }
    }
    matrix
}

#[test]
fn shares_and_partners_are_those_of_a_worked_example() {
    // Real rows (1 1 0), (0 2 1), (1 0 0): C01 = 1, C12 = 2, C02 = 0. Generated (1 0 1), (0 1 1), (0 0 0): C'02 = 1, C'12 = 1.
    // Unique is 0–2: 1 of 2. Missing is 0–1: 1 of 2. Above ε = 1 (as sums): C has 1 entry, C' none.
    let real = [1.0, 1.0, 0.0, 0.0, 2.0, 1.0, 1.0, 0.0, 0.0];
    let generated = [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
    let scores = run(&inputs(&real, &generated, 3), &[], Profile::Reference, 2);
    assert_eq!((scores.value("unique_share"), scores.value("missing_share")), (Some(0.5), Some(0.5)));
    let table = scores.table("threshold").unwrap();
    let at = |column: &str, index: usize| table.column(column).unwrap().number(index).unwrap();
    assert_eq!((at("real", 0), at("painter", 0), at("real", 25), at("painter", 25)), (2.0, 2.0, 1.0, 0.0));
    assert_eq!((at("unique in painter", 0), at("missing in painter", 25)), (1.0, 1.0));
    // Latent 1 fires in rows 0 and 1, with 2 (product 2, once of 2 rows) before 0 (product 1, once of 3 rows).
    let table = scores.table("latent").unwrap();
    assert_eq!(partners(table)[1], [2, 0]);
    assert_eq!((numbers(table, "product", 1)[0], numbers(table, "jaccard", 1)[0]), (Some(2.0), Some(0.5)));
    // PMI of 1 and 2: log(1 · 3 / (2 · 1)); of 1 and 0: log(1 · 3 / (2 · 2)).
    let pmi = numbers(table, "pmi", 1);
    assert!((pmi[0].unwrap() - 1.5f64.ln()).abs() < 1e-12 && (pmi[1].unwrap() - 0.75f64.ln()).abs() < 1e-12);
}

#[test]
fn counts_and_spectra_agree_with_dense_matrices() {
    let (rows, latents) = (400, 40);
    let (real, generated) = (made(rows, latents, 1), made(rows, latents, 2));
    let scores = run(&inputs(&real, &generated, latents), &[("top", "5")], Profile::Reference, 2);
    let (c, other) = (dense_matrix(&real, latents), dense_matrix(&generated, latents));
    let table = scores.table("threshold").unwrap();
    for index in 0..table.rows() {
        let eps = counts::threshold(index);
        let pairs = || (0..latents).flat_map(|i| (i + 1..latents).map(move |j| i * latents + j));
        let count = |test: &dyn Fn(usize) -> bool| Some(pairs().filter(|&at| test(at)).count() as f64);
        let found = |column: &str| table.column(column).unwrap().number(index);
        assert_eq!(found("real"), count(&|at| c[at] > eps));
        assert_eq!(found("painter"), count(&|at| other[at] > eps));
        assert_eq!(found("unique in painter"), count(&|at| other[at] > eps && c[at] <= eps));
        assert_eq!(found("missing in painter"), count(&|at| c[at] > eps && other[at] <= eps));
    }
    let exact = [symmetric(c, latents).unwrap(), symmetric(other, latents).unwrap()];
    let values = scores.table("eigenvalue").unwrap();
    for rank in 0..latents {
        let found = values.column("real").unwrap().number(rank).unwrap();
        assert!((found - exact[0].values[rank]).abs() < 1e-8 * exact[0].values[0]);
    }
    // ‖UᵀV‖² / 5 over the first five vectors.
    let vector = |set: usize, rank: usize| &exact[set].vectors[rank * latents..][..latents];
    let cosine = |a: usize, b: usize| vector(0, a).iter().zip(vector(1, b)).map(|(x, y)| x * y).sum::<f64>();
    let square: f64 = (0..25).map(|at| cosine(at / 5, at % 5).powi(2)).sum();
    assert!((scores.value("subspace_alignment").unwrap() - square / 5.0).abs() < 1e-8);
    let best = |a: usize| (0..5).map(|b| cosine(a, b).abs()).fold(0.0, f64::max);
    assert!((scores.value("vector_alignment").unwrap() - (0..5).map(best).sum::<f64>() / 5.0).abs() < 1e-8);
    let unique = scores.headline.iter().find(|headline| headline.key == "unique_share").unwrap();
    assert!(unique.interval.unwrap().low <= unique.value.unwrap());
    assert_eq!(scores.table("jackknife").unwrap().column("missing_share").unwrap().len(), counts::GROUPS);
}

#[test]
fn lanczos_agrees_with_the_dense_solver_and_threads_change_nothing() {
    let (rows, latents) = (500, 300);
    let real = made(rows, latents, 3);
    let codes = Codes::from_dense(&real, latents).unwrap();
    let exact = symmetric(dense_matrix(&real, latents), latents).unwrap();
    // Four families give large eigenvalues, which converge soon; the small ones after them need a larger basis.
    let context = Context::silent(1, 1 << 30).unwrap();
    let spectrum = |count: usize, basis: usize| {
        let params = LanczosParams { count, tolerance: 1e-6, basis, seed: 0 };
        spectrum::spectrum(&codes, &params, count, 1.0, &context).unwrap()
    };
    for (count, basis) in [(4, 120), (20, 280)] {
        let found = spectrum(count, basis);
        assert_eq!(found.converged, count);
        for rank in 0..count {
            assert!((found.values[rank] / exact.values[rank] - 1.0).abs() < 1e-6, "{rank}");
        }
    }
    let found = spectrum(4, 120);
    let same = spectrum::Spectrum { values: exact.values, converged: latents, vectors: exact.vectors };
    let aligned = align(&found, &same, 4, latents, &context).unwrap();
    assert!(aligned.cosines.iter().all(|cosine| (cosine - 1.0).abs() < 1e-6));
    let inputs = inputs(&real, &made(rows, latents, 4), latents);
    let given = [("top", "8"), ("eigenvalues", "12")];
    let one = run(&inputs, &given, Profile::Paper, 1);
    assert!(one == run(&inputs, &given, Profile::Paper, 2) && one == run(&inputs, &given, Profile::Paper, 7));
}

/// The table `latent`: by latent, its partners.
fn partners(table: &Table) -> &[Vec<i64>] {
    match table.column("partners") {
        Some(Cells::WholeLists(lists)) => lists,
        other => panic!("{other:?}"),
    }
}

/// The table `latent`: a number of the partners of a latent.
fn numbers<'a>(table: &'a Table, name: &str, latent: usize) -> &'a [Option<f64>] {
    match table.column(name) {
        Some(Cells::NumberLists(lists)) => &lists[latent],
        other => panic!("{name}: {other:?}"),
    }
}

/// The association of two latents, by its definition.
fn association(values: &[f32], latents: usize, a: usize, b: usize) -> Association {
    let rows = || values.chunks_exact(latents).map(|row| (row[a], row[b]));
    let count = |test: fn(&(f32, f32)) -> bool| rows().filter(test).count() as u64;
    let product = rows().map(|(a, b)| f64::from(a) * f64::from(b)).sum();
    let fired = [count(|row| row.0 > 0.0), count(|row| row.1 > 0.0)];
    Association::new(product, count(|row| row.0 > 0.0 && row.1 > 0.0), fired, values.len() / latents)
}

#[test]
fn partners_have_the_largest_products() {
    let (rows, latents) = (300, 30);
    let (real, generated) = (made(rows, latents, 11), made(rows, latents, 12));
    let scores = run(&inputs(&real, &generated, latents), &[("partners", "6"), ("top", "2")], Profile::Paper, 2);
    let table = scores.table("latent").unwrap();
    for latent in 0..latents {
        let others = (0..latents).filter(|&other| other != latent);
        let mut expected: Vec<(Association, usize)> =
            others.map(|other| (association(&real, latents, latent, other), other)).collect();
        expected.retain(|(real, _)| real.product > 0.0);
        let product = |pair: &(Association, usize)| pair.0.product as f32;
        expected.sort_by(|a, b| product(b).total_cmp(&product(a)).then(a.1.cmp(&b.1)));
        expected.truncate(6);
        assert_eq!(partners(table)[latent], expected.iter().map(|partner| partner.1 as i64).collect::<Vec<_>>());
        type Pick = fn(Association) -> Option<f64>;
        let picks: [(&str, Pick); 3] =
            [("product", |pair| Some(pair.product)), ("jaccard", |pair| pair.jaccard), ("pmi", |pair| pair.pmi)];
        for (name, pick) in picks {
            let change = format!("{name} change: painter");
            let (found, changes) = (numbers(table, name, latent), numbers(table, &change, latent));
            for (index, &(real, other)) in expected.iter().enumerate() {
                let value = pick(real).unwrap();
                assert!((found[index].unwrap() - value).abs() < 1e-12);
                let other = pick(association(&generated, latents, latent, other));
                assert_eq!(changes[index].is_some(), other.is_some());
                if let Some(other) = other {
                    assert!((changes[index].unwrap() - (other - value)).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn an_equal_generator_is_like_the_null_and_a_mixed_one_is_not() {
    let (rows, latents) = (600, 60);
    let real = made(rows, latents, 5);
    // The bad generator mixes families: its latents fire as often, but anywhere.
    let mut random = stream(9, "cooccurrence test", 1);
    let mut mixed = made(rows, latents, 6);
    for latent in 0..latents {
        let order = permutation(rows, &mut random);
        let column: Vec<f32> = (0..rows).map(|row| mixed[order[row] * latents + latent]).collect();
        column.iter().enumerate().for_each(|(row, &value)| mixed[row * latents + latent] = value);
    }
    let given = [("top", "4")];
    let good = run(&inputs(&real, &made(rows, latents, 7), latents), &given, Profile::Paper, 2);
    let bad = run(&inputs(&real, &mixed, latents), &given, Profile::Paper, 2);
    let null = good.value("subspace_alignment_null").unwrap();
    assert!((good.value("subspace_alignment_half").unwrap() - null).abs() < 0.1);
    assert!(bad.value("subspace_alignment_half").unwrap() < null - 0.3);
    let excess =
        |scores: &Scores| scores.value("unique_share_half").unwrap() - scores.value("unique_share_null").unwrap();
    assert!(excess(&good).abs() < 0.05 && excess(&bad) > 0.0, "{} {}", excess(&good), excess(&bad));
}

#[test]
fn spans_of_most_latents_are_not_compared() {
    // 30 of 40 latents fire. All 30 eigenvectors of two unrelated sets span the same space: angles of 0 by dimension.
    let (rows, latents) = (400, 40);
    let silent = |mut values: Vec<f32>| {
        values.chunks_exact_mut(latents).for_each(|row| row[30..].fill(0.0));
        values
    };
    let inputs = inputs(&silent(made(rows, latents, 1)), &silent(made(rows, latents, 2)), latents);
    let scores = run(&inputs, &[("top", "100")], Profile::Paper, 2);
    assert_eq!(scores.table("principal angle").unwrap().rows(), 15);
    assert!(scores.value("subspace_alignment").unwrap() < 0.99);
    assert!(scores.notes.iter().any(|note| note.contains("15 instead of `top` = 100")), "{:?}", scores.notes);
    let few = run(&inputs, &[("top", "15")], Profile::Paper, 2);
    assert_eq!(few.value("subspace_alignment"), scores.value("subspace_alignment"));
    assert!(!few.notes.iter().any(|note| note.contains("instead of")));
}

#[test]
fn tokens_are_summed_to_images() {
    // Two tokens per image: latents 0 and 1 never share a token but share both images.
    let real = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0];
    let store = ActivationStore::from_rows(vec![0.0; 4], 1).unwrap().with_samples(vec![0, 0, 1, 1]).unwrap();
    let inputs = inputs(&real, &real, 2).with(&EMBEDDINGS, store);
    let real = |level: &str| {
        let scores = run(&inputs, &[("level", level)], Profile::Paper, 1);
        scores.table("threshold").unwrap().column("real").unwrap().number(0)
    };
    assert_eq!((real("token"), real("image")), (Some(0.0), Some(1.0)));
}
