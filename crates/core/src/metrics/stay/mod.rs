//! Δstay: do the latents of unchanged concepts keep their state?

use serde::{Deserialize, Serialize};

use super::matching::{
    BETA, K, MATCHER, MatchedSets, REFERENCE_BATCH, Strategy, THRESHOLD, concept_table, matched_sets,
};
use super::resamples::{Draws, resamples_in_block};
use super::tapa::{fires, is_lost, threshold_of_pairs};
use super::{Better, Card, Metric, Output};
use crate::codes::{CodesView, Latent};
use crate::error::{Error, Result};
use crate::labels::{Annotations, Concept, Label, Pair};
use crate::results::{Interval, Profile, Scores, Table, percentile_interval};
use crate::run::{CODES, Count, Job, LABELS, List, PAIR_CODES, PAIR_LABELS, PAIRS, Work};
use crate::state;

/// How often an unchanged concept flips.
pub struct Stay;

static CARD: Card = Card {
    name: "stay",
    title: "Δstay",
    summary: "How often the latents of unchanged concepts switch on or off when an image is changed.",
    version: 2,
    measures: "A high TAPAScore can come from latents that respond to any change. On the same pairs of images, this is the \
        share of unchanged concepts that appear or vanish according to their latents. 0 means that no change leaks into \
        other concepts. Report it together with `tapa`.",
    definition: "For every pair, and every concept a that the pair neither adds nor removes, with matched latents S_a (see \
        `match`): |[any of S_a fires after] − [any of S_a fires before]|, which is 0 or 1. `delta_stay` is the mean over all \
        these instances (not over pairs). A concept without latents cannot flip and is not an instance. Undefined without \
        instances.\n\
        Profile `paper` takes the concepts that are annotated in the image before the change; a concept whose label differs \
        between the two images was changed and is left out. Latents fire above `threshold`.\n\
        Profile `reference` takes only concepts that are present before the change, and leaves out pairs whose added concept \
        has no latents that the removed one lacks. `threshold` applies to matching only; \
        in pairs, latents fire above 0.",
    cost: "Matching, then pairs × concepts × k lookups in sparse rows.",
    source: "\"Evaluating the Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716), equation 13 and table \
        S3. The text takes every annotated attribute outside the intervention; the released code takes only those present \
        in the original image, which flip more easily because they are on; and it averages over the pairs that `tapa` keeps, because rows with an \
        undefined value are dropped.",
    interval: "Percentile bootstrap over pairs, 1000 resamples, with fixed matching.",
    needs: &[&CODES, &LABELS, &PAIRS, &PAIR_LABELS],
    uses: &[],
    headline: &[Output::new(
        "delta_stay",
        "Share of unchanged concepts whose latents flip, first strategy",
        (0.0, 1.0),
        Better::Lower,
    )],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH],
};

/// Pairs per block.
const BLOCK_PAIRS: usize = 256;

impl Metric for Stay {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (names, pairs) = (job.get(&LABELS)?.names(), &job.get(&PAIRS)?.pairs);
        let strategies = Strategy::from_params(job)?;
        let sets = matched_sets(job, work, &strategies)?;
        let unchanged = Unchanged {
            codes: job.get(&PAIR_CODES)?.all()?,
            labels: job.get(&PAIR_LABELS)?,
            above: threshold_of_pairs(job)?,
            profile: job.profile,
        };
        let empty = || AllFlips::new(strategies.len(), names.len());
        let flips = work.fold("groups of pairs", pairs.len().div_ceil(BLOCK_PAIRS), empty, |all, block| {
            pairs[block * BLOCK_PAIRS..].iter().take(BLOCK_PAIRS).try_for_each(|pair| {
                job.check()?;
                unchanged.add(all, pair, &sets);
                Ok(())
            })
        })?;
        let intervals =
            work.blocks("strategies", strategies.len(), |strategy| interval(job, &flips.strategies[strategy].pairs.0))?;
        let totals: Vec<Flips> = flips.strategies.iter().map(StrategyFlips::total).collect();
        let (first, first_interval) =
            totals.first().zip(intervals.first()).ok_or_else(|| Error::Bug("no strategy".into()))?;

