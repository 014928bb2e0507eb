//! `frequency`: do generators fail on rare concepts, or do rare concepts only look worse by chance?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::bootstrap::{interval_of_defined, mean_of_defined, resampled};
use super::bounds::ALPHA;
use super::concept::{Concept, Rules, delta};
use super::flips::{self, Flips};
use super::measured::Measured;
use super::params::{CORRELATION, SHARE, TEMPERATURE};
use super::sums::compare;
use crate::error::Result;
use crate::metrics::{Better, Card, Metric, Output, Param};
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, GENERATED, Job, Work};
use etalon_kernel::statistics::{false_discovery, pearson, quantile, ranks};

/// Blindspots against how often a concept fires.
pub struct Frequency;

/// On the scale of relative gaps, as in the released code.
const RELATIVE_TEMPERATURE: Param = Param { default: "0.4", reference: Some("0.4"), ..TEMPERATURE };

static CARD: Card = Card {
    name: "frequency",
    title: "Blindspots and frequency",
    summary: "Whether rare concepts have larger gaps than chance alone gives them.",
    version: 2,
    measures: "A concept that is rare in training may be hard to generate. But a rare concept also fires in few rows, and the mean \
        over few rows is noisy: relative gaps of rare concepts are large even without any effect. Therefore all numbers are \
        reported together with those of one random half of the real rows against the other (the null). The funnel of the null \
        shows which concepts are outside the range of chance at their frequency.",
    definition: "f: share of real rows where the concept fires (ξ ≠ 0). Concepts that fire in no real row have no frequency and \
        are left out. r: relative gap (see `blindspots`). frequency_gap: Spearman's correlation of f and |gap|; \
        frequency_relative: of f and |r|; means over models. null_…: the same for real against real. Funnel: the 5 % and 95 % \
        quantiles of r of the null, in bins of a quarter decade of f with at least 20 concepts. outside_funnel: share of \
        concepts in these bins whose r is outside the funnel, mean over models. Without any effect it is 0.1, or less where \
        pairs are correlated, because the null is unpaired and its halves have half the rows. Table `latent_model` has \
        sigmoid(r/T) as in the paper's figure (at T = 0.4 it is between 0.076 and 0.924), q of the gap as in `blindspots` with \
        its default parameters, and a class: below, inside or above the funnel; in a bin without a funnel below, inside \
        or above by q (q < 0.05 and the sign of the gap). Table `model` counts the classes.\n\
        Undefined with fewer than two concepts or where a side is constant. Both profiles are the same.",
    cost: "As for `blindspots`.",
    source: "Bohacek, Fel, Agrawala and Lubana, Section 5.6, Figure 13, which plots relative gaps against token counts of another \
        data set; here the frequency is that in the real rows. The null is not in the paper.",
    interval: "Percentile bootstrap over concepts with ranks kept, 1000 resamples.",
    needs: &[&CODES, &GENERATED],
    uses: &[],
    headline: &[
        Output::new("frequency_gap", "Rank correlation of frequency and |gap|.", CORRELATION, Better::Neither),
        Output::new(
            "frequency_relative",
            "Rank correlation of frequency and |relative gap|.",
            CORRELATION,
            Better::Neither,
        ),
        Output::new("null_frequency_gap", "`frequency_gap`, real against real.", CORRELATION, Better::Neither),
        Output::new(
            "null_frequency_relative",
            "`frequency_relative`, real against real.",
            CORRELATION,
            Better::Neither,
        ),
        Output::new(
            "outside_funnel",
            "Share outside the range of chance, of the concepts whose bin has a funnel.",
            SHARE,
            Better::Lower,
        ),
    ],
    params: &[RELATIVE_TEMPERATURE],
};

