//! `blindspot_models`: do generators have the same blindspots, and which of two is nearer to the real rows?

use serde::{Deserialize, Serialize};

use super::agreement::{Compared, correlation, pairs as all_pairs, shared, split_half};
use super::bootstrap::{interval_of_defined, mean_of_defined, resampled, with_interval};
use super::class_sets::ClassSets;
use super::distance::{Distance, distances};
use super::measured::Measured;
use super::params::{CORRELATION, EXAGGERATED_ABOVE, SHARE, SUPPRESSED_BELOW, TEMPERATURE, rules};
use super::sums::compare;
use crate::error::{InputError, Key, Result};
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::{Interval, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{CODES, GENERATED, Job, Work};
use etalon_kernel::statistics::{median, quantile, signed_rank, spearman};

/// Whether generators have the same blindspots.
pub struct BlindspotModels;

const COMPARED: Param = Param::new(
    "compared",
    "Value of a concept to compare between models: δ, gap or relative gap.",
    Kind::Word(&["delta", "gap", "relative"]),
    "delta",
)
.reference("relative");

const SPLITS: Param = Param::new(
    "splits",
    "Number of random splits of the prompts for the split-half correlation.",
    Kind::Whole(1, 10_000),
    "20",
);

static CARD: Card = Card {
    name: "blindspot_models",
    title: "Blindspots between models",
    summary: "Whether generators suppress and exaggerate the same concepts, and which of two is nearer to the real rows.",
    version: 1,
    measures: "If two generators have the same blindspots, the cause is likely what they share: data, captions, the encoder. The \
        published correlation compares every generator with the same real rows, so both values contain the noise of those rows: \
        without any bias, and with equal noise in real and generated rows, it is 0.5. The split-half correlation compares one \
        generator on one half of the prompts and the other on the other half, which removes that noise. The table `pair` also \
        compares two variants of one generator, such as before and after further training, prompt by prompt.",
    definition: "v: δ, gap or relative gap (`compared`; see `blindspots`) of every live concept. model_correlation: Pearson's r of \
        v between two models over the concepts that both have, mean over pairs of models. model_rank_correlation: Spearman's, \
        ties averaged. model_correlation_split_half: r of v(A, one half of the prompts) and v(B, the other half), mean over both \
        assignments, over `splits` random splits, then over pairs. The noise of each model lowers it; table column `corrected` \
        divides it by the root of the product of both models' split-half correlations with themselves. That may exceed 1, and \
        is undefined where one of these is not above 0.\n\
        Universal: suppressed (exaggerated) by δ in every model. Unique to a model: in that model, while in every other the \
        whole 95 % interval of δ is on the other side of the threshold. Shares are of concepts that are live in some model; \
        unique shares are means over models. Table `shared`: how many concepts are suppressed in exactly j models.\n\
        Table `pair`: d_i = length of the difference between generated and real row i. median_first, median_second, quartile \
        ranges; median_difference of d_i(first) − d_i(second) with a bootstrap interval over prompts; `second_nearer`: share of \
        prompts where the second is nearer, of those that differ; p of Wilcoxon's signed-rank test.\n\
        Correlations are undefined where a side is constant or has fewer than two concepts.\n\
        Profile `reference`: relative gaps are compared, and T is 0.8.",
    cost: "One pass as for `blindspots`; one pass per split; 1000 resamples of concepts and of prompts for every pair of models.",
    source: "Bohacek, Fel, Agrawala and Lubana, Sections 5.2, 5.3 and 5.5, Figures 8, 9 and 12. The text describes δ; the released \
        code correlates relative gaps and leaves out 0/0 in the scatter plots, but not in the matrix. Split halves, the \
        definitions of universal and unique (the paper judges by eye), and the signed-rank test are not in the paper.",
    interval: "Correlation: percentile bootstrap over concepts, 1000 resamples. Split-half: percentiles over splits. None for \
        shares.",
    needs: &[&CODES, &GENERATED],
    uses: &[],
    headline: &[
        Output::new(
            "model_correlation",
            "Pearson's r between models, with shared noise.",
            CORRELATION,
            Better::Neither,
        ),
        Output::new(
            "model_rank_correlation",
            "Spearman's correlation, with shared noise.",
            CORRELATION,
            Better::Neither,
        ),
        Output::new("model_correlation_split_half", "Pearson's r on different prompts.", CORRELATION, Better::Neither),
        Output::new("universal_suppressed", "Share of concepts that all models suppress.", SHARE, Better::Lower),
        Output::new("universal_exaggerated", "Share of concepts that all models exaggerate.", SHARE, Better::Lower),
        Output::new("unique_suppressed", "Share that one model suppresses and no other.", SHARE, Better::Lower),
        Output::new("unique_exaggerated", "Share that one model exaggerates and no other.", SHARE, Better::Lower),
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
            return Err(InputError::new("cannot compare a single model")
                .expected("at least two models")
                .found("1")
                .advice(format!("repeat {} for every generator", Key("generated")))
                .into());
        }
        let measured = Measured::new(compare(0, job, work)?, None, rules(job)?, job)?;
        let compared = match job.word(COMPARED.name)? {
            "gap" => Compared::Gap,
            "relative" => Compared::Relative,
            _ => Compared::Delta(measured.rules.temperature),
        };
        let pairs = all_pairs(models, false);
        let shared: Vec<Vec<(f64, f64)>> = pairs.iter().map(|&pair| shared(&measured, compared, pair)).collect();
        let splits =
            work.blocks("splits", job.whole(SPLITS.name)?, |split| split_half(&measured, compared, split, job))?;
        let distances = distances(1.0, job, work)?;
        let of_pair = |pair: usize| [pairs[pair].0, pairs[pair].1].map(|model| &distances[model].0[..]);
        let rows = measured.rows;
        let fixed = work.blocks("pairs of models", pairs.len(), |pair| {
            let _memory = job.budget().reserve(64 * rows, "distances of a pair of models")?;
            Ok(ModelPair::new(&shared[pair], of_pair(pair)))
        })?;
        let mut resamples = Vec::new();
        for (pair, shared) in shared.iter().enumerate() {
            let correlations = resampled(job, work, ("blindspots/agreement", shared.len(), 24), |drawn| {
                correlation(drawn.iter().map(|&concept| shared[concept]))
            })?;
            let _memory = job.budget().reserve(8 * rows, "differences of a pair of models")?;
            let differences = differences(of_pair(pair));
            let medians = resampled(job, work, ("blindspots/variants", differences.len(), 16), |drawn| {
                median(&mut drawn.iter().map(|&row| differences[row]).collect::<Vec<f64>>())
            })?;
            let difference = (rows > 1).then(|| interval_of_defined(medians.iter().copied())).flatten();
            resamples.push(PairResamples { correlations: correlations.into_parts().0, difference });
        }
        Ok(scores(&measured, &pairs, &splits, &fixed, &resamples))
    }
}

