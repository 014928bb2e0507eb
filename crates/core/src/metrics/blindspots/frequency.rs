//! `frequency`: are rare concepts the ones that generators get wrong, or do they only look so?

use serde::{Deserialize, Serialize};

use super::concept::{Concept, Rules, delta};
use super::measured::Measured;
use super::sums::compare;
use super::{SHARE, TEMPERATURE, output, resampled};
use crate::error::Result;
use crate::metrics::{Better, Card, Metric, Param};
use crate::results::{Cells, Scores, Table, percentile_interval};
use crate::run::{CODES, GENERATED, Job, Work};
use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{mean, pearson, quantile, ranks};

/// Blindspots against how often a concept fires.
pub struct Frequency;

/// On the scale of relative gaps, as the released program has it.
const RELATIVE_TEMPERATURE: Param = Param { default: "0.4", reference: Some("0.4"), ..TEMPERATURE };

const COSINE: (f64, f64) = (-1.0, 1.0);

static CARD: Card = Card {
    name: "frequency",
    title: "Blindspots and frequency",
    summary: "Whether rare concepts have larger gaps than chance alone gives them.",
    version: 1,
    measures: "A rare concept was seen seldom in training, so a generator may fail to make it. But a rare concept also fires in few \
        rows, and the mean of few rows is noisy: relative gaps of rare concepts are large when nothing is wrong at all. \
        Therefore all numbers stand beside the same numbers for one random half of the real rows against the other, and the \
        funnel of that null says which concepts are outside of what chance does at their frequency.",
    definition: "f: the share of real rows where the concept fires (ξ ≠ 0). Concepts that fire in no real row have no frequency and \
        are left out. r: relative gap (see `blindspots`). frequency_gap: Spearman's correlation of f and |gap|; \
        frequency_relative: of f and |r|; means over models. null_…: the same for real against real. Funnel: in bins of a quarter \
        decade of f, the 5 % and 95 % quantile of r of the null; bins with fewer than 20 concepts have none. outside_funnel: \
        the share of concepts in bins with a funnel whose r is outside of it, mean over models: 0.1 is nothing, and less where \
        pairs share much, because the null is not paired and its halves have half the rows. Table `latent_model` gives \
        sigmoid(r/T) as the paper draws it; at T = 0.4 it lies between 0.076 and 0.924.\n\
        Undefined with fewer than two concepts or where a side is constant. Both profiles are the same.",
    cost: "One pass as for `blindspots`; 1000 resamples of the concepts.",
    source: "Bohacek, Fel, Agrawala and Lubana, Section 5.6, Figure 13, which draws relative gaps against token counts of another \
        data set; here frequency is of the real rows that are compared. The null is not in the paper.",
    interval: "Percentile bootstrap over concepts with the ranks kept, 1000 resamples.",
    needs: &[&CODES, &GENERATED],
    uses: &[],
    headline: &[
        output("frequency_gap", "rank correlation of frequency and |gap|", COSINE, Better::Neither),
        output("frequency_relative", "rank correlation of frequency and |relative gap|", COSINE, Better::Neither),
        output("null_frequency_gap", "the first, real against real", COSINE, Better::Neither),
        output("null_frequency_relative", "the second, real against real", COSINE, Better::Neither),
        output("outside_funnel", "share of concepts outside of what chance does", SHARE, Better::Lower),
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
        let measured = Measured::new(compare(0, job, work)?, None, rules, job)?;
        let concepts = RealConcepts::new(&measured);
        let sides: Vec<&Vec<Option<Concept>>> = measured.sides().collect();
        let ranks = work.blocks("sides", sides.len(), |side| Ok(concepts.ranks(sides[side])))?;
        let relation = Relation::new(&measured, concepts, &ranks);
        // A number of the concept, and two ranks, for each.
        let bytes = 24 * relation.concepts.latents.len() as u64;
        let replicates = resampled(bytes, job, work, |resample| relation.resampled(job.seed, resample))?;
        Ok(relation.scores(&replicates))
    }
}

/// Concepts of a bin that a funnel needs.
const FEWEST: usize = 20;

/// A bin of frequencies: concepts with f from 10^(bin/4) to 10^((bin + 1)/4).
#[derive(Clone, Debug)]
struct Bin {
    bin: i32,
    concepts: usize,
    /// 5 %, 50 % and 95 % of the relative gaps of the null.
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

