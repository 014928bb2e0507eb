//! Main latents and absorption of one class.

use etalon_kernel::product::dot;
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::fraction::{CURRENT, Carried, PAPER};
use super::parts::Parts;
use super::select::{dense, labelled, ranked_latents, table_bytes};
use crate::error::Result;
use crate::probe::confusion::ConfusionMatrix;
use crate::probe::logistic::{Logistic, Probe};
use crate::probe::newton::Penalty;
use crate::run::Job;

/// The result of a class.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ClassResult {
    /// F1 of the probe on the activations.
    pub probe_f1: Option<f64>,
    /// The main latents.
    pub main: Vec<u32>,
    /// F1 of the probes on one, two, … latents.
    pub steps: Vec<f64>,
    /// Test rows of the class that the probe predicts positive.
    pub rows: usize,
    /// The share that other latents carry, by the current code.
    pub fraction: Option<f64>,
    /// The same by the code of January 2025.
    pub january: Option<f64>,
    /// The same by the paper.
    pub paper: Option<f64>,
    /// Number of fully absorbed rows.
    pub full: usize,
}

impl ClassResult {
    /// Evaluates a class with its probe on the activations.
    pub fn of(job: &Job<'_>, parts: &Parts, class: usize, probe: Option<&Probe>) -> Result<ClassResult> {
        let Some(probe) = probe else { return Ok(ClassResult::default()) };
        let (part, width) = (&parts.test, parts.width);
        let bytes = 24 * (part.codes.rows() + parts.train.codes.rows()) as u64;
        let _memory = job.budget().reserve(bytes, "the rows of a class")?;
        let (rows, positive) = part.known(class);
        if !positive.contains(&true) {
            return Ok(ClassResult::default());
        }
        let activation = |row: usize| &part.activations[row * width..][..width];
        let weights: Vec<f32> = probe.weights.iter().map(|&weight| weight as f32).collect();
        let scores: Vec<f64> = rows.iter().map(|&row| dot(activation(row), &weights) + probe.intercept).collect();
        let mut result =
            ClassResult { probe_f1: Some(ConfusionMatrix::of(&positive, &scores).f1()), ..ClassResult::default() };
        result.select_main(job, parts, class, (&rows, &positive))?;
        let length = dot(&weights, &weights).sqrt();
        if length == 0.0 || result.main.is_empty() {
            return Ok(result);
        }
        let direction: Vec<f32> = weights.iter().map(|weight| (f64::from(*weight) / length) as f32).collect();
        let (mut current, mut january, mut paper) = (Vec::new(), Vec::new(), Vec::new());
        let codes = part.codes.all()?;
        let is_predicted = |index: &usize| positive[*index] && scores[*index] > 0.0;
        for row in (0..rows.len()).filter(is_predicted).map(|index| rows[index]) {
            job.check()?;
            let carried = Carried::of(codes.row(row), &result.main, &parts.directions, &direction);
            let projection = carried.projection(dot(activation(row), &direction));
            current.push(projection.fraction(&CURRENT));
            january.push(projection.january_fraction());
            paper.push(projection.fraction(&PAPER));
            result.full += usize::from(projection.is_full());
        }
        result.rows = current.len();
        (result.fraction, result.january, result.paper) = (mean(&current), mean(&january), mean(&paper));
        Ok(result)
    }

    /// Selects the main latents: as many as improve the probe.
    fn select_main(
        &mut self,
        job: &Job<'_>,
        parts: &Parts,
        class: usize,
        (test, truth): (&[usize], &[bool]),
    ) -> Result<()> {
        let (train, positive) = parts.train.known(class);
        // Classes that are known in every row share the columns of all rows.
        let some_train = parts.train.select(&train, job.budget())?;
        let some_test = parts.test.select(test, job.budget())?;
        let train_codes = some_train.as_deref().unwrap_or(&parts.train.codes).columns()?;
        let test_codes = some_test.as_deref().unwrap_or(&parts.test.codes).columns()?;
        let ranked = ranked_latents(train_codes, &positive, job.number("sparsity")?, job.context)?;
        let (jump, most) = (job.number("jump")?, job.whole("most_latents")?);
        let logistic = Logistic { balanced: true, ..Logistic::default() };
        let (mut best, mut last) = (None, None);
        for k in 1..=most.min(ranked.len()) {
            let bytes = table_bytes(train.len() + test.len(), k);
            let _memory = job.budget().reserve(bytes, "the main latents of a class")?;
            let table = dense(train_codes, &ranked[..k], train.len());
            let rows = labelled(&table, k, &positive).prepare_all();
            let Some(probe) = logistic.fit_prepared(&rows, Penalty::Squares, last.as_ref(), job.context)? else {
                break;
            };
            let table = dense(test_codes, &ranked[..k], test.len());
            let f1 = ConfusionMatrix::of(truth, &labelled(&table, k, truth).scores(&probe)).f1();
            self.steps.push(f1);
            if best.is_some_and(|best| f1 <= best + jump) {
                break;
            }
            (best, last) = (Some(f1), Some(probe));
            self.main = ranked[..k].to_vec();
        }
        Ok(())
    }
}
