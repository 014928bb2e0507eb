//! Disentanglement, completeness and informativeness from the importances of boosted trees.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::concepts::{Sources, Split, concepts, influence_interval, note_unused_classes};
use super::known::Known;
use crate::error::Result;
use crate::labels::Factors;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::probe::boosting::{Boosting, BoostingTarget, SortedColumns};
use crate::results::{Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, Work};

/// The metric `dci`.
pub struct Dci;

static CARD: Card = Card {
    name: "dci",
    title: "Disentanglement, completeness, informativeness",
    summary: "Whether boosted trees need each latent for one concept only, and one latent for each concept.",
    version: 2,
    measures: "Boosted trees predict every concept from all latents. Disentanglement is 1 if every latent is \
        important for one concept only; completeness is 1 if every concept needs one latent only; informativeness \
        is how well the trees predict. A representation that hides other concepts in details that the trees do not \
        need for the prediction is not punished: importances are about what is used, not about what is there.",
    definition: "Per concept, scikit-learn's gradient boosting (`stages` trees of depth 3 per class, rate 0.1, \
        exact splits, one Newton step per leaf) is trained on a random half of the rows. R_lj is the share of \
        latent l in the decrease of impurity. disentanglement = Σ_l ρ_l (1 − entropy of row l of R in base \
        concepts), ρ_l its share of all importances; completeness = the same by columns, in base latents. 1e-11 is \
        added to every entry before an entropy; if all importances are 0, both weights are uniform. informativeness \
        = mean accuracy on the other half. One concept or one latent: the base is 1 and the number undefined. Ties \
        between equally good splits go to the lowest latent, then to the lowest threshold.\n\
        Profile `reference` is what the published table computed: regression trees predict every latent from the \
        concepts, with 90 % of the rows; R is concepts × latents, so that `disentanglement` is about concepts; \
        informativeness is the mean R² on the other rows, where a latent that does not vary counts as 1 if it is \
        predicted exactly and as 0 otherwise.\n\
        Undefined: a concept with one class in the training rows; rows without a label are left out for the concept \
        (in profile `reference`: rows without all labels).",
    cost: "Per concept and class stages × 3 × rows × latents; columns are sorted once per concept. Memory: 8 bytes per row and \
        latent.",
    source: "Eastwood and Williams, A Framework for the Quantitative Evaluation of Disentangled Representations \
        (2018); disentanglement_lib (profile `paper`); hierarchical-disentanglement with exchanged arguments \
        (profile `reference`), as the notebook of Espinosa Zarlenga et al. (2023) calls it. scikit-learn breaks \
        ties between splits by a random number: importances of its runs differ by up to 0.03 where ties occur, ours \
        are one of them.",
    interval: "Informativeness in profile `paper`: from the test rows, hits averaged over concepts ± Student's t \
        times the standard error. Disentanglement and completeness have none: importances of trees have no standard \
        error from one fit, and a bootstrap over a few latents or concepts does not cover; use several seeds.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[
        Output::new("disentanglement", "Latents matter for one concept only", (0.0, 1.0), Better::Higher),
        Output::new("completeness", "Concepts need one latent only", (0.0, 1.0), Better::Higher),
        Output::new(
            "informativeness",
            "Held-out accuracy (R² in profile `reference`)",
            (f64::NEG_INFINITY, 1.0),
            Better::Higher,
        ),
    ],
    params: &[Param::new("stages", "Number of trees per class", Kind::Whole(1, 10_000), "100")],
};

/// Larger matrices are not part of the result file.
const MOST_ENTRIES: usize = 100_000;

/// The importances for one target, and how well it is predicted.
#[derive(Default, Serialize, Deserialize)]
struct TargetFit {
    /// Empty if undefined.
    importances: Vec<f64>,
    score: Option<f64>,
    /// The test rows and whether the class is predicted; empty for numbers.
    rows: Vec<u32>,
    hits: Vec<bool>,
}

/// 1 − entropy of every row, in the base of the number of columns, and the share of every row; as the released programs.
pub(super) fn row_scores(matrix: &[f64], columns: usize) -> Vec<(f64, f64)> {
    let rows: Vec<&[f64]> = matrix.chunks_exact(columns.max(1)).collect();
    let total: f64 = matrix.iter().sum();
    let score = |row: &&[f64]| {
        let sum: f64 = row.iter().map(|value| value + 1e-11).sum();
        let entropy: f64 = row.iter().map(|value| (value + 1e-11) / sum).map(|p| -p * libm::log(p)).sum();
        let weight = if total == 0.0 { 1.0 / rows.len() as f64 } else { row.iter().sum::<f64>() / total };
        (1.0 - entropy / libm::log(columns as f64), weight)
    };
    rows.iter().map(score).collect()
}

