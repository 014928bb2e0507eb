//! Intruder detection: which of five windows does not belong to the latent?

use serde::{Deserialize, Serialize};

use super::sampling::{Skipped, draw, inactive, latent_stream, quantiles};
use super::{MEASURE, MIN_ACTIVE, QUANTILES, summarise};
use crate::codes::{Columns, Latent};
use crate::error::Result;
use crate::metrics::mis::judge::Judge;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::Scores;
use crate::run::{CODES, DISTANCES, EMBEDDINGS, IMAGE_SIMILARITY, Job, Lazy, SIMILARITY, Work};

/// How often the window in which the latent is not active is found.
pub struct Intruder;

static CARD: Card = Card {
    name: "intruder",
    title: "Intruder detection",
    summary: "How often the one window of text in which a latent is not active is found among those in which it is.",
    version: 1,
    measures: "If the windows of text in which a latent is active have something in common, a window in which it is not active stands out. \
        The judge is not a language model but the similarity of embeddings: it picks the window that is least like the others. \
        Chance is 1 / `windows` (0.2); a latent with one clear topic reaches 1. Rows are windows, such as 32 tokens, with the largest \
        activation of each latent (`pool` max makes them of tokens) and the vectors of any sentence encoder.",
    definition: "A latent is active in a window if its code is above 0. Its windows are sorted by code, descending, and cut into \
        `quantiles` groups of equal size, 0 the strongest; what is left over is dropped. In each of `trials` trials, quantiles in \
        turn, `windows` − 1 windows of one quantile and an intruder are shown. The answer is the window with the smallest mean similarity \
        to the others; if several tie, each gets an equal share of the point. Score of a quantile: the mean over its trials; of a \
        latent: the mean over quantiles; headlines: means over latents, of all quantiles and of the strongest.\n\
        Intruders are inactive windows (`inactive`); windows in which another latent of the most similar firing rate is active and this one is \
        not (`similar`: harder, and fairer); or active windows of another quantile (`internal`).\n\
        Undefined for latents that are active in fewer than `min_active` windows or with quantiles smaller than `windows` − 1, and for those that are inactive in fewer windows than \
        trials. Ties between codes are ordered by row.",
    cost: "The codes by latent, and `trials` · `windows`² / 2 dot products per latent.",
    source: "Paulo and Belrose, \"Evaluating SAE interpretability without explanations\" (2025, arXiv 2507.08473), with an embedding judge \
        instead of a language model: five windows, mean over deciles. The released scorer (delphi, commit 3c2e139) asks a language model and cannot be run at \
        this commit, so both profiles are the same. Marked tokens: embed windows with marks to include them.",
    interval: "Percentile bootstrap over latents, 1000 resamples.",
    needs: &[&CODES, &IMAGE_SIMILARITY],
    uses: &[&EMBEDDINGS, &SIMILARITY, &DISTANCES],
    headline: &[
        Output::new("intruder", "Mean over latents of the share of intruders found", (0.0, 1.0), Better::Higher),
        Output::new("intruder_top", "The same for the strongest windows only", (0.0, 1.0), Better::Higher),
    ],
    params: &[
        MIN_ACTIVE,
        QUANTILES,
        Param::new("trials", "Trials per latent", Kind::Whole(1, 10_000), "50"),
        Param::new("windows", "Windows shown in a trial, the intruder included", Kind::Whole(3, 100), "5"),
        Param::new(
            "intruders",
            "Where intruders come from",
            Kind::Word(&["inactive", "similar", "internal"]),
            "inactive",
        ),
        MEASURE,
    ],
};

impl Metric for Intruder {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let trials = Trials {
            trials: job.whole("trials")?,
            windows: job.whole("windows")?,
            quantiles: job.whole("quantiles")?,
            min_active: job.whole("min_active")?,
            source: job.word("intruders")?,
        };
        let shared = Lazy::new(|| {
            let columns = codes.columns()?;
            let fired =
                |latent: usize| columns.latent(Latent(latent as u32)).1.iter().filter(|value| **value > 0.0).count();
            let mut by_rate: Vec<(usize, usize)> = (0..codes.latents()).map(|latent| (fired(latent), latent)).collect();
            by_rate.sort_unstable();
            let mut ranks = vec![0; by_rate.len()];
            by_rate.iter().enumerate().for_each(|(rank, (_, latent))| ranks[*latent] = rank);
            let order = by_rate.into_iter().map(|(_, latent)| latent).collect();
            Ok((columns, Judge::of_images(job)?, Rates { order, ranks }))
        });
        let latents = work.blocks_with(&shared, "latents", codes.latents(), |(columns, judge, rates), latent| {
            job.check()?;
            trials.score(job.seed, columns, judge, rates, latent)
        })?;
        let latents: Vec<_> = latents.iter().map(|latent| latent.0.clone()).collect();
        Ok(summarise(["intruder", "intruder_top"], job.seed, &latents))
    }
}

