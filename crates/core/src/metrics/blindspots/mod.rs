//! `blindspots`: which concepts a generator makes too rarely or too often, compared with the real rows of its prompts.
//! The other metrics of this folder use the same rows: agreement of models, divergence of pairs, effect of frequency.

mod agreement;
mod bootstrap;
mod bounds;
mod class_sets;
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
mod params;
mod ranking;
mod rare;
mod scores;
mod shuffled;
mod sums;
#[cfg(test)]
mod tests;

pub use divergence::Divergence;
pub use frequency::Frequency;
pub use models::BlindspotModels;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{CODES, GENERATED, Job, Work};
use flips::Flips;
use measured::Measured;
use params::{ANY, EXAGGERATED_ABOVE, POSITIVE, RANKED, SHARE, SUPPRESSED_BELOW, TEMPERATURE, rules};
use scores::Judged;

/// Concepts that generators suppress and exaggerate.
pub struct Blindspots;

const SIGN_FLIPS: Param = Param::new(
    "sign_flips",
    "Number of random sign flips behind the p-value of a concept that fires in few rows.",
    Kind::Whole(1, 1_000_000),
    "1000",
);

const FLIP_BELOW: Param = Param::new(
    "flip_below",
    "Concepts that fire in fewer rows than this get their p-value from sign flips, others from the normal distribution.",
    Kind::Whole(0, 1_000_000),
    "30",
);

const VALUE_RANGE: Param = Param::new(
    "value_range",
    "Largest possible difference between two values of a latent, for the bounds; 0 takes the largest observed.",
    Kind::Number(0.0, f64::INFINITY),
    "0",
);

const TOP_ROWS: Param = Param::new(
    "top_rows",
    "Number of rows with the largest values to keep for every concept, for the real rows and for each model.",
    Kind::Whole(0, 1000),
    "10",
);

