//! Probes on whole rows: fitted to convergence, or trained like those of the released program.

use super::draw::Drawn;
use super::space::{Copied, Space};
use crate::error::Result;
use crate::kernel::bits::Bits;
use crate::kernel::random::ChaCha8Rng;
use crate::probe::adamw::{AdamW, Shown};
use crate::probe::design::Design;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::span::Span;
use crate::probe::spectrum::Spectrum;
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

/// Rows that the picture of how channels spread is made of: it only has to be rough.
const PICTURED: usize = 2048;

/// How the channels spread, as if there were one row: shared by all probes on them.
pub fn spectrum(store: &ActivationStore) -> Result<Spectrum> {
    let step = store.rows().div_ceil(PICTURED).max(1);
    let rows: Vec<usize> = (0..store.rows()).step_by(step).collect();
    let copied = Space::Embeddings(store).copy(&rows)?;
    Ok(Spectrum::of(&copied.design()?).scaled(1.0 / rows.len().max(1) as f64))
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
    ) -> Result<Option<Probe>> {
        if !trained.has_both() {
            return Ok(None);
        }
        let (rows, others) = (space.copy(&trained.rows)?, space.copy(&judged.rows)?);
        let shown = Shown { design: rows.design()?, positive: &trained.positive };
        let judged = Shown { design: others.design()?, positive: &judged.positive };
        match self {
            Training::Released(adamw) => Ok(Some(adamw.fit(&shown, &judged, random))),
            Training::Converged { cs } => Ok(converged(cs, &shown, &judged, spectrum)),
        }
    }
}

fn converged(cs: &[f64], shown: &Shown<'_>, judged: &Shown<'_>, spectrum: Option<&Spectrum>) -> Option<Probe> {
    let rows = shown.positive.len();
    let yes = Bits::of(rows, (0..rows).filter(|&row| shown.positive[row]));
    let known = Bits::full(rows);
    let target = Target { yes: &yes, known: &known };
    // Rows that are fewer than channels are fitted in the space that they span.
    let span = match shown.design {
        Design::Dense { values, width } if rows < width => Some(Span::of(values, width)),
        _ => None,
    };
    let design = span.as_ref().map_or(shown.design, Span::design);
    let spectrum = match (&span, &design, spectrum) {
        (Some(span), ..) => span.spectrum(),
        (None, Design::Dense { .. }, Some(spectrum)) => spectrum.clone().scaled(rows as f64),
        _ => Spectrum::by_column(&design),
    };
    let (mut best, mut before): (Option<(f64, Probe)>, Option<Probe>) = (None, None);
    for &c in cs {
        let logistic = Logistic { c, tolerance: 1e-5, ..Logistic::default() };
        let found = logistic.fit_from(&design, &spectrum, &target, before.as_ref())?;
        let probe = span.as_ref().map_or_else(|| found.clone(), |span| span.widen(&found));
        before = Some(found);
        let right = if cs.len() > 1 { judged.judge(&probe).accuracy().unwrap_or(0.0) } else { 0.0 };
        if best.as_ref().is_none_or(|(before, _)| right > *before) {
            best = Some((right, probe));
        }
    }
    best.map(|(_, probe)| probe)
}

/// The scores of some rows of the embeddings under several probes, `probes × rows`, intercepts included.
pub fn scores(store: &ActivationStore, rows: &[usize], probes: &[&Probe]) -> Result<Vec<f64>> {
    let copied = Space::Embeddings(store).copy(rows)?;
    let weights: Vec<f64> = probes.iter().flat_map(|probe| &probe.weights).copied().collect();
    let mut scores = copied.design()?.scores(&weights, probes.len());
    for (scores, probe) in scores.chunks_exact_mut(rows.len().max(1)).zip(probes) {
        scores.iter_mut().for_each(|score| *score += probe.intercept);
    }
    Ok(scores)
}

/// What a unit of every latent adds to the score of every probe, `probes × latents`: weights · direction.
pub fn along(directions: &ActivationStore, probes: &[&Probe]) -> Result<Vec<f64>> {
    let (latents, weights) =
        (directions.rows(), probes.iter().flat_map(|probe| &probe.weights).copied().collect::<Vec<f64>>());
    let mut all = vec![0.0; probes.len() * latents];
    for first in (0..latents).step_by(4096) {
        let tile = directions.tile(first..(first + 4096).min(latents))?;
        let part = Copied::Embeddings(tile.values.to_vec(), tile.width);
        let found = part.design()?.scores(&weights, probes.len());
        for (probe, found) in found.chunks_exact(tile.rows()).enumerate() {
            all[probe * latents + first..][..found.len()].copy_from_slice(found);
        }
    }
    Ok(all)
}
