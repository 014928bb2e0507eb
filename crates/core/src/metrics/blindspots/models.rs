//! `blindspot_models`: do generators have the same blindspots, and which of two is nearer to the real rows?

use rayon::prelude::*;

use super::agreement::{View, pairs, raw, resampled, shared, split};
use super::concept::{Class, Concept, delta};
use super::distance::distances;
use super::measured::Measured;
use super::sums::Sums;
use super::{EXAGGERATED_ABOVE, SHARE, SUPPRESSED_BELOW, TEMPERATURE, output, reserve, rules};
use crate::budget::Taken;
use crate::error::{Complaint, Error, Result};
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::{mean, median, quantile, signed_rank};
use crate::metrics::{Better, Card, Kind, Metric, Need, Param};
use crate::results::{Cells, Interval, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Blocks, Column, Job, Next, Pass, Rows, Tally};

/// Whether generators have the same blindspots.
pub struct BlindspotModels;

const COMPARED: Param = Param {
    name: "compared",
    doc: "What is compared between models: δ, the gap, or the relative gap",
    kind: Kind::Word(&["delta", "gap", "relative"]),
    several: false,
    default: "delta",
    reference: Some("relative"),
};

const SPLITS: Param = Param {
    name: "splits",
    doc: "Random halves of the prompts behind the split-half correlation",
    kind: Kind::Whole(1, 10_000),
    several: false,
    default: "20",
    reference: None,
};

const COSINE: (f64, f64) = (-1.0, 1.0);

static CARD: Card = Card {
    name: "blindspot_models",
    title: "Blindspots between models",
    summary: "Whether generators suppress and exaggerate the same concepts, and which of two is nearer to the real rows.",
    version: 1,
    measures: "If two generators have the same blindspots, the cause is likely what they share: data, captions, the encoder. If \
        not, it is their own. The published correlation compares every generator with the same real rows, so that the noise of \
        those rows is in both and makes them look alike: without any bias at all, and with as much noise in real as in generated \
        rows, it is 0.5. The split-half correlation lets one generator be compared on one half of the prompts and the other on \
        the other half; what is left is shared for another reason. The table `pair` also compares two variants of one \
        generator, before and after further training, prompt by prompt.",
    definition: "v: δ, gap or relative gap (`compared`; see `blindspots`) of every concept that is not dead. model_correlation: \
        Pearson's r of v between two models over the concepts that both have, mean over pairs of models; \
        model_rank_correlation: Spearman's, ties averaged. model_correlation_split_half: r of v(A, one half of the prompts) and \
        v(B, the other half), both ways round, mean over `splits` random halves, then over pairs. It is lowered by the noise of \
        each model; divided by the root of the product of both models' split-half correlation with themselves it is \
        `corrected` in the table, which may exceed 1, and is undefined where one of these is not above 0.\n\
        Universal: suppressed (exaggerated) by δ in every model. Unique to a model: in that model, and in every other the whole \
        95 % interval of δ is on the other side of the threshold. Shares are of concepts that are live in some model; unique \
        shares are means over models. Table `shared`: how many concepts are suppressed in exactly j models.\n\
        Table `pair`, two variants: d_i = length of the difference between generated and real row i. median_first, \
        median_second, quartiles; median_difference of d_i(first) − d_i(second) with a bootstrap interval over prompts; \
        `second_nearer`, the share of prompts where the second is nearer, of those that differ; p of Wilcoxon's signed ranks.\n\
        Undefined: correlations where a side is constant or has fewer than two concepts.\n\
        Profile `reference`: relative gaps are compared, and T is 0.8.",
    cost: "One pass as for `blindspots`; one look at the rows for every split, every model; 1000 resamples of concepts and of \
        prompts for every pair of models.",
    source: "Bohacek, Fel, Agrawala and Lubana, Sections 5.2, 5.3 and 5.5, Figures 8, 9 and 12. The text speaks of δ; the \
        released program correlates relative gaps and leaves out 0/0 in the scatter plots, not in the matrix. Split halves, \
        definitions of universal and unique (the paper looks at pictures), and the signed ranks are not in the paper.",
    interval: "Correlation: percentile bootstrap over concepts, 1000 resamples. Split half: the percentiles of splits. Shares: \
        none.",
    needs: &[Need::Codes, Need::Models],
    uses: &[],
    headline: &[
        output("model_correlation", "Pearson's r between models, shared noise included", COSINE, Better::Neither),
        output("model_rank_correlation", "Spearman's, shared noise included", COSINE, Better::Neither),
        output("model_correlation_split_half", "Pearson's r on different prompts", COSINE, Better::Neither),
        output("universal_suppressed", "share of concepts that all models suppress", SHARE, Better::Lower),
        output("universal_exaggerated", "share of concepts that all models exaggerate", SHARE, Better::Lower),
        output("unique_suppressed", "share that one model suppresses and no other", SHARE, Better::Lower),
        output("unique_exaggerated", "share that one model exaggerates and no other", SHARE, Better::Lower),
    ],
    params: &[COMPARED, TEMPERATURE, SUPPRESSED_BELOW, EXAGGERATED_ABOVE, SPLITS],
};

