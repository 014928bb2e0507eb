//! `stability`: do dictionaries trained with other seeds have the same directions?

mod assignment;
#[cfg(test)]
mod tests;

use etalon_kernel::statistics::{deviation, mean};
use serde::{Deserialize, Serialize};

use super::resamples::mean_interval;
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::{Error, Result};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{DIRECTIONS, Job, Lazy, OTHERS, Work};
use assignment::{BLOCK, Cosines};

/// The metric `stability`.
pub struct Stability;

const EXACT: Param = Param::new(
    "exact",
    "Maximum number of latents for the optimal assignment; above it the assignment is greedy",
    Kind::Whole(1, 65_536),
    "4096",
);

const SIGN: Param = Param::new(
    "sign",
    "Whether opposite directions are different or the same",
    Kind::Word(&["matters", "ignored"]),
    "matters",
);

const COSINE: (f64, f64) = (-1.0, 1.0);
const SHARE: (f64, f64) = (0.0, 1.0);

static CARD: Card = Card {
    name: "stability",
    title: "Stability",
    summary: "How similar the directions of dictionaries trained with other seeds are.",
    version: 2,
    measures: "If two trainings that differ only in their seed find different directions, then the directions depend on the \
        seed as much as on the data. Every latent is paired with one latent of the other dictionary, in the way that is best \
        overall, and the score is the mean cosine of the pairs. 1 means that both dictionaries are the same. Random \
        directions of width d reach about 1/√d, and more the more latents there are: compare with dictionaries of the \
        baseline `untrained`.",
    definition: "Directions are scaled to length 1. The assignment between dictionaries A and B pairs each latent with at \
        most one latent of the other, as many as the smaller one has, and maximises the sum of cosines; ties go to the \
        lower latent.\n\
        `stability` is the mean over latents of the evaluated dictionary of the cosine with the partner, averaged over the \
        other dictionaries first. stability_over_0_7 and stability_over_0_9: the share of latents for which that average is \
        above 0.7, 0.9. stability_all_pairs: the mean over every pair of dictionaries, including pairs of others, of the \
        mean cosine of the pair; stability_spread: the standard deviation (n − 1) of these. cosine_hungarian_sum and \
        cosine_hungarian_mean: sum and mean of 1 − cosine over the partners, averaged over the other dictionaries.\n\
        `sign ignored` takes the absolute cosine, for dictionaries with signed codes (PCA).\n\
        With more than `exact` latents in the larger dictionary, the assignment is greedy: the pair with the largest cosine \
        is made first, ties to the lower latents, then the largest among the rest. The table `pair` records which was used, \
        and as `bound` the mean of the largest cosine of a latent with any latent, over as many latents as have partners, those \
        with the largest; no assignment exceeds it. If no \
        cosine is negative, greedy reaches at least half of the optimum; in practice nearly all.\n\
        Latents of length 0 and latents without a partner have no value and are left out, with a note. Undefined without \
        any partner; the spread is undefined for one pair.\n\
        Profile `reference`: the assignment is always optimal, and a direction of length 0 takes part with cosine 0.",
    cost: "No pass. For each pair of dictionaries latents² · width operations and 12 bytes · latents² up to `exact` (200 MB \
        at 4096), with at worst latents³ steps; above it 64 candidates per latent (34 MB at 65,536) and blocks of 256 rows.",
    source: "Cosine Hungarian loss of the package overcomplete, used to measure stability in \"Archetypal SAE\" (arXiv \
        2502.12892): the sum of 1 − cosine over the optimal assignment, here `cosine_hungarian_sum`. That code divides every \
        direction by its length and fails (0/0) if one has length 0; both profiles here give a result. Means and shares do not \
        depend on the number of latents.",
    interval: "Percentile bootstrap over latents of the evaluated dictionary, 1000 resamples, with fixed assignment. None \
        for numbers over pairs of dictionaries, of which there are few.",
    needs: &[&DIRECTIONS, &OTHERS],
    uses: &[],
    headline: &[
        Output::new("stability", "Mean cosine with the partner in other dictionaries", COSINE, Better::Higher),
        Output::new("stability_over_0_7", "Share of latents with a mean cosine above 0.7", SHARE, Better::Higher),
        Output::new("stability_over_0_9", "Share of latents with a mean cosine above 0.9", SHARE, Better::Higher),
        Output::new("stability_all_pairs", "Mean over every pair of dictionaries", COSINE, Better::Higher),
        Output::new("stability_spread", "Standard deviation over every pair", (0.0, f64::INFINITY), Better::Lower),
        Output::new("cosine_hungarian_sum", "Sum of 1 − cosine over partners", (0.0, f64::INFINITY), Better::Lower),
        Output::new("cosine_hungarian_mean", "Mean of 1 − cosine over partners", (0.0, 2.0), Better::Lower),
    ],
    params: &[EXACT, SIGN],
};

