//! Matching every concept: one pursuit per concept and matcher, cut to each size that was asked for.

use rayon::prelude::*;

use super::Strategy;
use super::fbmp;
use super::firing::{Firing, Target};
use super::naive;
use super::nnomp::{self, Atoms};
use super::placement::Placed;
use super::strategy::{Matcher, THRESHOLD};
use crate::budget::Budget;
use crate::codes::{Codes, Latent};
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::labels::{Annotations, Concept};
use crate::results::Profile;
use crate::run::Job;

/// What one strategy found for every concept.
#[derive(Clone, Debug, PartialEq)]
pub struct Matching {
    /// The strategy.
    pub strategy: Strategy,
    /// The chosen latents of each concept, in order of choice, at most k.
    pub coalitions: Vec<Vec<Latent>>,
    /// F1 after every choice; in profile `reference` padded with its last value, as the released program stores it.
    pub f1_by_step: Vec<Vec<f64>>,
    /// After how many choices of the whole run, not cut to k, F1 was best.
    best_step: Vec<usize>,
    /// The weights of the coalition, where the matcher has any.
    weights: Option<Vec<Vec<f64>>>,
    /// How many latents there were to choose from.
    latents: usize,
}

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

/// How codes are matched, whichever they are.
#[derive(Clone, Copy)]
pub(super) struct Settings<'a> {
    /// A latent fires above this.
    pub threshold: f32,
    /// Paper or reference.
    pub profile: Profile,
    /// The memory there is.
    pub budget: &'a Budget,
}

/// Codes and labels of the same rows, arranged for the matchers that will be used.
pub(super) struct Field<'a> {
    /// The codes.
    pub codes: &'a Codes,
    /// The labels.
    pub labels: &'a Annotations,
    /// How they are matched.
    pub settings: Settings<'a>,
    firing: Option<Firing>,
    atoms: Option<Atoms<'a>>,
}

impl<'a> Field<'a> {
    /// Arranges codes for some strategies.
    pub fn new(
        codes: &'a Codes,
        labels: &'a Annotations,
        settings: Settings<'a>,
        strategies: &[Strategy],
    ) -> Result<Field<'a>> {
        let (threshold, budget) = (settings.threshold, settings.budget);
        let binary = strategies.iter().any(|strategy| strategy.matcher != Matcher::Nnomp);
        let valued = strategies.iter().any(|strategy| strategy.matcher == Matcher::Nnomp);
        let firing = binary.then(|| Firing::new(codes, threshold, budget)).transpose()?;
        let atoms = valued.then(|| Atoms::new(codes, budget)).transpose()?;
        Ok(Field { codes, labels, settings, firing, atoms })
    }

    /// In how many rows a latent fires.
    pub fn fired(&self, latent: Latent) -> Result<usize> {
        match &self.firing {
            Some(firing) => Ok(firing.fired(latent.0 as usize)),
            None => Ok(self.codes.columns()?.fired(latent, self.settings.threshold).count()),
        }
    }
}

/// Chooses latents for every concept of a job, by every strategy. Runs on the threads of the caller's pool.
///
/// Reads the parameter `threshold`, and `reference_batch` if the card declares it.
pub fn match_concepts(job: &Job<'_>, strategies: &[Strategy]) -> Result<Vec<Matching>> {
    let placed = Placed::of_job(job)?;
    let threshold = job.number(THRESHOLD.name)? as f32;
    let settings = Settings { threshold, profile: job.profile, budget: job.budget };
    match_all(&Field::new(placed.codes(), placed.labels(), settings, strategies)?, strategies)
}

/// The same for any codes and labels.
pub(super) fn match_all(field: &Field<'_>, strategies: &[Strategy]) -> Result<Vec<Matching>> {
    let Field { codes, labels, settings: Settings { profile, .. }, firing, atoms } = field;
    let profile = *profile;
    // One run serves every k of the same matcher and beta.
    let mut runs: Vec<Run> = Vec::new();
    for strategy in strategies {
        match runs.iter_mut().find(|run| run.serves(strategy)) {
            Some(run) => run.k = run.k.max(strategy.k),
            None => runs.push(Run { matcher: strategy.matcher, beta: strategy.beta, k: strategy.k, steps: 0 }),
        }
    }
    runs.iter_mut().for_each(|run| run.steps = run.longest(codes, labels, profile));
    let one_concept = |concept: usize| -> Result<Vec<Pursuit>> {
        let (yes, known) = (labels.yes(Concept(concept as u32)), labels.known(Concept(concept as u32)));
        let target = firing.as_ref().map(|firing| Target::new(firing, yes, known));
        let pursue = |run: &Run| match (run.matcher, run.beta, &target, atoms) {
            (Matcher::OneToOne, _, Some(target), _) => Ok(naive::one_to_one(target, profile)),
            (Matcher::Naive, _, Some(target), _) => Ok(naive::pursue(target, run.steps, profile)),
            (Matcher::Fbmp, Some(beta), Some(target), _) => Ok(fbmp::pursue(target, beta, run.steps, profile)),
            (Matcher::Nnomp, _, _, Some(atoms)) => nnomp::pursue(atoms, yes, known, run.steps),
            _ => Ok(Pursuit::default()),
        };
        runs.iter().map(pursue).collect()
    };
    let concepts: Vec<Vec<Pursuit>> = (0..labels.concepts()).into_par_iter().map(one_concept).collect::<Result<_>>()?;
    let cut = |strategy: &Strategy| {
        let place = runs.iter().position(|run| run.serves(strategy)).unwrap_or(0);
        let pursuits: Vec<&Pursuit> = concepts.iter().map(|runs| &runs[place]).collect();
        Matching::cut(*strategy, &pursuits, &runs[place], profile, codes.latents())
    };
    Ok(strategies.iter().map(cut).collect())
}

