//! `stability`: do dictionaries that were trained with other seeds find the same directions?

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
use assignment::{Cosines, LINES};

/// Whether other seeds find the same directions.
pub struct Stability;

const EXACT: Param = Param {
    name: "exact",
    doc: "Latents up to which the assignment is optimal; above it is greedy",
    kind: Kind::Whole(1, 65_536),
    several: false,
    default: "4096",
    reference: None,
};

const SIGN: Param = Param {
    name: "sign",
    doc: "Whether opposite directions are different or the same",
    kind: Kind::Word(&["matters", "ignored"]),
    several: false,
    default: "matters",
    reference: None,
};

const COSINE: (f64, f64) = (-1.0, 1.0);
const SHARE: (f64, f64) = (0.0, 1.0);

const fn output(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

static CARD: Card = Card {
    name: "stability",
    title: "Stability",
    summary: "How nearly dictionaries trained with other seeds have the same directions.",
    version: 1,
    measures: "If two trainings that differ only in their seed find different directions, then a direction says as much \
        about the seed as about the data. Every latent is paired with one latent of the other dictionary, in the way that \
        is best for all together, and the cosine of the two directions is reported. 1 means that both found the same. \
        Random directions of width d reach about 1/√d and more the more of them there are: compare with dictionaries made \
        by `etalon train --arch untrained`.",
    definition: "Directions are scaled to length 1. For dictionaries A and B the assignment pairs each latent with at most \
        one of the other, as many as the smaller one has, and maximises the sum of cosines; ties go to the lower latent. \
        `stability` is the mean over latents of the dictionary under test of the cosine with its partner, averaged over \
        the other dictionaries first; stability_over_0_7 and stability_over_0_9: the share of latents where that mean is \
        above 0.7, 0.9. stability_all_pairs: the mean over every pair of dictionaries, those among the others included, of \
        the pair's mean cosine; stability_spread: the standard deviation (n − 1) of these. cosine_hungarian_sum and \
        cosine_hungarian_mean: sum and mean of 1 − cosine over the partners, averaged over the other dictionaries.\n\
        `sign ignored` takes the absolute cosine, for dictionaries whose codes are signed (PCA).\n\
        With more than `exact` latents on the larger side the assignment is greedy: of all pairs the one with the largest \
        cosine is made first, ties to the lower latents, then the largest among the rest. The table `pair` says which it \
        was, and gives as `bound` the mean over latents of the largest cosine with any latent, which no assignment can \
        exceed. Where the cosines are not negative, greedy reaches at least half of the optimum; in practice nearly all.\n\
        Latents without length, and those that find no partner, have no value and are left out, with a note. Undefined \
        without any partner; the spread is undefined for one pair.\n\
        Profile `reference`: the assignment is always optimal, and a direction without length has cosine 0 with everything \
        and takes part.",
    cost: "No pass. For each pair of dictionaries latents² · width operations and 12 bytes · latents² up to `exact` (200 MB \
        at 4096), with at worst latents³ steps; above it 64 candidates per latent (34 MB at 65,536) and blocks of 256 lines.",
    source: "Cosine Hungarian loss of the program overcomplete, as stability is measured in \"Archetypal SAE\" (arXiv \
        2502.12892): sum of 1 − cosine over the optimal assignment. It is `cosine_hungarian_sum` here; means and shares do \
        not depend on the number of latents.",
    interval: "Percentile bootstrap over latents of the dictionary under test, 1000 resamples, the assignment kept. None \
        for all pairs and their spread, of which there are few.",
    needs: &[&DIRECTIONS, &OTHERS],
    uses: &[],
    headline: &[
        output("stability", "mean cosine with the partner in other dictionaries", COSINE, Better::Higher),
        output("stability_over_0_7", "share of latents with a mean cosine above 0.7", SHARE, Better::Higher),
        output("stability_over_0_9", "share of latents with a mean cosine above 0.9", SHARE, Better::Higher),
        output("stability_all_pairs", "mean over every pair of dictionaries", COSINE, Better::Higher),
        output("stability_spread", "standard deviation over every pair", (0.0, f64::INFINITY), Better::Lower),
        output("cosine_hungarian_sum", "sum of 1 − cosine over partners", (0.0, f64::INFINITY), Better::Lower),
        output("cosine_hungarian_mean", "mean of 1 − cosine over partners", (0.0, 2.0), Better::Lower),
    ],
    params: &[EXACT, SIGN],
};

impl Metric for Stability {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        // Number 0 is the one under test.
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
            let found = if is_small(pair) {
                optimal.next()
            } else {
                // Large ones in parts, one after the other, because of their lists of candidates.
                let cosines = Lazy::new(|| cosines(pair));
                let blocks = dictionaries[pair.0].rows().div_ceil(LINES);
                let candidates = work.blocks_with(&cosines, "blocks of latents", blocks, |cosines, block| {
                    cosines.candidates(block, job)
                })?;
                let greedy =
                    work.blocks_with(&cosines, "assignments", 1, |cosines, _| cosines.greedy(&candidates, job))?;
                let (mut greedy, reservation) = greedy.into_parts();
                memory.push(reservation);
                greedy.pop()
            };
            compared.push(found.ok_or_else(|| Error::Bug(format!("dictionaries {pair:?} were not compared")))?);
        }
        scores(&pairs, &compared, dictionaries[0].rows(), job, work)
    }
}

