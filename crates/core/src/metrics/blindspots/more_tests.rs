//! Whole evaluations of `blindspot_models`, `divergence` and `frequency`.

use super::tests::{inputs, numbers, planted, run, words};
use super::{BlindspotModels, Divergence, Frequency};
use crate::labels::worlds::Planted;
use crate::results::{Cells, Profile, Scores};
use etalon_kernel::random::{stream, unit};

fn lists(scores: &Scores, table: &str, column: &str) -> Vec<Vec<i64>> {
    match scores.table(table).unwrap().column(column) {
        Some(Cells::WholeLists(cells)) => cells.clone(),
        other => panic!("{column}: {other:?}"),
    }
}

#[test]
fn sets_and_correlations_are_those_of_a_worked_example() {
    // Two rows. Gaps of one: −3, −3, 0, 3; of two: −3, 0, 0, 3. T = 1: beyond ∓ln 9 = 2.197 all of them count.
    let real = [3.0, 3.0, 1.0, 0.0, 3.0, 3.0, 1.0, 0.0];
    let one = [0.0, 0.0, 1.0, 3.0, 0.0, 0.0, 1.0, 3.0];
    let two = [0.0, 3.0, 1.0, 3.0, 0.0, 3.0, 1.0, 3.0];
    let inputs = inputs(4, &real, &[("one", &one), ("two", &two)]);
    let scores = run(&BlindspotModels, &inputs, Profile::Paper, &[("compared", "gap")]).unwrap();
    assert_eq!(scores.value("universal_suppressed"), Some(0.25));
    assert_eq!(scores.value("universal_exaggerated"), Some(0.25));
    // Latent 1 is suppressed by one only, and surely not by two: 1 of 4 concepts, mean over two models.
    assert_eq!(scores.value("unique_suppressed"), Some(0.125));
    assert_eq!(scores.value("unique_exaggerated"), Some(0.0));
    let (sets, latents) = (words(&scores, "set", "set"), lists(&scores, "set", "latents"));
    let index = sets.iter().position(|set| set == "uniquely suppressed").unwrap();
    assert_eq!((latents[index].clone(), latents[index + 1].clone()), (vec![1], vec![]));
    // Means −0.75 and 0. Products: −2.25·−3 + −2.25·0 + 0 + 3.75·3 = 18; squares 24.75 and 18: 18/√(24.75·18) = 0.852803.
    assert!((scores.value("model_correlation").unwrap() - 0.852_803).abs() < 1e-6);
    // All rows are equal, so halves give the same.
    assert!((scores.value("model_correlation_split_half").unwrap() - 0.852_803).abs() < 1e-6);
    // Ranks 1.5 1.5 3 4 and 1 2.5 2.5 4: products of deviations −1·−1.5 + 0 + 0 + 1.5·1.5 = 3.75; both squares 4.5.
    assert!((scores.value("model_rank_correlation").unwrap() - 3.75 / 4.5).abs() < 1e-9);
    // d: √27 = 5.196 for one, √18 = 4.243 for two, in both rows; p of two equal signs is 2/4.
    assert!((numbers(&scores, "pair", "median_difference")[0].unwrap() - (27f64.sqrt() - 18f64.sqrt())).abs() < 1e-9);
    assert_eq!(numbers(&scores, "pair", "second_nearer"), [Some(1.0)]);
    assert_eq!(numbers(&scores, "pair", "signed_rank_p"), [Some(0.5)]);
    let alone = super::tests::inputs(4, &real, &[("one", &one)]);
    assert!(run(&BlindspotModels, &alone, Profile::Paper, &[]).unwrap_err().to_string().contains("two models"));
}

#[test]
fn split_halves_remove_the_noise_that_models_share() {
    // Nothing is wrong with either model: all three sets are noise of the same kind.
    let mut random = stream(4, "blindspots/shared noise", 0);
    let mut noise = || (0..200 * 300).map(|_| unit(&mut random) as f32).collect::<Vec<_>>();
    let (real, one, two) = (noise(), noise(), noise());
    let inputs = inputs(300, &real, &[("one", &one), ("two", &two)]);
    let scores = run(&BlindspotModels, &inputs, Profile::Paper, &[("compared", "gap")]).unwrap();
    let (plain, split) =
        (scores.value("model_correlation").unwrap(), scores.value("model_correlation_split_half").unwrap());
    assert!((plain - 0.5).abs() < 0.15, "{plain}");
    assert!(split.abs() < 0.15, "{split}");
}

