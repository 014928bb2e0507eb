//! What the whole representation predicts: the classes of a task, and the concepts.

use etalon_kernel::layered_network::{LayeredTraining, Outputs};
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::areas::{Area, pairwise_area};
use super::concepts::{FEWEST_ROWS, Split, concepts, influence_interval, note_unused_classes};
use super::nis::niches::{Classifier, Dense, output_area, output_classes};
use crate::error::Result;
use crate::labels::Factors;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::{Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, TASK_LABELS, Work};

const EPOCHS: Param = Param::new("epochs", "Number of passes over the training rows", Kind::Whole(1, 100_000), "100");
const BATCH: Param = Param::new("batch", "Rows per mini-batch", Kind::Whole(1, u64::MAX), "32");
const HIDDEN: Param = Param::new("hidden", "Units of both hidden layers", Kind::Whole(1, 4096), "64");

const INTERVAL: &str = "From the influence of every test row on the area (DeLong): value ± Student's t times the \
    standard error; the network is taken as it is.";

/// The metric `task_auc`.
pub struct TaskAuc;

static TASK: Card = Card {
    name: "task_auc",
    title: "Task AUC",
    summary: "How well a small network predicts the classes of a task from the whole representation.",
    version: 2,
    measures: "Whether the representation keeps what a downstream task needs. Read it beside purity: an impure \
        representation may predict the task well because it leaks the input.",
    definition: "A network with two hidden layers of `hidden` rectified linear units and a softmax (a sigmoid for \
        two classes) is trained on four fifths of the rows, drawn with the seed: Adam, learning rate 0.001, epsilon \
        1e-7, batches of `batch`, all `epochs`, Glorot's uniform start, intercepts 0. task_auc is the mean \
        one-against-all area under the ROC curve over the classes of the other fifth; in profile `reference`, as the \
        program, the mean over pairs of classes, one against the other (Hand and Till 2001). Undefined: fewer than 5 \
        rows, or fewer than two classes in the training or test rows. Rows without a class are left out.",
    cost: "One network of rows × latents × hidden per epoch, on one thread; dense codes in memory.",
    source: "Espinosa Zarlenga et al., Towards Robust Metrics for Concept Representation Evaluation (AAAI 2023), \
        appendix A.9, and the released notebooks of concept-quality, which hold out the last tenth of the training \
        rows without use.",
    interval: INTERVAL,
    needs: &[&CODES, &TASK_LABELS],
    uses: &[],
    headline: &[Output::new("task_auc", "Mean area over classes, held-out rows", (0.0, 1.0), Better::Higher)],
    params: &[HIDDEN, EPOCHS, BATCH],
};

/// The metric `concept_auc`.
pub struct ConceptAuc;

static CONCEPT: Card = Card {
    name: "concept_auc",
    title: "Concept AUC",
    summary: "How well small networks predict the concepts from the whole representation.",
    version: 2,
    measures: "Whether the concepts can be read off the representation as a whole, however it is spread over \
        latents. `explicitness` is the same question for a linear model.",
    definition: "Per concept a network with two hidden layers of `hidden` rectified linear units and a sigmoid (a \
        softmax for more than two classes) is trained on four fifths of the rows, drawn with the seed, as for \
        `task_auc`; concept_auc is the mean over concepts of the mean one-against-all area under the ROC curve on \
        the other fifth. A concept without two classes in the training and the test rows does not count; undefined \
        without any, or with fewer than 5 rows. Rows without a label are left out for the concept.",
    cost: "Per concept a network of rows × latents × hidden per epoch; one block per concept; dense codes in memory.",
    source: "Espinosa Zarlenga et al., Towards Robust Metrics for Concept Representation Evaluation (AAAI 2023), \
        appendix A.11, and the released notebooks of concept-quality. Both profiles are the same.",
    interval: INTERVAL,
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("concept_auc", "Mean area over concepts, held-out rows", (0.0, 1.0), Better::Higher)],
    params: &[HIDDEN, EPOCHS, BATCH],
};

/// The area of one concept.
#[derive(Serialize, Deserialize)]
struct ConceptArea {
    area: Option<f64>,
    /// The influence of every test row.
    influence: Vec<f64>,
}

/// One network per column of classes.
struct Networks<'a> {
    job: &'a Job<'a>,
    factors: &'a Factors,
    split: &'a Split,
    /// The headline, and the name of the random streams.
    key: &'a str,
    /// Areas of several classes are taken between pairs of classes.
    pairwise: bool,
}

impl Networks<'_> {
    /// Trains a network for one column and measures it on the test rows.
    fn area(&self, dense: &Dense, concept: usize) -> Result<Option<Area>> {
        let Networks { job, factors, split, key, pairwise } = *self;
        let outputs = output_classes(factors, &[concept]);
        let classifier = Classifier {
            job,
            dense,
            factors,
            outputs: &outputs,
            kind: if outputs.len() > 1 { Outputs::Softmax } else { Outputs::Sigmoid },
            hidden: job.whole("hidden")?,
            training: LayeredTraining::keras(job.whole("epochs")?, job.whole("batch")?),
            random_intercepts: false,
            purpose: key,
        };
        let network = classifier.train(&split.train, concept as u64)?;
        let bytes = 16 * split.test.len() * outputs.len();
        let _memory = job.budget().reserve(bytes as u64, "the predictions of a network")?;
        let predicted: Vec<f64> = split.test.iter().flat_map(|&row| network.probabilities(dense.row(row))).collect();
        if pairwise && outputs.len() > 1 {
            let truth: Vec<i32> = split.test.iter().map(|&row| factors.column(concept)[row as usize]).collect();
            return Ok(pairwise_area(&truth, &predicted, outputs.len()));
        }
        Ok(output_area(factors, &outputs, &split.test, &predicted))
    }
}