/// The partners of the latents of one dictionary in another.
#[derive(Serialize, Deserialize)]
struct Compared {
    partners: Vec<Option<u32>>,
    /// Cosines with the partners.
    cosines: Vec<Option<f64>>,
    /// The mean of the largest cosines.
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

/// 1 where a value is above a limit, 0 elsewhere.
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
    let mine: Vec<&Compared> = pairs.iter().zip(all).filter(|((a, _), _)| *a == 0).map(|(_, one)| one).collect();
    let of_latent = |latent: usize| mine.iter().map(|one| one.cosines.get(latent).copied().flatten()).collect();
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
    let pair_means: Vec<f64> = all.iter().filter_map(|one| mean(&one.defined())).collect();
    scores.headline("stability_all_pairs", mean(&pair_means), None, pair_means.len());
    scores.headline("stability_spread", deviation(&pair_means), None, pair_means.len());
    let sums: Vec<f64> = mine.iter().filter_map(|one| one.total_loss()).collect();
    let losses: Vec<f64> = mine.iter().filter_map(|one| mean(&one.losses())).collect();
    scores.headline("cosine_hungarian_sum", mean(&sums), None, sums.len());
    scores.headline("cosine_hungarian_mean", mean(&losses), None, losses.len());

    if values.is_empty() {
        scores.note("no latent has a partner: undefined");
    } else if values.len() < latents {
        scores.note(format!(
            "{} of {latents} latents have no length or no partner and are left out",
            latents - values.len()
        ));
    }
    if all.len() < 2 {
        scores.note("one pair of dictionaries has no spread: give several `other` dictionaries");
    }
    let greedy = all.iter().filter(|one| !one.optimal).count();
    if greedy > 0 {
        scores.note(format!(
            "{greedy} of {} pairs are too large for the optimal assignment and were assigned greedily; `bound` in the \
             table `pair` says how much better an optimal one could be",
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

/// The partners of a latent, −1 where there is none.
fn partners(mine: &[&Compared], latent: usize) -> Vec<i64> {
    mine.iter().map(|one| one.partners.get(latent).copied().flatten().map_or(-1, i64::from)).collect()
}

fn pair_table(pairs: &[(usize, usize)], all: &[Compared]) -> Table {
    Table::new("pair")
        .counts("first", pairs.iter().map(|pair| pair.0))
        .counts("second", pairs.iter().map(|pair| pair.1))
        .words("assignment", all.iter().map(|one| if one.optimal { "optimal" } else { "greedy" }))
        .counts("partners", all.iter().map(|one| one.defined().len()))
        .numbers("cosine", all.iter().map(|one| mean(&one.defined())))
        .numbers("bound", all.iter().map(|one| one.bound))
        .numbers("over_0_7", all.iter().map(|one| mean(&above(&one.defined(), 0.7))))
        .numbers("over_0_9", all.iter().map(|one| mean(&above(&one.defined(), 0.9))))
        .numbers("cosine_hungarian_sum", all.iter().map(Compared::total_loss))
        .numbers("cosine_hungarian_mean", all.iter().map(|one| mean(&one.losses())))
}
