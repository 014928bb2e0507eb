//! `recovery`: do the latents recover the true features of a world?

mod directions;
mod firing;
#[cfg(test)]
mod tests;

use etalon_kernel::statistics::mean;

use super::estimate::Estimate;
use super::{Better, Card, Metric, Output};
use crate::codes::Codes;
use crate::error::Result;
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, DIRECTIONS, Job, NULLS, Over, TRUTH, Work};
use directions::{Cosines, match_directions};
use firing::{Fired, FiringColumn, Matched, firing, match_firing};

/// The metric `recovery`.
pub(super) struct Recovery;

static CARD: Card = Card {
    name: "recovery",
    title: "True recovery",
    summary: "How well each true feature of a synthetic world is recovered by one latent.",
    version: 1,
    measures: "In a synthetic world the true features are known, so recovery can be measured directly. Every true feature \
        is assigned at most one latent and every latent at most one feature, in the way that is best overall; the score is \
        how well the two agree on the rows in which they fire, and how well their directions agree. Use it as ground truth \
        for metrics that do not see the true features.",
    definition: "A feature or latent fires in the rows where its value is above 0. F1(f, l) = 2 · both / (rows of f + rows \
        of l), where `both` counts the rows in which both fire. The assignment of latents to features maximises the sum of \
        F1 over the features that ever fire; ties go to the lower latent.\n\
        `recovery` is the mean F1 over these features; a feature without a latent counts 0. Features that never fire are \
        left out (undefined, and counted in a note).\n\
        `recovery_cosine` is the same with the cosine between true direction and latent direction instead of F1. \
        `recovery_best_cosine` is the mean over features of the largest cosine with any latent, which several features may \
        share. Directions of length 0 have no cosine and are never assigned.\n\
        `recovery_null` is the mean of `recovery` over the untrained dictionaries. A number is undefined without features \
        that fire, without directions, or without untrained dictionaries.",
    cost: "One pass; about entries of the true codes × active latents per row counts; 12 bytes per pair of a feature and \
        a latent that fire, and as much for cosines; the assignment takes at worst features² × latents steps.",
    source: "Optimal one-to-one matching of learned and true features is common for dictionaries on synthetic data (mean \
        maximum cosine similarity and its assigned variant); this follows no single published definition. Both profiles are \
        the same.",
    interval: "Percentile bootstrap over the true features that fire, 1000 resamples, with fixed assignment. None for the \
        null.",
    needs: &[&CODES, &TRUTH],
    uses: &[&DIRECTIONS, &NULLS],
    headline: &[
        Output::new("recovery", "Mean F1 of true features and assigned latents", (0.0, 1.0), Better::Higher),
        Output::new(
            "recovery_cosine",
            "Mean cosine of true features and assigned latents",
            (-1.0, 1.0),
            Better::Higher,
        ),
        Output::new("recovery_best_cosine", "Mean largest cosine with any latent", (-1.0, 1.0), Better::Higher),
        Output::new("recovery_null", "Mean `recovery` of untrained dictionaries", (0.0, 1.0), Better::Neither),
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
        let total = truth.codes.latents();
        let note = |scores: &mut Scores, count: usize, note: &str| {
            if count > 0 {
                scores.note(format!("{count} of {total} true features {note}"));
            }
        };
        note(&mut scores, total - features.len(), "never fire and are left out");
        if features.is_empty() {
            scores.note("no true feature fires: recovery is undefined");
        }
        let matched = match_firing(job, work, codes, &features, &firing(&fired.latents), "")?;
        let unmatched = matched.iter().filter(|matched| matched.latent.is_none()).count();
        note(&mut scores, unmatched, "are left without a latent that fires and count 0");
        Estimate::mean(&f1(&matched), job.seed, "recovery/firing").headline("recovery", &mut scores);

        let directions = job.find(&DIRECTIONS).zip(truth.directions.as_deref());
        let cosines =
            directions.map(|(latents, known)| match_directions(job, work, latents, known, &features)).transpose()?;
        if cosines.is_none() {
            scores.note("cosines need the directions of the latents and of the true features: undefined");
        }
        let pairs = || cosines.iter().flatten().filter_map(|cosines| Some((cosines.best?, cosines.assigned)));
        let undefined = cosines.as_ref().map_or(0, Vec::len) - pairs().count();
        note(&mut scores, undefined, "have no cosine with any latent and are left out of cosines");
        let unmatched = pairs().filter(|(_, assigned)| assigned.is_none()).count();
        note(&mut scores, unmatched, "are left without a direction and count 0");
        let (best, assigned): (Vec<f64>, Vec<f64>) =
            pairs().map(|(best, assigned)| (best, assigned.unwrap_or(0.0))).unzip();
        Estimate::mean(&assigned, job.seed, "recovery/cosine").headline("recovery_cosine", &mut scores);
        Estimate::mean(&best, job.seed, "recovery/best").headline("recovery_best_cosine", &mut scores);

        let mut null_scores = Vec::new();
        for (index, (null, fired)) in nulls.into_iter().zip(&fired.nulls).enumerate() {
            let of = format!(" of null {}", index + 1);
            let matched = match_firing(job, work, null, &features, &firing(fired), &of)?;
            null_scores.extend(mean(&f1(&matched)));
        }
        if null_scores.is_empty() {
            scores.note("no null codes: `recovery_null` is undefined; pass codes of untrained dictionaries as `null`");
        }
        scores.headline("recovery_null", mean(&null_scores), None, null_scores.len());
        scores.tables.push(table(total, &features, &matched, cosines.as_deref()));
        Ok(scores)
    }
}

fn f1(matched: &[Matched]) -> Vec<f64> {
    matched.iter().map(|matched| matched.f1).collect()
}

/// One row per true feature, including those that never fire.
fn table(total: usize, features: &[FiringColumn], matched: &[Matched], cosines: Option<&[Cosines]>) -> Table {
    let (mut latent, mut f1) = (vec![None; total], vec![None; total]);
    let mut directions = vec![Cosines::default(); total];
    for (index, (feature, matched)) in features.iter().zip(matched).enumerate() {
        latent[feature.index] = matched.latent.map(|latent| latent as i64);
        f1[feature.index] = Some(matched.f1);
        if let Some(cosines) = cosines.and_then(|cosines| cosines.get(index)) {
            directions[feature.index] = cosines.clone();
        }
    }
    let cosine_latent = directions.iter().map(|cosines| cosines.latent.map(|latent| latent as i64)).collect();
    Table::new("feature")
        .counts("feature", 0..total)
        .with("latent", Cells::Whole(latent))
        .numbers("f1", f1)
        .with("cosine_latent", Cells::Whole(cosine_latent))
        .numbers("cosine", directions.iter().map(|cosines| cosines.assigned))
        .numbers("best_cosine", directions.iter().map(|cosines| cosines.best))
}
