//! The feature monosemanticity score: does a single latent represent a concept?

mod trees;

use etalon_kernel::statistics::mean;

use super::matching::{REFERENCE_BATCH, RowOrder};
use super::resamples::{Draws, resamples_in_block};
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::labels::Concept;
use crate::results::{Cells, Interval, Profile, Scores, Table, percentile_interval};
use crate::run::{CODES, Job, LABELS, Lazy, Work};
use trees::{Measured, MeasuredConcept, Trees, balanced};

/// The metric `fms`.
pub struct Fms;

static CARD: Card = Card {
    name: "fms",
    title: "Feature monosemanticity score",
    summary: "How well a single latent predicts a concept, and how little the other latents contain of it.",
    version: 1,
    measures: "A concept is represented by one latent if a single threshold on that latent separates the rows with the \
        concept from those without (capacity), if removing that latent leaves little information (local), and if further \
        latents add little (global). Decision trees on the codes measure all three, per concept. A concept that no latent \
        contains scores about 0.25, not 0: accuracy 1/2 by chance, nothing to lose and nothing to add.",
    definition: "Per concept: m = min(rows with it, rows without it); m rows of each class are drawn with the seed. A \
        decision tree (Gini, thresholds midway between neighbouring values, no depth limit) is grown on the real-valued \
        codes of these 2m rows. a(i) is its accuracy when cut at level i: i = 1 is the root alone (1/2), i = 2 a stump; a \
        node predicts its majority, ties `no`. accuracy = a(2).\n\
        MS_global = 1 − mean over i ≥ 3 of (a(i) − a(2)), and 1 if the tree is a stump.\n\
        Then the latent of the stump is set to zero, the best stump of the rest is found, its latent is set to zero, and so \
        on: s(c) is the accuracy of the stump after c cuts, 1/2 if no remaining latent splits. \
        MS_local(c) = 2 (s(0) − s(c)).\n\
        FMS(c) = accuracy · (MS_local(c) + MS_global) / 2; FMS = mean over c = 1..`cuts`; `fms` = mean over concepts.\n\
        `fms_held_out` grows the trees and selects the stumps, with their majorities, on half of the balanced rows and \
        computes every accuracy on the other half; both directions are averaged. There MS_global = 1 − max(0, mean gain), so \
        that an overfitted tree that loses accuracy on new rows does not raise the score. Selecting and scoring on the \
        same rows is optimistic for the stump and far more for deep trees, which lowers MS_global.\n\
        Ties: equal Gini gains (compared as fractions of whole numbers) go to the lowest latent, then the lowest threshold. \
        Values closer than 1e-7 are equal.\n\
        Undefined: a concept without rows of both classes among the known labels, or whose balanced rows no latent splits; \
        held out also below two rows of either class. Rows with an unknown label are ignored for that concept.",
    cost: "One block per concept. The non-zero entries of the balanced rows are sorted once; a tree then costs its depth \
        times those entries, and all cuts together one scan (the stump after c cuts is the latent with the c-th best split, \
        because setting other latents to zero does not change a split). Memory: a few times the entries of the balanced \
        rows per thread; profile `reference` also copies the codes.",
    source: "Härle et al., Measuring and Guiding Monosemanticity (arXiv 2506.19382), as used in Evaluating the \
        Interpretability of SAEs with Concept Annotations (arXiv 2606.24716) and its released code.\n\
        Profile `paper` differs from that code: the level without a split does not enter MS_global (there it adds \
        accuracy − 1/2, so that a perfect latent scores up to 1.25); a mixed leaf above the cut is not counted as correct; \
        counts are exact; a round in which nothing splits counts as 1/2 instead of being dropped; every concept has the \
        same weight; the draw is seeded.\n\
        Profile `reference` keeps: the level without a split in the mean; leaves above the cut counted as correct; counts \
        truncated to whole numbers after a rounding product; rounds without a split left out (the mean is over the rounds \
        of all concepts); and the misplaced last batch (`reference_batch`), whose rows overwrite earlier ones, while the \
        last rows are empty and without any concept. The code sets the last but one latent to zero when nothing splits; that \
        changes no number, because nothing splits afterwards either.\n\
        Not reproduced: the code draws rows and breaks ties between latents at random without a seed, and compares gains in \
        floating point.",
    interval: "95 % percentile bootstrap over concepts, 1000 resamples.",
    needs: &[&CODES, &LABELS],
    uses: &[],
    headline: &[
        Output::new(
            "fms",
            "Mean score over concepts, on the rows the trees were grown on",
            (-0.17, 1.25),
            Better::Higher,
        ),
        Output::new("fms_held_out", "Mean score over concepts on held-out rows", (-0.17, 1.5), Better::Higher),
    ],
    params: &[
        Param::new("cuts", "Number of latents to remove, one after the other", Kind::Whole(1, 100), "9"),
        REFERENCE_BATCH,
    ],
};

