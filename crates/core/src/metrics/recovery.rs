//! `recovery`: do the latents find the true features of a world?

use rayon::prelude::*;

use super::{Better, Card, Metric, Need, Output};
use crate::codes::{Codes, Latent};
use crate::error::{Complaint, Result};
use crate::kernel::assignment::assign;
use crate::kernel::product::{dot, rows_by_rows};
use crate::kernel::statistics::mean;
use crate::results::{Cells, Scores, Table, bootstrap_mean};
use crate::run::{Job, Next, Truth};
use crate::store::ActivationStore;

pub(super) struct Recovery;

static CARD: Card = Card {
    name: "recovery",
    title: "True recovery",
    summary: "How well each true feature of a world is found by one latent of its own.",
    version: 1,
    measures: "In a world the true features are known, so it can be asked directly whether a dictionary found them. \
        Every true feature is given at most one latent and every latent at most one feature, in the way that is best \
        for the dictionary as a whole; then it is asked how well the two agree on the rows where they fire, and how \
        nearly they point the same way. It is the yardstick that metrics without access to the truth are compared \
        with.",
    definition: "A feature or latent fires in the rows where its value is above 0. F1(f, l) = 2·both / (rows of f + \
        rows of l), `both` being the rows where both fire. The assignment of latents to features maximises the sum \
        of F1 over the features that fire at all; ties go to the lower latent. `recovery` is the mean F1 of these \
        features, a feature left without a latent counting 0. Features that never fire are left out (undefined, and \
        counted in a note). `recovery_cosine` does the same with the cosine between true direction and latent \
        direction in place of F1; `recovery_best_cosine` is the mean over features of the largest cosine with any \
        latent, which several features may share. Directions of length 0 have no cosine and are never assigned. \
        `recovery_null` is the mean of `recovery` over the untrained dictionaries. Without any feature that fires, \
        or without directions or untrained dictionaries, the number is undefined.",
    cost: "No pass; counts in the order of the entries of the true codes times the latents that fire in a row; \
        memory for features × latents that fire, 8 bytes each, and once more for cosines; the assignment takes at \
        worst features² × latents steps.",
    source: "The optimal one-to-one match between learnt and true features is common for dictionaries on synthetic \
        data (mean maximum cosine similarity and its assigned variant); no single published definition is followed. \
        Both profiles are the same.",
    interval: "Bootstrap over the true features that fire, 1000 resamples, the assignment kept. None for the null.",
    needs: &[Need::Codes, Need::Truth],
    uses: &[Need::Directions, Need::Nulls],
    headline: &[
        Output {
            key: "recovery",
            doc: "Mean F1 of firing between true features and their assigned latents.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "recovery_cosine",
            doc: "Mean cosine between the directions of true features and their assigned latents.",
            range: (-1.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "recovery_best_cosine",
            doc: "Mean over true features of the largest cosine with any latent.",
            range: (-1.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "recovery_null",
            doc: "What untrained dictionaries reach.",
            range: (0.0, 1.0),
            better: Better::Neither,
        },
    ],
    params: &[],
};

impl Metric for Recovery {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let codes = job.codes()?;
        let truth = job.inputs.truth.as_ref().ok_or_else(|| {
            Complaint::new("this metric needs `--truth`").advice("make a world with `etalon data` and give its truth")
        })?;
        let features: Vec<usize> = firing(&truth.codes)?.into_iter().map(|(feature, _)| feature).collect();
        let mut scores = Scores::default();
        let silent = truth.codes.latents() - features.len();
        if silent > 0 {
            scores.note(format!("{silent} of {} true features never fire: left out", truth.codes.latents()));
        }
        if features.is_empty() {
            scores.note("no true feature fires: recovery is undefined");
        }
        let matched = match_firing(codes, truth, job)?;
        let unmatched = matched.iter().filter(|found| found.latent.is_none()).count();
        if unmatched > 0 {
            scores.note(format!("{unmatched} true features are left without a latent that fires and count 0"));
        }
        let f1: Vec<f64> = matched.iter().map(|found| found.f1).collect();
        scores.headline("recovery", mean(&f1), bootstrap_mean(&f1, job.seed, "recovery/firing"), f1.len());

        let directions = job.inputs.directions.as_ref().zip(truth.directions.as_ref());
        let cosines =
            directions.map(|(found, true_ones)| match_directions(found, true_ones, &features, job)).transpose()?;
        match &cosines {
            None => {
                scores.note("cosines need the directions of the latents and of the true features: undefined");
                scores.headline("recovery_cosine", None, None, 0);
                scores.headline("recovery_best_cosine", None, None, 0);
            }
            Some(cosines) => {
                let undefined = cosines.iter().filter(|found| found.best.is_none()).count();
                if undefined > 0 {
                    scores
                        .note(format!("{undefined} true features have no cosine with any latent: left out of cosines"));
                }
                let unmatched = cosines.iter().filter(|found| found.best.is_some() && found.assigned.is_none()).count();
                if unmatched > 0 {
                    scores.note(format!("{unmatched} true features are left without a direction and count 0"));
                }
                let defined = || cosines.iter().filter_map(|found| Some((found.best?, found.assigned.unwrap_or(0.0))));
                let (best, assigned): (Vec<f64>, Vec<f64>) = defined().unzip();
                for (key, values) in [("recovery_cosine", &assigned), ("recovery_best_cosine", &best)] {
                    let purpose = if key == "recovery_cosine" { "recovery/cosine" } else { "recovery/best" };
                    scores.headline(key, mean(values), bootstrap_mean(values, job.seed, purpose), values.len());
                }
            }
        }

        let mut nulls = Vec::new();
        for null in &job.inputs.nulls {
            let f1: Vec<f64> = match_firing(null, truth, job)?.iter().map(|found| found.f1).collect();
            nulls.extend(mean(&f1));
        }
        if nulls.is_empty() {
            scores.note("without untrained dictionaries there is no null to compare with");
        }
        scores.headline("recovery_null", mean(&nulls), None, nulls.len());
        scores.tables.push(table(truth.codes.latents(), &features, &matched, cosines.as_deref()));
        Ok(Next::Done(scores))
    }
}

/// The latent of a feature by firing.
struct Matched {
    latent: Option<usize>,
    f1: f64,
}

/// The latents of a feature by direction.
#[derive(Clone, Default)]
struct Cosines {
    latent: Option<usize>,
    assigned: Option<f64>,
    best: Option<f64>,
}

/// The columns that fire at all, and in how many rows.
fn firing(codes: &Codes) -> Result<Vec<(usize, usize)>> {
    let columns = codes.columns()?;
    let count = |latent: usize| columns.latent(Latent(latent as u32)).1.iter().filter(|&&value| value > 0.0).count();
    Ok((0..codes.latents()).map(|latent| (latent, count(latent))).filter(|&(_, count)| count > 0).collect())
}

/// The F1 of every feature that fires with its latent in the best assignment.
fn match_firing(codes: &Codes, truth: &Truth, job: &Job<'_>) -> Result<Vec<Matched>> {
    let (features, latents) = (firing(&truth.codes)?, firing(codes)?);
    let bytes = (features.len() as u64).saturating_mul(latents.len() as u64).saturating_mul(8);
    let _taken = job.budget.take(
        bytes.saturating_add(16 * codes.latents() as u64),
        format!("the agreement of {} features with {} latents", features.len(), latents.len()),
    )?;
    let mut place_of = vec![u32::MAX; codes.latents()];
    latents.iter().enumerate().for_each(|(place, &(latent, _))| place_of[latent] = place as u32);
    let (true_columns, rows) = (truth.codes.columns()?, codes.all()?);
    // Each feature fills its own stretch of the matrix, so threads cannot change it. Counts are exact in f64.
    let mut costs = vec![0f64; features.len() * latents.len()];
    if !latents.is_empty() {
        costs.par_chunks_mut(latents.len()).zip(&features).for_each(|(agree, &(feature, feature_rows))| {
            let (there, values) = true_columns.latent(Latent(feature as u32));
            for (&row, _) in there.iter().zip(values).filter(|&(_, &value)| value > 0.0) {
                let (fired, values) = rows.row(row as usize);
                for (&latent, _) in fired.iter().zip(values).filter(|&(_, &value)| value > 0.0) {
                    agree[place_of[latent as usize] as usize] += 1.0;
                }
            }
            for (both, &(_, latent_rows)) in agree.iter_mut().zip(&latents) {
                *both *= -2.0 / (feature_rows + latent_rows) as f64;
            }
        });
    }
    let assigned = assign(&costs, features.len(), latents.len());
    let found = |(row, place): (usize, Option<usize>)| Matched {
        latent: place.map(|place| latents[place].0),
        f1: place.map_or(0.0, |place| -costs[row * latents.len() + place]),
    };
    Ok(assigned.into_iter().enumerate().map(found).collect())
}

/// The cosine of every feature given with its latent in the best assignment, and its largest with any latent.
fn match_directions(
    found: &ActivationStore,
    true_ones: &ActivationStore,
    features: &[usize],
    job: &Job<'_>,
) -> Result<Vec<Cosines>> {
    if found.width() != true_ones.width() {
        return Err(Complaint::new("latent directions and true directions differ in width")
            .expected(format!("width {}", true_ones.width()))
            .found(format!("width {}", found.width()))
            .advice("train on the activations of the same world")
            .into());
    }
    if let Some(&last) = features.last().filter(|&&last| last >= true_ones.rows()) {
        return Err(Complaint::new("a true feature has no direction")
            .expected(format!("at least {} directions", last + 1))
            .found(format!("{} directions", true_ones.rows()))
            .into());
    }
    let (width, latents) = (found.width(), found.rows());
    let cells = (features.len() as u64).saturating_mul(latents as u64);
    let copies = (features.len() as u64 + latents as u64).saturating_mul(4 * width as u64);
    let what = format!("the cosines of {} features with {latents} latents", features.len());
    let _taken = job.budget.take(cells.saturating_mul(8).saturating_add(copies), what)?;
    let latent_units = units(&found.tile(0..latents)?.values, width);
    let all_true = true_ones.tile(0..true_ones.rows())?;
    let picked: Vec<f32> = features.iter().flat_map(|&feature| all_true.row(feature)).copied().collect();
    let feature_units = units(&picked, width);
    let is_zero = |unit: &[f32]| unit.iter().all(|&part| part == 0.0);
    let zero_latent: Vec<bool> = latent_units.chunks_exact(width).map(is_zero).collect();
    let mut costs = vec![f64::INFINITY; features.len() * latents];
    if latents > 0 {
        costs.par_chunks_mut(latents).zip(feature_units.par_chunks(width)).for_each(|(costs, feature)| {
            if is_zero(feature) {
                return;
            }
            let mut products = vec![0f32; latents];
            rows_by_rows(feature, &latent_units, width, &mut products);
            for ((cost, &product), _) in costs.iter_mut().zip(&products).zip(&zero_latent).filter(|(_, zero)| !**zero) {
                *cost = -f64::from(product);
            }
        });
    }
    // The product in f32 chooses; what is reported is computed once more in f64.
    let cosine = |row: usize, latent: usize| {
        dot(&feature_units[row * width..][..width], &latent_units[latent * width..][..width]).clamp(-1.0, 1.0)
    };
    let assigned = assign(&costs, features.len(), latents);
    let all = |(row, latent): (usize, Option<usize>)| {
        let line = &costs[row * latents..][..latents];
        let lowest = (0..latents).filter(|&l| line[l].is_finite()).min_by(|&a, &b| line[a].total_cmp(&line[b]));
        Cosines {
            latent,
            assigned: latent.map(|latent| cosine(row, latent)),
            best: lowest.map(|latent| cosine(row, latent)),
        }
    };
    Ok(assigned.into_iter().enumerate().map(all).collect())
}

/// Every row scaled to length 1; a row of length 0 stays.
fn units(rows: &[f32], width: usize) -> Vec<f32> {
    let mut units = rows.to_vec();
    for row in units.chunks_exact_mut(width) {
        let length = dot(row, row).sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|part| *part = (f64::from(*part) / length) as f32);
        }
    }
    units
}

