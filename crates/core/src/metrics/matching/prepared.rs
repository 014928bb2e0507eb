//! Codes arranged for matching, and the search for the latents of one concept: one pursuit for every matcher and beta, cut
//! to each size that was asked for.

use std::borrow::Cow;

use etalon_kernel::bits::Bits;
use serde::{Deserialize, Serialize};

use super::firing::{Firing, Target};
use super::nnomp::{self, Atoms, ScaledCodes};
use super::row_order::{OrderedCodes, RowOrder};
use super::strategy::{Matcher, THRESHOLD};
use super::{Strategy, fbmp, naive};
use crate::codes::{Codes, Latent};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::labels::{Annotations, Concept};
use crate::results::Profile;
use crate::run::{Job, LABELS};

/// One matcher's whole run for one concept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pursuit {
    /// The latents in order of choice.
    pub latents: Vec<u32>,
    /// F1 after every choice.
    pub f1: Vec<f64>,
    /// The weights of all latents so far after every choice; empty for matchers without weights.
    pub weights: Vec<Vec<f64>>,
}

/// What one strategy chose for one concept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Choice {
    /// The latents in order of choice, at most k.
    pub latents: Vec<u32>,
    /// F1 after every choice; in profile `reference` padded with its last value, as the released program stores it.
    pub f1_by_step: Vec<f64>,
    /// After how many choices of the whole run, not cut to k, F1 was best.
    pub best_step: usize,
    /// The weights of the latents, if the matcher has any.
    pub weights: Option<Vec<f64>>,
}

impl Choice {
    fn new(strategy: &Strategy, search: &Search, pursuit: &Pursuit, profile: Profile) -> Choice {
        let size = pursuit.latents.len().min(strategy.k);
        let mut f1_by_step = pursuit.f1[..size].to_vec();
        if profile == Profile::Reference {
            let last = f1_by_step.last().copied().unwrap_or(0.0);
            f1_by_step.resize(size.max(strategy.k.min(search.steps)), last);
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

    /// F1 of all latents together; 0 without any.
    pub fn f1(&self) -> f64 {
        self.f1_by_step.last().copied().unwrap_or(0.0)
    }
}

/// A pursuit that serves every k of a matcher and beta.
struct Search {
    matcher: Matcher,
    beta: Option<f64>,
    k: usize,
    steps: usize,
}

impl Search {
    fn serves(&self, strategy: &Strategy) -> bool {
        self.matcher == strategy.matcher && self.beta == strategy.beta
    }

    /// How many steps are taken. The released program always takes its own number, whatever is reported later.
    fn longest(&self, codes: &Codes, concepts: usize, profile: Profile) -> usize {
        match (profile, self.matcher) {
            (_, Matcher::OneToOne) => 1,
            (Profile::Paper, _) => self.k.min(codes.latents()),
            (Profile::Reference, Matcher::Naive) => codes.latents().min(10),
            (Profile::Reference, Matcher::Nnomp) => codes.latents().min(20),
            // The number of concepts stands here where the number of latents was meant.
            (Profile::Reference, Matcher::Fbmp) => codes.rows().min(concepts).min(20),
        }
    }
}

/// The rows of a concept, in the order of the codes.
pub(super) struct ConceptRows<'a> {
    /// The rows where the concept is.
    pub yes: Cow<'a, Bits>,
    /// The rows where somebody looked for it.
    pub known: Cow<'a, Bits>,
}

/// Codes and labels of the same rows, arranged for the matchers that will be used.
pub(super) struct PreparedCodes<'a> {
    codes: OrderedCodes<'a>,
    labels: &'a Annotations,
    order: RowOrder,
    strategies: &'a [Strategy],
    searches: Vec<Search>,
    firing: Option<Firing>,
    atoms: Option<Atoms>,
    threshold: f32,
    profile: Profile,
    context: &'a Context,
}