#[test]
fn planted_blindspots_are_shared_and_unique() {
    let (world, inputs) = planted(&[("rows", "4000"), ("strength", "1"), ("features", "128"), ("active", "6")], 5);
    let scores = run(&BlindspotModels, &inputs, Profile::Paper, &[("temperature", "0.01")]).unwrap();
    let of = |model: usize, what: Planted| -> Vec<i64> {
        let planted = &world.generated[model].planted;
        planted.iter().filter(|(_, other)| *other == what).map(|(feature, _)| i64::from(*feature)).collect()
    };
    let (sets, latents) = (words(&scores, "set", "set"), lists(&scores, "set", "latents"));
    let universal = &latents[sets.iter().position(|set| set == "universally suppressed").unwrap()];
    let both: Vec<i64> =
        of(0, Planted::Suppressed).into_iter().filter(|f| of(1, Planted::Suppressed).contains(f)).collect();
    assert_eq!(universal, &both);
    let unique = sets.iter().position(|set| set == "uniquely suppressed").unwrap();
    for model in 0..2 {
        let own: Vec<i64> = of(model, Planted::Suppressed).into_iter().filter(|f| !both.contains(f)).collect();
        assert!(latents[unique + model].iter().all(|latent| own.contains(latent)), "{:?}", latents[unique + model]);
        assert!(latents[unique + model].len() * 2 > own.len());
    }
    assert!(numbers(&scores, "pair", "corrected")[0].is_some());
}

#[test]
fn distances_of_pairs_are_those_of_a_worked_example() {
    // Row 0 lost everything (d = 5), row 1 is the same (d = 0), row 2 is off by 1.
    let real = [3.0, 4.0, 1.0, 1.0, 0.0, 2.0];
    let made = [0.0, 0.0, 1.0, 1.0, 0.0, 1.0];
    let scores = run(&Divergence, &inputs(2, &real, &[("m", &made)]), Profile::Paper, &[("ranked", "1")]).unwrap();
    assert_eq!(numbers(&scores, "row_model", "distance"), [Some(5.0), Some(0.0), Some(1.0)]);
    assert_eq!(scores.value("divergence"), Some(1.0));
    // 5/5, 0, 1/3.
    assert!((scores.value("divergence_normalised").unwrap() - 1.0 / 3.0).abs() < 1e-12);
    assert_eq!(numbers(&scores, "divergent", "row"), [Some(0.0), Some(1.0)]);
    assert_eq!(lists(&scores, "divergent", "latents"), [vec![1, 0], vec![]]);
    // Row 1 of the model is (1, 1): √13 = 3.61 from real row 0, √2 = 1.41 from row 2, median 2.51: ratio 0. Its real row is
    // the shortest, √2 < 2 < 5: the 10 % quantile is above it, so it is no candidate.
    assert_eq!(numbers(&scores, "row_model", "memorised_ratio")[1], Some(0.0));
    // Row 2 is (0, 1): 1 from its own, √18 = 4.24 and 1 from the others, median 2.62, ratio 0.381: a candidate. Both other rows
    // of the model are at a distance of 1, less than half of 2.62.
    assert!((numbers(&scores, "row_model", "memorised_ratio")[2].unwrap() - 2.0 / (18f64.sqrt() + 1.0)).abs() < 1e-12);
    assert_eq!(numbers(&scores, "memorised", "row"), [Some(2.0)]);
    assert_eq!(numbers(&scores, "memorised", "alike"), [Some(2.0)]);
    assert_eq!(scores.value("memorised_candidates"), Some(1.0 / 3.0));
    for little in [&[][..], &[1.0, 2.0][..]] {
        let scores = run(&Divergence, &inputs(2, little, &[("m", little)]), Profile::Paper, &[]).unwrap();
        assert_eq!(scores.value("memorised_candidates"), None);
    }
}

#[test]
fn copies_are_candidates_and_other_rows_are_not() {
    let (world, inputs) = planted(&[("rows", "1500"), ("strength", "1"), ("models", "1"), ("fidelity", "0.5")], 2);
    let scores = run(&Divergence, &inputs, Profile::Paper, &[]).unwrap();
    let memorised = world.generated[0].planted.iter().find(|(_, what)| *what == Planted::Memorised).unwrap().0;
    let all = world.codes.all().unwrap();
    let copies: Vec<usize> = (0..1500).filter(|&row| all.row(row).0.contains(&memorised)).collect();
    let found: Vec<usize> =
        numbers(&scores, "memorised", "row").into_iter().flatten().map(|row| row as usize).collect();
    let right = found.iter().filter(|row| copies.contains(row)).count();
    // A tenth of the real rows is too short to be judged.
    assert!(right as f64 >= 0.85 * copies.len() as f64, "{right} of {}", copies.len());
    // Copies are nearest, so they come first. A few others got all features of their prompt right and are near without memorisation.
    assert!(found[..right].iter().all(|row| copies.contains(row)));
    assert!(((found.len() - right) as f64) < 0.01 * (1500 - copies.len()) as f64, "{} others", found.len() - right);
    assert!(
        lists(&scores, "memorised", "nearest_real_rows")
            .iter()
            .zip(&found)
            .all(|(near, row)| { near.len() == 8 && !near.contains(&(*row as i64)) })
    );
    let (paired, shuffled) = (scores.value("divergence").unwrap(), scores.value("divergence_shuffled").unwrap());
    assert!(paired < 0.8 * shuffled, "{paired} {shuffled}");
    let draws = scores.table("resample").unwrap();
    assert!(draws.column("divergence").is_some());
    // Neither an interval nor draws from which a report would compute one.
    let shuffled = scores.headline.iter().find(|headline| headline.key == "divergence_shuffled").unwrap();
    assert!(shuffled.interval.is_none() && draws.column("divergence_shuffled").is_none());
}

