//! Δstay: do the latents of concepts that were not touched stay as they are?

use etalon_kernel::random::{index, stream};
use serde::{Deserialize, Serialize};

use super::matching::{BETA, K, MATCHER, REFERENCE_BATCH, Strategy, THRESHOLD, match_concepts};
use super::tapa::{fires, threshold_of_pairs};
use super::{Better, Card, Metric, Output};
use crate::codes::{CodesView, Latent};
use crate::error::{Error, Result};
use crate::labels::{Annotations, Concept, Label, Pair};
use crate::results::{Interval, Profile, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{CODES, Count, Job, LABELS, List, PAIR_CODES, PAIR_LABELS, PAIRS, Work};
use crate::state;

/// How often an untouched concept flips.
pub struct Stay;

static CARD: Card = Card {
    name: "stay",
    title: "Δstay",
    summary: "How often the latents of concepts that a change did not touch switch on or off all the same.",
    version: 1,
    measures: "A high TAPAScore could come from latents that react to any change. On the same pairs of images this looks at \
        the concepts that were not changed: the share of them that appear or vanish according to their latents. 0 means \
        that nothing leaks; read it beside `tapa`.",
    definition: "For every pair and every concept a outside what the pair adds or removes, with matched latents S_a: \
        |[any of S_a fires after] − [any of S_a fires before]|, which is 0 or 1. `delta_stay` is the mean over all these \
        instances (not over pairs). Profile `paper` takes the concepts that are annotated in the image before the change; \
        one whose label differs between the two images was touched and is left out. Profile `reference` takes only \
        concepts that are present before the change. A concept without latents cannot flip and is no instance. \
        Undefined without instances. Latents fire above `threshold`; in profile `reference` that is for matching, and in \
        pairs they fire above 0.",
    cost: "The cost of matching, then pairs × concepts × k look-ups in sparse rows.",
    source: "\"Evaluating the Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716), equation 13 and table \
        S3. The text speaks of every annotated attribute outside the intervention; the released program restricts itself \
        to those present in the original, which flip more easily because they are on.",
    interval: "percentile bootstrap over pairs, 1000 resamples, with the matching held fixed",
    needs: &[&CODES, &LABELS, &PAIRS, &PAIR_LABELS],
    uses: &[],
    headline: &[Output {
        key: "delta_stay",
        doc: "the share of untouched concepts whose latents flip, first strategy",
        range: (0.0, 1.0),
        better: Better::Lower,
    }],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH],
};

/// Pairs that are looked at together.
const BLOCK_PAIRS: usize = 256;

impl Metric for Stay {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (names, pairs) = (job.get(&LABELS)?.names(), &job.get(&PAIRS)?.pairs);
        let strategies = Strategy::from_params(job)?;
        let matchings = match_concepts(job, work, &strategies)?;
        let sets: Vec<Vec<Vec<Latent>>> = matchings.iter().map(|matching| matching.matched_sets(job.profile)).collect();
        let untouched = Untouched {
            codes: job.get(&PAIR_CODES)?.all()?,
            labels: job.get(&PAIR_LABELS)?,
            above: threshold_of_pairs(job)?,
            profile: job.profile,
        };
        let empty = || AllFlips::new(strategies.len(), names.len());
        let found = work.fold("groups of pairs", pairs.len().div_ceil(BLOCK_PAIRS), empty, |all, block| {
            pairs[block * BLOCK_PAIRS..].iter().take(BLOCK_PAIRS).try_for_each(|pair| {
                job.check()?;
                untouched.add(all, pair, &sets);
                Ok(())
            })
        })?;
        let intervals =
            work.blocks("strategies", strategies.len(), |strategy| interval(job, &found.strategies[strategy].pairs.0))?;
        let totals: Vec<Flips> = found.strategies.iter().map(StrategyFlips::total).collect();
        let (first, first_interval) =
            totals.first().zip(intervals.first()).ok_or_else(|| Error::Bug("no strategy".into()))?;

        let mut scores = Scores::default();
        scores.headline("delta_stay", first.share(), *first_interval, first.instances);
        let without = sets.first().map_or(0, |sets| sets.iter().filter(|set| set.is_empty()).count());
        if without > 0 {
            scores.note(format!("concepts without latents, which are no instances: {without} of {}", names.len()));
        }
        let relabelled = found.relabelled[0];
        if relabelled > 0 {
            scores.note(format!(
                "left out because labels differ within a pair that does not say so: {relabelled} instances"
            ));
        }
        if first.instances == 0 {
            scores.note("no untouched concept to look at: undefined");
        }
        let concepts: Vec<Flips> = found.strategies.iter().flat_map(StrategyFlips::by_concept).collect();
        scores.tables.push(
            Table::new("strategy")
                .words("strategy", strategies.iter().map(Strategy::to_string))
                .numbers("delta_stay", totals.iter().map(Flips::share))
                .numbers("low", intervals.iter().map(|interval| interval.map(|interval| interval.low)))
                .numbers("high", intervals.iter().map(|interval| interval.map(|interval| interval.high)))
                .counts("instances", totals.iter().map(|of| of.instances))
                .counts("flips", totals.iter().map(|of| of.flips)),
        );
        scores.tables.push(
            Table::new("concept")
                .words("strategy", strategies.iter().flat_map(|strategy| names.iter().map(|_| strategy.to_string())))
                .words("name", strategies.iter().flat_map(|_| names.iter().cloned()))
                .counts("instances", concepts.iter().map(|of| of.instances))
                .counts("flips", concepts.iter().map(|of| of.flips))
                .numbers("delta_stay", concepts.iter().map(Flips::share)),
        );
        Ok(scores)
    }
}

