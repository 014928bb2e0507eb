//! Codes prepared for matching, and the search for the latents of one concept: one run per matcher and beta, cut to every
//! requested size.

use std::borrow::Cow;

use etalon_kernel::bits::Bits;
use serde::{Deserialize, Serialize};

use super::firing::Firing;
use super::nnomp::{Atoms, ScaledCodes};
use super::row_order::{OrderedCodes, RowOrder};
use super::strategy::{Matcher, Strategy, THRESHOLD};
use super::target::{Pursuit, Target};
use super::{fbmp, naive, nnomp};
use crate::codes::{Codes, Latent};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::labels::{Annotations, Concept};
use crate::results::Profile;
use crate::run::{Job, LABELS};

/// The latents that one strategy selected for one concept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Choice {
    /// The latents in the order of selection, at most k.
    pub latents: Vec<u32>,
    /// F1 after every step; in profile `reference` padded with its last value, as in the released code.
    pub f1_by_step: Vec<f64>,
    /// The number of steps after which F1 was best, in the complete run that is not cut to k.
    best_step: usize,
    /// The weights of the latents, if the matcher has any.
    pub weights: Option<Vec<f64>>,
}

impl Choice {
    fn new(strategy: &Strategy, steps: usize, pursuit: &Pursuit, profile: Profile) -> Choice {
        let size = pursuit.latents.len().min(strategy.k);
        let mut f1_by_step = pursuit.f1[..size].to_vec();
        if profile == Profile::Reference {
            let last = f1_by_step.last().copied().unwrap_or(0.0);
            f1_by_step.resize(size.max(strategy.k.min(steps)), last);
        }
        let first_best = |best: usize, step: usize| if pursuit.f1[step] > pursuit.f1[best] { step } else { best };
        let weights = || size.checked_sub(1).and_then(|last| pursuit.weights.get(last)).cloned().unwrap_or_default();
        Choice {
            latents: pursuit.latents[..size].to_vec(),
            f1_by_step,
            best_step: 1 + (0..pursuit.f1.len()).fold(0, first_best),
            weights: (strategy.matcher == Matcher::Nnomp).then(weights),
        }
    }

    /// F1 of all latents together; 0 without latents.
    pub fn f1(&self) -> f64 {
        self.f1_by_step.last().copied().unwrap_or(0.0)
    }

    /// The latents that represent the concept in pairs of images; `total` is the number of latents of the codes.
    ///
    /// `paper`: the coalition. `reference`: the coalition cut at the best step of the complete run. It is never empty: the
    /// released code takes some latent, in practice the first, if none was selected.
    pub fn matched_set(&self, profile: Profile, total: usize) -> Vec<Latent> {
        let size = if profile == Profile::Paper { self.latents.len() } else { self.best_step };
        let mut set: Vec<Latent> = self.latents.iter().take(size).map(|&latent| Latent(latent)).collect();
        if profile == Profile::Reference && set.is_empty() && total > 0 {
            set.push(Latent(0));
        }
        set
    }
}

/// The rows of a concept, in the order of the codes.
pub(super) struct ConceptRows<'a> {
    /// The rows with the concept.
    pub yes: Cow<'a, Bits>,
    /// The rows with a known label.
    pub known: Cow<'a, Bits>,
}

/// Codes and labels of the same rows, prepared for the matchers of some strategies.
pub(super) struct PreparedCodes<'a> {
    codes: OrderedCodes<'a>,
    labels: &'a Annotations,
    order: RowOrder,
    strategies: &'a [Strategy],
    /// One run per matcher and beta, with the largest `k`.
    runs: Vec<Strategy>,
    firing: Option<Firing>,
    atoms: Option<Atoms>,
    threshold: f32,
    profile: Profile,
    context: &'a Context,
}

