//! `loss_recovered`: what a language model loses when a dictionary's reconstructions replace its activations.

mod numbers;
mod run;
mod splice;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{DICTIONARY, Job, NETWORK, Work};

/// The metric.
pub struct LossRecovered;

pub(super) const SEQUENCES: Param =
    Param::new("sequences", "Sequences to run at most; 0 for all.", Kind::Whole(0, 1_000_000_000), "0");

pub(super) const SPECIAL: Param = Param::new(
    "special",
    "Special tokens: `keep` leaves their activations as they are and out of the means, `replace` treats them like others when \
     activations are replaced.",
    Kind::Word(&["keep", "replace"]),
    "keep",
);

const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

static CARD: Card = Card {
    name: "loss_recovered",
    title: "Loss recovered",
    summary: "What a language model loses when reconstructions replace its activations.",
    version: 1,
    measures: "A dictionary can reconstruct most of the variance and still lose what the network needs. The activations of the site \
        are replaced by their reconstructions while the network runs, and its predictions are compared with those of the \
        unchanged network. The scale is given by activations that are replaced by 0 or by their mean: a score of 1 means no \
        change, 0 means as bad as the replacement, and negative values are worse than that. Zero ablation destroys much more \
        than a bad dictionary does, so scores close to 1 are common; read the differences, or the scores against the mean.",
    definition: "For every sequence the network runs unchanged, with x̂ in place of x at the site, with 0, and with the mean of x. \
        CE: cross-entropy of the next token, in nats, over positions with a next token. KL: Σ_v p(v) (ln p(v) − ln q(v)), p the \
        unchanged and q the changed prediction, over all positions. Positions whose token is special are left out of all means.\n\
        ce_loss_score = (CE_zero − CE_sae) / (CE_zero − CE), kl_div_score = (KL_zero − KL_sae) / KL_zero; \
        ce_loss_score_mean and kl_div_score_mean the same with the mean in place of 0. Undefined: all numbers without a counted \
        position; scores whose denominator is 0.\n\
        The mean is over the counted positions of all sequences. 0 and mean are written at every position; x̂ only at \
        positions whose token is not special, unless `special` is `replace`.",
    cost: "The network below the site runs once per sequence, or twice where its activations do not fit into memory; the \
        part above it three times: unchanged, reconstructed, mean. A stream that is 0 everywhere gives the same prediction at every position, so zero ablation \
        of the residual stream takes one token. Logits are computed for 32 rows at a time.",
    source: "SAEBench (arXiv 2503.09532), evaluation `core`, code version 0.6.0: its `model_behavior_preservation` and \
        `model_performance_preservation`, with its names. Mean ablation is an addition. Both profiles are the same: the code \
        takes logarithms of softmaxes, which differs only where probabilities underflow.",
    interval: "Percentile bootstrap over blocks of eight sequences, 1000 resamples, the same for every dictionary.",
    needs: &[&NETWORK, &DICTIONARY],
    uses: &[],
    headline: &[
        Output::new("ce_loss_score", "Share of the loss of zero ablation that is recovered.", ANY, Better::Higher),
        Output::new("kl_div_score", "Share of the divergence of zero ablation that is avoided.", ANY, Better::Higher),
        Output::new("ce_loss_score_mean", "The same share, against mean ablation.", ANY, Better::Higher),
        Output::new("kl_div_score_mean", "The same share, against mean ablation.", ANY, Better::Higher),
        Output::new("ce_loss_without_sae", "Cross-entropy of the unchanged network.", POSITIVE, Better::Neither),
        Output::new("ce_loss_with_sae", "Cross-entropy with reconstructions.", POSITIVE, Better::Lower),
        Output::new("ce_loss_with_ablation", "Cross-entropy with zeros.", POSITIVE, Better::Neither),
        Output::new("ce_loss_with_mean", "Cross-entropy with the mean.", POSITIVE, Better::Neither),
        Output::new("kl_div_with_sae", "Divergence with reconstructions.", POSITIVE, Better::Lower),
        Output::new("kl_div_with_ablation", "Divergence with zeros.", POSITIVE, Better::Neither),
        Output::new("kl_div_with_mean", "Divergence with the mean.", POSITIVE, Better::Neither),
    ],
    params: &[SEQUENCES, SPECIAL],
};

impl Metric for LossRecovered {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let spliced = run::Spliced::new(job)?;
        let means = work.fold(
            "blocks of sequences for the mean",
            spliced.blocks(),
            || spliced.no_mean(),
            |means, block| spliced.add_means(means, block),
        )?;
        let mean = means.mean();
        drop(means);
        let zero = spliced.zero()?;
        let blocks = work
            .blocks("blocks of sequences", spliced.blocks(), |block| spliced.totals(block, &mean, zero.as_deref()))?;
        let mut scores = Scores::default();
        numbers::put(job, work, &blocks, &mut scores)?;
        Ok(scores)
    }
}
