//! The separated attribute predictability score, and the alignment of single latents with concepts.

use etalon_kernel::statistics::{deviation, mean, pearson};
use serde::{Deserialize, Serialize};

use super::concepts::{Sources, Split, concepts, influence_interval, note_unused_classes};
use super::known::{Known, first_or_drawn, latent_on};
use crate::codes::Columns;
use crate::error::Result;
use crate::labels::Factors;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::probe::single_svc::{SingleSvc, decide};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, Work};

/// The share of the rows that train.
const TRAIN_SHARE: Param =
    Param::new("train_share", "Share of the rows that train the classifiers", Kind::Number(0.01, 0.99), "0.5")
        .reference("0.2");

/// What is compared between latents.
const READING: Param = Param::new(
    "sap_reading",
    "Accuracy on held-out rows, accuracy on the training rows (all rows), or squared correlation",
    Kind::Word(&["held_out", "training", "correlation"]),
    "held_out",
);

/// The inverse penalty of liblinear in both released programs.
const C: f64 = 0.01;

/// The metric `sap`.
pub struct Sap;

static SAP: Card = Card {
    name: "sap",
    title: "Separated attribute predictability",
    summary: "How much better the best latent predicts a concept than the second best.",
    version: 2,
    measures: "A linear classifier on each latent alone predicts the concept on held-out rows; the gap between the \
        best and the second best accuracy is large if one latent is about the concept and no other is. Chance is \
        not subtracted: a perfect latent among useless ones scores 1 − the share of the larger class.",
    definition: "For every latent and concept: LinearSVC (squared hinge, C = 0.01, balanced class weights, \
        penalised intercept, one against the rest for more than two classes) on the latent's raw value, solved \
        exactly; accuracy on the test rows. sap = mean over concepts of best − second best; with one latent the \
        second is 0. Profile `paper`: a random half trains. Profile `reference`: the first fifth of the rows \
        trains, in their order. A class that no training row has is always missed. Ties: the lowest latent. \
        Undefined: a concept with one class in the training rows, or no test rows. Rows without a label are left \
        out for the concept.\n\
        `sap_reading` = `training`: the classifier is trained and scored on all rows. `correlation`: the squared \
        Pearson correlation of the latent with the class number on all rows, 0 for a latent of variance up to 1e-12.",
    cost: "Latents × concepts × rows × about ten Newton steps; one block per concept.",
    source: "Kumar et al., Variational Inference of Disentangled Latent Concepts (2018); disentanglement_lib, as \
        the table of Espinosa Zarlenga et al. (2023) used it (20 % of the rows, unshuffled, train; their text names \
        Ross's program, which is `training`). liblinear stops early; its accuracies are equal to the exact optimum's \
        but for rows at the boundary.",
    interval: "From the test rows: the difference of both classifiers' hits, averaged over concepts, ± Student's t \
        times its standard error; the choice of both latents is taken as it is. None for `correlation`.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("sap", "Mean gap over concepts", (0.0, 1.0), Better::Higher)],
    params: &[TRAIN_SHARE, READING],
};

/// The metric `concept_alignment`.
pub struct ConceptAlignment;

static ALIGNMENT: Card = Card {
    name: "concept_alignment",
    title: "Concept alignment",
    summary: "How accurately the best single latent predicts a concept.",
    version: 1,
    measures: "Whether each concept has a latent of its own that predicts it. Nothing is said about what else that \
        latent tells.",
    definition: "Accuracies as for `sap`: a linear classifier on each latent alone, on held-out rows. \
        concept_alignment = mean over concepts of the accuracy of the latent with the best accuracy on the training \
        rows, so that the choice does not flatter the score; profile `reference`: of the best on the test rows. \
        `concept_alignment_chance` = mean share of the largest class of the test rows. Ties: the lowest latent. \
        Undefined as `sap`.",
    cost: "As `sap`.",
    source: "Yeh et al., On Completeness-aware Concept-based Explanations (2020), as described by Espinosa Zarlenga \
        et al. (2023), table A1, whose released program does not contain it: both profiles are readings of that \
        description.",
    interval: "From the test rows: hits averaged over concepts ± Student's t times the standard error.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[
        Output::new("concept_alignment", "Mean accuracy of the best latent", (0.0, 1.0), Better::Higher),
        Output::new("concept_alignment_chance", "Mean share of the largest class", (0.0, 1.0), Better::Neither),
    ],
    params: &[TRAIN_SHARE],
};