impl Metric for BlindspotModels {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        if job.models()?.len() < 2 {
            return Err(Complaint::new("one model has nothing to be compared with")
                .expected("at least two models")
                .found("1")
                .advice("give --generated once more")
                .into());
        }
        let sums = Sums::new(job, 0)?;
        let memory = reserve(&sums, job)?;
        Ok(Next::Pass(Box::new(Comparing { sums, _memory: memory })))
    }
}

struct Comparing {
    sums: Sums,
    _memory: Taken,
}

impl Pass for Comparing {
    fn empty(&self) -> Tally {
        self.sums.empty()
    }

    fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
        self.sums.absorb(tally, rows)
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let measured = Measured::new(self.sums.found(tally)?, None, rules(job)?, job)?;
        let view = match job.word(COMPARED.name)? {
            "gap" => View::Gap,
            "relative" => View::Relative,
            _ => View::Delta(measured.rules.temperature),
        };
        let pairs = pairs(measured.models.len(), false);
        let shared = pairs.iter().map(|&pair| shared(&measured, view, pair)).collect();
        Ok(Next::Blocks(Box::new(Agreeing { splits: job.whole(SPLITS.name)?, measured, view, pairs, shared })))
    }
}

/// Blocks: the splits, then the pairs of models.
struct Agreeing {
    measured: Measured,
    view: View,
    splits: usize,
    pairs: Vec<(usize, usize)>,
    /// By pair, what both models say about each concept.
    shared: Vec<Vec<(f64, f64)>>,
}

/// What one pair of models comes to.
#[derive(Clone, Debug, Default)]
struct Pair {
    /// Pearson's r of the resamples.
    resamples: Vec<f64>,
    quartiles_first: [f64; 3],
    quartiles_second: [f64; 3],
    median_difference: f64,
    difference: Option<Interval>,
    second_nearer: Option<f64>,
    p: Option<f64>,
}

/// Numbers of a pair before its resamples.
const FIXED: usize = 11;

impl Pair {
    fn to_list(&self) -> Vec<f64> {
        let written = |value: Option<f64>| value.unwrap_or(f64::NEG_INFINITY);
        let ends = self.difference.map_or([None; 2], |ends| [Some(ends.low), Some(ends.high)]);
        let mut list = self.quartiles_first.to_vec();
        list.extend(self.quartiles_second);
        list.extend([self.median_difference, written(ends[0]), written(ends[1])]);
        list.extend([written(self.second_nearer), written(self.p)]);
        list.extend(&self.resamples);
        list
    }