impl Metric for Frequency {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let temperature = job.number(TEMPERATURE.name)?;
        let rules = Rules { temperature, suppressed_below: 0.1, exaggerated_above: 0.9 };
        let mut measured = Measured::new(compare(0, job, work)?, None, rules, job)?;
        let q = flips::p_values(&mut measured, FLIPS, job, work)?.iter().map(|p| false_discovery(p)).collect();
        let concepts = RealConcepts::new(&measured);
        let sides: Vec<&Vec<Option<Concept>>> = measured.sides().collect();
        let ranks = work.blocks("sides", sides.len(), |side| Ok(concepts.ranks(sides[side])))?;
        let relation = Relation::new(&measured, concepts, &ranks, q);
        // An index and two ranks per concept.
        let shape = ("frequency/concepts", relation.concepts.latents.len(), 24);
        let replicates = resampled(job, work, shape, |drawn| relation.numbers(drawn))?;
        Ok(relation.scores(&replicates))
    }
}

/// The defaults of `blindspots`.
const FLIPS: Flips = Flips { count: 1000, below: 30 };

/// Concepts that a bin of the funnel needs.
const FEWEST: usize = 20;

/// A bin of frequencies from 10^(bin/4) to 10^((bin + 1)/4).
#[derive(Clone, Debug)]
struct Bin {
    bin: i32,
    /// Its concepts, by index.
    concepts: Vec<usize>,
    /// The 5 %, 50 % and 95 % quantiles of the relative gaps of the null.
    funnel: Option<[f64; 3]>,
}

/// Concepts that fire in real rows.
struct RealConcepts {
    latents: Vec<usize>,
    frequency: Vec<f64>,
    frequency_ranks: Vec<f64>,
}

/// Ranks of the gaps of a side.
#[derive(Serialize, Deserialize)]
struct GapRanks {
    /// Of |gap|.
    gap: Vec<f64>,
    /// Of |relative gap|.
    relative: Vec<f64>,
}

fn bin_of(frequency: f64) -> i32 {
    (4.0 * frequency.log10() + 1e-9).floor() as i32
}

fn relative(concept: &Concept) -> f64 {
    concept.relative().unwrap_or(0.0)
}

impl RealConcepts {
    fn new(measured: &Measured) -> RealConcepts {
        let fires: Vec<(usize, u64)> = measured.real_fires().enumerate().filter(|(_, fires)| *fires > 0).collect();
        let frequency: Vec<f64> = fires.iter().map(|(_, fires)| *fires as f64 / measured.rows as f64).collect();
        let latents = fires.into_iter().map(|(latent, _)| latent).collect();
        RealConcepts { latents, frequency_ranks: ranks(&frequency), frequency }
    }

    /// A value of every concept on a side.
    fn values(&self, side: &[Option<Concept>], value: impl Fn(&Concept) -> f64) -> Vec<f64> {
        self.latents.iter().map(|&latent| side[latent].as_ref().map_or(0.0, &value)).collect()
    }

    fn ranks(&self, side: &[Option<Concept>]) -> GapRanks {
        GapRanks {
            gap: ranks(&self.values(side, |concept| concept.gap().abs())),
            relative: ranks(&self.values(side, |concept| relative(concept).abs())),
        }
    }

    /// The bins that have a concept, ascending.
    fn bins(&self, null: &[f64]) -> Vec<Bin> {
        let mut by_bin: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (concept, &frequency) in self.frequency.iter().enumerate() {
            by_bin.entry(bin_of(frequency)).or_default().push(concept);
        }
        let bin = |(bin, concepts): (i32, Vec<usize>)| {
            let mut sorted: Vec<f64> = concepts.iter().map(|&concept| null[concept]).collect();
            sorted.sort_by(f64::total_cmp);
            let funnel = [0.05, 0.5, 0.95].map(|level| quantile(&sorted, level).unwrap_or(0.0));
            Bin { bin, funnel: (sorted.len() >= FEWEST).then_some(funnel), concepts }
        };
        by_bin.into_iter().map(bin).collect()
    }
}

/// Frequencies and gaps of the concepts that fire in real rows.
struct Relation<'a> {
    measured: &'a Measured,
    concepts: RealConcepts,
    /// By side (models, then the null).
    ranks: &'a [GapRanks],
    bins: Vec<Bin>,
    /// By model and concept, 1 outside the funnel and 0 inside; `None` without a funnel.
    outside: Vec<Vec<Option<f64>>>,
    /// By side (models, then the null) and latent.
    q: Vec<Vec<Option<f64>>>,
}

