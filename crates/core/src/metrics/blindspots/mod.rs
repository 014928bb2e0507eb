//! `blindspots`: which concepts a generator makes too rarely or too often, compared with the real rows of its prompts.
//! Beside it what follows from the same rows: how models agree, which rows diverge, and what frequency has to do with it.

mod agreement;
mod bounds;
mod concept;
mod distance;
mod divergence;
mod flips;
mod frequency;
mod halves;
mod measured;
mod memorised;
mod models;
#[cfg(test)]
mod more_tests;
mod ranking;
mod scores;
mod sums;
#[cfg(test)]
mod tests;

pub use divergence::Divergence;
pub use frequency::Frequency;
pub use models::BlindspotModels;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::context::Reserved;
use crate::error::Result;
use crate::results::{RESAMPLES, Scores};
use crate::run::{CODES, GENERATED, Job, Work};
use concept::Rules;
use measured::Measured;
use scores::Judged;

/// Concepts that generators suppress and exaggerate.
pub struct Blindspots;

const TEMPERATURE: Param = Param {
    name: "temperature",
    doc: "The gap that moves δ from 0.5 to 0.73: δ = sigmoid(gap / T)",
    kind: Kind::Number(1e-6, 1e6),
    several: false,
    default: "1",
    reference: Some("0.8"),
};

const SUPPRESSED_BELOW: Param = Param {
    name: "suppressed_below",
    doc: "A concept is suppressed where δ is below this",
    kind: Kind::Number(0.0, 0.5),
    several: false,
    default: "0.1",
    reference: None,
};

const EXAGGERATED_ABOVE: Param = Param {
    name: "exaggerated_above",
    doc: "A concept is exaggerated where δ is above this",
    kind: Kind::Number(0.5, 1.0),
    several: false,
    default: "0.9",
    reference: None,
};

const SIGN_FLIPS: Param = Param {
    name: "sign_flips",
    doc: "Random changes of sign behind the p of a concept that fires in few rows",
    kind: Kind::Whole(1, 1_000_000),
    several: false,
    default: "1000",
    reference: None,
};

const FLIP_BELOW: Param = Param {
    name: "flip_below",
    doc: "Concepts that fire in fewer rows than this get their p from changes of sign, others from the normal distribution",
    kind: Kind::Whole(0, 1_000_000),
    several: false,
    default: "30",
    reference: None,
};

const RANGE: Param = Param {
    name: "value_range",
    doc: "The largest possible distance between two values of a latent, for bounds; 0 takes the largest seen",
    kind: Kind::Number(0.0, f64::INFINITY),
    several: false,
    default: "0",
    reference: None,
};

const RANKED: Param = Param {
    name: "ranked",
    doc: "Concepts in each ranking",
    kind: Kind::Whole(0, 1_000_000),
    several: false,
    default: "50",
    reference: None,
};

const TOP_ROWS: Param = Param {
    name: "top_rows",
    doc: "Rows with the largest values that are kept for every concept, of the real rows and of each model",
    kind: Kind::Whole(0, 1000),
    several: false,
    default: "10",
    reference: None,
};

const SHARE: (f64, f64) = (0.0, 1.0);
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

