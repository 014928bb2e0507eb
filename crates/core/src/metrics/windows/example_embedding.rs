//! Example embedding: is a window in which a latent is active more like other such windows than an inactive one?

use etalon_kernel::statistics::area_under_curve;

use super::intruder::ByQuantile;
use super::sampling::{Skipped, draw, inactive, latent_stream, quantiles};
use super::{MEASURE, MIN_ACTIVE, QUANTILES, TEST, TRAIN, summarise};
use crate::codes::Columns;
use crate::error::Result;
use crate::metrics::mis::judge::Judge;
use crate::metrics::mis::tasks::TaskSide;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::Scores;
use crate::run::{CODES, DISTANCES, EMBEDDINGS, IMAGE_SIMILARITY, Job, Lazy, SIMILARITY, Work};

/// How well the similarity to examples separates active from inactive windows.
pub struct ExampleEmbedding;

static CARD: Card = Card {
    name: "example_embedding",
    title: "Example embedding score",
    summary: "How well the similarity to example windows tells windows of text in which a latent is active from others.",
    version: 1,
    measures: "The machine interpretability score for text. A window in which a latent is active should be more like examples of its windows, and less like \
        examples of others, than a window in which it is not active. 0.5 is chance, 1 means that all active windows are told from \
        inactive ones. Rows are windows, such as 32 tokens, with the largest activation of each latent (`pool` max makes them of \
        tokens) and the vectors of any sentence encoder; no language model is asked.",
    definition: "Active windows (code above 0) are sorted by code, descending, and cut into `quantiles` groups of equal size, 0 the strongest. Of each \
        group `test_windows` are asked about and `train_windows` others are examples. Each of them is a task with \
        `negatives` inactive windows as counter-examples and one more inactive window n: Δ(w) = mean similarity of w to the examples of its \
        quantile − mean similarity to the counter-examples; Δ⁺ of the active window, Δ⁻ of n. Score of a quantile: the area under the ROC curve of \
        Δ⁺ against Δ⁻ of its tasks; of a latent: the mean over quantiles; headlines: means over latents, of all quantiles and of the \
        strongest; `example_embedding_hard` is the share of tasks with Δ⁺ > Δ⁻.\n\
        Undefined for latents that are active in fewer than `min_active` windows, or with quantiles too small for disjoint examples \
        and queries, and for those with too few inactive windows. Ties between codes are ordered by row.",
    cost: "The codes by latent, and (`train_windows` + `negatives` + 2) vectors per task.",
    source: "Paulo and Belrose, \"Evaluating SAE interpretability without explanations\" (2025, arXiv 2507.08473), and its released program (delphi, commit \
        3c2e139), which stops at Δ⁺ and Δ⁻. That program draws examples and queries with one seed: in quantiles 0 to 3, four, three, \
        two and one of five queries are also examples, which inflates the strongest decile. Profile `reference` draws them so \
        (`disjoint` no); profile `paper` keeps them apart. Other random numbers differ from the program's; it asks 20 tasks, here \
        all test windows are asked.",
    interval: "Percentile bootstrap over latents, 1000 resamples.",
    needs: &[&CODES, &IMAGE_SIMILARITY],
    uses: &[&EMBEDDINGS, &SIMILARITY, &DISTANCES],
    headline: &[
        Output::new(
            "example_embedding",
            "Mean over latents of the area under the ROC curve",
            (0.0, 1.0),
            Better::Higher,
        ),
        Output::new("example_embedding_top", "The same for the strongest windows only", (0.0, 1.0), Better::Higher),
        Output::new(
            "example_embedding_hard",
            "Mean over latents of the share of tasks solved",
            (0.0, 1.0),
            Better::Higher,
        ),
    ],
    params: &[
        MIN_ACTIVE,
        QUANTILES,
        TEST,
        TRAIN,
        Param::new("negatives", "Inactive windows that are counter-examples", Kind::Whole(1, 1000), "10"),
        Param::new("disjoint", "Whether examples are never asked about", Kind::Word(&["yes", "no"]), "yes")
            .reference("no"),
        MEASURE,
    ],
};