impl Metric for Fms {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, labels, cuts) = (job.get(&CODES)?, job.get(&LABELS)?, job.whole("cuts")?);
        let order = RowOrder::of_job(job)?;
        let ordered = Lazy::new(|| order.codes(codes, false, job.context));
        let measured = work.blocks_with(&ordered, "concepts", labels.concepts(), |codes, concept| {
            let concept = Concept(concept as u32);
            let yes = order.bits(labels.yes(concept), false);
            let rows = balanced(&yes, &order.bits(labels.known(concept), true), concept, job.seed);
            let trees = Trees { job, codes: codes.all()?, cuts };
            Ok(MeasuredConcept { positives: yes.count(), ..trees.measure(&rows)? })
        })?;
        let mut scores = scores(job, labels.names(), &measured)?;
        order.note_lost(&mut scores);
        Ok(scores)
    }
}

fn scores(job: &Job<'_>, names: &[String], concepts: &[MeasuredConcept]) -> Result<Scores> {
    let mut scores = Scores::default();
    let measured = || concepts.iter().filter_map(|concept| concept.measured.as_ref());
    // Sum and weight of each concept: in the reference every round has the same weight.
    let weighted: Vec<(f64, f64)> = measured()
        .map(Measured::scores)
        .filter(|rounds| !rounds.is_empty())
        .map(|rounds| match job.profile {
            Profile::Paper => (mean(&rounds).unwrap_or(0.0), 1.0),
            Profile::Reference => (rounds.iter().sum(), rounds.len() as f64),
        })
        .collect();
    let held_out = || concepts.iter().map(|concept| concept.held_out.as_ref());
    let held: Vec<(f64, f64)> = held_out().flatten().map(|held| (held.fms, 1.0)).collect();
    for (key, values) in [("fms", &weighted), ("fms_held_out", &held)] {
        let value = weighted_mean(values.iter().copied());
        scores.headline(key, value, interval(job, values, key)?, values.len());
    }
    let (all, defined) = (concepts.len(), measured().count());
    if defined < all {
        let undefined = all - defined;
        scores.note(format!(
            "{undefined} of {all} concepts lack rows of one class, or no latent splits their rows: undefined"
        ));
    }
    if defined > weighted.len() {
        let undefined = defined - weighted.len();
        scores
            .note(format!("`fms` of {undefined} concepts is undefined: no latent is left after the first is removed"));
    }
    if defined > held.len() {
        scores.note(format!("{} concepts have too few rows for a held-out score", defined - held.len()));
    }
    let of = |number: &dyn Fn(&Measured) -> Option<f64>| -> Vec<Option<f64>> {
        concepts.iter().map(|concept| concept.measured.as_ref().and_then(number)).collect()
    };
    let roots = || concepts.iter().map(|concept| concept.root.as_ref());
    scores.tables.push(
        Table::new("concept")
            .words("name", names)
            .counts("positives", concepts.iter().map(|concept| concept.positives))
            .counts("rows", concepts.iter().map(|concept| concept.rows))
            .counts("depth", concepts.iter().map(|concept| concept.depth))
            .with("latent", Cells::Whole(roots().map(|root| root.map(|root| i64::from(root.latent))).collect()))
            .numbers("threshold", roots().map(|root| root.map(|root| root.threshold)))
            .numbers("accuracy_stump", of(&|measured| Some(measured.accuracy)))
            .numbers("ms_global", of(&|measured| Some(measured.global)))
            .numbers("ms_local", of(&|measured| mean(&measured.local())))
            .numbers("fms", of(&|measured| mean(&measured.scores())))
            .numbers("accuracy_held_out", held_out().map(|held| held.map(|held| held.accuracy)))
            .numbers("fms_held_out", held_out().map(|held| held.map(|held| held.fms))),
    );
    Ok(scores)
}

/// The sum of the first numbers divided by the sum of the second.
fn weighted_mean(values: impl Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (sum, weight) = values.fold((0.0, 0.0), |total, value| (total.0 + value.0, total.1 + value.1));
    (weight > 0.0).then(|| sum / weight)
}

/// The bootstrap interval of a weighted mean over concepts.
fn interval(job: &Job<'_>, values: &[(f64, f64)], key: &str) -> Result<Option<Interval>> {
    if values.len() < 2 {
        return Ok(None);
    }
    let statistic = |draws: Draws<'_>| weighted_mean(draws.map(|concept| values[concept]));
    let replicates = resamples_in_block(job, &format!("fms/bootstrap/{key}"), values.len(), statistic)?;
    Ok(percentile_interval(replicates.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests;
