//! Δstay: do the latents of concepts that were not touched stay as they are?

use rayon::prelude::*;

use super::matching::{BETA, K, MATCHER, Matching, REFERENCE_BATCH, Strategy, THRESHOLD, match_concepts};
use super::tapa::{fires, threshold_of_pairs};
use super::{Better, Card, Metric, Need, Output};
use crate::codes::{CodesView, Latent};
use crate::error::{Complaint, Error, Result};
use crate::kernel::random::{index, stream};
use crate::labels::{Annotations, Concept, Label, Pair, PairSet};
use crate::results::{Interval, Profile, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Job, Next};

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
    needs: &[Need::Codes, Need::Labels, Need::Pairs, Need::PairLabels],
    uses: &[],
    headline: &[Output {
        key: "delta_stay",
        doc: "the share of untouched concepts whose latents flip, first strategy",
        range: (0.0, 1.0),
        better: Better::Lower,
    }],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH],
};

impl Metric for Stay {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (names, pairs) = (job.labels()?.names(), job.pairs()?);
        let codes = job.inputs.codes_of_pairs().ok_or_else(|| Error::Bug("pairs without codes".into()))?;
        let labels = job.inputs.labels_of_pairs().ok_or_else(|| Error::Bug("pairs without labels".into()))?;
        if labels.rows() != codes.rows() {
            return Err(Complaint::new("labels and codes of the pairs differ in rows")
                .expected(format!("{} rows", codes.rows()))
                .found(format!("{} rows", labels.rows()))
                .advice("take both from the same images, in the same order")
                .into());
        }
        let untouched =
            Untouched { codes: codes.all()?, labels, above: threshold_of_pairs(job)?, profile: job.profile };
        let judge = |matching: Matching| untouched.judge(&matching, pairs, job.seed);
        let matchings = match_concepts(job, &Strategy::from_params(job)?)?;
        let judged: Vec<Judged> = matchings.into_par_iter().map(judge).collect();
        let first = judged.first().ok_or_else(|| Error::Bug("no strategy".into()))?;

        let mut scores = Scores::default();
        scores.headline("delta_stay", first.total.share(), first.interval, first.total.instances);
        if first.without > 0 {
            scores.note(format!(
                "concepts without latents, which are no instances: {} of {}",
                first.without,
                names.len()
            ));
        }
        let relabelled = untouched.relabelled(pairs);
        if relabelled > 0 {
            scores.note(format!(
                "left out because labels differ within a pair that does not say so: {relabelled} instances"
            ));
        }
        if first.total.instances == 0 {
            scores.note("no untouched concept to look at: undefined");
        }
        let all = || judged.iter().flat_map(|one| one.concepts.iter());
        let strategies = || judged.iter().flat_map(|one| names.iter().map(|_| one.strategy.to_string()));
        scores.tables.push(
            Table::new("strategy")
                .words("strategy", judged.iter().map(|one| one.strategy.to_string()))
                .numbers("delta_stay", judged.iter().map(|one| one.total.share()))
                .numbers("low", judged.iter().map(|one| one.interval.map(|interval| interval.low)))
                .numbers("high", judged.iter().map(|one| one.interval.map(|interval| interval.high)))
                .counts("instances", judged.iter().map(|one| one.total.instances))
                .counts("flips", judged.iter().map(|one| one.total.flips)),
        );
        scores.tables.push(
            Table::new("concept")
                .words("strategy", strategies())
                .words("name", judged.iter().flat_map(|_| names.iter().cloned()))
                .counts("instances", all().map(|of| of.instances))
                .counts("flips", all().map(|of| of.flips))
                .numbers("delta_stay", all().map(Flips::share)),
        );
        Ok(Next::Done(scores))
    }
}

/// How many instances there are and how many of them flip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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

/// What one strategy found.
struct Judged {
    strategy: Strategy,
    total: Flips,
    interval: Option<Interval>,
    concepts: Vec<Flips>,
    without: usize,
}

/// The images of the pairs, and which concepts of them count as untouched.
struct Untouched<'a> {
    codes: CodesView<'a>,
    labels: &'a Annotations,
    above: f32,
    profile: Profile,
}

impl Untouched<'_> {
    fn judge(&self, matching: &Matching, pairs: &PairSet, seed: u64) -> Judged {
        let sets = matching.matched_sets(self.profile);
        let (mut concepts, mut by_pair) = (vec![Flips::default(); sets.len()], Vec::with_capacity(pairs.pairs.len()));
        for pair in &pairs.pairs {
            let mut of_pair = Flips::default();
            for (concept, set) in sets.iter().enumerate() {
                if let Some(flips) = self.instance(pair, Concept(concept as u32), set) {
                    concepts[concept].add(flips);
                    of_pair.add(flips);
                }
            }
            by_pair.push(of_pair);
        }
        Judged {
            strategy: matching.strategy,
            total: sum(by_pair.iter()),
            interval: interval(&by_pair, seed),
            concepts,
            without: sets.iter().filter(|set| set.is_empty()).count(),
        }
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
    fn relabelled(&self, pairs: &PairSet) -> usize {
        let concepts = || (0..self.labels.concepts()).map(|concept| Concept(concept as u32));
        let of_pair = |pair: &Pair| concepts().filter(|&c| !is_target(pair, c) && self.differs(pair, c)).count();
        match self.profile {
            Profile::Paper => pairs.pairs.iter().map(of_pair).sum(),
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
fn interval(by_pair: &[Flips], seed: u64) -> Option<Interval> {
    if by_pair.len() < 2 {
        return None;
    }
    let mut random = stream(seed, "stay/pairs", 0);
    let mut draw = || sum((0..by_pair.len()).map(|_| &by_pair[index(by_pair.len(), &mut random)])).share();
    percentile_interval((0..RESAMPLES).filter_map(|_| draw()).collect())
}

#[cfg(test)]
mod tests;
