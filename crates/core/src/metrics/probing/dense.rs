//! Probes on whole rows: fitted to convergence, or trained like those of the released program.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::ChaCha8Rng;

use super::draw::Drawn;
use super::space::{Space, whole_rows};
use crate::context::{Context, Reserved};
use crate::error::Result;
use crate::probe::design::Design;
use crate::probe::dual::Span;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::preconditioner::Spectrum;
use crate::probe::saebench_probe::{AdamW, Shown};
use crate::run::{EMBEDDINGS, Job, Work};
use crate::store::ActivationStore;

/// How a probe on whole rows is made.
#[derive(Clone, Debug)]
pub enum Training {
    /// Logistic regression to convergence; of several penalties the one that is best on the judged rows.
    Converged {
        /// The inverse strengths of the penalty; among equals the first wins.
        cs: Vec<f64>,
    },
    /// AdamW, the epoch that is best on the judged rows.
    Released(AdamW),
}

/// Rows that the spectrum is made of: it only has to be rough.
const PICTURED: usize = 2048;

/// How the channels spread, as if there were one row, for all probes on them; nothing where it is not wanted.
pub fn spectrum(job: &Job<'_>, work: &mut Work<'_>, wanted: bool) -> Result<Reserved<Vec<Spectrum>>> {
    work.blocks("spectrum", usize::from(wanted), |_| {
        let store = job.get(&EMBEDDINGS)?;
        let step = store.rows().div_ceil(PICTURED).max(1);
        let rows: Vec<usize> = (0..store.rows()).step_by(step).collect();
        let copied = Space::Embeddings(store).copy(&rows, job.budget())?;
        let found = Spectrum::monitored(&copied.design()?, job.context)?;
        Ok(found.scaled(1.0 / rows.len().max(1) as f64))
    })
}

impl Training {
    /// Makes a probe from some rows, with the choices made on others; `None` where a class is missing.
    ///
    /// `spectrum` is that of channels; latents make their own.
    pub fn fit(
        &self,
        space: Space<'_>,
        trained: &Drawn,
        judged: &Drawn,
        spectrum: Option<&Spectrum>,
        random: &mut ChaCha8Rng,
        context: &Context,
    ) -> Result<Option<Probe>> {
        if !trained.has_both() {
            return Ok(None);
        }
        let budget = context.budget();
        let (rows, others) = (space.copy(&trained.rows, budget)?, space.copy(&judged.rows, budget)?);
        let shown = Shown { design: rows.design()?, positive: &trained.positive };
        let judged = Shown { design: others.design()?, positive: &judged.positive };
        let _memory = budget.reserve(fit_bytes(&shown.design), "the fit of a probe on whole rows")?;
        match self {
            Training::Released(adamw) => Ok(Some(adamw.fit(&shown, &judged, random, context)?)),
            Training::Converged { cs } => converged(cs, &shown, &judged, spectrum, context),
        }
    }
}

/// Bytes that a fit needs besides its rows: mostly a tile of the rows in `f64` and a spectrum of its own.
pub fn fit_bytes(design: &Design<'_>) -> u64 {
    let (rows, width) = (design.rows(), design.width());
    let of_width = match design {
        Design::Dense { .. } if rows < width => Span::bytes_of(rows, width) + 4096 * rows as u64,
        Design::Dense { .. } => 4096 * width as u64,
        Design::Sparse { .. } => 0,
    };
    of_width + 160 * width as u64 + 64 * rows as u64
}

fn converged(
    cs: &[f64],
    shown: &Shown<'_>,
    judged: &Shown<'_>,
    spectrum: Option<&Spectrum>,
    context: &Context,
) -> Result<Option<Probe>> {
    let rows = shown.positive.len();
    let yes = Bits::of(rows, (0..rows).filter(|&row| shown.positive[row]));
    let known = Bits::full(rows);
    let target = Target { yes: &yes, known: &known };
    // Rows that are fewer than channels are fitted in the space that they span.
    let span = match shown.design {
        Design::Dense { values, width } if rows < width => Some(Span::of(values, width, context)?),
        _ => None,
    };
    let design = span.as_ref().map_or(shown.design, Span::design);
    let spectrum = match (&span, &design, spectrum) {
        (Some(span), ..) => span.spectrum(context)?,
        (None, Design::Dense { .. }, Some(spectrum)) => spectrum.clone().scaled(rows as f64),
        _ => Spectrum::by_column(&design),
    };
    let (mut best, mut before): (Option<(f64, Probe)>, Option<Probe>) = (None, None);
    for &c in cs {
        let logistic = Logistic { c, tolerance: 1e-5, ..Logistic::default() };
        let Some(found) = logistic.fit_from(&design, &spectrum, &target, before.as_ref(), context)? else {
            return Ok(None);
        };
        let probe = span.as_ref().map_or_else(|| found.clone(), |span| span.widen(&found));
        before = Some(found);
        let right = if cs.len() > 1 { judged.judge(&probe).accuracy().unwrap_or(0.0) } else { 0.0 };
        if best.as_ref().is_none_or(|(before, _)| right > *before) {
            best = Some((right, probe));
        }
    }
    Ok(best.map(|(_, probe)| probe))
}

/// The scores of some rows of the embeddings under several probes, `probes × rows`, intercepts included.
pub fn scores(store: &ActivationStore, rows: &[usize], probes: &[&Probe], context: &Context) -> Result<Vec<f64>> {
    let values = whole_rows(store, rows, context.budget())?;
    let design = Design::Dense { values: &values, width: store.width() };
    let mut scores = design.scores(&all_weights(probes), probes.len());
    for (scores, probe) in scores.chunks_exact_mut(rows.len().max(1)).zip(probes) {
        scores.iter_mut().for_each(|score| *score += probe.intercept);
    }
    Ok(scores)
}

/// Directions that are multiplied at a time.
const TOGETHER: usize = 4096;

/// What a unit of every latent adds to the score of every probe, `probes × latents`: weights · direction.
pub fn along(directions: &ActivationStore, probes: &[&Probe], context: &Context) -> Result<Reserved<Vec<f64>>> {
    let (latents, weights) = (directions.rows(), all_weights(probes));
    // The result, and a part of it in two orders.
    let bytes = 8 * probes.len() as u64 * (latents + 2 * TOGETHER.min(latents)) as u64;
    let memory = context.budget().reserve(bytes, "directions along the probes")?;
    let mut all = vec![0.0; probes.len() * latents];
    for first in (0..latents).step_by(TOGETHER) {
        context.check()?;
        let tile = directions.tile(first..(first + TOGETHER).min(latents))?;
        let design = Design::Dense { values: &tile.values, width: tile.width };
        let found = design.scores(&weights, probes.len());
        for (probe, found) in found.chunks_exact(tile.rows()).enumerate() {
            all[probe * latents + first..][..found.len()].copy_from_slice(found);
        }
    }
    Ok(Reserved::new(all, memory))
}

fn all_weights(probes: &[&Probe]) -> Vec<f64> {
    probes.iter().flat_map(|probe| &probe.weights).copied().collect()
}