#[test]
fn rare_concepts_look_extreme_without_any_bias() {
    let settings = [("rows", "2000"), ("strength", "0"), ("features", "300"), ("active", "10"), ("power", "1")];
    let (_, inputs) = planted(&settings, 3);
    let scores = run(&Frequency, &inputs, Profile::Paper, &[]).unwrap();
    // Large relative gaps go with rarity in the null as in the models, and large gaps with frequency.
    for key in ["frequency_relative", "null_frequency_relative"] {
        assert!(scores.value(key).unwrap() < -0.4, "{key}");
    }
    assert!(scores.value("null_frequency_gap").unwrap() > 0.3);
    assert!(scores.value("outside_funnel").unwrap() < 0.15);
    let biased = [("rows", "2000"), ("strength", "1"), ("features", "300"), ("active", "10"), ("planted", "40")];
    let (_, inputs) = planted(&biased, 3);
    let scores = run(&Frequency, &inputs, Profile::Paper, &[]).unwrap();
    assert!(scores.value("outside_funnel").unwrap() > 0.2);
    let none = run(&Frequency, &super::tests::inputs(2, &[], &[("m", &[])]), Profile::Paper, &[]).unwrap();
    assert!(none.headline.iter().all(|headline| headline.value.is_none()));
}

#[test]
fn concepts_without_a_funnel_are_classed_by_q() {
    // 25 concepts that fire in half of the rows have a funnel; three that always fire do not: of these, the first loses
    // 0.9 of its value in every row, the second gains as much, the third stays.
    let (rows, latents) = (400, 28);
    let mut random = stream(11, "blindspots/no funnel", 0);
    let mut real = vec![0.0f32; rows * latents];
    for row in real.chunks_exact_mut(latents) {
        row[..25].iter_mut().for_each(|value| *value = if unit(&mut random) < 0.5 { 1.0 } else { 0.0 });
        row[25..].iter_mut().for_each(|value| *value = 1.0 + 0.1 * unit(&mut random) as f32);
    }
    let mut made = real.clone();
    for row in made.chunks_exact_mut(latents) {
        (row[25], row[26]) = (0.1 * row[25], 1.9 * row[26]);
    }
    let scores = run(&Frequency, &inputs(latents, &real, &[("m", &made)]), Profile::Paper, &[]).unwrap();
    let classes = words(&scores, "latent_model", "class");
    assert_eq!(classes[25..], ["below by q", "above by q", "inside by q"]);
    assert!(classes[..25].iter().all(|class| class == "inside"), "{classes:?}");
    assert!(numbers(&scores, "latent_model", "q")[25].unwrap() < 1e-60);
    // The share is of the 25 concepts with a funnel, and the counts say of what.
    let share = scores.headline.iter().find(|headline| headline.key == "outside_funnel").unwrap();
    assert_eq!((share.value, share.n), (Some(0.0), 25));
    for (column, count) in [("inside", 25.0), ("below_by_q", 1.0), ("above_by_q", 1.0), ("inside_by_q", 1.0)] {
        assert_eq!(numbers(&scores, "model", column), [Some(count)], "{column}");
    }
    assert!(scores.notes.iter().any(|note| note.contains("3 of 28 concepts")), "{:?}", scores.notes);
}

#[test]
fn the_null_has_intervals() {
    let (_, inputs) = planted(&[("rows", "600"), ("strength", "0")], 3);
    let scores = run(&super::Blindspots, &inputs, Profile::Paper, &[]).unwrap();
    let of = |column: &str| numbers(&scores, "latent", column);
    let (gap, low, high, q) = (of("null_gap"), of("null_gap_low"), of("null_gap_high"), of("null_q"));
    let covered = (0..gap.len()).filter(|&latent| low[latent] <= Some(0.0) && Some(0.0) <= high[latent]).count();
    assert!((0..gap.len()).all(|latent| low[latent] <= gap[latent] && gap[latent] <= high[latent]));
    // There is no effect: about 95 % of the intervals contain 0, and no q is small.
    assert!(covered as f64 > 0.85 * gap.len() as f64, "{covered} of {}", gap.len());
    assert!(q.iter().flatten().filter(|q| **q < 0.05).count() <= 1);
}