/// What is computed once for a pair of models.
#[derive(Serialize, Deserialize)]
struct ModelPair {
    /// Number of concepts that both models have.
    concepts: usize,
    pearson: Option<f64>,
    spearman: Option<f64>,
    /// By model, the quartiles of distances.
    quartiles: [Option<[f64; 3]>; 2],
    median_difference: Option<f64>,
    second_nearer: Option<f64>,
    p: Option<f64>,
}

/// What the bootstrap gives for a pair of models.
struct PairResamples {
    /// Pearson's r by resample of the concepts.
    correlations: Vec<Option<f64>>,
    /// The interval of the median difference.
    difference: Option<Interval>,
}

/// By row, the distance of the first model minus that of the second.
fn differences([first, second]: [&[Distance]; 2]) -> Vec<f64> {
    first.iter().zip(second).map(|(a, b)| a.length - b.length).collect()
}

fn quartiles(distances: &[Distance]) -> Option<[f64; 3]> {
    let mut lengths: Vec<f64> = distances.iter().map(|distance| distance.length).collect();
    lengths.sort_by(f64::total_cmp);
    let [lower, median, upper] = [0.25, 0.5, 0.75].map(|level| quantile(&lengths, level));
    Some([lower?, median?, upper?])
}

impl ModelPair {
    fn new(shared: &[(f64, f64)], distances: [&[Distance]; 2]) -> ModelPair {
        let (x, y): (Vec<f64>, Vec<f64>) = shared.iter().copied().unzip();
        let differences = differences(distances);
        let unequal = differences.iter().filter(|difference| **difference != 0.0).count();
        let nearer = differences.iter().filter(|difference| **difference > 0.0).count();
        ModelPair {
            concepts: shared.len(),
            pearson: correlation(shared.iter().copied()),
            spearman: spearman(&x, &y),
            quartiles: distances.map(quartiles),
            second_nearer: (unequal > 0).then(|| nearer as f64 / unequal as f64),
            p: signed_rank(&differences),
            median_difference: median(&mut { differences }),
        }
    }
}