    fn from_list(list: &[f64]) -> Option<Pair> {
        let (fixed, resamples) = list.split_at_checked(FIXED)?;
        let read = |value: f64| value.is_finite().then_some(value);
        Some(Pair {
            resamples: resamples.to_vec(),
            quartiles_first: [fixed[0], fixed[1], fixed[2]],
            quartiles_second: [fixed[3], fixed[4], fixed[5]],
            median_difference: fixed[6],
            difference: read(fixed[7]).zip(read(fixed[8])).map(|(low, high)| Interval { low, high }),
            second_nearer: read(fixed[9]),
            p: read(fixed[10]),
        })
    }
}

impl Agreeing {
    fn pair(&self, place: usize, job: &Job<'_>) -> Result<Pair> {
        let (a, b) = self.pairs[place];
        let shared = &self.shared[place];
        let resamples: Vec<Option<f64>> =
            (0..RESAMPLES as u64).into_par_iter().map(|resample| resampled(shared, job.seed, resample)).collect();
        let models = job.models()?;
        let lengths = |model: usize| -> Result<Vec<f64>> {
            let found = distances(job.codes()?, &models[model].codes, 1.0)?;
            Ok(found.iter().map(|distance| distance.length).collect())
        };
        let (first, second) = (lengths(a)?, lengths(b)?);
        let differences: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a - b).collect();
        let unequal = differences.iter().filter(|difference| **difference != 0.0).count();
        let nearer = differences.iter().filter(|difference| **difference > 0.0).count();
        let medians: Vec<f64> = (0..RESAMPLES as u64)
            .into_par_iter()
            .filter_map(|resample| {
                let mut random = stream(job.seed, "blindspots/variants", resample);
                let count = differences.len();
                let mut drawn: Vec<f64> = (0..count).map(|_| differences[index(count, &mut random)]).collect();
                median(&mut drawn)
            })
            .collect();
        Ok(Pair {
            resamples: resamples.into_iter().map(|r| r.unwrap_or(f64::NEG_INFINITY)).collect(),
            quartiles_first: quartiles(first),
            quartiles_second: quartiles(second),
            median_difference: median(&mut differences.clone()).unwrap_or(f64::NEG_INFINITY),
            difference: (differences.len() > 1).then(|| percentile_interval(medians)).flatten(),
            second_nearer: (unequal > 0).then(|| nearer as f64 / unequal as f64),
            p: signed_rank(&differences),
        })
    }
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75].map(|level| quantile(&values, level).unwrap_or(f64::NEG_INFINITY))
}

impl Blocks for Agreeing {
    fn count(&self) -> usize {
        self.splits + self.pairs.len()
    }

    fn unit(&self) -> &'static str {
        "splits and pairs of models"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let list = match block.checked_sub(self.splits) {
            None => split(&self.measured, self.view, job.codes()?, job.models()?, job.seed, block)?
                .into_iter()
                .map(|r| r.unwrap_or(f64::NEG_INFINITY))
                .collect(),
            Some(pair) => self.pair(pair, job)?.to_list(),
        };
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let lists = tally.lists(0)?;
        let bug = || Error::Bug("layout of pairs of models".into());
        let (splits, rest) = lists.split_at_checked(self.splits).ok_or_else(bug)?;
        let pairs = rest.iter().map(|(_, list)| Pair::from_list(list)).collect::<Option<Vec<_>>>().ok_or_else(bug)?;
        let splits: Vec<&[f64]> = splits.iter().map(|(_, list)| &list[..]).collect();
        Ok(Next::Done(self.scores(&splits, &pairs, job)?))
    }
}

/// A share or a count of models and concepts with one class.
struct Sets {
    /// By model, the concepts that it alone has; by place the classes suppressed and exaggerated.
    unique: [Vec<Vec<usize>>; 2],
    universal: [Vec<usize>; 2],
    /// How many concepts exactly j models have, j from 0.
    by_models: [Vec<usize>; 2],
    live: usize,
}