/// The accuracies of one concept.
#[derive(Default, Serialize, Deserialize)]
struct Accuracies {
    /// Of every latent on the test rows, or its squared correlation; empty if undefined.
    test: Vec<f64>,
    /// The best latent by test accuracy, the second best, and the best by training accuracy.
    best: usize,
    second: usize,
    chosen: usize,
    /// The test rows, and whether the three latents predict them.
    rows: Vec<u32>,
    hits: [Vec<bool>; 3],
    /// The share of the largest class of the test rows.
    chance: f64,
}

/// The accuracies of all latents for one concept.
fn accuracies(
    job: &Job<'_>,
    factors: &Factors,
    columns: &Columns,
    split: &Split,
    concept: usize,
) -> Result<Accuracies> {
    let mut train = Known::of(factors, concept, split.train.iter().map(|&row| row as usize));
    let test = Known::of(factors, concept, split.test.iter().map(|&row| row as usize));
    let present = train.compact();
    if present.len() < 2 || test.rows.is_empty() {
        return Ok(Accuracies::default());
    }
    let _memory = job.budget().reserve(24 * factors.rows() as u64, "the values of a latent")?;
    let sources = Sources { columns, dimensions: 1 };
    let predicted = |latent: usize| -> (f64, Vec<bool>) {
        let values = sources.latent(latent);
        let own: Vec<f64> = train.rows.iter().map(|&row| values[row]).collect();
        let decisions = SingleSvc { c: C }.fit(&own, &train.classes, present.len());
        let right =
            own.iter().zip(&train.classes).filter(|(value, class)| decide(&decisions, **value) == **class).count();
        let hit = |(&row, &class): (&usize, &u32)| present[decide(&decisions, values[row]) as usize] == class;
        (right as f64 / own.len() as f64, test.rows.iter().zip(&test.classes).map(hit).collect())
    };
    let share = |hits: &[bool]| hits.iter().filter(|&&hit| hit).count() as f64 / hits.len() as f64;
    let (mut trained, mut tested) = (Vec::new(), Vec::new());
    for latent in 0..columns.latents() {
        job.check()?;
        let (train, hits) = predicted(latent);
        trained.push(train);
        tested.push(share(&hits));
    }
    let Some(best) = largest(&tested, None) else { return Ok(Accuracies::default()) };
    let (second, chosen) = (largest(&tested, Some(best)), largest(&trained, None).unwrap_or(best));
    let none = vec![false; test.rows.len()];
    let mut counts = std::collections::BTreeMap::<u32, usize>::new();
    test.classes.iter().for_each(|&class| *counts.entry(class).or_default() += 1);
    Ok(Accuracies {
        best,
        second: second.unwrap_or(best),
        chosen,
        hits: [predicted(best).1, second.map_or(none, |second| predicted(second).1), predicted(chosen).1],
        rows: test.rows.iter().map(|&row| row as u32).collect(),
        chance: counts.values().copied().max().unwrap_or(0) as f64 / test.rows.len() as f64,
        test: tested,
    })
}

/// The squared correlations of all latents with the class of one concept.
fn correlations(factors: &Factors, columns: &Columns, concept: usize) -> Accuracies {
    let known = Known::of(factors, concept, 0..factors.rows());
    let classes: Vec<f64> = known.classes.iter().map(|&class| f64::from(class)).collect();
    let of_latent = |latent: usize| {
        let values = latent_on(columns, latent, &known.rows);
        let varies = deviation(&values).is_some_and(|deviation| deviation * deviation > 1e-12);
        if varies { pearson(&values, &classes).map_or(0.0, |r| r * r) } else { 0.0 }
    };
    if known.classes.iter().all(|class| Some(class) == known.classes.first()) {
        return Accuracies::default();
    }
    let test: Vec<f64> = (0..columns.latents()).map(of_latent).collect();
    let Some(best) = largest(&test, None) else { return Accuracies::default() };
    let second = largest(&test, Some(best)).unwrap_or(best);
    Accuracies { test, best, second, chosen: best, ..Accuracies::default() }
}