impl<'a> PreparedCodes<'a> {
    /// Prepares codes of the rows of a job, in the given order.
    pub fn new(
        job: &Job<'a>,
        codes: &'a Codes,
        order: RowOrder,
        strategies: &'a [Strategy],
    ) -> Result<PreparedCodes<'a>> {
        let (labels, context, profile) = (job.get(&LABELS)?, job.context, job.profile);
        let threshold = job.number(THRESHOLD.name)? as f32;
        let valued = strategies.iter().any(|strategy| strategy.matcher == Matcher::Nnomp);
        let binary = strategies.iter().any(|strategy| strategy.matcher != Matcher::Nnomp);
        let codes = order.codes(codes, valued, context)?;
        let mut runs: Vec<Strategy> = Vec::new();
        for strategy in strategies {
            match runs.iter_mut().find(|run| run.shares_run(strategy)) {
                Some(run) => run.k = run.k.max(strategy.k),
                None => runs.push(*strategy),
            }
        }
        let firing = binary.then(|| Firing::new(&codes, threshold, context)).transpose()?;
        let atoms = valued.then(|| Atoms::new(&codes, context)).transpose()?;
        Ok(PreparedCodes { codes, labels, order, strategies, runs, firing, atoms, threshold, profile, context })
    }

    pub fn rows_of(&self, concept: usize) -> ConceptRows<'a> {
        let concept = Concept(concept as u32);
        ConceptRows {
            yes: self.order.bits(self.labels.yes(concept), false),
            // The released code treats empty rows as annotated.
            known: self.order.bits(self.labels.known(concept), true),
        }
    }

    /// Selects the latents of the concept with these rows, by strategy.
    pub fn choose(&self, rows: &ConceptRows<'_>) -> Result<Vec<Choice>> {
        let cells = self.codes.rows() as u64 + self.codes.latents() as u64;
        let _memory = self.context.budget().reserve(16 * cells, "the search for the latents of a concept")?;
        let target = self.firing.as_ref().map(|firing| Target::new(firing, &rows.yes, &rows.known));
        let pursue = |run: &Strategy| Ok((*run, self.pursue(run, target.as_ref(), rows)?));
        let pursuits = self.runs.iter().map(pursue).collect::<Result<Vec<(Strategy, Pursuit)>>>()?;
        let choice = |strategy: &Strategy| {
            let found = pursuits.iter().find(|(run, _)| run.shares_run(strategy));
            found.map(|(run, pursuit)| {
                Choice::new(
                    strategy,
                    run.steps(self.profile, &self.codes, self.labels.concepts()),
                    pursuit,
                    self.profile,
                )
            })
        };
        Ok(self.strategies.iter().map(|strategy| choice(strategy).unwrap_or_default()).collect())
    }

    fn pursue(&self, run: &Strategy, target: Option<&Target<'_>>, rows: &ConceptRows<'_>) -> Result<Pursuit> {
        self.context.check()?;
        let steps = run.steps(self.profile, &self.codes, self.labels.concepts());
        match (run.matcher, run.beta, target, &self.atoms) {
            (Matcher::OneToOne, _, Some(target), _) => Ok(naive::one_to_one(target, self.profile)),
            (Matcher::Naive, _, Some(target), _) => Ok(naive::pursue(target, steps, self.profile)),
            (Matcher::Fbmp, Some(beta), Some(target), _) => {
                fbmp::pursue(target, beta, steps, self.profile, self.context)
            }
            (Matcher::Nnomp, _, _, Some(atoms)) => {
                let codes = ScaledCodes::new(&self.codes, atoms, self.context)?;
                nnomp::pursue(codes, &rows.yes, &rows.known, steps)
            }
            _ => Err(Error::Bug("the codes were prepared for another matcher".into())),
        }
    }

    /// The known rows that some latents predict. The latents may have been selected on other rows.
    pub fn predicted(&self, choice: &Choice, rows: &ConceptRows<'_>) -> Result<Bits> {
        let mut predicted = match (&choice.weights, &self.firing) {
            (Some(weights), _) => nnomp::predicted(self.codes.columns()?, &choice.latents, weights),
            (None, Some(firing)) => {
                let mut covered = Bits::empty(self.codes.rows());
                choice.latents.iter().for_each(|&latent| firing.add_rows(latent as usize, &mut covered));
                covered
            }
            (None, None) => return Err(Error::Bug("binary coalitions without binary codes".into())),
        };
        predicted.intersect(&rows.known);
        Ok(predicted)
    }

    /// The number of rows in which a latent fires.
    pub fn fired(&self, latent: u32) -> Result<usize> {
        match &self.firing {
            Some(firing) => Ok(firing.fired[latent as usize] as usize),
            None => Ok(self.codes.columns()?.fired(Latent(latent), self.threshold).count()),
        }
    }
}