fn measure(job: &Job<'_>, work: &mut Work<'_>, factors: &Factors, is_task: bool, key: &str) -> Result<Scores> {
    let mut scores = Scores::default();
    let rows = factors.rows();
    let split = Split::fifth(rows, job.seed, &format!("{key}/split"), 0);
    let usable: Vec<usize> = (0..factors.count())
        .filter(|&concept| rows >= FEWEST_ROWS && split.is_usable(factors.column(concept)))
        .collect();
    if usable.is_empty() || job.get(&CODES)?.latents() == 0 {
        scores.headline(key, None, None, 0);
        scores.note(
            "undefined: fewer than 5 rows, no latent, or fewer than two classes in the training or the test rows",
        );
        return Ok(scores);
    }
    let pairwise = is_task && job.profile == Profile::Reference;
    let networks = Networks { job, factors, split: &split, key, pairwise };
    let dense = Lazy::new(|| Dense::of_job(job));
    let measured = work.blocks_with(&dense, "networks", usable.len(), |dense, index| {
        let (area, influence) = networks.area(dense, usable[index])?.map(|area| (area.value, area.influence)).unzip();
        Ok(ConceptArea { area, influence: influence.unwrap_or_default() })
    })?;
    let values: Vec<f64> = measured.iter().filter_map(|concept| concept.area).collect();
    let mut influence = vec![0.0; split.test.len()];
    for concept in measured.iter() {
        let parts = influence.iter_mut().zip(&concept.influence);
        parts.for_each(|(sum, part)| *sum += part / values.len() as f64);
    }
    let value = mean(&values);
    let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
    scores.headline(key, value, interval, if is_task { split.test.len() } else { values.len() });
    if value.is_none() {
        scores.note("undefined: a class is missing in the test rows");
    }
    if usable.len() < factors.count() {
        scores.note(format!(
            "{} of {} concepts lack two classes in the training or the test rows and do not count",
            factors.count() - usable.len(),
            factors.count()
        ));
    }
    note_unused_classes(factors, &mut scores);
    scores.tables.push(
        Table::new("concept")
            .words("name", usable.iter().map(|&concept| factors.names()[concept].clone()))
            .numbers("auc", measured.iter().map(|concept| concept.area)),
    );
    Ok(scores)
}

impl Metric for TaskAuc {
    fn card(&self) -> &'static Card {
        &TASK
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        measure(job, work, job.get(&TASK_LABELS)?, true, "task_auc")
    }
}

impl Metric for ConceptAuc {
    fn card(&self) -> &'static Card {
        &CONCEPT
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        measure(job, work, &factors, false, "concept_auc")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::testing::{self, codes, labels_by, scores_with_any_threads, yes_if};
    use crate::run::Inputs;

    /// Two latents on a circle: the first concept is inside of it, the second is never in one latent alone. The task has
    /// three classes.
    fn inputs(rows: usize) -> Inputs {
        let at = |row: usize, scale: f64| ((row as f64 * scale).fract() * 2.0 - 1.0) as f32;
        let values: Vec<f32> = (0..rows).flat_map(|row| [at(row, 0.618_034), at(row, 0.414_214)]).collect();
        let point = |row: usize| [values[2 * row], values[2 * row + 1]];
        let concept = |row: usize, concept: usize| {
            let [x, y] = point(row);
            yes_if(if concept == 0 { x * x + y * y < 0.6 } else { x * y > 0.0 })
        };
        let task = (0..rows).map(|row| i32::from(point(row)[0] > 0.3) + i32::from(point(row)[1] > 0.3)).collect();
        Inputs::default()
            .with(&CODES, codes(&values, 2))
            .with(&LABELS, labels_by(2, rows, concept))
            .with(&TASK_LABELS, Factors::new(vec!["task".into()], vec![task]).unwrap())
    }

    #[test]
    fn networks_learn_what_a_linear_model_cannot() {
        let given = [("epochs", "60"), ("hidden", "16")];
        let concepts = scores_with_any_threads(&ConceptAuc, &inputs(500), &given, Profile::Paper);
        assert!(concepts.value("concept_auc").unwrap() > 0.9, "{:?}", concepts.headline);
        let reference = testing::scores(&ConceptAuc, &inputs(500), &given, Profile::Reference, 1).unwrap();
        assert_eq!(reference.value("concept_auc"), concepts.value("concept_auc"));
        let [paper, reference] = [Profile::Paper, Profile::Reference]
            .map(|profile| testing::scores(&TaskAuc, &inputs(500), &given, profile, 2).unwrap().value("task_auc"));
        assert!(paper.unwrap() > 0.9 && reference.unwrap() > 0.9 && paper != reference);
    }

    #[test]
    fn too_few_rows_and_one_class_are_undefined() {
        for (inputs, metric) in
            [(inputs(4), &TaskAuc as &dyn Metric), (inputs(4), &ConceptAuc), (one_class(), &TaskAuc)]
        {
            let scores = testing::scores(metric, &inputs, &[], Profile::Paper, 1).unwrap();
            assert!(scores.headline[0].value.is_none() && scores.notes[0].contains("undefined"), "{:?}", scores.notes);
        }
    }

    fn one_class() -> Inputs {
        inputs(60).with(&TASK_LABELS, Factors::new(vec!["task".into()], vec![vec![2; 60]]).unwrap())
    }
}