pub(super) fn transposed(matrix: &[f64], columns: usize) -> Vec<f64> {
    let rows = matrix.len().checked_div(columns).unwrap_or(0);
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

impl Metric for Dci {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (factors, _memory) = concepts(job)?;
        let codes = job.get(&CODES)?;
        let boosting = Boosting { stages: job.whole("stages")?, ..Boosting::default() };
        let columns = Lazy::new(|| codes.columns());
        let fits = match job.profile {
            Profile::Paper => {
                let split = Split::drawn(codes.rows(), codes.rows() / 2, job.seed, "dci/split", 0);
                work.blocks_with(&columns, "concepts", factors.count(), |columns, concept| {
                    let mut train = Known::of(&factors, concept, split.train.iter().map(|&row| row as usize));
                    let test = Known::of(&factors, concept, split.test.iter().map(|&row| row as usize));
                    let present = train.compact();
                    if present.len() < 2 || codes.latents() == 0 {
                        return Ok(TargetFit::default());
                    }
                    let bytes = SortedColumns::bytes(codes.rows(), codes.latents());
                    let _memory = job.budget().reserve(bytes, "sorted codes")?;
                    let sources = Sources { columns, dimensions: 1 };
                    let values: Vec<Vec<f32>> = (0..codes.latents()).map(|latent| sources.values(latent)).collect();
                    let pick = |column: &Vec<f32>| train.rows.iter().map(|&row| column[row]).collect();
                    let sorted = SortedColumns::new(values.iter().map(pick).collect());
                    let target = BoostingTarget::Classes(&train.classes, present.len());
                    let fitted = boosting.fit(&sorted, target, job.context)?;
                    let hit = |(&row, &class): (&usize, &u32)| {
                        present[fitted.class(|latent| values[latent][row]) as usize] == class
                    };
                    let hits: Vec<bool> = test.rows.iter().zip(&test.classes).map(hit).collect();
                    let right = hits.iter().filter(|&&hit| hit).count() as f64;
                    let score = (!hits.is_empty()).then(|| right / hits.len() as f64);
                    let rows = test.rows.iter().map(|&row| row as u32).collect();
                    Ok(TargetFit { importances: fitted.importances, score, rows, hits })
                })?
            }
            Profile::Reference => {
                let rows: Vec<usize> = (0..codes.rows())
                    .filter(|&row| (0..factors.count()).all(|concept| factors.column(concept)[row] >= 0))
                    .collect();
                let split = Split::drawn(rows.len(), rows.len().div_ceil(10), job.seed, "dci/split", 0);
                let concept = |concept: usize| -> Vec<f32> {
                    split.train.iter().map(|&index| factors.column(concept)[rows[index as usize]] as f32).collect()
                };
                let bytes = SortedColumns::bytes(rows.len(), factors.count());
                let _memory = job.budget().reserve(bytes, "sorted labels")?;
                let sorted = SortedColumns::new((0..factors.count()).map(concept).collect());
                let count = if split.train.len() < 2 || factors.count() == 0 { 0 } else { codes.latents() };
                work.blocks_with(&columns, "latents", count, |columns, latent| {
                    let values = Sources { columns, dimensions: 1 }.latent(latent);
                    let value = |index: &u32| values[rows[*index as usize]];
                    let numbers: Vec<f64> = split.train.iter().map(value).collect();
                    let fitted = boosting.fit(&sorted, BoostingTarget::Numbers(&numbers), job.context)?;
                    let predicted: Vec<f64> = split
                        .test
                        .iter()
                        .map(|&index| fitted.scores(|concept| factors.column(concept)[rows[index as usize]] as f32)[0])
                        .collect();
                    let truth: Vec<f64> = split.test.iter().map(value).collect();
                    // The R² of scikit-learn is 1 or 0 where the truth does not vary.
                    let constant = || truth.first().map(|_| f64::from(u8::from(truth == predicted)));
                    let score = explained(&truth, &predicted).or_else(constant);
                    Ok(TargetFit { importances: fitted.importances, score, ..TargetFit::default() })
                })?
            }
        };
        Ok(report(job, &factors, &fits))
    }
}

