//! Concepts-task leakage.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::conditional::Conditional;
use super::estimator::{Estimator, quantile_bins};
use super::{ESTIMATOR, aligned, classes, note_estimator, note_left_out, quotient, varies};
use crate::error::Result;
use crate::metrics::purity::concepts::{Sources, concepts, influence_interval, note_unused_classes};
use crate::metrics::purity::information::{Information, entropy};
use crate::metrics::{Better, Card, Metric, Output};
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, List, Sum, TASK_LABELS, Work};
use crate::state;

/// The metric `ctl`.
pub struct Ctl;

static CARD: Card = Card {
    name: "ctl",
    title: "Concepts-task leakage",
    summary: "What the latent of a concept says about the task beyond what the concept says.",
    version: 2,
    measures: "A concept bottleneck should pass on concepts, not the task itself. Where a soft score tells more \
        about the task than the true concept does, it leaks. 0 is no leakage.",
    definition: "CTL_i = max(0, (I(ĉ_i; y) − I(c_i; y)) / H(y)); `ctl` is the mean over concepts. I(c; y) and H(y) \
        are plug-in values. I(ĉ; y): if all values of the latents are whole numbers, plug-in; otherwise, with \
        `estimator` = `neighbours`, Ross's estimator with 3 neighbours after adding 1e-10 · mean(ĉ_i) · N(0, 1) to \
        every value; with `binned`, a bin of zeros and eight quantile bins of the rest, plug-in, both informations \
        with the Miller-Madow correction. For codes that are mostly zero use `binned`: without distances between \
        zeros, neighbours fail.\n\
        `ctl_conditional` = mean over concepts of (I(ĉ_i; y | c_i) − E) / H(y), binned without noise; E is its exact \
        expectation if ĉ_i were shuffled within the classes of c_i: the clipped difference can be 0 although ĉ \
        leaks. Undefined: no task with two classes, fewer latents than concepts, no concept with two classes. Rows \
        without a class of the task or the concept are left out.\n\
        Latent i stands for concept i if there are as many latents as concepts; otherwise every concept gets a \
        latent of its own, with the largest sum of |area under the ROC curve − 1/2| (the largest over the classes \
        of a concept).",
    cost: "Per concept a sort of the rows. Nothing is trained.",
    source: "Parisini et al., Leakage and Interpretability in Concept-Based Models (arXiv 2504.14094) and its \
        released program xai-concept-leakage, whose noise is not seeded. Profile `reference` measures distances in \
        classes of at most 7 rows as scikit-learn does there, by expanded products, whose rounding counts rows that \
        are as far as the third neighbour; profile `paper` does not count them. For larger classes both are the \
        same. For representations of several numbers per concept the program counts values as rows, which is not \
        reproduced.",
    interval: "From the influence of every row on the informations: value ± Student's t times the standard error, cut \
        at 0. A concept whose leakage is cut off at 0 has no influence; `null` if all are.",
    needs: &[&CODES, &LABELS, &TASK_LABELS],
    uses: &[&FACTORS],
    headline: &[
        Output::new("ctl", "Mean leakage about the task", (0.0, f64::INFINITY), Better::Lower),
        Output::new(
            "ctl_conditional",
            "Information about the task given the concept, above chance",
            (-1.0, 1.0),
            Better::Lower,
        ),
    ],
    params: &[ESTIMATOR],
};

/// The leakage of one concept.
#[derive(Serialize, Deserialize)]
struct ConceptLeak {
    soft: f64,
    hard: f64,
    conditional: f64,
    null: f64,
}

#[derive(Serialize, Deserialize)]
struct Leaks {
    concepts: List<ConceptLeak>,
    /// The influence of every row on the sum of the leakages, and of the conditional informations.
    leakage: Sum,
    conditional: Sum,
}

state!(Leaks { concepts, leakage, conditional });