/// The place of the largest value, without one; the lowest of equals.
fn largest(values: &[f64], except: Option<usize>) -> Option<usize> {
    let places = (0..values.len()).filter(|&place| Some(place) != except);
    places.reduce(|best, place| if values[place] > values[best] { place } else { best })
}

fn measure(job: &Job<'_>, work: &mut Work<'_>, factors: &Factors, reading: &str) -> Result<Vec<Accuracies>> {
    let codes = job.get(&CODES)?;
    let rows = codes.rows();
    let split = match reading {
        "training" => Split { train: (0..rows as u32).collect(), test: (0..rows as u32).collect() },
        _ => first_or_drawn(rows, job.number("train_share")?, job.profile == Profile::Reference, job.seed, "sap/split"),
    };
    let columns = Lazy::new(|| codes.columns());
    let blocks = work.blocks_with(&columns, "concepts", factors.count(), |columns, concept| match reading {
        "correlation" => Ok(correlations(factors, columns, concept)),
        _ => accuracies(job, factors, columns, &split, concept),
    })?;
    Ok(blocks.into_parts().0)
}

/// The mean over concepts of a number of hits per test row, its influences, and the number of concepts.
fn mean_of_hits(
    rows: usize,
    concepts: &[Accuracies],
    value: impl Fn(&Accuracies, usize) -> f64,
) -> (Option<f64>, Vec<f64>, usize) {
    let defined: Vec<&Accuracies> = concepts.iter().filter(|concept| !concept.test.is_empty()).collect();
    let mut influence = vec![0.0; rows];
    let mut means = Vec::new();
    for concept in &defined {
        let count = concept.rows.len() as f64;
        let values: Vec<f64> = (0..concept.rows.len()).map(|index| value(concept, index)).collect();
        let centre = values.iter().sum::<f64>() / count;
        for (&row, value) in concept.rows.iter().zip(&values) {
            influence[row as usize] +=
                (value - centre) / (count * (count - 1.0).max(1.0)).sqrt() / defined.len() as f64;
        }
        means.push(centre);
    }
    (mean(&means), influence, defined.len())
}

fn note_undefined(concepts: &[Accuracies], defined: usize, factors: &Factors, scores: &mut Scores) {
    if defined < concepts.len() || concepts.is_empty() {
        scores.note(format!(
            "{} of {} concepts have one class in the training rows, no test rows or no latent: undefined",
            concepts.len() - defined,
            concepts.len()
        ));
    }
    note_unused_classes(factors, scores);
}

fn latents(concepts: &[Accuracies], pick: impl Fn(&Accuracies) -> usize) -> Cells {
    Cells::Whole(concepts.iter().map(|concept| (!concept.test.is_empty()).then(|| pick(concept) as i64)).collect())
}

fn accuracy(concepts: &[Accuracies], pick: impl Fn(&Accuracies) -> usize) -> Vec<Option<f64>> {
    concepts.iter().map(|concept| concept.test.get(pick(concept)).copied()).collect()
}

impl Metric for Sap {
    fn card(&self) -> &'static Card {
        &SAP
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let reading = job.word("sap_reading")?;
        let concepts = measure(job, work, &factors, reading)?;
        let hit = |concept: &Accuracies, place: usize, index: usize| f64::from(u8::from(concept.hits[place][index]));
        let (value, influence, defined) = if reading == "correlation" {
            let gap = |c: &Accuracies| c.test[c.best] - if c.test.len() > 1 { c.test[c.second] } else { 0.0 };
            let gaps: Vec<f64> = concepts.iter().filter(|concept| !concept.test.is_empty()).map(gap).collect();
            (mean(&gaps), Vec::new(), gaps.len())
        } else {
            mean_of_hits(factors.rows(), &concepts, |concept, index| hit(concept, 0, index) - hit(concept, 1, index))
        };
        let mut scores = Scores::default();
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
        scores.headline("sap", value, interval, defined);
        note_undefined(&concepts, defined, &factors, &mut scores);
        scores.tables.push(
            Table::new("concept")
                .words("name", factors.names())
                .with("best", latents(&concepts, |concept| concept.best))
                .numbers("best_accuracy", accuracy(&concepts, |concept| concept.best))
                .with("second", latents(&concepts, |concept| concept.second))
                .numbers("second_accuracy", accuracy(&concepts, |concept| concept.second)),
        );
        Ok(scores)
    }
}

