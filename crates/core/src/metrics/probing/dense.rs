//! Probes on all columns: fitted to convergence, or trained like those of the released code.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::ChaCha8Rng;

use super::draw::DrawnRows;
use super::space::{Space, whole_rows};
use crate::context::{Context, Reserved};
use crate::error::Result;
use crate::probe::design::Design;
use crate::probe::dual::DualForm;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::preconditioner::Preconditioner;
use crate::probe::saebench_probe::{AdamW, LabelledRows};
use crate::run::{EMBEDDINGS, Job, Work};
use crate::store::ActivationStore;

/// How a probe on all columns is trained.
#[derive(Clone, Debug)]
pub enum Training {
    /// Logistic regression to convergence, with the penalty that has the highest validation accuracy.
    Converged {
        /// The inverse strengths of the penalty; the first among equals wins.
        cs: Vec<f64>,
    },
    /// AdamW, with the epoch that has the highest validation accuracy.
    Released(AdamW),
}

/// Rows that the preconditioner is computed from: an approximation suffices.
const SAMPLED: usize = 2048;

/// The preconditioner of all probes on channels, scaled to one row; empty unless `needed`.
pub fn preconditioner(job: &Job<'_>, work: &mut Work<'_>, needed: bool) -> Result<Reserved<Vec<Preconditioner>>> {
    work.blocks("preconditioner", usize::from(needed), |_| {
        let store = job.get(&EMBEDDINGS)?;
        let step = store.rows().div_ceil(SAMPLED).max(1);
        let rows: Vec<usize> = (0..store.rows()).step_by(step).collect();
        let sampled = Space::Embeddings(store).copy(&rows, job.budget())?;
        let preconditioner = Preconditioner::monitored(&sampled.design()?, job.context)?;
        Ok(preconditioner.scaled(1.0 / rows.len().max(1) as f64))
    })
}

impl Training {
    /// Fits a probe on training rows and selects on validation rows; `None` where a class is missing.
    ///
    /// `preconditioner` is that of channels; latents use their own.
    pub fn fit(
        &self,
        space: Space<'_>,
        train: &DrawnRows,
        validation: &DrawnRows,
        preconditioner: Option<&Preconditioner>,
        random: &mut ChaCha8Rng,
        context: &Context,
    ) -> Result<Option<Probe>> {
        if !train.has_both() {
            return Ok(None);
        }
        let budget = context.budget();
        let (fitted, held_out) = (space.copy(&train.rows, budget)?, space.copy(&validation.rows, budget)?);
        let train = LabelledRows { design: fitted.design()?, positive: &train.positive };
        let validation = LabelledRows { design: held_out.design()?, positive: &validation.positive };
        let _memory = budget.reserve(fit_bytes(&train.design), "the fit of a probe on all columns")?;
        match self {
            Training::Released(adamw) => Ok(Some(adamw.fit(&train, &validation, random, context)?)),
            Training::Converged { cs } => converged(cs, &train, &validation, preconditioner, context),
        }
    }
}

/// Bytes that a fit needs besides its rows: mostly a tile of the rows in `f64` and a preconditioner.
pub fn fit_bytes(design: &Design<'_>) -> u64 {
    let (rows, width) = (design.rows(), design.width());
    let of_width = match design {
        Design::Dense { .. } if rows < width => DualForm::bytes_of(rows, width) + 4096 * rows as u64,
        Design::Dense { .. } => 4096 * width as u64,
        Design::Sparse { .. } => 0,
    };
    of_width + 160 * width as u64 + 64 * rows as u64
}

fn converged(
    cs: &[f64],
    train: &LabelledRows<'_>,
    validation: &LabelledRows<'_>,
    preconditioner: Option<&Preconditioner>,
    context: &Context,
) -> Result<Option<Probe>> {
    let rows = train.positive.len();
    let yes = Bits::of(rows, (0..rows).filter(|&row| train.positive[row]));
    let known = Bits::full(rows);
    let target = Target { yes: &yes, known: &known };
    // With fewer rows than channels the dual form is smaller.
    let dual = match train.design {
        Design::Dense { values, width } if rows < width => Some(DualForm::of(values, width, context)?),
        _ => None,
    };
    let design = dual.as_ref().map_or(train.design, DualForm::design);
    let preconditioner = match (&dual, &design, preconditioner) {
        (Some(dual), ..) => dual.preconditioner(context)?,
        (None, Design::Dense { .. }, Some(preconditioner)) => preconditioner.clone().scaled(rows as f64),
        _ => Preconditioner::by_column(&design),
    };
    let (mut best, mut last): (Option<(f64, Probe)>, Option<Probe>) = (None, None);
    for &c in cs {
        let logistic = Logistic { c, tolerance: 1e-5, ..Logistic::default() };
        let Some(fitted) = logistic.fit_from(&design, &preconditioner, &target, last.as_ref(), context)? else {
            return Ok(None);
        };
        let probe = dual.as_ref().map_or_else(|| fitted.clone(), |dual| dual.to_primal(&fitted));
        last = Some(fitted);
        let accuracy = if cs.len() > 1 { validation.evaluate(&probe).accuracy().unwrap_or(0.0) } else { 0.0 };
        if best.as_ref().is_none_or(|(best, _)| accuracy > *best) {
            best = Some((accuracy, probe));
        }
    }
    Ok(best.map(|(_, probe)| probe))
}

/// The scores of some embeddings under several probes, `probes × rows`.
pub fn scores(store: &ActivationStore, rows: &[usize], probes: &[&Probe], context: &Context) -> Result<Vec<f64>> {
    let values = whole_rows(store, rows, context.budget())?;
    let design = Design::Dense { values: &values, width: store.width() };
    let mut scores = design.scores(&all_weights(probes), probes.len());
    for (scores, probe) in scores.chunks_exact_mut(rows.len().max(1)).zip(probes) {
        scores.iter_mut().for_each(|score| *score += probe.intercept);
    }
    Ok(scores)
}

/// Directions per product.
const TOGETHER: usize = 4096;

/// The change of every probe's score per unit of every latent, `probes × latents`: weights · direction.
pub fn along(directions: &ActivationStore, probes: &[&Probe], context: &Context) -> Result<Reserved<Vec<f64>>> {
    let (latents, weights) = (directions.rows(), all_weights(probes));
    // The result, and two copies of a part.
    let bytes = 8 * probes.len() as u64 * (latents + 2 * TOGETHER.min(latents)) as u64;
    let memory = context.budget().reserve(bytes, "directions along the probes")?;
    let mut all = vec![0.0; probes.len() * latents];
    for first in (0..latents).step_by(TOGETHER) {
        context.check()?;
        let tile = directions.tile(first..(first + TOGETHER).min(latents))?;
        let design = Design::Dense { values: &tile.values, width: tile.width };
        let products = design.scores(&weights, probes.len());
        for (probe, products) in products.chunks_exact(tile.rows()).enumerate() {
            all[probe * latents + first..][..products.len()].copy_from_slice(products);
        }
    }
    Ok(Reserved::new(all, memory))
}

fn all_weights(probes: &[&Probe]) -> Vec<f64> {
    probes.iter().flat_map(|probe| &probe.weights).copied().collect()
}