impl Metric for Stability {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        // Dictionary 0 is the evaluated one.
        let mut dictionaries = vec![job.get(&DIRECTIONS)?];
        dictionaries.extend(job.all(&OTHERS).into_iter().map(|(_, other)| other));
        let count = dictionaries.len();
        let pairs: Vec<(usize, usize)> = (0..count).flat_map(|a| (a + 1..count).map(move |b| (a, b))).collect();
        let exact = if job.profile == Profile::Reference { usize::MAX } else { job.whole(EXACT.name)? };
        let unsigned = job.word(SIGN.name)? == "ignored";
        let cosines = |(a, b): (usize, usize)| Cosines::new(dictionaries[a], dictionaries[b], unsigned, job);
        let is_small = |(a, b): (usize, usize)| dictionaries[a].rows().max(dictionaries[b].rows()) <= exact;

        let small: Vec<(usize, usize)> = pairs.iter().copied().filter(|&pair| is_small(pair)).collect();
        let optimal = work.blocks("pairs of dictionaries", small.len(), |index| cosines(small[index])?.optimal(job))?;
        let (optimal, memory) = optimal.into_parts();
        let (mut optimal, mut memory) = (optimal.into_iter(), vec![memory]);
        let mut compared = Vec::with_capacity(pairs.len());
        for &pair in &pairs {
            let result = if is_small(pair) {
                optimal.next()
            } else {
                // Large pairs one after the other, because of the memory of their candidates.
                let cosines = Lazy::new(|| cosines(pair));
                let blocks = dictionaries[pair.0].rows().div_ceil(BLOCK);
                let candidates = work.blocks_with(&cosines, "blocks of latents", blocks, |cosines, block| {
                    cosines.candidates(block, job)
                })?;
                let greedy =
                    work.blocks_with(&cosines, "assignments", 1, |cosines, _| cosines.greedy(&candidates, job))?;
                let (mut greedy, reservation) = greedy.into_parts();
                memory.push(reservation);
                greedy.pop()
            };
            compared.push(result.ok_or_else(|| Error::Bug(format!("dictionaries {pair:?} were not compared")))?);
        }
        scores(&pairs, &compared, dictionaries[0].rows(), job, work)
    }
}

/// The comparison of two dictionaries.
#[derive(Serialize, Deserialize)]
struct Compared {
    /// By latent of the first, its partner in the second.
    partners: Vec<Option<u32>>,
    /// The cosines with the partners.
    cosines: Vec<Option<f64>>,
    /// The mean of the largest cosines with any latent, which no assignment exceeds.
    bound: Option<f64>,
    optimal: bool,
}

impl Compared {
    fn defined(&self) -> Vec<f64> {
        defined(&self.cosines)
    }

    fn losses(&self) -> Vec<f64> {
        self.defined().into_iter().map(|cosine| (1.0 - cosine).max(0.0)).collect()
    }

    fn total_loss(&self) -> Option<f64> {
        Some(self.losses()).filter(|losses| !losses.is_empty()).map(|losses| losses.iter().sum())
    }
}

fn defined(values: &[Option<f64>]) -> Vec<f64> {
    values.iter().copied().flatten().collect()
}

/// 1 if a value is above a limit, else 0.
fn above(values: &[f64], limit: f64) -> Vec<f64> {
    values.iter().map(|&value| f64::from(u8::from(value > limit))).collect()
}