impl Metric for ConceptAlignment {
    fn card(&self) -> &'static Card {
        &ALIGNMENT
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let concepts = measure(job, work, &factors, "held_out")?;
        let place = if job.profile == Profile::Reference { 0 } else { 2 };
        let (value, influence, defined) =
            mean_of_hits(factors.rows(), &concepts, |concept, index| f64::from(u8::from(concept.hits[place][index])));
        let mut scores = Scores::default();
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
        scores.headline("concept_alignment", value, interval, defined);
        let chances: Vec<f64> = concepts.iter().filter(|c| !c.test.is_empty()).map(|concept| concept.chance).collect();
        scores.headline("concept_alignment_chance", mean(&chances), None, defined);
        note_undefined(&concepts, defined, &factors, &mut scores);
        let pick = |concept: &Accuracies| if place == 0 { concept.best } else { concept.chosen };
        scores.tables.push(
            Table::new("concept")
                .words("name", factors.names())
                .with("latent", latents(&concepts, pick))
                .numbers("accuracy", accuracy(&concepts, pick))
                .numbers("chance", concepts.iter().map(|c| (!c.test.is_empty()).then_some(c.chance))),
        );
        Ok(scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{self, codes, column, labels, scores_with_any_threads};
    use crate::run::Inputs;

    #[test]
    fn gaps_match_a_worked_example() {
        // The first latent is the concept, the second has one wrong row of eight, the third is constant.
        let label = "yyyynnnn";
        let values: Vec<f32> = (0..8)
            .flat_map(|row| [if row < 4 { 1.0 } else { -1.0 }, if row < 3 || row == 7 { 1.0 } else { -1.0 }, 0.0])
            .collect();
        let inputs = Inputs::default().with(&CODES, codes(&values, 3)).with(&LABELS, labels(&[label]));
        // All rows: accuracies 1 and 6/8 (rows 3 and 7 are wrong).
        let training = scores_with_any_threads(&Sap, &inputs, &[("sap_reading", "training")], Profile::Paper);
        assert_eq!(training.value("sap"), Some(0.25));
        // Correlations 1 and 1/2: 1 − 1/4.
        let given = [("sap_reading", "correlation")];
        let found = testing::scores(&Sap, &inputs, &given, Profile::Paper, 1).unwrap();
        assert!((found.value("sap").unwrap() - 0.75).abs() < 1e-12, "{:?}", found.value("sap"));
        assert!(found.headline[0].interval.is_none());
        assert_eq!(column(&found, "concept", "second"), [Some(1.0)]);
    }

    #[test]
    fn constant_codes_and_one_class() {
        let inputs = |label: &str| Inputs::default().with(&CODES, codes(&[3.0; 40], 2)).with(&LABELS, labels(&[label]));
        for profile in [Profile::Paper, Profile::Reference] {
            for reading in ["held_out", "training", "correlation"] {
                let given = [("sap_reading", reading)];
                let found = testing::scores(&Sap, &inputs(&"yn".repeat(10)), &given, profile, 1).unwrap();
                assert_eq!(found.value("sap"), Some(0.0), "{reading}");
                let none = testing::scores(&Sap, &inputs(&"y".repeat(20)), &given, profile, 1).unwrap();
                assert!(none.value("sap").is_none() && none.notes[0].contains("one class"), "{:?}", none.notes);
            }
            let found = testing::scores(&ConceptAlignment, &inputs(&"yn".repeat(10)), &[], profile, 1).unwrap();
            assert!(found.value("concept_alignment").is_some());
        }
    }
}