/// A matcher's run, long enough for the largest k.
struct Run {
    matcher: Matcher,
    beta: Option<f64>,
    k: usize,
    steps: usize,
}

impl Run {
    fn serves(&self, strategy: &Strategy) -> bool {
        self.matcher == strategy.matcher && self.beta == strategy.beta
    }

    /// How many steps are taken. The released program always takes its own number, whatever is reported later.
    fn longest(&self, codes: &Codes, labels: &Annotations, profile: Profile) -> usize {
        match (profile, self.matcher) {
            (_, Matcher::OneToOne) => 1,
            (Profile::Paper, _) => self.k.min(codes.latents()),
            (Profile::Reference, Matcher::Naive) => codes.latents().min(10),
            (Profile::Reference, Matcher::Nnomp) => codes.latents().min(20),
            // The number of concepts stands here where the number of latents was meant.
            (Profile::Reference, Matcher::Fbmp) => codes.rows().min(labels.concepts()).min(20),
        }
    }
}

impl Matching {
    fn cut(strategy: Strategy, pursuits: &[&Pursuit], run: &Run, profile: Profile, latents: usize) -> Matching {
        let size = |pursuit: &Pursuit| pursuit.latents.len().min(strategy.k);
        let coalition = |pursuit: &&Pursuit| pursuit.latents[..size(pursuit)].iter().map(|&l| Latent(l)).collect();
        let by_step = |pursuit: &&Pursuit| {
            let mut f1 = pursuit.f1[..size(pursuit)].to_vec();
            if profile == Profile::Reference {
                let last = f1.last().copied().unwrap_or(0.0);
                f1.resize(f1.len().max(strategy.k.min(run.steps)), last);
            }
            f1
        };
        let best = |pursuit: &&Pursuit| {
            let first_best = |best: usize, step: usize| if pursuit.f1[step] > pursuit.f1[best] { step } else { best };
            1 + (0..pursuit.f1.len()).fold(0, first_best)
        };
        let weights = |pursuit: &&Pursuit| {
            let last = size(pursuit).checked_sub(1);
            last.and_then(|last| pursuit.weights.get(last)).cloned().unwrap_or_default()
        };
        Matching {
            strategy,
            coalitions: pursuits.iter().map(coalition).collect(),
            f1_by_step: pursuits.iter().map(by_step).collect(),
            best_step: pursuits.iter().map(best).collect(),
            weights: (strategy.matcher == Matcher::Nnomp).then(|| pursuits.iter().map(weights).collect()),
            latents,
        }
    }

    /// F1 of the whole coalition of a concept; 0 for an empty one.
    pub fn f1(&self, concept: Concept) -> f64 {
        self.f1_by_step.get(concept.0 as usize).and_then(|steps| steps.last()).copied().unwrap_or(0.0)
    }

    /// The latents that stand for each concept when images are compared.
    ///
    /// `paper`: the coalitions. `reference`: cut where the whole run was best, and never empty: the released program
    /// takes some latent, in practice the first, where nothing was chosen.
    pub fn matched_sets(&self, profile: Profile) -> Vec<Vec<Latent>> {
        let set = |(coalition, &best): (&Vec<Latent>, &usize)| match profile {
            Profile::Paper => coalition.clone(),
            Profile::Reference if coalition.is_empty() && self.latents > 0 => vec![Latent(0)],
            Profile::Reference => coalition.iter().take(best).copied().collect(),
        };
        self.coalitions.iter().zip(&self.best_step).map(set).collect()
    }

    /// The known rows in which a coalition says that its concept is there; the codes may be others than chose it.
    pub(super) fn predicted(&self, concept: usize, field: &Field<'_>) -> Result<Bits> {
        let coalition = &self.coalitions[concept];
        let mut rows = match (&self.weights, &field.firing) {
            (Some(weights), _) => nnomp::predicted(field.codes.columns()?, coalition, &weights[concept]),
            (None, Some(firing)) => {
                let mut rows = Bits::empty(field.codes.rows());
                coalition.iter().for_each(|latent| firing.cover(latent.0 as usize, &mut rows));
                rows
            }
            (None, None) => return Err(Error::Bug("binary coalitions without binary codes".into())),
        };
        rows.intersect(field.labels.known(Concept(concept as u32)));
        Ok(rows)
    }
}
