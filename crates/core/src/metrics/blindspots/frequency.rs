//! `frequency`: are rare concepts the ones that generators get wrong, or do they only look so?

use super::concept::{Concept, Rules, delta};
use super::measured::Measured;
use super::sums::Sums;
use super::{SHARE, TEMPERATURE, output, reserve};
use crate::budget::Taken;
use crate::error::Result;
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::{mean, pearson, quantile, ranks};
use crate::metrics::{Better, Card, Metric, Need, Param};
use crate::results::{Cells, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Blocks, Column, Job, Next, Pass, Rows, Tally};

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
    needs: &[Need::Codes, Need::Models],
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

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let sums = Sums::new(job, 0)?;
        let memory = reserve(&sums, job)?;
        Ok(Next::Pass(Box::new(Counting { sums, _memory: memory })))
    }
}

struct Counting {
    sums: Sums,
    _memory: Taken,
}

impl Pass for Counting {
    fn empty(&self) -> Tally {
        self.sums.empty()
    }

    fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
        self.sums.absorb(tally, rows)
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let temperature = job.number(TEMPERATURE.name)?;
        let rules = Rules { temperature, suppressed_below: 0.1, exaggerated_above: 0.9 };
        let measured = Measured::new(self.sums.found(tally)?, None, rules, job)?;
        Ok(Next::Blocks(Box::new(Relation::new(measured, job.seed))))
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

/// Frequencies and gaps of the concepts that fire in real rows.
struct Relation {
    measured: Measured,
    seed: u64,
    /// The concepts.
    latents: Vec<usize>,
    frequency: Vec<f64>,
    /// Ranks of frequencies.
    frequency_ranks: Vec<f64>,
    /// By side (models, then the null): ranks of |gap| and of |relative gap|.
    gap_ranks: Vec<[Vec<f64>; 2]>,
    bins: Vec<Bin>,
    /// By model and place: is the concept outside the funnel?
    outside: Vec<Vec<Option<bool>>>,
}

fn bin_of(frequency: f64) -> i32 {
    (4.0 * frequency.log10() + 1e-9).floor() as i32
}

impl Relation {
    fn new(measured: Measured, seed: u64) -> Relation {
        let latents: Vec<usize> = (0..measured.latents).filter(|&latent| measured.real_fires[latent] > 0).collect();
        let frequency: Vec<f64> =
            latents.iter().map(|&latent| measured.real_fires[latent] as f64 / measured.rows as f64).collect();
        let values = |side: &[Option<Concept>], of: &dyn Fn(&Concept) -> f64| -> Vec<f64> {
            latents.iter().map(|&latent| side[latent].as_ref().map_or(0.0, of)).collect()
        };
        let relative = |concept: &Concept| concept.relative().unwrap_or(0.0);
        let gap_ranks = measured
            .sides()
            .map(|side| {
                [ranks(&values(side, &|concept| concept.gap().abs())), ranks(&values(side, &|c| relative(c).abs()))]
            })
            .collect();
        let null = values(&measured.null, &relative);
        let mut numbers: Vec<i32> = frequency.iter().map(|&frequency| bin_of(frequency)).collect();
        let of_place = numbers.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let bins: Vec<Bin> = numbers
            .into_iter()
            .map(|bin| {
                let mut inside: Vec<f64> =
                    of_place.iter().zip(&null).filter(|(b, _)| **b == bin).map(|(_, r)| *r).collect();
                inside.sort_by(f64::total_cmp);
                let level = |level: f64| quantile(&inside, level).unwrap_or(0.0);
                let funnel = (inside.len() >= FEWEST).then(|| [level(0.05), level(0.5), level(0.95)]);
                Bin { bin, concepts: inside.len(), funnel }
            })
            .collect();
        let funnel_of = |place: usize| bins.iter().find(|bin| bin.bin == of_place[place]).and_then(|bin| bin.funnel);
        let outside = measured
            .models
            .iter()
            .map(|model| {
                let r = values(model, &relative);
                (0..latents.len()).map(|place| funnel_of(place).map(|f| r[place] < f[0] || r[place] > f[2])).collect()
            })
            .collect();
        let frequency_ranks = ranks(&frequency);
        Relation { measured, seed, latents, frequency, frequency_ranks, gap_ranks, bins, outside }
    }

