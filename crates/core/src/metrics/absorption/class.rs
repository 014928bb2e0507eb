//! What is found about one class.

use etalon_kernel::product::dot;
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::fraction::{CURRENT, PAPER, Reading};
use super::parts::Parts;
use super::select::{dense, few, table_bytes, telling_latents};
use crate::error::Result;
use crate::probe::confusion::Verdict;
use crate::probe::logistic::{Logistic, Probe};
use crate::probe::newton::Penalty;
use crate::run::Job;

/// What was found about a class.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Class {
    /// F1 of the probe on the activations.
    pub probe_f1: Option<f64>,
    /// The main latents.
    pub main: Vec<u32>,
    /// F1 of the probes on one, two, … latents.
    pub steps: Vec<f64>,
    /// Test rows of the class that the probe calls positive.
    pub rows: usize,
    /// The share that other latents carry, as it is computed now.
    pub fraction: Option<f64>,
    /// The same as in January 2025.
    pub january: Option<f64>,
    /// The same as the paper defines it.
    pub paper: Option<f64>,
    /// Rows that are absorbed entirely.
    pub full: usize,
}

impl Class {
    /// Looks at a class with its probe on the activations.
    pub fn find(job: &Job<'_>, parts: &Parts<'_>, class: usize, probe: Option<&Probe>) -> Result<Class> {
        let Some(probe) = probe else { return Ok(Class::default()) };
        let (part, width) = (&parts.test, parts.directions.width);
        let bytes = 24 * (part.codes.rows() + parts.train.codes.rows()) as u64;
        let _memory = job.budget().reserve(bytes, "the rows of a class")?;
        let (rows, positive) = part.known(class);
        if !positive.contains(&true) {
            return Ok(Class::default());
        }
        let activation = |row: usize| &part.activations[row * width..][..width];
        let weights: Vec<f32> = probe.weights.iter().map(|&weight| weight as f32).collect();
        let scores: Vec<f64> = rows.iter().map(|&row| dot(activation(row), &weights) + probe.intercept).collect();
        let mut found = Class { probe_f1: Some(Verdict::of(&positive, &scores).f1()), ..Class::default() };
        found.find_main(job, parts, class, (&rows, &positive))?;
        let length = dot(&weights, &weights).sqrt();
        if length == 0.0 || found.main.is_empty() {
            return Ok(found);
        }
        let direction: Vec<f32> = weights.iter().map(|weight| (f64::from(*weight) / length) as f32).collect();
        let (mut current, mut january, mut paper) = (Vec::new(), Vec::new(), Vec::new());
        let codes = part.codes.all()?;
        let seen = |index: &usize| positive[*index] && scores[*index] > 0.0;
        for row in (0..rows.len()).filter(seen).map(|index| rows[index]) {
            job.check()?;
            let (latents, values) = codes.row(row);
            let (mut main, mut main_active, mut others) = (0.0, false, Vec::new());
            for (&latent, &value) in latents.iter().zip(values) {
                let along = parts.directions.row(latent as usize);
                let (part, size) = (dot(along, &direction), dot(along, along).sqrt());
                let carried = f64::from(value) * part;
                if found.main.contains(&latent) {
                    main += carried;
                    main_active |= value.abs() >= 1e-8;
                } else if size > 0.0 {
                    others.push((carried, part / size));
                }
            }
            let reading = Reading { whole: dot(activation(row), &direction), main, main_active, others: &others };
            current.push(reading.fraction(&CURRENT));
            january.push(reading.fraction_of_january());
            paper.push(reading.fraction(&PAPER));
            found.full += usize::from(reading.is_full());
        }
        found.rows = current.len();
        (found.fraction, found.january, found.paper) = (mean(&current), mean(&january), mean(&paper));
        Ok(found)
    }

    /// Finds the main latents: as many as make the probe better.
    fn find_main(
        &mut self,
        job: &Job<'_>,
        parts: &Parts<'_>,
        class: usize,
        (test, truth): (&[usize], &[bool]),
    ) -> Result<()> {
        let (train, positive) = parts.train.known(class);
        // Most classes are known in every row, and share the columns of all.
        let some_train = parts.train.select(&train, job.budget())?;
        let some_test = parts.test.select(test, job.budget())?;
        let train_codes = some_train.as_deref().unwrap_or(&parts.train.codes).columns()?;
        let test_codes = some_test.as_deref().unwrap_or(&parts.test.codes).columns()?;
        let ranked = telling_latents(train_codes, &positive, job.number("sparsity")?, job.context)?;
        let (jump, most) = (job.number("jump")?, job.whole("most_latents")?);
        let logistic = Logistic { balanced: true, ..Logistic::default() };
        let (mut best, mut before) = (None, None);
        for k in 1..=most.min(ranked.len()) {
            let bytes = table_bytes(train.len() + test.len(), k);
            let _memory = job.budget().reserve(bytes, "the main latents of a class")?;
            let table = dense(train_codes, &ranked[..k], train.len());
            let ready = few(&table, k, &positive).ready_all();
            let Some(probe) = logistic.fit_ready(&ready, Penalty::Squares, before.as_ref(), job.context)? else {
                break;
            };
            let table = dense(test_codes, &ranked[..k], test.len());
            let f1 = Verdict::of(truth, &few(&table, k, truth).scores(&probe)).f1();
            self.steps.push(f1);
            if best.is_some_and(|best| f1 <= best + jump) {
                break;
            }
            (best, before) = (Some(f1), Some(probe));
            self.main = ranked[..k].to_vec();
        }
        Ok(())
    }
}