impl<'a> PreparedCodes<'a> {
    /// Arranges codes of the rows of a job, some or all, for some strategies.
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
        let mut searches: Vec<Search> = Vec::new();
        for strategy in strategies {
            match searches.iter_mut().find(|search| search.serves(strategy)) {
                Some(search) => search.k = search.k.max(strategy.k),
                None => {
                    searches.push(Search { matcher: strategy.matcher, beta: strategy.beta, k: strategy.k, steps: 0 });
                }
            }
        }
        searches.iter_mut().for_each(|search| search.steps = search.longest(&codes, labels.concepts(), profile));
        let firing = binary.then(|| Firing::new(&codes, threshold, context)).transpose()?;
        let atoms = valued.then(|| Atoms::new(&codes, context)).transpose()?;
        Ok(PreparedCodes { codes, labels, order, strategies, searches, firing, atoms, threshold, profile, context })
    }

    /// The rows of a concept.
    pub fn rows_of(&self, concept: usize) -> ConceptRows<'a> {
        let concept = Concept(concept as u32);
        ConceptRows {
            yes: self.order.bits(self.labels.yes(concept), false),
            // The released program takes rows that it lost for annotated ones.
            known: self.order.bits(self.labels.known(concept), true),
        }
    }

    /// What every strategy chooses for the concept with these rows.
    pub fn choose(&self, rows: &ConceptRows<'_>) -> Result<Vec<Choice>> {
        let (profile, context) = (self.profile, self.context);
        let cells = self.codes.rows() as u64 + self.codes.latents() as u64;
        let _memory = context.budget().reserve(16 * cells, "the search for the latents of a concept")?;
        let target = self.firing.as_ref().map(|firing| Target::new(firing, &rows.yes, &rows.known));
        let pursue = |search: &Search| {
            context.check()?;
            match (search.matcher, search.beta, &target, &self.atoms) {
                (Matcher::OneToOne, _, Some(target), _) => Ok(naive::one_to_one(target, profile)),
                (Matcher::Naive, _, Some(target), _) => Ok(naive::pursue(target, search.steps, profile)),
                (Matcher::Fbmp, Some(beta), Some(target), _) => {
                    fbmp::pursue(target, beta, search.steps, profile, context)
                }
                (Matcher::Nnomp, _, _, Some(atoms)) => {
                    let codes = ScaledCodes::new(&self.codes, atoms, context)?;
                    nnomp::pursue(codes, &rows.yes, &rows.known, search.steps)
                }
                _ => Err(Error::Bug("the codes were prepared for another matcher".into())),
            }
        };
        let pursuits = self.searches.iter().map(pursue).collect::<Result<Vec<Pursuit>>>()?;
        let cut = |strategy: &Strategy| {
            let mut found = self.searches.iter().zip(&pursuits).filter(|(search, _)| search.serves(strategy));
            found.next().map(|(search, pursuit)| Choice::new(strategy, search, pursuit, profile)).unwrap_or_default()
        };
        Ok(self.strategies.iter().map(cut).collect())
    }

    /// The known rows in which chosen latents say that their concept is there; other codes may have chosen them.
    pub fn predicted(&self, choice: &Choice, rows: &ConceptRows<'_>) -> Result<Bits> {
        let mut predicted = match (&choice.weights, &self.firing) {
            (Some(weights), _) => nnomp::predicted(self.codes.columns()?, &choice.latents, weights),
            (None, Some(firing)) => {
                let mut covered = Bits::empty(self.codes.rows());
                choice.latents.iter().for_each(|&latent| firing.cover(latent as usize, &mut covered));
                covered
            }
            (None, None) => return Err(Error::Bug("binary coalitions without binary codes".into())),
        };
        predicted.intersect(&rows.known);
        Ok(predicted)
    }

    /// In how many rows a latent fires.
    pub fn fired(&self, latent: u32) -> Result<usize> {
        match &self.firing {
            Some(firing) => Ok(firing.fired(latent as usize)),
            None => Ok(self.codes.columns()?.fired(Latent(latent), self.threshold).count()),
        }
    }
}
