//! `recovery`: do the latents find the true features of a world?

mod directions;
mod firing;
#[cfg(test)]
mod tests;

use etalon_kernel::statistics::mean;

use super::{Better, Card, Metric, Output};
use crate::codes::Codes;
use crate::error::Result;
use crate::results::{Cells, Scores, Table, bootstrap_mean};
use crate::run::{CODES, DIRECTIONS, Job, NULLS, Over, TRUTH, Work};
use directions::{Cosines, match_directions};
use firing::{Fired, FiringColumn, Matched, firing, match_firing};

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
    cost: "One pass; counts in the order of the entries of the true codes times the latents that fire in a row; \
        memory for features × latents that fire, 12 bytes each, and once more for cosines; the assignment takes at \
        worst features² × latents steps.",
    source: "The optimal one-to-one match between learnt and true features is common for dictionaries on synthetic \
        data (mean maximum cosine similarity and its assigned variant); no single published definition is followed. \
        Both profiles are the same.",
    interval: "Bootstrap over the true features that fire, 1000 resamples, the assignment kept. None for the null.",
    needs: &[&CODES, &TRUTH],
    uses: &[&DIRECTIONS, &NULLS],
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

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, truth) = (job.get(&CODES)?, job.get(&TRUTH)?);
        let nulls: Vec<&Codes> = job.all(&NULLS).into_iter().map(|(_, null)| null).collect();
        let empty = || Fired::new(truth, codes, &nulls);
        let fired = work.pass("firing counts", Over::ROWS, empty, |fired, rows| fired.add(rows, truth, &nulls))?;
        let features = firing(&fired.features);
        let mut scores = Scores::default();
        let silent = truth.codes.latents() - features.len();
        if silent > 0 {
            scores.note(format!("{silent} of {} true features never fire: left out", truth.codes.latents()));
        }
        if features.is_empty() {
            scores.note("no true feature fires: recovery is undefined");
        }
        let matched = match_firing(job, work, codes, &features, &firing(&fired.latents), "")?;
        let unmatched = matched.iter().filter(|found| found.latent.is_none()).count();
        if unmatched > 0 {
            scores.note(format!("{unmatched} true features are left without a latent that fires and count 0"));
        }
        let f1: Vec<f64> = matched.iter().map(|found| found.f1).collect();
        scores.headline("recovery", mean(&f1), bootstrap_mean(&f1, job.seed, "recovery/firing"), f1.len());

        let directions = job.find(&DIRECTIONS).zip(truth.directions.as_deref());
        let cosines =
            directions.map(|(found, known)| match_directions(job, work, found, known, &features)).transpose()?;
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

        let mut null_scores = Vec::new();
        for (index, (null, fired)) in nulls.into_iter().zip(&fired.nulls).enumerate() {
            let of = format!(" of null {}", index + 1);
            let matched = match_firing(job, work, null, &features, &firing(fired), &of)?;
            null_scores.extend(mean(&matched.iter().map(|found| found.f1).collect::<Vec<f64>>()));
        }
        if null_scores.is_empty() {
            scores.note("without untrained dictionaries there is no null to compare with");
        }
        scores.headline("recovery_null", mean(&null_scores), None, null_scores.len());
        scores.tables.push(table(truth.codes.latents(), &features, &matched, cosines.as_deref()));
        Ok(scores)
    }
}

/// One line per true feature, those that never fire included.
fn table(total: usize, features: &[FiringColumn], matched: &[Matched], cosines: Option<&[Cosines]>) -> Table {
    let mut latent = vec![None; total];
    let (mut f1, mut direction) = (vec![None; total], vec![Cosines::default(); total]);
    for (position, (feature, found)) in features.iter().zip(matched).enumerate() {
        latent[feature.index] = found.latent.map(|latent| latent as i64);
        f1[feature.index] = Some(found.f1);
        if let Some(cosines) = cosines.and_then(|cosines| cosines.get(position)) {
            direction[feature.index] = cosines.clone();
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