        let mut scores = Scores::default();
        scores.headline("delta_stay", first.share(), *first_interval, first.instances);
        let without = sets.first().map_or(0, |sets| sets.iter().filter(|set| set.is_empty()).count());
        if without > 0 {
            scores.note(format!("{without} of {} concepts have no latents and are left out", names.len()));
        }
        let relabelled = flips.relabelled[0];
        if relabelled > 0 {
            scores.note(format!(
                "{relabelled} instances are left out: their label changes within a pair that does not list the concept"
            ));
        }
        let lost = flips.strategies.first().map_or(0, |flips| flips.lost[0]);
        if lost > 0 {
            scores.note(format!(
                "{lost} of {} pairs are left out, as in the released code: their added concept has no latents",
                pairs.len()
            ));
        }
        if first.instances == 0 {
            scores.note("no unchanged concept has latents and a known label: undefined");
        }
        let concepts: Vec<Flips> = flips.strategies.iter().flat_map(StrategyFlips::by_concept).collect();
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
            concept_table(&strategies, names)
                .counts("instances", concepts.iter().map(|of| of.instances))
                .counts("flips", concepts.iter().map(|of| of.flips))
                .numbers("delta_stay", concepts.iter().map(Flips::share)),
        );
        Ok(scores)
    }
}

/// Numbers of instances and of flips.
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

/// Flips under one strategy.
#[derive(Serialize, Deserialize)]
struct StrategyFlips {
    /// Instances by concept.
    instances: Count,
    /// Flips by concept.
    flips: Count,
    /// Instances and flips by pair.
    pairs: List<Flips>,
    /// Pairs that the released code loses.
    lost: Count,
}

state!(StrategyFlips { instances, flips, pairs, lost });

impl StrategyFlips {
    fn by_concept(&self) -> impl Iterator<Item = Flips> {
        let flips = |(&instances, &flips): (&u64, &u64)| Flips { instances: instances as usize, flips: flips as usize };
        self.instances.iter().zip(self.flips.iter()).map(flips)
    }

    fn total(&self) -> Flips {
        sum(self.pairs.0.iter())
    }
}

/// Flips under all strategies.
#[derive(Serialize, Deserialize)]
struct AllFlips {
    strategies: Vec<StrategyFlips>,
    /// Labels that change within a pair that does not list them.
    relabelled: Count,
}

state!(AllFlips { strategies, relabelled });

impl AllFlips {
    fn new(strategies: usize, concepts: usize) -> AllFlips {
        let empty = |_| StrategyFlips {
            instances: Count::new(concepts),
            flips: Count::new(concepts),
            pairs: List(Vec::new()),
            lost: Count::new(1),
        };
        AllFlips { strategies: (0..strategies).map(empty).collect(), relabelled: Count::new(1) }
    }
}

/// Finds the unchanged concepts of pairs.
struct Unchanged<'a> {
    codes: CodesView<'a>,
    labels: &'a Annotations,
    above: f32,
    profile: Profile,
}

impl Unchanged<'_> {
    /// Adds a pair. `sets` has the latents of every concept, by strategy.
    fn add(&self, all: &mut AllFlips, pair: &Pair, sets: &MatchedSets) {
        for (of_strategy, sets) in all.strategies.iter_mut().zip(sets) {
            let mut of_pair = Flips::default();
            if is_lost(pair, sets, self.profile) {
                of_strategy.lost.add(0, 1);
                continue;
            }
            for (concept, set) in sets.iter().enumerate() {
                if let Some(flips) = self.flips(pair, Concept(concept as u32), set) {
                    of_strategy.instances.add(concept, 1);
                    of_strategy.flips.add(concept, u64::from(flips));
                    of_pair.add(Flips { instances: 1, flips: usize::from(flips) });
                }
            }
            of_strategy.pairs.0.push(of_pair);
        }
        all.relabelled.add(0, self.relabelled(pair));
    }

    /// Whether the latents of an unchanged concept flip; `None` if the concept is not an instance.
    fn flips(&self, pair: &Pair, concept: Concept, set: &[Latent]) -> Option<bool> {
        let counts = match self.profile {
            Profile::Paper => self.labels.known(concept).contains(pair.before) && !self.differs(pair, concept),
            Profile::Reference => self.labels.yes(concept).contains(pair.before),
        };
        if !counts || set.is_empty() || is_target(pair, concept) {
            return None;
        }
        let fires = |row: usize| fires(&self.codes, row, set, self.above);
        Some(fires(pair.before) != fires(pair.after))
    }

    /// Whether both labels are known and differ.
    fn differs(&self, pair: &Pair, concept: Concept) -> bool {
        let labels = [pair.before, pair.after].map(|row| self.labels.label(row, concept));
        labels[0] != labels[1] && !labels.contains(&Label::Unknown)
    }

    /// The number of labels that change within a pair that does not list them.
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

/// Resamples whole pairs, because the instances of a pair are not independent.
fn interval(job: &Job<'_>, pairs: &[Flips]) -> Result<Option<Interval>> {
    if pairs.len() < 2 {
        return Ok(None);
    }
    let share = |draws: Draws<'_>| sum(draws.map(|pair| &pairs[pair])).share();
    let shares = resamples_in_block(job, "stay/pairs", pairs.len(), share)?;
    Ok(percentile_interval(shares.into_iter().flatten().collect()))
}

#[cfg(test)]
mod tests;
