//! `blindspot_models`: do generators have the same blindspots, and which of two is nearer to the real rows?

use serde::{Deserialize, Serialize};

use super::agreement::{View, pairs as all_pairs, raw, resampled as resampled_correlation, shared, split};
use super::concept::{Class, Concept, Rules, delta};
use super::distance::{Distance, distances};
use super::measured::Measured;
use super::sums::compare;
use super::{EXAGGERATED_ABOVE, SHARE, SUPPRESSED_BELOW, TEMPERATURE, output, resampled, rules};
use crate::error::{InputError, Key, Result};
use crate::metrics::{Better, Card, Kind, Metric, Param};
use crate::results::{Cells, Interval, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{CODES, GENERATED, Job, Work};
use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{mean, median, quantile, signed_rank};

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
    needs: &[&CODES, &GENERATED],
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

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let models = job.all(&GENERATED).len();
        if models < 2 {
            return Err(InputError::new("one model has nothing to be compared with")
                .expected("at least two models")
                .found("1")
                .advice(format!("repeat {} for every generator", Key("generated")))
                .into());
        }
        let measured = Measured::new(compare(0, job, work)?, None, rules(job)?, job)?;
        let view = match job.word(COMPARED.name)? {
            "gap" => View::Gap,
            "relative" => View::Relative,
            _ => View::Delta(measured.rules.temperature),
        };
        let pairs = all_pairs(models, false);
        let shared: Vec<Vec<(f64, f64)>> = pairs.iter().map(|&pair| shared(&measured, view, pair)).collect();
        let splits = work.blocks("splits", job.whole(SPLITS.name)?, |number| split(&measured, view, number, job))?;
        let distances = distances(1.0, job, work)?;
        let of_pair = |pair: usize| [pairs[pair].0, pairs[pair].1].map(|model| &distances[model].0[..]);
        let rows = measured.rows;
        let fixed = work.blocks("pairs of models", pairs.len(), |pair| {
            let _memory = job.budget().reserve(64 * rows, "distances of a pair of models")?;
            Ok(ModelPair::new(&shared[pair], of_pair(pair)))
        })?;
        let mut compared = Vec::new();
        for (pair, fixed) in fixed.iter().enumerate() {
            let _memory = job.budget().reserve(8 * rows, "differences of a pair of models")?;
            let differences = differences(of_pair(pair));
            let bytes = 8 * rows + 32 * shared[pair].len() as u64;
            let replicates = resampled(bytes, job, work, |resample| PairResample {
                correlation: resampled_correlation(&shared[pair], job.seed, resample),
                median_difference: resampled_median(&differences, job.seed, resample),
            })?;
            let medians = replicates.iter().filter_map(|resample| resample.median_difference).collect();
            compared.push(ComparedPair {
                fixed,
                correlations: replicates.iter().map(|resample| resample.correlation).collect(),
                difference: (rows > 1).then(|| percentile_interval(medians)).flatten(),
            });
        }
        Ok(scores(&measured, &pairs, &splits, &compared))
    }
}

/// What one pair of models comes to.
#[derive(Serialize, Deserialize)]
struct ModelPair {
    /// How many concepts both models speak of.
    concepts: usize,
    pearson: Option<f64>,
    spearman: Option<f64>,
    first: Option<Quartiles>,
    second: Option<Quartiles>,
    median_difference: Option<f64>,
    second_nearer: Option<f64>,
    p: Option<f64>,
}

/// One resample of the concepts and of the rows.
#[derive(Serialize, Deserialize)]
struct PairResample {
    correlation: Option<f64>,
    median_difference: Option<f64>,
}

/// Quartiles of distances.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Quartiles {
    lower: f64,
    median: f64,
    upper: f64,
}

impl Quartiles {
    fn of(distances: &[Distance]) -> Option<Quartiles> {
        let mut lengths: Vec<f64> = distances.iter().map(|distance| distance.length).collect();
        lengths.sort_by(f64::total_cmp);
        let [lower, median, upper] = [0.25, 0.5, 0.75].map(|level| quantile(&lengths, level));
        Some(Quartiles { lower: lower?, median: median?, upper: upper? })
    }

    fn range(self) -> f64 {
        self.upper - self.lower
    }
}

/// How much further the first model is from every real row than the second.
fn differences([first, second]: [&[Distance]; 2]) -> Vec<f64> {
    first.iter().zip(second).map(|(a, b)| a.length - b.length).collect()
}