impl Metric for Ctl {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let (codes, task) = (job.get(&CODES)?, job.get(&TASK_LABELS)?.column(0));
        let known = |concept: usize| -> Vec<usize> {
            (0..codes.rows()).filter(|&row| task[row] >= 0 && factors.column(concept)[row] >= 0).collect()
        };
        let usable: Vec<usize> = (0..factors.count())
            .filter(|&concept| {
                let rows = known(concept);
                varies(&classes(factors.column(concept), &rows)) && varies(&classes(task, &rows))
            })
            .collect();
        let mut scores = Scores::default();
        let latents = if usable.is_empty() { None } else { aligned(job, work, &factors, &usable)? };
        let Some(latents) = latents else {
            CARD.headline.iter().for_each(|output| scores.headline(output.key, None, None, 0));
            scores.note(
                "undefined: no concept has two classes on rows with two classes of the task, or there are \
                fewer latents than concepts",
            );
            return Ok(scores);
        };
        let estimator = Estimator::of_job(job, &latents)?;
        let columns = Lazy::new(|| codes.columns());
        let rows = codes.rows();
        let empty = || Leaks { concepts: List(Vec::new()), leakage: Sum::new(rows), conditional: Sum::new(rows) };
        let leaks = work.fold_with(&columns, "concepts", usable.len(), empty, |columns, leaks, index| {
            let _memory = job.budget().reserve(160 * rows as u64, "the informations of a concept")?;
            let rows = known(usable[index]);
            let all = Sources { columns, dimensions: 1 }.latent(latents[index]);
            let values: Vec<f64> = rows.iter().map(|&row| all[row]).collect();
            let (own, task) = (classes(factors.column(usable[index]), &rows), classes(task, &rows));
            let total = entropy(&task);
            let noisy = estimator.prepared(job, "ctl/noise", usable[index] as u64, &values);
            let soft = quotient(&estimator.with_classes(&noisy, &task), &total);
            let hard = quotient(&estimator.of_labels(&own, &task), &total);
            let Conditional { information, null } = Conditional::of(&quantile_bins(&values), &task, &own);
            let excess = Information { value: information.value - null, ..information };
            let given = quotient(&excess, &total);
            for (place, &row) in rows.iter().enumerate() {
                if soft.value > hard.value {
                    leaks.leakage[row] += soft.influence[place] - hard.influence[place];
                }
                leaks.conditional[row] += given.influence[place];
            }
            let null = null / total.value;
            let conditional = given.value + null;
            leaks.concepts.0.push(ConceptLeak { soft: soft.value, hard: hard.value, conditional, null });
            Ok(())
        })?;
        let concepts = &leaks.concepts.0;
        let leakage: Vec<f64> = concepts.iter().map(|leak| (leak.soft - leak.hard).max(0.0)).collect();
        let given: Vec<f64> = concepts.iter().map(|leak| leak.conditional - leak.null).collect();
        for (key, values, influence, low) in
            [("ctl", &leakage, &leaks.leakage, 0.0), ("ctl_conditional", &given, &leaks.conditional, -1.0)]
        {
            let value = mean(values);
            let influence: Vec<f64> = influence.iter().map(|part| part / values.len() as f64).collect();
            let interval = value.and_then(|value| influence_interval(value, &influence, (low, f64::INFINITY)));
            scores.headline(key, value, interval, usable.len());
        }
        note_estimator(job, estimator, &mut scores)?;
        note_left_out(&factors, &usable, &mut scores);
        note_unused_classes(&factors, &mut scores);
        scores.tables.push(
            Table::new("concept")
                .words("name", usable.iter().map(|&concept| factors.names()[concept].clone()))
                .with("latent", Cells::Whole(latents.iter().map(|&latent| Some(latent as i64)).collect()))
                .numbers("ctl", leakage.iter().copied().map(Some))
                .numbers("latent_with_task", concepts.iter().map(|leak| Some(leak.soft)))
                .numbers("concept_with_task", concepts.iter().map(|leak| Some(leak.hard)))
                .numbers("conditional", concepts.iter().map(|leak| Some(leak.conditional)))
                .numbers("conditional_null", concepts.iter().map(|leak| Some(leak.null))),
        );
        Ok(scores)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::labels::Factors;
    use crate::metrics::testing::{self, codes, column, labels_by, scores_with_any_threads, yes_if};
    use crate::results::Profile;
    use crate::run::Inputs;
    use etalon_kernel::random::{stream, unit};