fn scores(
    pairs: &[(usize, usize)],
    all: &[Compared],
    latents: usize,
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Scores> {
    let mine: Vec<&Compared> = pairs.iter().zip(all).filter(|((a, _), _)| *a == 0).map(|(_, pair)| pair).collect();
    let of_latent = |latent: usize| mine.iter().map(|pair| pair.cosines.get(latent).copied().flatten()).collect();
    let by_other: Vec<Vec<Option<f64>>> = (0..latents).map(of_latent).collect();
    let means: Vec<Option<f64>> = by_other.iter().map(|values| mean(&defined(values))).collect();
    let values = defined(&means);

    let mut scores = Scores::default();
    for (key, values) in [
        ("stability", values.clone()),
        ("stability_over_0_7", above(&values, 0.7)),
        ("stability_over_0_9", above(&values, 0.9)),
    ] {
        let interval = mean_interval(job, work, "stability/latents", &values)?;
        scores.headline(key, mean(&values), interval, values.len());
    }
    let pair_means: Vec<f64> = all.iter().filter_map(|pair| mean(&pair.defined())).collect();
    scores.headline("stability_all_pairs", mean(&pair_means), None, pair_means.len());
    scores.headline("stability_spread", deviation(&pair_means), None, pair_means.len());
    let sums: Vec<f64> = mine.iter().filter_map(|pair| pair.total_loss()).collect();
    let losses: Vec<f64> = mine.iter().filter_map(|pair| mean(&pair.losses())).collect();
    scores.headline("cosine_hungarian_sum", mean(&sums), None, sums.len());
    scores.headline("cosine_hungarian_mean", mean(&losses), None, losses.len());

    if values.is_empty() {
        scores.note("no latent has a partner: undefined");
    } else if values.len() < latents {
        let left_out = latents - values.len();
        scores.note(format!("{left_out} of {latents} latents have length 0 or no partner and are left out"));
    }
    if all.len() < 2 {
        scores.note("one pair of dictionaries has no spread: pass several `other` dictionaries");
    }
    let greedy = all.iter().filter(|pair| !pair.optimal).count();
    if greedy > 0 {
        scores.note(format!(
            "{greedy} of {} pairs are too large for the optimal assignment and were assigned greedily; `bound` in the \
             table `pair` limits how much better an optimal one could be",
            all.len()
        ));
    }
    scores.tables.push(
        Table::new("latent")
            .counts("index", 0..latents)
            .numbers("score", means)
            .with("cosine_by_other", Cells::NumberLists(by_other))
            .with("partner_by_other", Cells::WholeLists((0..latents).map(|latent| partners(&mine, latent)).collect())),
    );
    scores.tables.push(pair_table(pairs, all));
    Ok(scores)
}

/// The partners of a latent; −1 for none.
fn partners(mine: &[&Compared], latent: usize) -> Vec<i64> {
    mine.iter().map(|pair| pair.partners.get(latent).copied().flatten().map_or(-1, i64::from)).collect()
}

fn pair_table(pairs: &[(usize, usize)], all: &[Compared]) -> Table {
    Table::new("pair")
        .counts("first", pairs.iter().map(|pair| pair.0))
        .counts("second", pairs.iter().map(|pair| pair.1))
        .words("assignment", all.iter().map(|pair| if pair.optimal { "optimal" } else { "greedy" }))
        .counts("partners", all.iter().map(|pair| pair.defined().len()))
        .numbers("cosine", all.iter().map(|pair| mean(&pair.defined())))
        .numbers("bound", all.iter().map(|pair| pair.bound))
        .numbers("over_0_7", all.iter().map(|pair| mean(&above(&pair.defined(), 0.7))))
        .numbers("over_0_9", all.iter().map(|pair| mean(&above(&pair.defined(), 0.9))))
        .numbers("cosine_hungarian_sum", all.iter().map(Compared::total_loss))
        .numbers("cosine_hungarian_mean", all.iter().map(|pair| mean(&pair.losses())))
}
