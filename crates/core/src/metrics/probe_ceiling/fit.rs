//! Probes, fitted on one half of the rows and applied to the other.

use std::ops::Range;

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::area_under_curve;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::packed::pack;
use crate::context::Reservation;
use crate::error::{Error, Result};
use crate::labels::{Annotations, Concept};
use crate::probe::design::Design;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::preconditioner::Preconditioner;
use crate::probe::released_probe::Adam;
use crate::results::Profile;
use crate::run::{EMBEDDINGS, Job, LABELS};
use crate::store::ActivationStore;

/// The rows of a fold, ascending.
pub(super) struct Fold {
    pub fitted: Vec<usize>,
    pub scored: Vec<usize>,
}

/// Two halves. In profile `paper` each is scored by probes fitted on the other.
pub(super) fn folds(job: &Job<'_>, rows: usize) -> Vec<Fold> {
    let mut one = permutation(rows, &mut stream(job.seed, "probe_ceiling/halves", 0));
    let mut other = one.split_off(rows.div_ceil(2));
    one.sort_unstable();
    other.sort_unstable();
    let first = Fold { fitted: one, scored: other };
    match job.profile {
        Profile::Paper => {
            let second = Fold { fitted: first.scored.clone(), scored: first.fitted.clone() };
            vec![first, second]
        }
        Profile::Reference => vec![first],
    }
}

/// The scaled rows of a fold.
pub(super) struct FittedRows<'a> {
    values: Vec<f32>,
    width: usize,
    rows: &'a [usize],
    /// By column, the offset to subtract and the factor to multiply by.
    scaling: Vec<(f64, f64)>,
    /// The labels of all concepts, in profile `reference`.
    labels: Option<Annotations>,
    _memory: Reservation,
}

/// Rows between two checks for cancellation.
const CHECK_ROWS: usize = 1024;

/// Columns that one thread sums.
const COLUMNS: usize = 32;

impl<'a> FittedRows<'a> {
    /// Copies the rows of a fold and applies the parameter `scale`.
    pub fn new(job: &Job<'_>, fold: &'a Fold) -> Result<FittedRows<'a>> {
        let (store, labels, rows) = (job.get(&EMBEDDINGS)?, job.get(&LABELS)?, fold.fitted.as_slice());
        let width = store.width();
        let bytes = (rows.len() as u64).saturating_mul(width as u64).saturating_mul(4);
        let memory = job.budget().reserve(bytes, "a copy of the embeddings for the probes")?;
        let mut values = gathered(job, store, rows)?;
        let mut scaling = vec![(0.0, 1.0); width];
        if job.word("scale")? == "standard" && !rows.is_empty() {
            let count = rows.len() as f64;
            let sums = column_sums(job, &values, width, |_, value| value)?;
            let centres: Vec<f64> = sums.iter().map(|sum| sum / count).collect();
            let squares = column_sums(job, &values, width, |column, value| (value - centres[column]).powi(2))?;
            for column in 0..width {
                let deviation = (squares[column] / count).sqrt();
                // Below the resolution of f32, a column is constant up to rounding.
                let is_constant = deviation <= 1e-7 * centres[column].abs();
                scaling[column] = (centres[column], if is_constant { 1.0 } else { 1.0 / deviation });
            }
            values.par_chunks_exact_mut(width).for_each(|row| {
                for (value, (centre, factor)) in row.iter_mut().zip(&scaling) {
                    *value = ((f64::from(*value) - centre) * factor) as f32;
                }
            });
        }
        let labels = (job.profile == Profile::Reference).then(|| labels.select(rows));
        Ok(FittedRows { values, width, rows, scaling, labels, _memory: memory })
    }

    /// The design matrix.
    pub fn design(&self) -> Design<'_> {
        Design::Dense { values: &self.values, width: self.width }
    }

    /// Fits the probes of some concepts and converts them to unscaled rows. `None` if a class is missing.
    pub fn fit(
        &self,
        job: &Job<'_>,
        preconditioner: Option<&Preconditioner>,
        concepts: Range<usize>,
    ) -> Result<Vec<Option<Probe>>> {
        // Seven numbers per row for the Newton steps, and a few per weight.
        let rows = if preconditioner.is_some() { self.rows.len() as u64 } else { 0 };
        let bytes = concepts.len() as u64 * (56 * rows + 32 * self.width as u64);
        let _memory = job.budget().reserve(bytes, "the fit of some probes")?;
        let mut probes = match (preconditioner, &self.labels) {
            (Some(preconditioner), _) => {
                let labels = job.get(&LABELS)?;
                let pick = |bits: &Bits| {
                    let contained = |&index: &usize| bits.contains(self.rows[index]);
                    Bits::of(self.rows.len(), (0..self.rows.len()).filter(contained))
                };
                let rows: Vec<(Bits, Bits)> = concepts
                    .map(|concept| Concept(concept as u32))
                    .map(|concept| (pick(labels.yes(concept)), pick(labels.known(concept))))
                    .collect();
                let targets: Vec<Target<'_>> = rows.iter().map(|(yes, known)| Target { yes, known }).collect();
                let logistic = Logistic { c: job.number("c")?, tolerance: 1e-4, ..Logistic::default() };
                logistic.fit_monitored(&self.design(), preconditioner, &targets, job.context)?
            }
            (None, Some(labels)) => {
                let adam = Adam {
                    learning_rate: job.number("learning_rate")?,
                    epochs: job.whole("epochs")?,
                    batch: job.whole("batch")?,
                    seed: job.seed,
                };
                let fitted = adam.fit_monitored(&self.values, self.width, labels, concepts, job.context)?;
                fitted.into_iter().map(Some).collect()
            }
            (None, None) => return Err(Error::Bug("probes without a preconditioner".into())),
        };
        for probe in probes.iter_mut().flatten() {
            for (weight, (centre, factor)) in probe.weights.iter_mut().zip(&self.scaling) {
                *weight *= factor;
                probe.intercept -= *weight * centre;
            }
        }
        Ok(probes)
    }
}