impl Agreeing {
    fn sets(&self) -> Sets {
        let (measured, models) = (&self.measured, self.measured.models.len());
        let mut sets = Sets {
            unique: [vec![Vec::new(); models], vec![Vec::new(); models]],
            universal: [Vec::new(), Vec::new()],
            by_models: [vec![0; models + 1], vec![0; models + 1]],
            live: measured.live(),
        };
        for latent in 0..measured.latents {
            let concepts: Vec<Option<&Concept>> = measured.models.iter().map(|model| model[latent].as_ref()).collect();
            if concepts.iter().all(Option::is_none) {
                continue;
            }
            for (place, class) in [Class::Suppressed, Class::Exaggerated].into_iter().enumerate() {
                let has = |concept: &Option<&Concept>| concept.is_some_and(|c| c.class(&measured.rules) == class);
                let having = concepts.iter().filter(|concept| has(concept)).count();
                sets.by_models[place][having] += 1;
                if having == models {
                    sets.universal[place].push(latent);
                }
                if let (1, Some(model)) = (having, concepts.iter().position(has)) {
                    let clear = |other: usize| other == model || self.clear(concepts[other], class);
                    if (0..models).all(clear) {
                        sets.unique[place][model].push(latent);
                    }
                }
            }
        }
        sets
    }

    /// Is the whole interval of δ on the other side of the threshold of a class? A dead concept is: it has no δ but ½.
    fn clear(&self, concept: Option<&Concept>, class: Class) -> bool {
        let Some(concept) = concept else { return true };
        let rules = &self.measured.rules;
        concept.interval().is_some_and(|interval| match class {
            Class::Suppressed => delta(interval.low, rules.temperature) >= rules.suppressed_below,
            _ => delta(interval.high, rules.temperature) <= rules.exaggerated_above,
        })
    }