/// The score of a latent by quantile.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct ByQuantile(pub std::result::Result<Vec<Option<f64>>, Skipped>);

/// Latents in the order of their firing rates, and the rank of every latent in it.
struct Rates {
    order: Vec<usize>,
    ranks: Vec<usize>,
}

struct Trials<'a> {
    trials: usize,
    windows: usize,
    quantiles: usize,
    min_active: usize,
    source: &'a str,
}

impl Trials<'_> {
    fn score(
        &self,
        seed: u64,
        columns: &Columns,
        judge: &Judge<'_>,
        rates: &Rates,
        latent: usize,
    ) -> Result<ByQuantile> {
        let groups = match quantiles(columns, latent, self.min_active, self.quantiles, self.windows - 1) {
            Ok(groups) => groups,
            Err(skipped) => return Ok(ByQuantile(Err(skipped))),
        };
        let mut random = latent_stream(seed, "intruder", columns, latent);
        let intruders = match self.source {
            "inactive" => inactive(columns, latent, self.trials, &mut random),
            "similar" => similar(columns, rates, latent, self.trials).map(|rows| draw(&rows, self.trials, &mut random)),
            _ => Some(Vec::new()),
        };
        let Some(intruders) = intruders.filter(|_| self.source != "internal" || groups.len() > 1) else {
            return Ok(ByQuantile(Err(Skipped::Dense)));
        };
        let (mut points, mut asked) = (vec![0.0; groups.len()], vec![0usize; groups.len()]);
        for trial in 0..self.trials {
            let quantile = trial % groups.len();
            let mut shown = draw(&groups[quantile], self.windows - 1, &mut random);
            let intruder = match intruders.get(trial) {
                Some(&intruder) => intruder,
                None => {
                    let other = (quantile + 1 + trial / groups.len() % (groups.len() - 1)) % groups.len();
                    draw(&groups[other], 1, &mut random)[0]
                }
            };
            shown.push(intruder);
            points[quantile] += odd_one_out(judge, &shown)?;
            asked[quantile] += 1;
        }
        let score = |(points, &asked): (&f64, &usize)| (asked > 0).then(|| points / asked as f64);
        Ok(ByQuantile(Ok(points.iter().zip(&asked).map(score).collect())))
    }
}

/// `count` or more windows in which a latent of the most similar firing rate is active and this one is not.
fn similar(columns: &Columns, rates: &Rates, latent: usize, count: usize) -> Option<Vec<u32>> {
    let rank = rates.ranks[latent];
    let neighbours = (1..rates.order.len()).flat_map(|far| [rank.checked_sub(far), Some(rank + far)]).flatten();
    let mine = columns.fired(Latent(latent as u32), 0.0);
    let mut candidates = neighbours.filter_map(|rank| rates.order.get(rank)).map(|&other| {
        let theirs = columns.fired(Latent(other as u32), 0.0);
        theirs.rows().filter(|&row| !mine.contains(row)).map(|row| row as u32).collect::<Vec<u32>>()
    });
    candidates.find(|rows| rows.len() >= count)
}

/// Sums of similarities that differ by less are equal but for rounding.
const ROUNDING: f64 = 1e-9;

/// The share of the point for the last window: 1 if it alone is least like the others, 1 / m if it ties with m − 1 others, else 0.
fn odd_one_out(judge: &Judge<'_>, shown: &[u32]) -> Result<f64> {
    let mut sums = vec![0.0; shown.len()];
    for one in 0..shown.len() {
        for other in 0..one {
            let alike = judge.alike(shown[one], shown[other])?;
            sums[one] += alike;
            sums[other] += alike;
        }
    }
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    let is_least = |sum: &f64| *sum <= least + ROUNDING * (1.0 + least.abs());
    let ties = sums.iter().filter(|sum| is_least(sum)).count();
    Ok(if sums.last().is_some_and(is_least) { 1.0 / ties as f64 } else { 0.0 })
}