fn resampled_median(differences: &[f64], seed: u64, resample: u64) -> Option<f64> {
    let (mut random, count) = (stream(seed, "blindspots/variants", resample), differences.len());
    median(&mut (0..count).map(|_| differences[index(count, &mut random)]).collect::<Vec<f64>>())
}

impl ModelPair {
    fn new(shared: &[(f64, f64)], distances: [&[Distance]; 2]) -> ModelPair {
        let (pearson, spearman) = raw(shared);
        let differences = differences(distances);
        let unequal = differences.iter().filter(|difference| **difference != 0.0).count();
        let nearer = differences.iter().filter(|difference| **difference > 0.0).count();
        ModelPair {
            concepts: shared.len(),
            pearson,
            spearman,
            first: Quartiles::of(distances[0]),
            second: Quartiles::of(distances[1]),
            second_nearer: (unequal > 0).then(|| nearer as f64 / unequal as f64),
            p: signed_rank(&differences),
            median_difference: median(&mut { differences }),
        }
    }
}

/// What is known of one pair of models.
struct ComparedPair<'a> {
    fixed: &'a ModelPair,
    /// Pearson's r of the resamples.
    correlations: Vec<Option<f64>>,
    /// The interval of the median difference.
    difference: Option<Interval>,
}

/// Concepts by the models that have them in a class.
struct ClassSets {
    /// By class (suppressed, then exaggerated) and model, the concepts that it alone has.
    unique: [Vec<Vec<usize>>; 2],
    universal: [Vec<usize>; 2],
    /// How many concepts exactly j models have, j from 0.
    by_models: [Vec<usize>; 2],
    live: usize,
}

/// Which concepts have a class in which models.
fn sets(measured: &Measured) -> ClassSets {
    let models = measured.models.len();
    let mut sets = ClassSets {
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
        for (index, class) in [Class::Suppressed, Class::Exaggerated].into_iter().enumerate() {
            let has = |concept: &Option<&Concept>| concept.is_some_and(|c| c.class(&measured.rules) == class);
            let having = concepts.iter().filter(|concept| has(concept)).count();
            sets.by_models[index][having] += 1;
            if having == models {
                sets.universal[index].push(latent);
            }
            if let (1, Some(model)) = (having, concepts.iter().position(has)) {
                let clear = |other: usize| other == model || is_clear(concepts[other], class, &measured.rules);
                if (0..models).all(clear) {
                    sets.unique[index][model].push(latent);
                }
            }
        }
    }
    sets
}

/// Is the whole interval of δ on the other side of the threshold of a class? A dead concept is: it has no δ but ½.
fn is_clear(concept: Option<&Concept>, class: Class, rules: &Rules) -> bool {
    let Some(concept) = concept else { return true };
    concept.interval().is_some_and(|interval| match class {
        Class::Suppressed => delta(interval.low, rules.temperature) >= rules.suppressed_below,
        _ => delta(interval.high, rules.temperature) <= rules.exaggerated_above,
    })
}