    /// A number of every concept on a side.
    fn values(&self, side: &[Option<Concept>], of: impl Fn(&Concept) -> f64) -> Vec<f64> {
        self.latents.iter().map(|&latent| side[latent].as_ref().map_or(0.0, &of)).collect()
    }

    fn ranks(&self, side: &[Option<Concept>]) -> GapRanks {
        GapRanks {
            gap: ranks(&self.values(side, |concept| concept.gap().abs())),
            relative: ranks(&self.values(side, |concept| relative(concept).abs())),
        }
    }
}

/// Frequencies and gaps of the concepts that fire in real rows.
struct Relation<'a> {
    measured: &'a Measured,
    concepts: RealConcepts,
    /// By side (models, then the null).
    ranks: &'a [GapRanks],
    bins: Vec<Bin>,
    /// By model and concept: is it outside the funnel?
    outside: Vec<Vec<Option<bool>>>,
}

/// The headline numbers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FrequencyNumbers {
    frequency_gap: Option<f64>,
    frequency_relative: Option<f64>,
    null_frequency_gap: Option<f64>,
    null_frequency_relative: Option<f64>,
    outside_funnel: Option<f64>,
}

impl<'a> Relation<'a> {
    fn new(measured: &'a Measured, concepts: RealConcepts, ranks: &'a [GapRanks]) -> Relation<'a> {
        let null = concepts.values(&measured.null, relative);
        let of_concept: Vec<i32> = concepts.frequency.iter().map(|&frequency| bin_of(frequency)).collect();
        let mut numbers = of_concept.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let bins: Vec<Bin> = numbers
            .into_iter()
            .map(|bin| {
                let mut inside: Vec<f64> =
                    of_concept.iter().zip(&null).filter(|(b, _)| **b == bin).map(|(_, r)| *r).collect();
                inside.sort_by(f64::total_cmp);
                let level = |level: f64| quantile(&inside, level).unwrap_or(0.0);
                let funnel = (inside.len() >= FEWEST).then(|| [level(0.05), level(0.5), level(0.95)]);
                Bin { bin, concepts: inside.len(), funnel }
            })
            .collect();
        let funnel_of = |number: i32| bins.iter().find(|bin| bin.bin == number).and_then(|bin| bin.funnel);
        let outside_of = |model: &Vec<Option<Concept>>| {
            let r = concepts.values(model, relative).into_iter();
            r.zip(&of_concept).map(|(r, &bin)| funnel_of(bin).map(|f| r < f[0] || r > f[2])).collect()
        };
        let outside = measured.models.iter().map(outside_of).collect();
        Relation { measured, concepts, ranks, bins, outside }
    }

    /// The numbers of a resample of the concepts.
    fn resampled(&self, seed: u64, resample: u64) -> FrequencyNumbers {
        let (mut random, count) = (stream(seed, "frequency/concepts", resample), self.concepts.latents.len());
        let drawn: Vec<usize> = (0..count).map(|_| index(count, &mut random)).collect();
        self.numbers(&drawn)
    }

    /// The numbers of some concepts.
    fn numbers(&self, drawn: &[usize]) -> FrequencyNumbers {
        let pick = |values: &[f64]| drawn.iter().map(|&concept| values[concept]).collect::<Vec<f64>>();
        let frequency = pick(&self.concepts.frequency_ranks);
        let (models, null) = self.ranks.split_at(self.measured.models.len());
        let of = |ranks: &[f64]| pearson(&frequency, &pick(ranks));
        let over = |ranks: fn(&GapRanks) -> &[f64]| {
            mean(&models.iter().filter_map(|side| of(ranks(side))).collect::<Vec<_>>())
        };
        let shares = self.outside.iter().filter_map(|outside| {
            let judged: Vec<f64> =
                drawn.iter().filter_map(|&concept| outside[concept]).map(|yes| f64::from(u8::from(yes))).collect();
            mean(&judged)
        });
        FrequencyNumbers {
            frequency_gap: over(|side| &side.gap),
            frequency_relative: over(|side| &side.relative),
            null_frequency_gap: null.first().and_then(|side| of(&side.gap)),
            null_frequency_relative: null.first().and_then(|side| of(&side.relative)),
            outside_funnel: mean(&shares.collect::<Vec<_>>()),
        }
    }

    fn scores(&self, replicates: &[FrequencyNumbers]) -> Scores {
        let latents = &self.concepts.latents;
        let numbers = self.numbers(&(0..latents.len()).collect::<Vec<_>>());
        let mut scores = Scores::default();
        let mut undefined = false;
        let mut headline = |key: &str, number: fn(&FrequencyNumbers) -> Option<f64>| {
            let value = number(&numbers);
            let interval = value.and_then(|_| percentile_interval(replicates.iter().filter_map(number).collect()));
            scores.headline(key, value, interval.filter(|_| latents.len() > 1), latents.len());
            undefined |= value.is_none();
        };
        headline("frequency_gap", |one| one.frequency_gap);
        headline("frequency_relative", |one| one.frequency_relative);
        headline("null_frequency_gap", |one| one.null_frequency_gap);
        headline("null_frequency_relative", |one| one.null_frequency_relative);
        headline("outside_funnel", |one| one.outside_funnel);
        let silent = self.measured.live()
            - latents.iter().filter(|&&l| self.measured.models.iter().any(|m| m[l].is_some())).count();
        if silent > 0 {
            scores.note(format!(
                "{silent} concepts fire in generated rows only: they have no frequency and are left out"
            ));
        }
        if undefined {
            scores.note(
                "too few concepts fire in real rows, or all alike: some numbers are undefined (a funnel needs 20 concepts of \
                 about the same frequency)",
            );
        }
        self.tables(&mut scores);
        scores
    }

    fn tables(&self, scores: &mut Scores) {
        let models = self.measured.models.len();
        let share = |bin: &Bin, model: usize| {
            let inside = |concept: &usize| bin_of(self.concepts.frequency[*concept]) == bin.bin;
            let judged: Vec<f64> = (0..self.concepts.latents.len())
                .filter(inside)
                .filter_map(|concept| self.outside[model][concept])
                .map(|yes| f64::from(u8::from(yes)))
                .collect();
            mean(&judged)
        };
        let shares = |bin: &Bin| (0..models).map(|model| share(bin, model)).collect::<Vec<_>>();
        let level = |level: usize| self.bins.iter().map(move |bin| bin.funnel.map(|funnel| funnel[level]));
        let edge = |bin: i32| Some(10f64.powf(f64::from(bin) / 4.0));
        // The tables below name models by their row here.
        scores.tables.push(Table::new("model").words("name", self.measured.names.iter().map(String::as_str)));
        scores.tables.push(
            Table::new("funnel")
                .numbers("frequency_from", self.bins.iter().map(|bin| edge(bin.bin)))
                .numbers("frequency_to", self.bins.iter().map(|bin| edge(bin.bin + 1)))
                .counts("concepts", self.bins.iter().map(|bin| bin.concepts))
                .numbers("null_low", level(0))
                .numbers("null_median", level(1))
                .numbers("null_high", level(2))
                .with("outside_by_model", Cells::NumberLists(self.bins.iter().map(shares).collect())),
        );
        let null = |&latent: &usize| self.measured.null[latent].as_ref().and_then(Concept::relative);
        scores.tables.push(
            Table::new("latent")
                .counts("latent", self.concepts.latents.iter().copied())
                .numbers("frequency", self.concepts.frequency.iter().map(|&frequency| Some(frequency)))
                .numbers("null_relative_gap", self.concepts.latents.iter().map(null)),
        );
        let lines: Vec<(usize, usize, Concept)> = (0..models)
            .flat_map(|model| {
                let concept = move |&latent: &usize| Some((model, latent, self.measured.models[model][latent]?));
                self.concepts.latents.iter().filter_map(concept)
            })
            .collect();
        let temperature = self.measured.rules.temperature;
        let drawn = |line: &(usize, usize, Concept)| line.2.relative().map(|relative| delta(relative, temperature));
        scores.tables.push(
            Table::new("latent_model")
                .counts("model", lines.iter().map(|line| line.0))
                .counts("latent", lines.iter().map(|line| line.1))
                .numbers("gap", lines.iter().map(|line| Some(line.2.gap())))
                .numbers("relative_gap", lines.iter().map(|line| line.2.relative()))
                .numbers("relative_delta", lines.iter().map(drawn)),
        );
    }
}
