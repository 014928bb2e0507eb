//! Explicitness: how well a linear model of all latents separates the classes of a concept.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::areas::class_area;
use super::concepts::{concepts, influence_interval, note_unused_classes};
use super::known::{Known, first_or_drawn};
use super::nis::niches::Dense;
use crate::error::Result;
use crate::metrics::{Better, Card, Metric, Output};
use crate::probe::softmax_regression::{SoftmaxRegression, WideRows};
use crate::results::{Profile, Scores, Table};
use crate::run::{CODES, FACTORS, Job, LABELS, Lazy, Work};

/// The metric `explicitness`.
pub struct Explicitness;

static CARD: Card = Card {
    name: "explicitness",
    title: "Explicitness",
    summary: "How well a linear model of all latents together predicts a concept.",
    version: 1,
    measures: "Whether the concepts can be read off the representation at all, by a linear model. It says nothing \
        about which latents carry them, so a pure and an impure representation may both score 1.",
    definition: "Latents are standardised with mean and standard deviation (n) of the training rows; a constant \
        latent is 0. Logistic regression with L2 penalty (C = 1, intercepts free, softmax for more than two \
        classes), to the exact optimum, on half of the rows; explicitness = mean over concepts of the mean \
        one-against-all area under the ROC curve on the other half. Profile `reference`: the first half trains, in \
        the order of the rows. Undefined: a concept without two classes in both halves. Rows without a label are \
        left out for the concept.",
    cost: "Per concept a Newton method with conjugate gradients on dense rows × latents in 64 bits, which must fit \
        in memory.",
    source: "Ridgeway and Mozer (2018); disentanglement_lib. Its solver stops early, so that areas differ by up to \
        2e-4, and it divides by 0 for a constant latent.",
    interval: "From the influence of every test row on the areas (DeLong): value ± Student's t times the standard \
        error.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[Output::new("explicitness", "Mean area over concepts, held-out rows", (0.0, 1.0), Better::Higher)],
    params: &[],
};

#[derive(Serialize, Deserialize)]
struct ConceptArea {
    area: Option<f64>,
    rows: Vec<u32>,
    influence: Vec<f64>,
}

impl Metric for Explicitness {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let (factors, _memory) = concepts(job)?;
        let split =
            first_or_drawn(codes.rows(), 0.5, job.profile == Profile::Reference, job.seed, "explicitness/split");
        let dense = Lazy::new(|| Dense::of_job(job));
        let areas = work.blocks_with(&dense, "concepts", factors.count(), |dense, concept| {
            let mut train = Known::of(&factors, concept, split.train.iter().map(|&row| row as usize));
            let test = Known::of(&factors, concept, split.test.iter().map(|&row| row as usize));
            let present = train.compact();
            let undefined = ConceptArea { area: None, rows: Vec::new(), influence: Vec::new() };
            if present.len() < 2 || dense.width == 0 {
                return Ok(undefined);
            }
            let bytes = 8 * ((train.rows.len() + test.rows.len()) * dense.width) as u64;
            let _memory = job.budget().reserve(bytes, "standardised codes")?;
            let scale = Standard::of(dense, &train.rows);
            let (values, tested) = (scale.rows(dense, &train.rows), scale.rows(dense, &test.rows));
            let rows = WideRows { values: &values, width: dense.width };
            let model = SoftmaxRegression::default().fit(rows, &train.classes, present.len(), job.context)?;
            // A class that is new in the test rows cannot be predicted.
            let class = |class: &u32| present.binary_search(class).map_or(-1, |class| class as i32);
            let truth: Vec<i32> = test.classes.iter().map(class).collect();
            let scores: Vec<f64> = tested.chunks_exact(dense.width).flat_map(|row| model.logits(row)).collect();
            let Some(area) = class_area(&truth, &scores, model.outputs()) else { return Ok(undefined) };
            let rows = test.rows.iter().map(|&row| row as u32).collect();
            Ok(ConceptArea { area: Some(area.value), rows, influence: area.influence })
        })?;
        let values: Vec<f64> = areas.iter().filter_map(|area| area.area).collect();
        let mut influence = vec![0.0; codes.rows()];
        for area in areas.iter() {
            let parts = area.rows.iter().zip(&area.influence);
            parts.for_each(|(&row, part)| influence[row as usize] += part / values.len() as f64);
        }
        let mut scores = Scores::default();
        let value = mean(&values);
        let interval = value.and_then(|value| influence_interval(value, &influence, (0.0, 1.0)));
        scores.headline("explicitness", value, interval, values.len());
        if values.len() < areas.len() || areas.is_empty() {
            scores.note(format!(
                "{} of {} concepts lack two classes in one half of the rows: undefined",
                areas.len() - values.len(),
                areas.len()
            ));
        }
        note_unused_classes(&factors, &mut scores);
        scores.tables.push(
            Table::new("concept").words("name", factors.names()).numbers("auc", areas.iter().map(|area| area.area)),
        );
        Ok(scores)
    }
}

/// Means and inverse deviations of latents.
pub(super) struct Standard {
    means: Vec<f64>,
    inverse: Vec<f64>,
}

impl Standard {
    pub fn of(dense: &Dense, rows: &[usize]) -> Standard {
        let count = rows.len().max(1) as f64;
        let (mut means, mut squares) = (vec![0.0; dense.width], vec![0.0; dense.width]);
        for &row in rows {
            means.iter_mut().zip(dense.row(row as u32)).for_each(|(sum, &value)| *sum += f64::from(value) / count);
        }
        for &row in rows {
            for ((square, &value), mean) in squares.iter_mut().zip(dense.row(row as u32)).zip(&means) {
                *square += (f64::from(value) - mean).powi(2) / count;
            }
        }
        let inverse =
            squares.iter().map(|&square: &f64| if square > 1e-24 { 1.0 / square.sqrt() } else { 0.0 }).collect();
        Standard { means, inverse }
    }

    pub fn rows(&self, dense: &Dense, rows: &[usize]) -> Vec<f64> {
        let scaled = |&row: &usize| {
            let parts = dense.row(row as u32).iter().zip(self.means.iter().zip(&self.inverse));
            parts.map(|(&value, (mean, inverse))| (f64::from(value) - mean) * inverse)
        };
        rows.iter().flat_map(scaled).collect()
    }
}