impl Metric for ExampleEmbedding {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let plan = Plan {
            quantiles: job.whole("quantiles")?,
            min_active: job.whole("min_active")?,
            test: job.whole("test_windows")?,
            train: job.whole("train_windows")?,
            negatives: job.whole("negatives")?,
            disjoint: job.word("disjoint")? == "yes",
        };
        let shared = Lazy::new(|| Ok((codes.columns()?, Judge::of_images(job)?)));
        let latents = work.blocks_with(&shared, "latents", codes.latents(), |(columns, judge), latent| {
            job.check()?;
            plan.score(job.seed, columns, judge, latent)
        })?;
        let areas: Vec<_> = latents.iter().map(|(areas, _)| areas.0.clone()).collect();
        let mut scores = summarise(["example_embedding", "example_embedding_top"], job.seed, &areas);
        let hard: Vec<f64> = latents.iter().filter_map(|(_, hard)| *hard).collect();
        let purpose = "example_embedding_hard/latents";
        crate::metrics::estimate::Estimate::mean(&hard, job.seed, purpose)
            .headline("example_embedding_hard", &mut scores);
        if let Some(table) = scores.tables.iter_mut().find(|table| table.axis == "latent") {
            let column = crate::results::Cells::Number(latents.iter().map(|(_, hard)| *hard).collect());
            table.columns.push(("hard".into(), column));
        }
        Ok(scores)
    }
}

struct Plan {
    quantiles: usize,
    min_active: usize,
    test: usize,
    train: usize,
    negatives: usize,
    disjoint: bool,
}

impl Plan {
    /// The examples and the queries of a quantile's windows.
    fn split(&self, group: &[u32], quantile: usize, drawn: &[u32]) -> (Vec<u32>, Vec<u32>) {
        if self.disjoint {
            return (drawn[..self.train].to_vec(), drawn[self.train..self.train + self.test].to_vec());
        }
        // Two draws from streams of one seed agree where they are equally far in the stream: example i of a quantile is number
        // quantile · train + i, query j is number quantile · test + j.
        let (from, until) = (quantile * self.test, quantile * self.train + self.train);
        let shared = until.saturating_sub(from).min(self.test);
        let examples = drawn[..self.train].to_vec();
        let mut queries = examples[self.train - shared.min(self.train)..].to_vec();
        queries.extend(drawn[self.train..].iter().take(self.test - queries.len()));
        debug_assert!(group.len() >= queries.len());
        (examples, queries)
    }

    fn score(
        &self,
        seed: u64,
        columns: &Columns,
        judge: &Judge<'_>,
        latent: usize,
    ) -> Result<(ByQuantile, Option<f64>)> {
        let groups = match quantiles(columns, latent, self.min_active, self.quantiles, self.train + self.test) {
            Ok(groups) => groups,
            Err(skipped) => return Ok((ByQuantile(Err(skipped)), None)),
        };
        let mut random = latent_stream(seed, "example_embedding", columns, latent);
        let tasks = groups.len() * self.test;
        let Some(inactive) = inactive(columns, latent, self.negatives + tasks, &mut random) else {
            return Ok((ByQuantile(Err(Skipped::Dense)), None));
        };
        let (negatives, others) = inactive.split_at(self.negatives);
        let mut others = others.iter();
        let (mut areas, mut solved, mut scratch) = (Vec::with_capacity(groups.len()), 0usize, Vec::new());
        for (quantile, group) in groups.iter().enumerate() {
            let drawn = draw(group, self.train + self.test, &mut random);
            let (examples, queries) = self.split(group, quantile, &drawn);
            let (mut positive, mut deltas) = (Vec::new(), Vec::new());
            for (&query, &other) in queries.iter().zip(&mut others) {
                let low = TaskSide { explanations: negatives.to_vec(), query: other };
                let high = TaskSide { explanations: examples.clone(), query };
                let [plus, minus] = judge.differences(0, &[low, high], &mut scratch)?;
                solved += usize::from(plus > minus);
                positive.extend([true, false]);
                deltas.extend([plus, minus]);
            }
            areas.push(area_under_curve(&positive, &deltas));
        }
        Ok((ByQuantile(Ok(areas)), Some(solved as f64 / tasks as f64)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_draws_overlap_in_the_strongest_quantiles() {
        let plan = Plan { quantiles: 10, min_active: 200, test: 5, train: 4, negatives: 10, disjoint: false };
        let (group, drawn): (Vec<u32>, Vec<u32>) = ((0..20).collect(), (0..9).collect());
        for (quantile, expected) in [4, 3, 2, 1, 0, 0].into_iter().enumerate() {
            let (examples, queries) = plan.split(&group, quantile, &drawn);
            let both = queries.iter().filter(|query| examples.contains(query)).count();
            assert_eq!((examples.len(), queries.len(), both), (4, 5, expected), "quantile {quantile}");
        }
        let disjoint = Plan { disjoint: true, ..plan };
        let (examples, queries) = disjoint.split(&group, 0, &drawn);
        assert!(queries.iter().all(|query| !examples.contains(query)));
    }
}