    /// Two concepts; the first latent also has the task in its size if it leaks.
    pub fn inputs(leaks: bool) -> Inputs {
        let rows = 400;
        let (a, b) = (|row: usize| row.is_multiple_of(2), |row: usize| (row / 2).is_multiple_of(2));
        let task = |row: usize| row / 4 % 2;
        let mut random = stream(1, "leakage/test", 0);
        let mut noise = || 0.1 * unit(&mut random) as f32;
        let values: Vec<f32> = (0..rows)
            .flat_map(|row| {
                let leak = if leaks { 0.3 * task(row) as f32 } else { 0.0 };
                [f32::from(u8::from(a(row))) + leak + noise(), f32::from(u8::from(b(row))) + noise()]
            })
            .collect();
        let task = Factors::new(vec!["task".into()], vec![(0..rows).map(|row| task(row) as i32).collect()]).unwrap();
        Inputs::default()
            .with(&CODES, codes(&values, 2))
            .with(&LABELS, labels_by(2, rows, |row, concept| yes_if(if concept == 0 { a(row) } else { b(row) })))
            .with(&TASK_LABELS, task)
    }

    #[test]
    fn a_score_that_knows_the_task_leaks() {
        for estimator in ["neighbours", "binned"] {
            let given = [("estimator", estimator)];
            let none = scores_with_any_threads(&Ctl, &inputs(false), &given, Profile::Paper);
            let some = testing::scores(&Ctl, &inputs(true), &given, Profile::Paper, 1).unwrap();
            assert!(none.value("ctl").unwrap() < 0.05, "{estimator}: {:?}", none.value("ctl"));
            let leak = column(&some, "concept", "ctl");
            assert!(leak[0].unwrap() > 0.7 && leak[1].unwrap() < 0.05, "{estimator}: {leak:?}");
            assert!(
                some.value("ctl_conditional").unwrap() > 0.35 && none.value("ctl_conditional").unwrap().abs() < 0.05
            );
            let interval = some.headline[0].interval.unwrap();
            assert!(interval.low < some.value("ctl").unwrap() && interval.high - interval.low < 0.2, "{interval:?}");
        }
    }

    #[test]
    fn whole_numbers_of_the_matched_latents_decide() {
        // The third latent is not whole, but it is matched to no concept.
        let base = inputs(false);
        let labels = base.find(&LABELS).unwrap();
        let whole =
            |row: usize, concept: u32| f32::from(u8::from(labels.yes(crate::labels::Concept(concept)).contains(row)));
        let values: Vec<f32> = (0..400).flat_map(|row| [whole(row, 0), whole(row, 1), 0.5]).collect();
        let inputs = inputs(false).with(&CODES, codes(&values, 3));
        let scores = testing::scores(&Ctl, &inputs, &[], Profile::Paper, 1).unwrap();
        assert_eq!(scores.value("ctl"), Some(0.0));
        assert!(scores.notes.iter().any(|note| note.contains("plug-in")), "{:?}", scores.notes);
        assert!(scores.headline[0].interval.is_none());
        // The profiles differ in small classes only.
        let [paper, reference] = [Profile::Paper, Profile::Reference]
            .map(|profile| testing::scores(&Ctl, &super::tests::inputs(true), &[], profile, 1).unwrap());
        assert_eq!(paper.value("ctl"), reference.value("ctl"));
    }

    #[test]
    fn constant_codes_missing_tasks_and_few_latents() {
        let constant = inputs(false).with(&CODES, codes(&[2.5; 800], 2));
        let scores = testing::scores(&Ctl, &constant, &[], Profile::Paper, 1).unwrap();
        assert!(scores.value("ctl").unwrap() < 0.15 && scores.value("ctl_conditional") == Some(0.0));
        let few = inputs(false).with(&CODES, codes(&[2.5; 400], 1));
        let scores = testing::scores(&Ctl, &few, &[], Profile::Paper, 1).unwrap();
        assert!(scores.value("ctl").is_none() && scores.notes[0].contains("fewer latents than concepts"));
        let one = Factors::new(vec!["task".into()], vec![vec![1; 400]]).unwrap();
        let scores = testing::scores(&Ctl, &inputs(false).with(&TASK_LABELS, one), &[], Profile::Paper, 1).unwrap();
        assert!(scores.value("ctl").is_none() && !scores.notes.is_empty());
    }
}
