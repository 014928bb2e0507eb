//! The card of `logit_effects`.

use crate::metrics::loss_recovered::SEQUENCES;
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{DICTIONARY, DIRECTIONS, NETWORK};

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const KURTOSIS: (f64, f64) = (1.0, f64::INFINITY);

pub(super) static CARD: Card = Card {
    name: "logit_effects",
    title: "Logit effects",
    summary: "Which tokens a latent makes more and less probable by its direct path to the logits.",
    version: 1,
    measures: "A latent adds its direction to the residual stream. The head of a language model reads the stream, so that the product of \
        both says which tokens the latent promotes and suppresses without the blocks in between. Latents that serve the \
        prediction have a few tokens with very large effects, that is, a large kurtosis; latents that serve later blocks have \
        effects that are distributed like those of a random direction. The share of the former is a description of the \
        dictionary, not a quality: it grows with the depth of the site. Blocks after the site can change everything: this is not \
        a causal effect on the output (steer the network for that).",
    definition: "e = W_U · diag(g) · P · d for a latent with direction d of length 1, W_U the head without bias. Profile `paper` (`norm` folded): g is the weight of the last \
        norm (1 + weight for Gemma), P subtracts the mean for layer norms (GPT-2, GPT-NeoX) and is the identity for RMS norms. `norm` raw: g = 1, P = 1. \
        The division of the norm depends on the input and is left out; `per_unit` yes divides e by its mean over the tokens of `sequences` \
        sequences, special ones left out: the effect of a code of 1 at an average position. Biases and caps of logits are left out: they change no rank. A direction in front of the stream is mapped to it first: `hook_z` by the output map of \
        attention, `mlp.hook_post` by that of the perceptron, and before the norms after attention and perceptron of Gemma by the factors of that norm (not with raw). \
        A transcoder's directions are at the site that it writes, if its file records it.\n\
        `mask` unused leaves out tokens that no text has: outside of the tokenizer, special, without text, named as unused or reserved, or with a row of zeros; they would \
        fill both tails. Over the other tokens: mean, sd, skewness m3 / m2^1.5 and kurtosis m4 / m2², all with population moments (divided by n); \
        kurtosis is not reduced by 3, so that it is 3 for a normal distribution. Undefined for a direction of zeros or effects that are all equal. \
        The `shown` largest and smallest effects are listed, of equal ones the lower token first.\n\
        Null: `null_directions` random directions, uniform on the sphere, at the same site. output_like: share of latents with a kurtosis above the 99th percentile of the null; \
        1 % of random directions are. Adding a constant to all logits changes no rank, skewness or kurtosis.",
    cost: "A product of all directions with the head; blocks of 64 latents, 1,024 tokens at a time: memory for the effects of 64 latents per thread. `per_unit` runs the network once.",
    source: "Common practice (logit lens of directions). Profile `reference` shows the numbers of SAEDashboard (commit db4839a), which feeds Neuronpedia: raw, no mask, \
        of a model without processed weights. Its vector runner, and sae_vis as it is mostly used, process the weights first, which gives other numbers for the same dictionary: capture with the same processing and use `norm` raw. \
        Skewness and kurtosis are fields that stay empty there; the tutorial of SAELens computes population moments without subtracting 3, as here. \
        AxBench subtracts the mean over the width from each row of the head, also for Gemma; this is not reproduced. The null and `output_like` are additions.",
    interval: "Percentile bootstrap over latents, 1000 resamples; for output_like latents and random directions are both resampled.",
    needs: &[&NETWORK, &DIRECTIONS],
    uses: &[&DICTIONARY],
    headline: &[
        Output::new("output_like", "Share of latents above the null's 99th percentile.", (0.0, 1.0), Better::Neither),
        Output::new("effect_kurtosis", "Mean kurtosis of the effects of a latent.", KURTOSIS, Better::Neither),
        Output::new("effect_skewness", "Mean skewness of the effects of a latent.", ANY, Better::Neither),
        Output::new("effect_kurtosis_null", "Mean kurtosis of random directions.", KURTOSIS, Better::Neither),
        Output::new("effect_kurtosis_null_p99", "Their 99th percentile.", KURTOSIS, Better::Neither),
    ],
    params: &[
        Param::new(
            "norm",
            "Whether the weight and the centring of the last norm are part of the effect",
            Kind::Word(&["folded", "raw"]),
            "folded",
        )
        .reference("raw"),
        Param::new("mask", "Which tokens are left out", Kind::Word(&["unused", "none"]), "unused").reference("none"),
        Param::new(
            "per_unit",
            "Whether effects are divided by the mean size of rows before the last norm",
            Kind::Word(&["no", "yes"]),
            "no",
        ),
        Param { default: "64", ..SEQUENCES },
        Param::new("shown", "Tokens listed at each end", Kind::Whole(0, 1000), "10"),
        Param::new("null_directions", "Random directions of the null", Kind::Whole(2, 1_000_000), "1000"),
    ],
};