/// Copies some rows.
fn gathered(job: &Job<'_>, store: &ActivationStore, rows: &[usize]) -> Result<Vec<f32>> {
    let width = store.width();
    let mut values = vec![0.0; rows.len() * width];
    values.par_chunks_mut(CHECK_ROWS * width).zip(rows.par_chunks(CHECK_ROWS)).try_for_each(|(values, rows)| {
        job.check()?;
        for (value, &row) in values.chunks_exact_mut(width).zip(rows) {
            value.copy_from_slice(store.tile(row..row + 1)?.row(0));
        }
        Ok::<(), Error>(())
    })?;
    Ok(values)
}

/// Sums a term over the rows, by column and in order.
fn column_sums(
    job: &Job<'_>,
    values: &[f32],
    width: usize,
    term: impl Fn(usize, f64) -> f64 + Sync,
) -> Result<Vec<f64>> {
    let mut sums = vec![0.0; width];
    sums.par_chunks_mut(COLUMNS).enumerate().try_for_each(|(group, sums)| {
        for (number, row) in values.chunks_exact(width).enumerate() {
            if number % CHECK_ROWS == 0 {
                job.check()?;
            }
            for (sum, (column, &value)) in sums.iter_mut().zip(row.iter().enumerate().skip(group * COLUMNS)) {
                *sum += term(column, f64::from(value));
            }
        }
        Ok::<(), Error>(())
    })?;
    Ok(sums)
}

/// A probe on the held-out rows of its fold.
#[derive(Serialize, Deserialize)]
pub(super) struct ProbeResult {
    pub converged: bool,
    pub auc: Option<f64>,
    /// The predictions, one bit per scored row.
    pub predicted: Vec<u64>,
}

/// The results of the probes of some concepts on held-out rows; `None` without a probe.
pub(super) fn predictions(
    job: &Job<'_>,
    scored: &[usize],
    concepts: Range<usize>,
    probes: &[Option<Probe>],
) -> Result<Vec<Option<ProbeResult>>> {
    let labels = job.get(&LABELS)?;
    let fitted: Vec<&Probe> = probes.iter().flatten().collect();
    let bytes = 8 * fitted.len() as u64 * scored.len() as u64;
    let _memory = job.budget().reserve(bytes, "the scores of some probes")?;
    let scores = scores_of_rows(job, scored, &fitted)?;
    let mut scores = scores.chunks_exact(scored.len().max(1));
    let result = |(concept, probe): (usize, &Option<Probe>)| {
        let probe = probe.as_ref()?;
        let scores = scores.next().unwrap_or(&[]);
        let (yes, known) = (labels.yes(Concept(concept as u32)), labels.known(Concept(concept as u32)));
        let (truth, known_scores): (Vec<bool>, Vec<f64>) = scored
            .iter()
            .zip(scores)
            .filter(|&(&row, _)| known.contains(row))
            .map(|(&row, &score)| (yes.contains(row), score))
            .unzip();
        let predicted = pack(scores.iter().map(|&score| score >= 0.0));
        Some(ProbeResult { converged: probe.converged, auc: area_under_curve(&truth, &known_scores), predicted })
    };
    Ok(concepts.zip(probes).map(result).collect())
}

/// The scores of some rows, `probes × rows`.
fn scores_of_rows(job: &Job<'_>, rows: &[usize], probes: &[&Probe]) -> Result<Vec<f64>> {
    let store = job.get(&EMBEDDINGS)?;
    let weights: Vec<f64> = probes.iter().flat_map(|probe| &probe.weights).copied().collect();
    let mut scores = vec![0.0; probes.len() * rows.len()];
    for (number, part) in rows.chunks(CHECK_ROWS).enumerate() {
        let values = gathered(job, store, part)?;
        let products = Design::Dense { values: &values, width: store.width() }.scores(&weights, probes.len());
        for (index, products) in products.chunks_exact(part.len()).enumerate() {
            let target = &mut scores[index * rows.len() + number * CHECK_ROWS..][..part.len()];
            target.iter_mut().zip(products).for_each(|(score, product)| *score = product + probes[index].intercept);
        }
    }
    Ok(scores)
}
