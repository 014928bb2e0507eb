//! Inter-concept leakage.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::estimator::Estimator;
use super::{ESTIMATOR, aligned, classes, note_estimator, note_left_out, varies};
use crate::error::Result;
use crate::metrics::purity::concepts::{Sources, concepts, influence_interval, note_unused_classes};
use crate::metrics::purity::information::Information;
use crate::metrics::{Better, Card, Metric, Output};
use crate::results::{Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, List, Sum, Work};
use crate::state;

/// The metric `icl`.
pub struct Icl;

static CARD: Card = Card {
    name: "icl",
    title: "Inter-concept leakage",
    summary: "What the latents of two concepts say about each other beyond what the concepts say.",
    version: 2,
    measures: "Like `ois`, without training: pairs of soft scores that share more information than the true \
        concepts do. Compare at equal numbers of rows only: with `neighbours` the normaliser grows with the \
        logarithm of the rows.",
    definition: "ICL_ij = max(0, I(ĉ_i; ĉ_j) / (√I(ĉ_i; ĉ_i) √I(ĉ_j; ĉ_j) + 1e-10) − the same of c); `icl` is the \
        mean over pairs of concepts. Estimators as for `ctl`; for two latents `neighbours` is Kraskov's first \
        estimator with 3 neighbours, both sides with noise of their own, so that I(ĉ; ĉ) is ψ(rows) − ψ(4) for any \
        values without ties, not an entropy. It changes when one of both is rescaled. Undefined: fewer than two \
        concepts with two classes, fewer latents than concepts. Only rows with all labels are used. Latents are \
        matched to concepts as for `ctl`.",
    cost: "Per pair of concepts rows × about √rows. Nothing is trained. Memory: 8 bytes per row and concept.",
    source: "Parisini et al., Leakage and Interpretability in Concept-Based Models (arXiv 2504.14094) and its \
        released program xai-concept-leakage, whose noise is not seeded. Both profiles are the same.",
    interval: "From the influence of every row on the informations: value ± Student's t times the standard error, cut \
        at 0. A pair whose leakage is cut off at 0 has no influence; `null` if all are.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("icl", "Mean leakage between concepts", (0.0, f64::INFINITY), Better::Lower)],
    params: &[ESTIMATOR],
};

#[derive(Serialize, Deserialize)]
struct Leaks {
    /// Of every pair: of the latents and of the concepts.
    pairs: List<[f64; 2]>,
    /// The influence of every row on the sum over pairs.
    influence: Sum,
}

state!(Leaks { pairs, influence });

/// I(a; b) / (√I(a; a) √I(b; b) + 1e-10), with the influence of every row.
fn normalised(joint: &Information, one: &Information, other: &Information) -> Information {
    let (a, b) = (one.value.max(0.0).sqrt(), other.value.max(0.0).sqrt());
    let scale = a * b + 1e-10;
    let value = joint.value / scale;
    // The derivative of √I is 1 / (2 √I); without information there is none.
    let slope = |own: f64, across: f64| if own > 0.0 { 0.5 * across / own } else { 0.0 };
    let (by_one, by_other) = (slope(a, b), slope(b, a));
    let part = |row: usize| {
        let change = by_one * one.influence[row] + by_other * other.influence[row];
        (joint.influence[row] - value * change) / scale
    };
    Information { value, influence: (0..joint.influence.len()).map(part).collect() }
}