    fn scores(&self, splits: &[&[f64]], compared: &[Pair], job: &Job<'_>) -> Result<Scores> {
        let names = &self.measured.names;
        let read = |value: f64| value.is_finite().then_some(value);
        let (pearsons, spearmans): (Vec<_>, Vec<_>) = self.shared.iter().map(|shared| raw(shared)).unzip();
        let defined = |values: &[Option<f64>]| mean(&values.iter().copied().flatten().collect::<Vec<_>>());
        let interval = |replicates: Vec<f64>| (replicates.len() > 1).then(|| percentile_interval(replicates)).flatten();
        // Means over pairs of models, resample by resample.
        let resampled: Vec<f64> = (0..RESAMPLES)
            .filter_map(|place| defined(&compared.iter().map(|pair| read(pair.resamples[place])).collect::<Vec<_>>()))
            .collect();
        let with_itself = pairs(names.len(), true);
        let place_of = |pair: (usize, usize)| with_itself.iter().position(|other| *other == pair).unwrap_or(0);
        let halves = |pair: (usize, usize)| -> Vec<f64> {
            splits.iter().filter_map(|split| read(split[place_of(pair)])).collect()
        };
        let split_half: Vec<Option<f64>> = self.pairs.iter().map(|&pair| mean(&halves(pair))).collect();
        let corrected = |&(a, b): &(usize, usize)| {
            let (a_itself, b_itself) = (mean(&halves((a, a)))?, mean(&halves((b, b)))?);
            let both = mean(&halves((a, b)))?;
            (a_itself > 0.0 && b_itself > 0.0).then(|| both / (a_itself * b_itself).sqrt())
        };
        let by_split: Vec<f64> = splits
            .iter()
            .filter_map(|split| {
                defined(&self.pairs.iter().map(|&pair| read(split[place_of(pair)])).collect::<Vec<_>>())
            })
            .collect();
        let sets = self.sets();

        let mut scores = Scores::default();
        scores.headline("model_correlation", defined(&pearsons), interval(resampled), self.pairs.len());
        scores.headline("model_rank_correlation", defined(&spearmans), None, self.pairs.len());
        let mean_split = defined(&split_half);
        scores.headline("model_correlation_split_half", mean_split, interval(by_split), self.pairs.len());
        let share = |count: f64| (sets.live > 0).then(|| count / sets.live as f64);
        let unique = |place: usize| {
            let all: usize = sets.unique[place].iter().map(Vec::len).sum();
            share(all as f64 / names.len() as f64)
        };
        scores.headline("universal_suppressed", share(sets.universal[0].len() as f64), None, sets.live);
        scores.headline("universal_exaggerated", share(sets.universal[1].len() as f64), None, sets.live);
        scores.headline("unique_suppressed", unique(0), None, sets.live);
        scores.headline("unique_exaggerated", unique(1), None, sets.live);
        if sets.live == 0 {
            scores.note("no concept fires: undefined");
        }
        if pearsons.iter().chain(&split_half).any(Option::is_none) || mean_split.is_none() {
            scores.note("some pairs of models have fewer than two concepts or constant values: left out");
        }
        scores.note(format!(
            "classes are at T = {}; the plain correlation contains the noise of the real rows that all models share: read the \
             split-half one",
            self.measured.rules.temperature
        ));
        let name = |model: usize| names[model].clone();
        let ends = |pair: &Pair| interval(pair.resamples.iter().copied().filter(|r| r.is_finite()).collect());
        let ends: Vec<Option<Interval>> = compared.iter().map(ends).collect();
        scores.tables.push(
            Table::new("pair")
                .words("first", self.pairs.iter().map(|pair| name(pair.0)))
                .words("second", self.pairs.iter().map(|pair| name(pair.1)))
                .counts("concepts", self.shared.iter().map(Vec::len))
                .numbers("pearson", pearsons)
                .numbers("pearson_low", ends.iter().map(|ends| ends.map(|ends| ends.low)))
                .numbers("pearson_high", ends.iter().map(|ends| ends.map(|ends| ends.high)))
                .numbers("spearman", spearmans)
                .numbers("split_half", split_half)
                .numbers("corrected", self.pairs.iter().map(corrected))
                .numbers("median_first", compared.iter().map(|pair| read(pair.quartiles_first[1])))
                .numbers("median_second", compared.iter().map(|pair| read(pair.quartiles_second[1])))
                .numbers("quartile_range_first", compared.iter().map(|pair| spread(&pair.quartiles_first)))
                .numbers("quartile_range_second", compared.iter().map(|pair| spread(&pair.quartiles_second)))
                .numbers("median_difference", compared.iter().map(|pair| read(pair.median_difference)))
                .numbers("median_difference_low", compared.iter().map(|pair| pair.difference.map(|ends| ends.low)))
                .numbers("median_difference_high", compared.iter().map(|pair| pair.difference.map(|ends| ends.high)))
                .numbers("second_nearer", compared.iter().map(|pair| pair.second_nearer))
                .numbers("signed_rank_p", compared.iter().map(|pair| pair.p)),
        );
        scores.tables.push(set_table(&sets, names));
        let count = |place: usize| sets.by_models[place].iter().copied();
        scores.tables.push(
            Table::new("shared")
                .counts("models", 0..=names.len())
                .counts("suppressed", count(0))
                .counts("exaggerated", count(1)),
        );
        if job.codes()?.rows() < 2 {
            scores.note("fewer than two rows cannot be split: undefined");
        }
        Ok(scores)
    }
}

fn spread(quartiles: &[f64; 3]) -> Option<f64> {
    quartiles.iter().all(|quartile| quartile.is_finite()).then(|| quartiles[2] - quartiles[0])
}

/// The concepts of every set.
fn set_table(sets: &Sets, names: &[String]) -> Table {
    let (mut words, mut models, mut latents) = (Vec::new(), Vec::new(), Vec::new());
    for (place, class) in ["suppressed", "exaggerated"].into_iter().enumerate() {
        words.push(format!("universally {class}"));
        models.push(String::new());
        latents.push(sets.universal[place].iter().map(|&latent| latent as i64).collect());
        for (model, unique) in names.iter().zip(&sets.unique[place]) {
            words.push(format!("uniquely {class}"));
            models.push(model.clone());
            latents.push(unique.iter().map(|&latent| latent as i64).collect());
        }
    }
    Table::new("set").words("set", words).words("model", models).with("latents", Cells::WholeLists(latents))
}