/// How many instances there are and how many of them flip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Flips {
    instances: usize,
    flips: usize,
}

impl Flips {
    fn add(&mut self, other: Flips) {
        self.instances += other.instances;
        self.flips += other.flips;
    }

    fn share(&self) -> Option<f64> {
        (self.instances > 0).then(|| self.flips as f64 / self.instances as f64)
    }
}

/// What happens to untouched concepts under one strategy.
#[derive(Serialize, Deserialize)]
struct StrategyFlips {
    /// Instances by concept.
    instances: Count,
    /// Flips by concept.
    flips: Count,
    /// Both by pair.
    pairs: List<Flips>,
}

state!(StrategyFlips { instances, flips, pairs });

impl StrategyFlips {
    fn by_concept(&self) -> impl Iterator<Item = Flips> {
        let flips = |(&instances, &flips): (&u64, &u64)| Flips { instances: instances as usize, flips: flips as usize };
        self.instances.iter().zip(self.flips.iter()).map(flips)
    }

    fn total(&self) -> Flips {
        sum(self.pairs.0.iter())
    }
}

/// What happens under all strategies.
#[derive(Serialize, Deserialize)]
struct AllFlips {
    strategies: Vec<StrategyFlips>,
    /// How many labels change within a pair that does not list them.
    relabelled: Count,
}

state!(AllFlips { strategies, relabelled });

impl AllFlips {
    fn new(strategies: usize, concepts: usize) -> AllFlips {
        let empty =
            |_| StrategyFlips { instances: Count::new(concepts), flips: Count::new(concepts), pairs: List(Vec::new()) };
        AllFlips { strategies: (0..strategies).map(empty).collect(), relabelled: Count::new(1) }
    }
}

/// The images of the pairs, and which concepts of them count as untouched.
struct Untouched<'a> {
    codes: CodesView<'a>,
    labels: &'a Annotations,
    above: f32,
    profile: Profile,
}

impl Untouched<'_> {
    /// Adds a pair. `sets` has the latents of every concept, by strategy.
    fn add(&self, all: &mut AllFlips, pair: &Pair, sets: &[Vec<Vec<Latent>>]) {
        for (of_strategy, sets) in all.strategies.iter_mut().zip(sets) {
            let mut of_pair = Flips::default();
            for (concept, set) in sets.iter().enumerate() {
                if let Some(flips) = self.instance(pair, Concept(concept as u32), set) {
                    of_strategy.instances.add(concept, flips.instances as u64);
                    of_strategy.flips.add(concept, flips.flips as u64);
                    of_pair.add(flips);
                }
            }
            of_strategy.pairs.0.push(of_pair);
        }
        all.relabelled.add(0, self.relabelled(pair));
    }

    fn instance(&self, pair: &Pair, concept: Concept, set: &[Latent]) -> Option<Flips> {
        let here = match self.profile {
            Profile::Paper => self.labels.known(concept).contains(pair.before) && !self.differs(pair, concept),
            Profile::Reference => self.labels.yes(concept).contains(pair.before),
        };
        if !here || set.is_empty() || is_target(pair, concept) {
            return None;
        }
        let fires = |row: usize| fires(&self.codes, row, set, self.above);
        Some(Flips { instances: 1, flips: usize::from(fires(pair.before) != fires(pair.after)) })
    }

    /// Do the labels themselves say that the concept changed?
    fn differs(&self, pair: &Pair, concept: Concept) -> bool {
        let labels = [pair.before, pair.after].map(|row| self.labels.label(row, concept));
        labels[0] != labels[1] && !labels.contains(&Label::Unknown)
    }

    /// How many labels change within a pair that does not list them.
    fn relabelled(&self, pair: &Pair) -> u64 {
        let concepts = (0..self.labels.concepts()).map(|concept| Concept(concept as u32));
        match self.profile {
            Profile::Paper => concepts.filter(|&c| !is_target(pair, c) && self.differs(pair, c)).count() as u64,
            Profile::Reference => 0,
        }
    }
}

fn is_target(pair: &Pair, concept: Concept) -> bool {
    [pair.added, pair.removed].contains(&Some(concept))
}

fn sum<'a>(flips: impl Iterator<Item = &'a Flips>) -> Flips {
    flips.fold(Flips::default(), |mut total, flips| {
        total.add(*flips);
        total
    })
}

/// Instances of one pair are not independent, so whole pairs are drawn.
fn interval(job: &Job<'_>, pairs: &[Flips]) -> Result<Option<Interval>> {
    if pairs.len() < 2 {
        return Ok(None);
    }
    let mut random = stream(job.seed, "stay/pairs", 0);
    let mut shares = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        job.check()?;
        shares.extend(sum((0..pairs.len()).map(|_| &pairs[index(pairs.len(), &mut random)])).share());
    }
    Ok(percentile_interval(shares))
}

#[cfg(test)]
mod tests;