impl Metric for Icl {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let codes = job.get(&CODES)?;
        let labelled: Vec<usize> =
            (0..factors.count()).filter(|&concept| factors.column(concept).iter().any(|&class| class >= 0)).collect();
        let rows: Vec<usize> = (0..codes.rows())
            .filter(|&row| labelled.iter().all(|&concept| factors.column(concept)[row] >= 0))
            .collect();
        let of_concept = |concept: usize| classes(factors.column(concept), &rows);
        let usable: Vec<usize> = labelled.into_iter().filter(|&concept| varies(&of_concept(concept))).collect();
        let mut scores = Scores::default();
        let latents = if usable.len() < 2 { None } else { aligned(job, work, &factors, &usable)? };
        let Some(latents) = latents else {
            scores.headline("icl", None, None, 0);
            scores.note(
                "undefined: fewer than two concepts have two classes on rows with all labels, or there are \
                fewer latents than concepts",
            );
            return Ok(scores);
        };
        let estimator = Estimator::of_job(job, &latents)?;
        let columns = Lazy::new(|| codes.columns());
        let bytes = 160 * codes.rows() as u64;
        // Both sides of every estimate have noise of their own.
        let between = |columns: &crate::codes::Columns, first: usize, second: usize| {
            let side = |index: usize, side: usize| {
                let all = Sources { columns, dimensions: 1 }.latent(latents[index]);
                let values: Vec<f64> = rows.iter().map(|&row| all[row]).collect();
                let number = 2 * (usable[first] * factors.count() + usable[second]) + side;
                estimator.prepared(job, "icl/noise", number as u64, &values)
            };
            estimator.between(&side(first, 0), &side(second, 1))
        };
        let own = work.blocks_with(&columns, "concepts", usable.len(), |columns, index| {
            let _memory = job.budget().reserve(bytes, "the informations of a concept")?;
            let found = between(columns, index, index);
            Ok((found.value, found.influence))
        })?;
        let of_latent = |index: usize| Information { value: own[index].0, influence: own[index].1.clone() };
        let empty = || Leaks { pairs: List(Vec::new()), influence: Sum::new(rows.len()) };
        // One block per concept: its pairs with all later ones.
        let leaks = work.fold_with(&columns, "pairs", usable.len(), empty, |columns, leaks, first| {
            let _memory = job.budget().reserve(bytes, "the informations of a pair")?;
            let a = of_concept(usable[first]);
            let (latent, concept) = (of_latent(first), estimator.of_labels(&a, &a));
            for (second, &other) in usable.iter().enumerate().skip(first + 1) {
                job.check()?;
                let b = of_concept(other);
                let soft = normalised(&between(columns, first, second), &latent, &of_latent(second));
                let hard = normalised(&estimator.of_labels(&a, &b), &concept, &estimator.of_labels(&b, &b));
                if soft.value > hard.value {
                    let parts = soft.influence.iter().zip(&hard.influence);
                    leaks.influence.iter_mut().zip(parts).for_each(|(sum, (soft, hard))| *sum += soft - hard);
                }
                leaks.pairs.0.push([soft.value, hard.value]);
            }
            Ok(())
        })?;
        let pairs = &leaks.pairs.0;
        let leakage: Vec<f64> = pairs.iter().map(|[soft, hard]| (soft - hard).max(0.0)).collect();
        let value = mean(&leakage);
        let influence: Vec<f64> = leaks.influence.iter().map(|part| part / leakage.len() as f64).collect();
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, f64::INFINITY)));
        scores.headline("icl", value, interval, leakage.len());
        note_estimator(job, estimator, &mut scores)?;
        note_left_out(&factors, &usable, &mut scores);
        note_unused_classes(&factors, &mut scores);
        let numbered = || (0..usable.len()).flat_map(|a| (a + 1..usable.len()).map(move |b| (a, b)));
        let name = |index: usize| factors.names()[usable[index]].clone();
        scores.tables.push(
            Table::new("entry")
                .words("concept", numbered().map(|(first, _)| name(first)))
                .words("other", numbered().map(|(_, second)| name(second)))
                .numbers("icl", leakage.iter().copied().map(Some))
                .numbers("latents", pairs.iter().map(|pair| Some(pair[0])))
                .numbers("concepts", pairs.iter().map(|pair| Some(pair[1]))),
        );
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ctl::tests::inputs;
    use super::*;
    use crate::metrics::testing::{self, codes, scores_with_any_threads};
    use crate::results::Profile;

    #[test]
    fn the_normaliser_of_a_worked_example() {
        // 0.3 / (√0.36 · √0.25) = 1; changes of 0.01 in the joint and in one information: 0.01/0.3 − 0.01/(2 · 0.36).
        let of = |value: f64, part: f64| Information { value, influence: vec![part] };
        let found = normalised(&of(0.3, 0.01), &of(0.36, 0.01), &of(0.25, 0.0));
        assert!((found.value - 1.0).abs() < 1e-9);
        assert!((found.influence[0] - (0.01 / 0.3 - 0.01 / 0.72)).abs() < 1e-9, "{:?}", found.influence);
        // Without information of its own: the program's 1e-10.
        assert_eq!(normalised(&of(0.0, 0.0), &of(0.0, 0.0), &of(0.25, 0.0)).value, 0.0);
    }

    #[test]
    fn shared_information_is_found() {
        let pure = scores_with_any_threads(&Icl, &inputs(false), &[("estimator", "binned")], Profile::Paper);
        assert!(pure.value("icl").unwrap() < 0.05);
        // The second latent is a copy of the first.
        let base = inputs(false);
        let values: Vec<f32> = base
            .find(&CODES)
            .unwrap()
            .all()
            .unwrap()
            .iter()
            .flat_map(|(_, _, values)| [values[0], values[0] + 0.001 * values[1]])
            .collect();
        let copied = base.with(&CODES, codes(&values, 2));
        for estimator in ["neighbours", "binned"] {
            let found = testing::scores(&Icl, &copied, &[("estimator", estimator)], Profile::Paper, 1).unwrap();
            assert!(found.value("icl").unwrap() > 0.5, "{estimator}: {:?}", found.value("icl"));
            let interval = found.headline[0].interval.unwrap();
            assert!(interval.low > 0.3 && interval.low <= interval.high, "{estimator}: {interval:?}");
        }
    }

    #[test]
    fn one_concept_or_few_latents() {
        let few = inputs(false).with(&CODES, codes(&[2.5; 400], 1));
        let scores = testing::scores(&Icl, &few, &[], Profile::Paper, 1).unwrap();
        assert!(scores.value("icl").is_none() && scores.notes[0].contains("fewer latents"), "{:?}", scores.notes);
    }
}
