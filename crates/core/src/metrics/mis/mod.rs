//! Machine interpretability score: could a person tell from example images what a unit reacts to?

pub(in crate::metrics) mod extreme_units;
mod extremes;
mod groups;
pub(in crate::metrics) mod judge;
pub(in crate::metrics) mod layer_types;
mod limits;
mod numpy_shuffle;
mod row_order;
mod selection;
mod summary;
pub(in crate::metrics) mod tasks;
mod two_choice;
pub(in crate::metrics) mod units;
mod zeros;

pub use two_choice::{SimulatedAnswer, TwoChoiceTask, UnitTasks, simulated_answers, two_choice_tasks};

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{
    CODES, DIRECTIONS, DISTANCES, EMBEDDINGS, IMAGE_SIMILARITY, Job, SIMILARITY, UNIT_ACTIVATIONS, UNITS,
    VISUALISATIONS, Work,
};
use units::Selected;

/// The mean probability that a simulated person assigns images correctly.
pub struct Mis;

static CARD: Card = Card {
    name: "mis",
    title: "Machine interpretability score",
    summary: "How often a simulated person tells images that activate a unit from images that do not, given examples.",
    version: 2,
    measures: "A person is shown images that activate a unit strongly, images that activate it weakly, and two more images, \
        one of each kind. Can the person say which is which? The person is simulated by the similarity of images: the more a \
        query looks like one side of the examples, the more probable it is assigned to it. 1 means that the examples always \
        tell, 0.5 is chance. The score is about a unit, a way to explain it and a set of images; it can be below 0.5. Units \
        are the latents of codes, the columns of embeddings (neurons, channels), or products with directions.",
    definition: "Images are sorted by activation; equal ones by row, or in a shuffled order (`ties`). With N = `tasks` and K = `explanations`, the N·K most and the N·K \
        least activating images are explanations, and the N images next to each of them are queries. Each pool of \
        explanations is ordered from least to most extreme and cut into K strata of N images; strata and queries are \
        shuffled, and task t takes image t of each. So every task has one image of each stratum, and all 2N(K + 1) images are \
        used once.\n\
        s(q, E) is the mean similarity of q to the images of E; D⁺ = s(q⁺, E⁺) − s(q⁺, E⁻), D⁻ = s(q⁻, E⁺) − s(q⁻, E⁻). A task \
        is solved with probability σ((D⁺ − D⁻) / α); MIS is the mean over tasks, `mis_hard` the share of tasks with D⁺ > D⁻. \
        Headlines: mean, 5th and 95th percentile over units.\n\
        Similarity: the cosine of `similarity` vectors, minus their squared distance (`measure` squared; LPIPS for the \
        vectors that the command `similarity` writes, exactly), minus `distances`; without either, the cosine of the embeddings \
        that belong to codes. With `visualisations`, explanations are the same vectors in every task: of each unit, K that \
        minimise it, then K that maximise it.\n\
        Latents, and neurons after a ReLU, are 0 on most images. Their least activating images are then all equal, and with `ties` row they are the first \
        images of the data: if those are of one kind, every such unit looks easy. Use `ties` shuffled for them; a note counts them.\n\
        A unit is constant, and undefined, if its activations differ by less than 1e-8. An image whose vector is 0 has \
        cosine 0 with every image. `query_quantile` q moves the queries to the ranks from ⌊qn⌋ on, explanations stay. Table \
        `tasks`: mean over units of |MIS of i tasks − MIS|, for the first i tasks (`prefix_difference`) and for tasks built \
        with N = i (`rebuilt_difference`, with `convergence` both). Table `extreme`: the units with the highest and the lowest score of every model; `task`: \
        the rows of their first tasks. Tables that need `units`: `layer` and `model` (mean, 5th and 95th percentile, constant units; by `epoch` if \
        there are several, with the `change` of a layer since the checkpoint before), `accuracy` (correlation of means with accuracy, over models and over \
        the checkpoints of a model), and, of the last checkpoint: `type`, `type_pair` (Conover's test after Kruskal and Wallis of the means of (model, type), \
        adjusted by Holm), `depth` and `width` (means of layers in 30 and 5 bins of equal count by type; the width is relative to the widest layer of \
        its type in its model, because the paper does not say to what).",
    cost: "A sample of rows for limits, then one pass, which compares every activation with two limits. Memory: 20 · N(K + 1) \
        bytes per unit (4.0 kB with the defaults), in ranges of units of 64 MB; all threads fill the same lists, and a few states are held at a time \
        if a range has more than 4 billion activations (or products). `query_quantile` keeps 20 · (qn + N) bytes. Then 2N(K + 1) vectors are read per unit.",
    source: "Zimmermann et al., \"Measuring Mechanistic Interpretability at Scale Without Humans\" (2024), equations 2 to 4, with \
        the tasks of \"Scale Alone Does not Improve Mechanistic Interpretability\" (2023), whose program is the reference \
        (that of the score is not released). Equation 4 multiplies by α = 0.16 and misplaces a bracket. Cosines differ by at \
        most 4, so a multiplier cannot give more than σ(0.64) = 0.65, but models score 0.80 to 0.91: α must be a \
        temperature, which is the default `reading`. `multiplier` and `literal` (σ(α D⁺ − D⁻)) are the other readings. Profile \
        `reference`: one rank is unused between top queries and top explanations (`rank_gap`), and images are shuffled \
        by NumPy's legacy stream with seed 42 (plus the seed of the evaluation), one stream over all units that vary, grouped by layer in order of \
        first appearance. The order of equal activations is undefined there (an unstable sort); here it is that of rows. \
        Profile `paper` uses the same seeded shuffles for every unit, so that a score does not depend on other units.",
    interval: "Percentile bootstrap over units, 1000 resamples; percentiles: exact, from order statistics, none below 72 units. By unit \
        (`low`, `high`): Student's t over the N tasks with Hall's correction for skewness, from the spread of the tasks of one selection of images. In \
        simulations it contains the expected score on other images in 92 to 96 % (docs/coverage.md).",
    needs: &[&UNIT_ACTIVATIONS, &IMAGE_SIMILARITY],
    uses: &[&CODES, &EMBEDDINGS, &DIRECTIONS, &SIMILARITY, &DISTANCES, &VISUALISATIONS, &UNITS],
    headline: &[
        Output::new("mis", "Mean over units of the machine interpretability score", (0.0, 1.0), Better::Higher),
        Output::new("mis_hard", "Mean over units of the share of tasks solved", (0.0, 1.0), Better::Higher),
        Output::new("mis_p05", "5th percentile of the score over units", (0.0, 1.0), Better::Higher),
        Output::new("mis_p95", "95th percentile of the score over units", (0.0, 1.0), Better::Higher),
    ],
    params: &[
        TASKS,
        EXPLANATIONS,
        ALPHA,
        READING,
        MEASURE,
        QUERY_QUANTILE,
        RANK_GAP,
        TIES,
        SHUFFLE,
        Param::new("convergence", "Scores of fewer tasks to compare", Kind::Word(&["prefix", "both"]), "prefix"),
        Param::new("task_scores", "Add D⁺ − D⁻ of every task to the table", Kind::Word(&["no", "yes"]), "no"),
        EXTREME_UNITS,
        Param::new("listed_tasks", "Tasks of each of these units to list with their rows", Kind::Whole(0, 200), "2"),
    ],
};