/// R²; `None` if the truth does not vary.
pub(super) fn explained(truth: &[f64], predicted: &[f64]) -> Option<f64> {
    let centre = mean(truth)?;
    let total: f64 = truth.iter().map(|value| (value - centre).powi(2)).sum();
    let rest: f64 = truth.iter().zip(predicted).map(|(a, b)| (a - b).powi(2)).sum();
    // The mean of equal numbers may differ from them by rounding.
    let varies = truth.iter().any(|value| Some(value) != truth.first());
    (varies && total > 0.0).then(|| 1.0 - rest / total)
}

/// The mean accuracy over concepts with the influence of every row.
fn accuracy_influence(rows: usize, fits: &[TargetFit]) -> Vec<f64> {
    let counted: Vec<&TargetFit> = fits.iter().filter(|fit| !fit.hits.is_empty()).collect();
    let mut influence = vec![0.0; rows];
    for fit in &counted {
        let (count, score) = (fit.hits.len() as f64, fit.score.unwrap_or(0.0));
        let scale = (count * (count - 1.0).max(1.0)).sqrt() * counted.len() as f64;
        for (&row, &hit) in fit.rows.iter().zip(&fit.hits) {
            influence[row as usize] += (f64::from(u8::from(hit)) - score) / scale;
        }
    }
    influence
}

fn report(job: &Job<'_>, factors: &Factors, fits: &[TargetFit]) -> Scores {
    let mut scores = Scores::default();
    let defined: Vec<usize> = (0..fits.len()).filter(|&target| !fits[target].importances.is_empty()).collect();
    let inputs = defined.first().map_or(0, |&target| fits[target].importances.len());
    // Rows are what predicts, columns are what is predicted.
    let by_target: Vec<f64> = defined.iter().flat_map(|&target| fits[target].importances.clone()).collect();
    let matrix = transposed(&by_target, inputs);
    let is_paper = job.profile == Profile::Paper;
    let parts = [("disentanglement", &matrix, defined.len()), ("completeness", &by_target, inputs)];
    for (key, matrix, columns) in parts {
        let rows = if columns > 1 { row_scores(matrix, columns) } else { Vec::new() };
        let (sum, weight) = rows.iter().fold((0.0, 0.0), |(sum, total), (score, w)| (sum + score * w, total + w));
        let value = (weight > 0.0).then(|| (sum / weight).clamp(0.0, 1.0));
        scores.headline(key, value, None, rows.len());
        if value.is_none() {
            scores.note(format!("`{key}` is undefined with fewer than two concepts or latents"));
        }
        let by_latent = (key == "disentanglement") == is_paper;
        let table = Table::new(if by_latent { "latent" } else { "concept" });
        // In profile `paper` concepts are what is predicted, and only some are defined.
        let names: Vec<String> = match (is_paper, rows.is_empty()) {
            (_, true) => Vec::new(),
            (true, _) => defined.iter().map(|&concept| factors.names()[concept].clone()).collect(),
            (false, _) => factors.names().to_vec(),
        };
        scores.tables.push(
            if by_latent { table } else { table.words("name", names) }
                .numbers(key, rows.iter().map(|row| Some(row.0.clamp(0.0, 1.0))))
                .numbers("share_of_importance", rows.iter().map(|row| Some(row.1))),
        );
    }
    let informative: Vec<f64> = fits.iter().filter_map(|fit| fit.score).collect();
    let value = mean(&informative);
    let influence = accuracy_influence(factors.rows(), fits);
    let interval = value.filter(|_| is_paper).and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
    scores.headline("informativeness", value, interval, informative.len());
    if informative.is_empty() {
        scores.note("`informativeness` is undefined: nothing can be predicted on held-out rows");
    }
    if defined.len() < fits.len() {
        scores.note(format!(
            "{} of {} concepts have one class in the training rows: undefined",
            fits.len() - defined.len(),
            fits.len()
        ));
    }
    note_unused_classes(factors, &mut scores);
    if matrix.len() > MOST_ENTRIES {
        scores.note(format!("the table of {} importances is left out", matrix.len()));
        return scores;
    }
    scores.tables.push(
        Table::new("importance")
            .counts("row", (0..matrix.len()).map(|entry| entry / defined.len().max(1)))
            .counts("column", (0..matrix.len()).map(|entry| defined[entry % defined.len()]))
            .numbers("importance", matrix.iter().copied().map(Some)),
    );
    scores
}