/// `splits`: by split, the correlation of every pair of models, each with itself too.
fn scores(
    measured: &Measured,
    pairs: &[(usize, usize)],
    splits: &[Vec<Option<f64>>],
    compared: &[ComparedPair<'_>],
) -> Scores {
    let names = &measured.names;
    let defined = |values: &mut dyn Iterator<Item = Option<f64>>| mean(&values.flatten().collect::<Vec<_>>());
    let interval = |replicates: Vec<f64>| (replicates.len() > 1).then(|| percentile_interval(replicates)).flatten();
    // Means over pairs of models, resample by resample.
    let resampled: Vec<f64> = (0..RESAMPLES)
        .filter_map(|resample| defined(&mut compared.iter().map(|pair| pair.correlations[resample])))
        .collect();
    let with_itself = all_pairs(names.len(), true);
    let index_of = |pair: (usize, usize)| with_itself.iter().position(|other| *other == pair).unwrap_or(0);
    let halves =
        |pair: (usize, usize)| mean(&splits.iter().filter_map(|split| split[index_of(pair)]).collect::<Vec<f64>>());
    let split_half: Vec<Option<f64>> = pairs.iter().map(|&pair| halves(pair)).collect();
    let corrected = |&(a, b): &(usize, usize)| {
        let (a_itself, b_itself) = (halves((a, a))?, halves((b, b))?);
        let both = halves((a, b))?;
        (a_itself > 0.0 && b_itself > 0.0).then(|| both / (a_itself * b_itself).sqrt())
    };
    let by_split: Vec<f64> =
        splits.iter().filter_map(|split| defined(&mut pairs.iter().map(|&pair| split[index_of(pair)]))).collect();
    let sets = sets(measured);
    let fixed = || compared.iter().map(|pair| pair.fixed);

    let mut scores = Scores::default();
    let pearson = defined(&mut fixed().map(|pair| pair.pearson));
    scores.headline("model_correlation", pearson, interval(resampled), pairs.len());
    scores.headline("model_rank_correlation", defined(&mut fixed().map(|pair| pair.spearman)), None, pairs.len());
    let mean_split = defined(&mut split_half.iter().copied());
    scores.headline("model_correlation_split_half", mean_split, interval(by_split), pairs.len());
    let share = |count: f64| (sets.live > 0).then(|| count / sets.live as f64);
    let unique = |class: usize| {
        let all: usize = sets.unique[class].iter().map(Vec::len).sum();
        share(all as f64 / names.len() as f64)
    };
    scores.headline("universal_suppressed", share(sets.universal[0].len() as f64), None, sets.live);
    scores.headline("universal_exaggerated", share(sets.universal[1].len() as f64), None, sets.live);
    scores.headline("unique_suppressed", unique(0), None, sets.live);
    scores.headline("unique_exaggerated", unique(1), None, sets.live);
    if sets.live == 0 {
        scores.note("no concept fires: undefined");
    }
    if fixed().any(|pair| pair.pearson.is_none()) || split_half.iter().any(Option::is_none) || mean_split.is_none() {
        scores.note("some pairs of models have fewer than two concepts or constant values: left out");
    }
    scores.note(format!(
        "classes are at T = {}; the plain correlation contains the noise of the real rows that all models share: read the \
         split-half one",
        measured.rules.temperature
    ));
    let ends = |pair: &ComparedPair<'_>| interval(pair.correlations.iter().copied().flatten().collect());
    let ends: Vec<Option<Interval>> = compared.iter().map(ends).collect();
    let difference = || compared.iter().map(|pair| pair.difference);
    scores.tables.push(
        Table::new("pair")
            .words("first", pairs.iter().map(|pair| names[pair.0].as_str()))
            .words("second", pairs.iter().map(|pair| names[pair.1].as_str()))
            .counts("concepts", fixed().map(|pair| pair.concepts))
            .numbers("pearson", fixed().map(|pair| pair.pearson))
            .numbers("pearson_low", ends.iter().map(|ends| ends.map(|ends| ends.low)))
            .numbers("pearson_high", ends.iter().map(|ends| ends.map(|ends| ends.high)))
            .numbers("spearman", fixed().map(|pair| pair.spearman))
            .numbers("split_half", split_half)
            .numbers("corrected", pairs.iter().map(corrected))
            .numbers("median_first", fixed().map(|pair| pair.first.map(|first| first.median)))
            .numbers("median_second", fixed().map(|pair| pair.second.map(|second| second.median)))
            .numbers("quartile_range_first", fixed().map(|pair| pair.first.map(Quartiles::range)))
            .numbers("quartile_range_second", fixed().map(|pair| pair.second.map(Quartiles::range)))
            .numbers("median_difference", fixed().map(|pair| pair.median_difference))
            .numbers("median_difference_low", difference().map(|ends| ends.map(|ends| ends.low)))
            .numbers("median_difference_high", difference().map(|ends| ends.map(|ends| ends.high)))
            .numbers("second_nearer", fixed().map(|pair| pair.second_nearer))
            .numbers("signed_rank_p", fixed().map(|pair| pair.p)),
    );
    scores.tables.push(set_table(&sets, names));
    let count = |class: usize| sets.by_models[class].iter().copied();
    scores.tables.push(
        Table::new("shared")
            .counts("models", 0..=names.len())
            .counts("suppressed", count(0))
            .counts("exaggerated", count(1)),
    );
    if measured.rows < 2 {
        scores.note("fewer than two rows cannot be split: undefined");
    }
    scores
}

/// The concepts of every set.
fn set_table(sets: &ClassSets, names: &[String]) -> Table {
    let (mut words, mut models, mut latents) = (Vec::new(), Vec::new(), Vec::new());
    for (index, class) in ["suppressed", "exaggerated"].into_iter().enumerate() {
        words.push(format!("universally {class}"));
        models.push(String::new());
        latents.push(sets.universal[index].iter().map(|&latent| latent as i64).collect());
        for (model, unique) in names.iter().zip(&sets.unique[index]) {
            words.push(format!("uniquely {class}"));
            models.push(model.clone());
            latents.push(unique.iter().map(|&latent| latent as i64).collect());
        }
    }
    Table::new("set").words("set", words).words("model", models).with("latents", Cells::WholeLists(latents))
}