/// Parameters of tasks and their judge.
pub(in crate::metrics) const TASKS: Param = Param::new("tasks", "Tasks per unit (N)", Kind::Whole(1, 200), "20");
pub(in crate::metrics) const EXPLANATIONS: Param =
    Param::new("explanations", "Explanations on each side of a task (K)", Kind::Whole(1, 100), "9");
pub(in crate::metrics) const ALPHA: Param =
    Param::new("alpha", "The temperature, or factor, of a difference of similarities", Kind::Number(1e-6, 1e6), "0.16");
pub(in crate::metrics) const READING: Param =
    Param::new("reading", "How alpha is used", Kind::Word(&["temperature", "multiplier", "literal"]), "temperature");
pub(in crate::metrics) const MEASURE: Param =
    Param::new("measure", "Similarity of vectors", Kind::Word(&["cosine", "squared"]), "cosine");
pub(in crate::metrics) const QUERY_QUANTILE: Param = Param::new(
    "query_quantile",
    "Take queries from this quantile; 0 takes those next to the explanations",
    Kind::Number(0.0, 0.5),
    "0",
);
pub(in crate::metrics) const RANK_GAP: Param =
    Param::new("rank_gap", "Unused ranks between top queries and top explanations", Kind::Whole(0, 1), "0")
        .reference("1");
pub(in crate::metrics) const TIES: Param =
    Param::new("ties", "Order of images with equal activations", Kind::Word(&["row", "shuffled"]), "row");
pub(in crate::metrics) const SHUFFLE: Param =
    Param::new("shuffle", "Random stream of the tasks", Kind::Word(&["seeded", "numpy"]), "seeded").reference("numpy");

pub(in crate::metrics) const EXTREME_UNITS: Param =
    Param::new("extreme_units", "Easiest and hardest units of a model to list", Kind::Whole(0, 10_000), "42");

impl Metric for Mis {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let selected = Selected::new(job, work)?;
        let rebuilt = job.word("convergence")? == "both" && job.number("query_quantile")? == 0.0;
        let all = selected.score(job, work, rebuilt)?;
        let mut scores = summary::summarise(job, work, &all)?;
        scores.tables.extend(two_choice::listed_tasks(job, &selected, &all)?);
        Ok(scores)
    }
}

#[cfg(test)]
mod tests;