/// `splits`: by split, the correlation of every pair of models, each with itself included.
fn scores(
    measured: &Measured,
    pairs: &[(usize, usize)],
    splits: &[Vec<Option<f64>>],
    fixed: &[ModelPair],
    resamples: &[PairResamples],
) -> Scores {
    let names = &measured.names;
    let interval = |replicates: Vec<f64>| (replicates.len() > 1).then(|| percentile_interval(replicates)).flatten();
    let over_pairs = |resample: usize| mean_of_defined(resamples.iter().map(|pair| pair.correlations[resample]));
    let with_itself = all_pairs(names.len(), true);
    let index_of = |pair: (usize, usize)| with_itself.iter().position(|other| *other == pair).unwrap_or(0);
    let over_splits = |pair: (usize, usize)| mean_of_defined(splits.iter().map(|split| split[index_of(pair)]));
    let by_split = |split: &Vec<Option<f64>>| mean_of_defined(pairs.iter().map(|&pair| split[index_of(pair)]));
    let split_half: Vec<Option<f64>> = pairs.iter().map(|&pair| over_splits(pair)).collect();
    let corrected = |&(a, b): &(usize, usize)| {
        let (a_itself, b_itself, both) = (over_splits((a, a))?, over_splits((b, b))?, over_splits((a, b))?);
        (a_itself > 0.0 && b_itself > 0.0).then(|| both / (a_itself * b_itself).sqrt())
    };
    let sets = ClassSets::new(measured);

    let mut scores = Scores::default();
    let pearson = mean_of_defined(fixed.iter().map(|pair| pair.pearson));
    let pearson_interval = interval((0..RESAMPLES).filter_map(over_pairs).collect());
    scores.headline("model_correlation", pearson, pearson_interval, pairs.len());
    let spearman = mean_of_defined(fixed.iter().map(|pair| pair.spearman));
    scores.headline("model_rank_correlation", spearman, None, pairs.len());
    let mean_split = mean_of_defined(split_half.iter().copied());
    let split_interval = interval(splits.iter().filter_map(by_split).collect());
    scores.headline("model_correlation_split_half", mean_split, split_interval, pairs.len());
    let share = |count: f64| (sets.live > 0).then(|| count / sets.live as f64);
    let universal = |class: usize| share(sets.universal[class].len() as f64);
    let unique =
        |class: usize| share(sets.unique[class].iter().map(Vec::len).sum::<usize>() as f64 / names.len() as f64);
    scores.headline("universal_suppressed", universal(0), None, sets.live);
    scores.headline("universal_exaggerated", universal(1), None, sets.live);
    scores.headline("unique_suppressed", unique(0), None, sets.live);
    scores.headline("unique_exaggerated", unique(1), None, sets.live);
    if sets.live == 0 {
        scores.note("no concept fires: undefined");
    }
    if fixed.iter().any(|pair| pair.pearson.is_none()) || split_half.iter().any(Option::is_none) || mean_split.is_none()
    {
        scores.note("some pairs of models have fewer than two concepts or constant values: left out");
    }
    scores.note(format!(
        "classes are at T = {}; `model_correlation` contains the noise of the real rows that all models share: prefer \
         `model_correlation_split_half`",
        measured.rules.temperature
    ));
    if measured.rows < 2 {
        scores.note("fewer than two rows cannot be split: undefined");
    }

    let mut table = Table::new("pair")
        .words("first", pairs.iter().map(|pair| &*names[pair.0]))
        .words("second", pairs.iter().map(|pair| &*names[pair.1]))
        .counts("concepts", fixed.iter().map(|pair| pair.concepts));
    let both = || fixed.iter().zip(resamples);
    let interval_of_pair = |pair: &PairResamples| interval(pair.correlations.iter().copied().flatten().collect());
    table =
        with_interval(table, "pearson", both().map(|(pair, resamples)| (pair.pearson, interval_of_pair(resamples))));
    table = table
        .numbers("spearman", fixed.iter().map(|pair| pair.spearman))
        .numbers("split_half", split_half)
        .numbers("corrected", pairs.iter().map(corrected));
    let quartile = |model: usize| fixed.iter().map(move |pair| pair.quartiles[model]);
    for (model, name) in ["median_first", "median_second"].into_iter().enumerate() {
        table = table.numbers(name, quartile(model).map(|of| of.map(|[_, median, _]| median)));
    }
    for (model, name) in ["quartile_range_first", "quartile_range_second"].into_iter().enumerate() {
        table = table.numbers(name, quartile(model).map(|of| of.map(|[lower, _, upper]| upper - lower)));
    }
    let difference = both().map(|(pair, resamples)| (pair.median_difference, resamples.difference));
    table = with_interval(table, "median_difference", difference)
        .numbers("second_nearer", fixed.iter().map(|pair| pair.second_nearer))
        .numbers("signed_rank_p", fixed.iter().map(|pair| pair.p));
    scores.tables.extend([table, sets.table(names), sets.shared_table()]);
    scores
}