    /// Both correlations over models, both of the null, and the share outside, for some places.
    fn numbers(&self, places: &[usize]) -> [Option<f64>; 5] {
        let pick = |values: &[f64]| places.iter().map(|&place| values[place]).collect::<Vec<f64>>();
        let frequency = pick(&self.frequency_ranks);
        let models = self.measured.models.len();
        let of = |side: usize, number: usize| pearson(&frequency, &pick(&self.gap_ranks[side][number]));
        let over = |number: usize| mean(&(0..models).filter_map(|side| of(side, number)).collect::<Vec<_>>());
        let shares = self.outside.iter().filter_map(|outside| {
            let judged: Vec<f64> =
                places.iter().filter_map(|&place| outside[place]).map(|yes| f64::from(u8::from(yes))).collect();
            mean(&judged)
        });
        let outside = mean(&shares.collect::<Vec<_>>());
        [over(0), over(1), of(models, 0), of(models, 1), outside]
    }
}

const RESAMPLES_PER_BLOCK: usize = 50;

impl Blocks for Relation {
    fn count(&self) -> usize {
        RESAMPLES.div_ceil(RESAMPLES_PER_BLOCK)
    }

    fn unit(&self) -> &'static str {
        "blocks of resamples"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let count = self.latents.len();
        let mut list = Vec::new();
        for resample in block * RESAMPLES_PER_BLOCK..((block + 1) * RESAMPLES_PER_BLOCK).min(RESAMPLES) {
            let mut random = stream(self.seed, "frequency/concepts", resample as u64);
            let places: Vec<usize> = (0..count).map(|_| index(count, &mut random)).collect();
            list.extend(self.numbers(&places).map(|number| number.unwrap_or(f64::NEG_INFINITY)));
        }
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, _: &Job<'_>) -> Result<Next> {
        let count = self.latents.len();
        let numbers = self.numbers(&(0..count).collect::<Vec<_>>());
        let keys =
            ["frequency_gap", "frequency_relative", "null_frequency_gap", "null_frequency_relative", "outside_funnel"];
        let mut scores = Scores::default();
        let lists = tally.lists(0)?;
        for (number, key) in keys.into_iter().enumerate() {
            let replicates = lists.iter().flat_map(|(_, list)| list.chunks_exact(keys.len()).map(|one| one[number]));
            let interval = numbers[number].and_then(|_| percentile_interval(replicates.collect()));
            scores.headline(key, numbers[number], interval.filter(|_| count > 1), count);
        }
        let silent = self.measured.live()
            - self.latents.iter().filter(|&&l| self.measured.models.iter().any(|m| m[l].is_some())).count();
        if silent > 0 {
            scores.note(format!(
                "{silent} concepts fire in generated rows only: they have no frequency and are left out"
            ));
        }
        if numbers.iter().any(Option::is_none) {
            scores.note(
                "too few concepts fire in real rows, or all alike: some numbers are undefined (a funnel needs 20 concepts of \
                 about the same frequency)",
            );
        }
        self.tables(&mut scores);
        Ok(Next::Done(scores))
    }
}

impl Relation {
    fn tables(&self, scores: &mut Scores) {
        let models = self.measured.models.len();
        let share = |bin: &Bin, model: usize| {
            let inside = |place: &usize| bin_of(self.frequency[*place]) == bin.bin;
            let judged: Vec<f64> = (0..self.latents.len())
                .filter(inside)
                .filter_map(|place| self.outside[model][place])
                .map(|yes| f64::from(u8::from(yes)))
                .collect();
            mean(&judged)
        };
        let shares = |bin: &Bin| (0..models).map(|model| share(bin, model)).collect::<Vec<_>>();
        let level = |place: usize| self.bins.iter().map(move |bin| bin.funnel.map(|funnel| funnel[place]));
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
                .counts("latent", self.latents.iter().copied())
                .numbers("frequency", self.frequency.iter().map(|&frequency| Some(frequency)))
                .numbers("null_relative_gap", self.latents.iter().map(null)),
        );
        let lines: Vec<(usize, usize, Concept)> = (0..models)
            .flat_map(|model| {
                let concept = move |&latent: &usize| Some((model, latent, self.measured.models[model][latent]?));
                self.latents.iter().filter_map(concept)
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