static CARD: Card = Card {
    name: "blindspots",
    title: "Conceptual blindspots",
    summary: "Which concepts generators make too rarely or too often, compared with the real rows of the same prompts.",
    version: 2,
    measures: "A generator is prompted with the captions of real images. A concept (a latent) that is strong in the real images \
        and weak in the generated ones is suppressed; the opposite is exaggerated. Every concept gets a number δ between 0 and \
        1 for every generator; 0.5 is aligned. A rare concept can look extreme by chance, so every gap has an interval and a \
        p-value. Among 32,000 concepts some are always extreme, so the same numbers are computed for one random half of the \
        real rows against the other, where there is no effect (the null).",
    definition: "ξ_k(i): value of latent k in row i (pool tokens first; the paper pools by sum). e, e': its means \
        over n real and n generated rows, paired by prompt. gap = e' − e: generated minus real. δ = 1/(1 + exp(−gap/T)). \
        Relative gap = (e' − e)/(|e| + |e'|), undefined at 0/0. A concept that fires (ξ ≠ 0) in neither set is dead: it is in \
        no table by model and in no share.\n\
        Classes by thresholds: suppressed if δ < `suppressed_below`, exaggerated if δ > `exaggerated_above`, else aligned. \
        For 0.1 and 0.9 these are gaps beyond ∓T·ln 9, so all counts depend on T. Classes by interval (`certain`): suppressed \
        or exaggerated only if the whole 95 % interval of δ is beyond the threshold, aligned if it is within 0.4 to 0.6, else \
        undetermined.\n\
        Interval of a gap: gap ± 1.96·s/√n, where s is the standard deviation (n − 1) of paired differences; δ maps its ends. \
        A concept that fires in fewer than `flip_below` rows, and in at most half of them, has an interval for rare events \
        instead: rows that differ are counted as Poisson events, separately upwards and downwards. With the sum y of the \
        differences of one sign, the sum v of their squares, and w the root mean square of the concept where it fires, the \
        quantiles of the gamma distribution with mean y + w/2 and variance v + w²/2 are the interval of y: half a row is added \
        in which the concept is on one side only. The distances of both ends from both sums are added in squares. \
        `bernstein`: half-width √(2·s²·ln(4/0.05)/n) + 7·2R·ln(4/0.05)/(3(n − 1)) (Maurer and Pontil), with R = \
        `value_range`. p: for concepts that fire in fewer than `flip_below` rows, the share of sign flips of the \
        differences whose absolute sum is at least the observed one: all 2^m flips up to m = 12 rows that differ, else \
        `sign_flips` random ones and (count + 1)/(flips + 1). For other concepts, the normal distribution of gap/(s/√n). q: \
        Benjamini–Hochberg over the live concepts of a model. `significant`: share of live concepts with q < 0.05.\n\
        Headlines are means over models. null_…: the same for one random half of the real rows against the other, unpaired, \
        with intervals and p from the normal distribution; table `latent` has them for every concept. The halves have half the rows, so this null is wider than the chance variation of \
        the models: it is conservative. Skewness: m3/m2^1.5 over live concepts.\n\
        `bound`: with probability 95 % no δ of a live concept is further from its true value, for n independent pairs: \
        R/(4T)·√(2·ln(2K/0.05)/n), K live concepts. `bound_published`: the published R/(4T)·√(ln(2K/0.05)/(2n)), too small by \
        a factor of 2. Table `bound` also has the form for independent rows.\n\
        Rankings: by gap, by relative gap, and by the end of the interval nearer to 0 (`confident`), only of concepts on \
        that side of 0. Ties: lower end of the interval first, then lower latent.\n\
        Profile `reference`: T = 0.8, and dead concepts count as aligned in shares and skewness.",
    cost: "One pass with 48 bytes per latent, 40 per latent and model, and 8 per kept row; a second pass for concepts that fire \
        rarely; 1000 resamples of the concepts.",
    source: "Bohacek, Fel, Agrawala and Lubana, \"Uncovering Conceptual Blindspots in Generative Image Models Using Sparse \
        Autoencoders\", Definitions 2 and 3, Section 5.1, Appendices A, I and J. Corrected: the second line of Definition 2 has \
        the opposite sign and sums instead of means. Theorem 4 adds 2n squared steps to L²/n instead of 2L²/n, bounds the mean \
        of a sigmoid, and treats paired rows as independent: fair coins exceed it. Appendix A.3 writes < 0.9 for > 0.9. The \
        paper uses T = 1 in definitions and 0.8 in figures; the released code uses 0.8. Not stated in the paper: whether \
        skewness is of gaps or of δ (both are reported), pooling, treatment of dead concepts. Intervals, p, q and the null are \
        not in the paper.",
    interval: "Percentile bootstrap over concepts, the same ones for all models, 1000 resamples. None for bounds.",
    needs: &[&CODES, &GENERATED],
    uses: &[],
    headline: &[
        Output::new("blindspots_significant", "Share of live concepts with a significant gap.", SHARE, Better::Lower),
        Output::new("null_significant", "Share significant, real against real.", SHARE, Better::Neither),
        Output::new("suppressed", "Share of live concepts with δ below the threshold.", SHARE, Better::Lower),
        Output::new("exaggerated", "Share of live concepts with δ above the threshold.", SHARE, Better::Lower),
        Output::new("suppressed_certain", "Share whose whole interval is below the threshold.", SHARE, Better::Lower),
        Output::new("exaggerated_certain", "Share whose whole interval is above the threshold.", SHARE, Better::Lower),
        Output::new("null_suppressed", "Share suppressed, real against real.", SHARE, Better::Neither),
        Output::new("null_exaggerated", "Share exaggerated, real against real.", SHARE, Better::Neither),
        Output::new("gap_skewness", "Skewness of gaps over live concepts.", ANY, Better::Neither),
        Output::new("delta_skewness", "Skewness of δ over live concepts.", ANY, Better::Neither),
        Output::new("bound", "Bound on the error of any δ, for independent pairs.", POSITIVE, Better::Neither),
        Output::new("bound_published", "The published bound, too small by a factor of 2.", POSITIVE, Better::Neither),
    ],
    params: &[TEMPERATURE, SUPPRESSED_BELOW, EXAGGERATED_ABOVE, SIGN_FLIPS, FLIP_BELOW, VALUE_RANGE, RANKED, TOP_ROWS],
};

impl Metric for Blindspots {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let range = job.number(VALUE_RANGE.name)?;
        let sums = sums::compare(job.whole(TOP_ROWS.name)?, job, work)?;
        let mut measured = Measured::new(sums, (range > 0.0).then_some(range), rules(job)?, job)?;
        let flips = Flips { count: job.whole(SIGN_FLIPS.name)?, below: job.whole(FLIP_BELOW.name)? as u64 };
        let p = flips::p_values(&mut measured, flips, job, work)?;
        let judged = Judged::new(&measured, p);
        let replicates = judged.resampled(job, work)?;
        judged.scores(&replicates, job)
    }
}