/// One line per true feature, those that never fire included.
fn table(total: usize, features: &[usize], matched: &[Matched], cosines: Option<&[Cosines]>) -> Table {
    let mut latent = vec![None; total];
    let (mut f1, mut direction) = (vec![None; total], vec![Cosines::default(); total]);
    for (place, (&feature, found)) in features.iter().zip(matched).enumerate() {
        latent[feature] = found.latent.map(|latent| latent as i64);
        f1[feature] = Some(found.f1);
        if let Some(cosines) = cosines.and_then(|cosines| cosines.get(place)) {
            direction[feature] = cosines.clone();
        }
    }
    Table::new("feature")
        .counts("feature", 0..total)
        .with("latent", Cells::Whole(latent))
        .numbers("f1", f1)
        .with(
            "cosine_latent",
            Cells::Whole(direction.iter().map(|found| found.latent.map(|latent| latent as i64)).collect()),
        )
        .numbers("cosine", direction.iter().map(|found| found.assigned))
        .numbers("best_cosine", direction.iter().map(|found| found.best))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::budget::Budget;
    use crate::codes::CodesBuilder;
    use crate::kernel::random::{index, permutation, stream};
    use crate::labels::worlds;
    use crate::metrics::{evaluate, recipe};
    use crate::progress::Silent;
    use crate::results::Profile;
    use crate::run::{Engine, Inputs};

    fn run_with(inputs: &Inputs, threads: usize, budget: u64) -> Result<Scores> {
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(threads, Budget::new(budget), &Silent, &cancel)?;
        let recipe = recipe(&Recovery, inputs, &BTreeMap::new(), Profile::Paper, 1)?;
        Ok(evaluate(&Recovery, inputs, recipe, &engine)?.scores)
    }

    fn run(inputs: &Inputs) -> Scores {
        run_with(inputs, 2, 1 << 30).unwrap()
    }

    fn inputs(codes: Codes, truth: Codes) -> Inputs {
        let truth = Truth { codes: truth.into(), directions: None };
        Inputs { codes: Some(codes.into()), truth: Some(truth.into()), ..Inputs::default() }
    }

    fn set_true_directions(inputs: &mut Inputs, directions: ActivationStore) {
        let codes = inputs.truth.as_ref().unwrap().codes.clone();
        inputs.truth = Some(Truth { codes, directions: Some(directions.into()) }.into());
    }

    fn copy(codes: &Codes, order: &[usize]) -> Codes {
        let mut builder = CodesBuilder::new(codes.latents());
        for (_, latents, values) in codes.all().unwrap().iter() {
            let mut row: Vec<(u32, f32)> =
                latents.iter().zip(values).map(|(&l, &value)| (order[l as usize] as u32, 3.0 * value)).collect();
            row.sort_by_key(|entry| entry.0);
            let (latents, values): (Vec<u32>, Vec<f32>) = row.into_iter().unzip();
            builder.push(&latents, &values).unwrap();
        }
        builder.finish()
    }

    fn rows(store: &ActivationStore, order: impl Iterator<Item = usize>) -> ActivationStore {
        let all = store.tile(0..store.rows()).unwrap();
        let values = order.flat_map(|row| all.row(row).to_vec()).collect();
        ActivationStore::from_rows(values, store.width()).unwrap()
    }

    fn world() -> worlds::World {
        let given = [("rows", "2000"), ("features", "60"), ("width", "24"), ("active", "4")];
        let given = given.map(|(name, value)| (name.to_string(), value.to_string()));
        worlds::make("superposition", &BTreeMap::from(given), 9, &Budget::new(1 << 30)).unwrap()
    }

    #[test]
    fn by_hand() {
        // Feature 0 fires in rows 0 1 2, feature 1 in row 3, feature 2 never. Latent 0 fires in rows 0 1, latent 1 in
        // rows 0 1 2 3; latent 2 is negative in row 3 and so never fires.
        // F1(0,0) = 2·2/(3+2) = 0.8, F1(0,1) = 2·3/(3+4) = 6/7, F1(1,0) = 0, F1(1,1) = 2·1/(1+4) = 0.4.
        // Best in all: 0.8 + 0.4 = 1.2 > 6/7 + 0, so feature 0 gives up its favourite. The mean is 0.6.
        let truth = Codes::from_dense(&[1.0, 0.0, 0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0], 3).unwrap();
        let codes = Codes::from_dense(&[1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, -1.0], 3).unwrap();
        let scores = run(&inputs(codes, truth));
        assert!((scores.value("recovery").unwrap() - 0.6).abs() < 1e-12);
        assert_eq!(scores.value("recovery_cosine"), None);
        let table = scores.table("feature").unwrap();
        assert_eq!(table.column("latent"), Some(&Cells::Whole(vec![Some(0), Some(1), None])));
        assert_eq!(table.column("f1").unwrap().number(2), None);
        assert!(scores.notes.iter().any(|note| note.contains("1 of 3 true features never fire")));
    }

    #[test]
    fn the_truth_itself_scores_one_in_any_order() {
        let world = world();
        for seed in 0..2 {
            let order = if seed == 0 { (0..60).collect() } else { permutation(60, &mut stream(seed, "test", 0)) };
            let mut back = vec![0; 60];
            order.iter().enumerate().for_each(|(feature, &latent)| back[latent] = feature);
            let true_directions = world.directions.as_ref().unwrap();
            let mut inputs = inputs(copy(&world.codes, &order), copy(&world.codes, &(0..60).collect::<Vec<_>>()));
            inputs.directions = Some(rows(true_directions, back.into_iter()).into());
            set_true_directions(&mut inputs, rows(true_directions, 0..60));
            let scores = run(&inputs);
            for key in ["recovery", "recovery_cosine", "recovery_best_cosine"] {
                assert!((scores.value(key).unwrap() - 1.0).abs() < 1e-6, "{key}: {:?}", scores.value(key));
            }
            let table = scores.table("feature").unwrap();
            for (feature, &latent) in order.iter().enumerate() {
                assert_eq!(table.column("latent").unwrap().number(feature), Some(latent as f64));
                assert_eq!(table.column("cosine_latent").unwrap().number(feature), Some(latent as f64));
            }
        }
    }

    fn noise(rows: usize, latents: usize) -> Codes {
        let mut random = stream(0, "noise", 0);
        let mut dense = vec![0f32; rows * latents];
        (0..rows * 4).for_each(|entry| dense[entry / 4 * latents + index(latents, &mut random)] = 1.0);
        Codes::from_dense(&dense, latents).unwrap()
    }

    #[test]
    fn chance_scores_low_and_threads_do_not_matter() {
        let mut inputs = inputs(noise(2000, 100), copy(&world().codes, &(0..60).collect::<Vec<_>>()));
        inputs.nulls = vec![noise(2000, 100).into()];
        let scores = run_with(&inputs, 1, 1 << 30).unwrap();
        assert!(scores.value("recovery").unwrap() < 0.25);
        assert_eq!(scores.value("recovery_null"), scores.value("recovery"));
        for threads in [2, 7] {
            assert_eq!(run_with(&inputs, threads, 1 << 30).unwrap(), scores);
        }
        assert!(matches!(run_with(&inputs, 1, 1000), Err(crate::error::Error::Memory { .. })));
    }

    #[test]
    fn a_lost_feature_counts_zero_and_a_bare_direction_is_not_assigned() {
        // Two features, one latent that is feature 0: (1 + 0) / 2. Its direction is right, the other latent's is zero.
        let truth = Codes::from_dense(&[1.0, 0.0, 0.0, 1.0], 2).unwrap();
        let codes = Codes::from_dense(&[1.0, 0.0, 0.0, 0.0], 2).unwrap();
        let mut inputs = inputs(codes, truth);
        let store = |values: &[f32]| ActivationStore::from_rows(values.to_vec(), 2).unwrap();
        inputs.directions = Some(store(&[2.0, 0.0, 0.0, 0.0]).into());
        set_true_directions(&mut inputs, store(&[1.0, 0.0, 0.0, 1.0]));
        let scores = run(&inputs);
        assert_eq!(scores.value("recovery"), Some(0.5));
        assert_eq!(scores.value("recovery_cosine"), Some(0.5));
        // Feature 1 is orthogonal to the only direction there is: its best cosine is 0.
        assert_eq!(scores.value("recovery_best_cosine"), Some(0.5));
        inputs.directions = Some(ActivationStore::from_rows(vec![1.0; 6], 3).unwrap().into());
        assert!(run_with(&inputs, 1, 1 << 30).unwrap_err().to_string().contains("width"));
    }

    #[test]
    fn nothing_at_all_is_undefined() {
        for (rows, latents) in [(0, 3), (4, 0), (4, 3)] {
            let codes = || Codes::from_dense(&vec![0.0; rows * latents], latents);
            let mut builder = CodesBuilder::new(0);
            (0..rows).for_each(|_| builder.push(&[], &[]).unwrap());
            let empty = if latents == 0 { builder.finish() } else { codes().unwrap() };
            let scores = run(&inputs(empty, Codes::from_dense(&vec![0.0; rows * 2], 2).unwrap()));
            assert_eq!(scores.value("recovery"), None);
        }
    }
}