const fn output(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

static CARD: Card = Card {
    name: "blindspots",
    title: "Conceptual blindspots",
    summary: "Which concepts generators make too rarely or too often, compared with the real rows of the same prompts.",
    version: 1,
    measures: "A generator is asked for the captions of real images. If a concept (a latent) is strong in the real images \
        and weak in the generated ones, the generator suppresses it; the other way round it exaggerates it. Every concept \
        gets a number δ between 0 and 1 for every generator: 0.5 is aligned. Because a rare concept can look extreme by \
        chance, every gap has an interval and a p; and because 32,000 concepts always have some extremes, the same numbers \
        are given for one random half of the real rows against the other, where there is nothing to find.",
    definition: "ξ_k(i): the value of latent k in row i (pool tokens first: `--pool sum` is the paper's). e, e': its means \
        over n real and n generated rows, paired by prompt. gap = e' − e: generated less real. δ = 1/(1 + exp(−gap/T)); \
        relative gap = (e' − e)/(|e| + |e'|), undefined at 0/0. A concept that fires (ξ ≠ 0) in neither set is dead: no row \
        of a table, no part of a share.\n\
        Classes by thresholds: suppressed if δ < `suppressed_below`, exaggerated if δ > `exaggerated_above`, else aligned; at \
        T these are gaps beyond ∓T·ln 9 for 0.1 and 0.9, so that all counts depend on T. Classes by interval (`certain`): \
        suppressed or exaggerated only if the whole 95 % interval of δ is beyond the threshold, aligned if all of it is within \
        0.4 to 0.6, else undetermined.\n\
        Interval of a gap: gap ± 1.96·s/√n, s the standard deviation (n − 1) of differences of pairs; δ maps its ends. \
        `bernstein`: the half-width √(2·s²·ln(4/0.05)/n) + 7·2R·ln(4/0.05)/(3(n − 1)) (Maurer and Pontil), R being \
        `value_range`. p: for concepts that fire in fewer than `flip_below` rows the share of changes of sign of the \
        differences whose sum is at least as large, all 2^m of them up to m = 12 rows that differ, else `sign_flips` random \
        ones and (count + 1)/(flips + 1); for others the normal distribution of gap/(s/√n). q: Benjamini and Hochberg's over \
        live concepts of a model; `significant` is the share of live concepts with q < 0.05.\n\
        Headlines are means over models. null_…: the same for one random half of the real rows against the other, not paired, \
        with p of the normal distribution. The halves have half the rows, so that this null is wider than what chance does to \
        the models: it errs on the safe side. Skewness: m3/m2^1.5 over live concepts.\n\
        `bound`: with a probability of 95 % no δ of a live concept is further from its true value, for n independent pairs: \
        R/(4T)·√(2·ln(2K/0.05)/n), K live concepts. `bound_published`: the published R/(4T)·√(ln(2K/0.05)/(2n)), which is too \
        small by a factor of 2; table `bound` has the form for independent rows too.\n\
        Rankings: by gap, by relative gap, and by the end of the interval that is nearer to 0 (`confident`), of concepts on \
        that side of 0 only; ties by the lower end of the interval, then by latent.\n\
        Profile `reference`: T = 0.8, and dead concepts count as aligned in shares and skewness.",
    cost: "One pass: 48 bytes per latent and 40 per latent and model, and 8 per row that is kept; one more look at the rows \
        for concepts that fire rarely; 1000 resamples of the concepts.",
    source: "Bohacek, Fel, Agrawala and Lubana, \"Uncovering Conceptual Blindspots in Generative Image Models Using Sparse \
        Autoencoders\", Definitions 2 and 3, Section 5.1, Appendices A, I and J. Corrected: the second line of Definition 2 has \
        the opposite sign and sums for means; Theorem 4 adds 2n squared steps to L²/n, which are 2L²/n, speaks of the mean of \
        a sigmoid, and takes paired rows for independent: fair coins exceed it. Appendix A.3 writes < 0.9 for > 0.9. The paper \
        uses T = 1 in definitions and 0.8 in figures; the program 0.8. Not said in the paper: whether skewness is of gaps or of \
        δ (both are given), pooling, what becomes of dead concepts. Intervals, p, q and the null are not in the paper.",
    interval: "Percentile bootstrap over concepts, the same ones for all models, 1000 resamples. None for bounds.",
    needs: &[&CODES, &GENERATED],
    uses: &[],
    headline: &[
        output("suppressed", "share of live concepts with δ below the threshold", SHARE, Better::Lower),
        output("exaggerated", "share of live concepts with δ above the threshold", SHARE, Better::Lower),
        output("suppressed_certain", "share whose whole interval is below the threshold", SHARE, Better::Lower),
        output("exaggerated_certain", "share whose whole interval is above the threshold", SHARE, Better::Lower),
        output("blindspots_significant", "share of live concepts whose gap is no accident", SHARE, Better::Lower),
        output("null_suppressed", "share suppressed, real against real", SHARE, Better::Neither),
        output("null_exaggerated", "share exaggerated, real against real", SHARE, Better::Neither),
        output("null_significant", "share significant, real against real", SHARE, Better::Neither),
        output("gap_skewness", "skewness of gaps over live concepts", ANY, Better::Neither),
        output("delta_skewness", "skewness of δ over live concepts", ANY, Better::Neither),
        output("bound", "how far any δ may be from the truth, for pairs", POSITIVE, Better::Neither),
        output("bound_published", "the same as published, too small by a factor of 2", POSITIVE, Better::Neither),
    ],
    params: &[TEMPERATURE, SUPPRESSED_BELOW, EXAGGERATED_ABOVE, SIGN_FLIPS, FLIP_BELOW, RANGE, RANKED, TOP_ROWS],
};

impl Metric for Blindspots {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let given = job.number(RANGE.name)?;
        let sums = sums::compare(job.whole(TOP_ROWS.name)?, job, work)?;
        let measured = Measured::new(sums, (given > 0.0).then_some(given), rules(job)?, job)?;
        let p = flips::p_values(&measured, job, work)?;
        let judged = Judged::new(&measured, p);
        // A number of the row, a gap and a δ for each.
        let bytes = 24 * judged.concepts() as u64;
        let replicates = resampled(bytes, job, work, |resample| judged.resampled(job.seed, resample))?;
        judged.scores(&replicates, job)
    }
}

fn rules(job: &Job<'_>) -> Result<Rules> {
    Ok(Rules {
        temperature: job.number(TEMPERATURE.name)?,
        suppressed_below: job.number(SUPPRESSED_BELOW.name)?,
        exaggerated_above: job.number(EXAGGERATED_ABOVE.name)?,
    })
}

/// Resamples of a block.
const TOGETHER: usize = 10;

/// What comes of all resamples, in order; one takes about `bytes`.
fn resampled<T: crate::run::Output>(
    bytes: u64,
    job: &Job<'_>,
    work: &mut Work<'_>,
    one: impl Fn(u64) -> T + Sync,
) -> Result<Reserved<Vec<T>>> {
    let found = work.blocks("blocks of resamples", RESAMPLES.div_ceil(TOGETHER), |block| {
        let _memory = job.budget().reserve(bytes, "a resample")?;
        let resamples = block * TOGETHER..((block + 1) * TOGETHER).min(RESAMPLES);
        let one = |resample: usize| job.check().map(|()| one(resample as u64));
        resamples.map(one).collect::<Result<Vec<T>>>()
    })?;
    Ok(found.map(|blocks| blocks.into_iter().flatten().collect()))
}