/// The classes of concepts: where the bin has no funnel, q decides.
const CLASSES: [&str; 6] = ["below", "inside", "above", "below by q", "inside by q", "above by q"];

/// The headline keys.
const HEADLINES: [&str; 5] =
    ["frequency_gap", "frequency_relative", "null_frequency_gap", "null_frequency_relative", "outside_funnel"];

/// In the order of [`HEADLINES`].
type Numbers = [Option<f64>; 5];

impl<'a> Relation<'a> {
    fn new(
        measured: &'a Measured,
        concepts: RealConcepts,
        ranks: &'a [GapRanks],
        q: Vec<Vec<Option<f64>>>,
    ) -> Relation<'a> {
        let bins = concepts.bins(&concepts.values(&measured.null, relative));
        let outside_of = |model: &Vec<Option<Concept>>| {
            let gaps = concepts.values(model, relative);
            let mut outside = vec![None; gaps.len()];
            for (bin, funnel) in bins.iter().filter_map(|bin| Some((bin, bin.funnel?))) {
                for &concept in &bin.concepts {
                    let is_outside = gaps[concept] < funnel[0] || gaps[concept] > funnel[2];
                    outside[concept] = Some(f64::from(u8::from(is_outside)));
                }
            }
            outside
        };
        let outside = measured.models.iter().map(outside_of).collect();
        Relation { measured, concepts, ranks, bins, outside, q }
    }

    /// The headline numbers over some concepts.
    fn numbers(&self, drawn: &[usize]) -> Numbers {
        let pick = |values: &[f64]| drawn.iter().map(|&concept| values[concept]).collect::<Vec<f64>>();
        let frequency = pick(&self.concepts.frequency_ranks);
        let (models, null) = self.ranks.split_at(self.measured.models.len());
        let correlation = |ranks: &[f64]| pearson(&frequency, &pick(ranks));
        [
            mean_of_defined(models.iter().map(|side| correlation(&side.gap))),
            mean_of_defined(models.iter().map(|side| correlation(&side.relative))),
            null.first().and_then(|side| correlation(&side.gap)),
            null.first().and_then(|side| correlation(&side.relative)),
            mean_of_defined((0..models.len()).map(|model| self.share_outside(model, drawn))),
        ]
    }

    /// The share of some concepts that is outside the funnel in a model.
    fn share_outside(&self, model: usize, concepts: &[usize]) -> Option<f64> {
        mean_of_defined(concepts.iter().map(|&concept| self.outside[model][concept]))
    }

    /// The class of every concept in a model, as an index of [`CLASSES`].
    fn classes(&self, model: usize) -> Vec<usize> {
        let gaps = self.concepts.values(&self.measured.models[model], relative);
        let mut classes = vec![0; gaps.len()];
        for bin in &self.bins {
            for &concept in &bin.concepts {
                let significant = || self.q[model][self.concepts.latents[concept]].is_some_and(|q| q < ALPHA);
                let (first, low, high) = match bin.funnel {
                    Some([low, _, high]) => (0, low, high),
                    None if significant() => (3, 0.0, 0.0),
                    None => (3, f64::NEG_INFINITY, f64::INFINITY),
                };
                let side = if gaps[concept] < low {
                    0
                } else if gaps[concept] > high {
                    2
                } else {
                    1
                };
                classes[concept] = first + side;
            }
        }
        classes
    }

    fn scores(&self, replicates: &[Numbers]) -> Scores {
        let latents = &self.concepts.latents;
        let numbers = self.numbers(&(0..latents.len()).collect::<Vec<_>>());
        let bins = self.bins.iter().filter(|bin| bin.funnel.is_some());
        let with_funnel: usize = bins.map(|bin| bin.concepts.len()).sum();
        let mut scores = Scores::default();
        for (number, (key, value)) in HEADLINES.iter().zip(numbers).enumerate() {
            let interval = value.and_then(|_| interval_of_defined(replicates.iter().map(|numbers| numbers[number])));
            let n = if *key == "outside_funnel" { with_funnel } else { latents.len() };
            scores.headline(key, value, interval.filter(|_| latents.len() > 1), n);
        }
        if with_funnel < latents.len() {
            scores.note(format!(
                "{} of {} concepts are in bins with fewer than {FEWEST} concepts, which have no funnel: q decides",
                latents.len() - with_funnel,
                latents.len()
            ));
        }
        let in_some_model = |latent: &&usize| self.measured.models.iter().any(|model| model[**latent].is_some());
        let silent = self.measured.live() - latents.iter().filter(in_some_model).count();
        if silent > 0 {
            scores.note(format!(
                "{silent} concepts fire in generated rows only: they have no frequency and are left out"
            ));
        }
        if numbers.iter().any(Option::is_none) {
            scores.note(
                "too few concepts fire in real rows, or all are equal: some numbers are undefined (a funnel needs 20 concepts \
                 of about the same frequency)",
            );
        }
        self.tables(&mut scores);
        scores
    }

    fn tables(&self, scores: &mut Scores) {
        let models = self.measured.models.len();
        let shares = |bin: &Bin| (0..models).map(|model| self.share_outside(model, &bin.concepts)).collect::<Vec<_>>();
        let level = |level: usize| self.bins.iter().map(move |bin| bin.funnel.map(|funnel| funnel[level]));
        let edge = |bin: i32| Some(10f64.powf(f64::from(bin) / 4.0));
        // The tables below refer to models by their row in this one.
        let classes: Vec<Vec<usize>> = (0..models).map(|model| self.classes(model)).collect();
        let mut table = Table::new("model").words("name", self.measured.names.iter().map(String::as_str));
        for (class, name) in CLASSES.iter().enumerate() {
            let count = |of: &Vec<usize>| of.iter().filter(|other| **other == class).count();
            table = table.counts(&name.replace(' ', "_"), classes.iter().map(count));
        }
        scores.tables.push(table);
        scores.tables.push(
            Table::new("funnel")
                .numbers("frequency_from", self.bins.iter().map(|bin| edge(bin.bin)))
                .numbers("frequency_to", self.bins.iter().map(|bin| edge(bin.bin + 1)))
                .counts("concepts", self.bins.iter().map(|bin| bin.concepts.len()))
                .numbers("null_low", level(0))
                .numbers("null_median", level(1))
                .numbers("null_high", level(2))
                .with("outside_by_model", Cells::NumberLists(self.bins.iter().map(shares).collect())),
        );
        let latents = &self.concepts.latents;
        let null = |&latent: &usize| self.measured.null[latent].as_ref().and_then(Concept::relative);
        scores.tables.push(
            Table::new("latent")
                .counts("latent", latents.iter().copied())
                .numbers("frequency", self.concepts.frequency.iter().map(|&frequency| Some(frequency)))
                .numbers("null_relative_gap", latents.iter().map(null)),
        );
        // Model, index of the concept, latent.
        let mut lines: Vec<(usize, usize, usize, Concept)> = Vec::new();
        for (model, concepts) in self.measured.models.iter().enumerate() {
            let line = |(index, &latent): (usize, &usize)| Some((model, index, latent, concepts[latent]?));
            lines.extend(latents.iter().enumerate().filter_map(line));
        }
        let temperature = self.measured.rules.temperature;
        let concepts = || lines.iter().map(|line| &line.3);
        scores.tables.push(
            Table::new("latent_model")
                .counts("model", lines.iter().map(|line| line.0))
                .counts("latent", lines.iter().map(|line| line.2))
                .numbers("gap", concepts().map(|concept| Some(concept.gap())))
                .numbers("relative_gap", concepts().map(Concept::relative))
                .numbers("relative_delta", concepts().map(|c| c.relative().map(|gap| delta(gap, temperature))))
                .numbers("q", lines.iter().map(|line| self.q[line.0][line.2]))
                .words("class", lines.iter().map(|line| CLASSES[classes[line.0][line.1]])),
        );
    }
}
