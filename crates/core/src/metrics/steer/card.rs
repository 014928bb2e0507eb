//! The card of `steer`.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DICTIONARY, ENCODER, NETWORK, PROMPTS, TOKENS};

const SHARE: (f64, f64) = (0.0, 1.0);
const CORRELATION: (f64, f64) = (-1.0, 1.0);
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

pub(super) static CARD: Card = Card {
    name: "steer",
    title: "Steering",
    summary: "How much of a latent's meaning a network writes when its direction is added, and what that costs.",
    version: 1,
    measures: "The direction of a latent is added to the activations while the network continues prompts, with increasing strength. If the latent causes what it stands for, texts \
        become more like the texts in which it is active (presence), stay fluent, and still continue the prompt (relevance). The score is the harmonic mean of the three at the best strength; it is low \
        if any of them is low. No language model is asked for an opinion. Random directions and other latents with a shift of the same size are controls: a latent that does not beat them is not a \
        handle on its meaning. Without a sentence encoder there is no presence, relevance and score; the activation of the latent when the unchanged network reads the texts, fluency and divergence are left.",
    definition: "m = largest code of the latent, d its direction. Shift at strength s: s · m · d, added at every position but the beginning-of-text token, of the prompt too. `strengths` and 0; `generated_tokens` tokens at most, sampled at temperature 1 from the same random numbers for all strengths, latents and controls. \
        Prompts: the packaged list or `prompt`; the first, third, … (half A) choose, the others (half B) score. Latents: `steered_latents` drawn at random of those with a positive code.\n\
        Presence: u = direction from the mean vector of random windows to that of the windows with the largest codes (32 tokens; the strongest tenth of the active ones, at most 20; 20 random ones); q = vector of the continuation · u; c = max(0, 2 · AUROC(q(s) against q(0)) − 1), over prompts. \
        Read-back: mean code of the latent on the tokens of the continuation when the unchanged network reads prompt and continuation.\n\
        Fluency: F = min(K, R); l = mean −ln p of the tokens of a continuation by the unchanged network; K = exp(−max(0, l(s) − l(0))); R = min(1, D(s) / D(0)), D = share of distinct triples of tokens; l and D are means over prompts. Relevance: I = mean over prompts of the cosine of prompt and continuation divided by that at strength 0, clipped to [0, 1]; prompts whose divisor is at most 0.05 are left out. \
        H = harmonic mean of c, F and I; 0 if one of them is 0. Strength s* has the largest H in half A (positive strengths; of equal ones the first); steer_score is the mean over latents of H(s*) in half B.\n\
        steer_score_random, steer_score_other: the same for a random direction and for another latent's direction, drawn at random, with shifts of the same length, towards the same u. \
        dose_response, readback_response: mean over latents of the rank correlation of s with the mean of q and of the read-back, over all strengths and prompts. steer_fluency, steer_kl and steer_kl_random are at the positive strength closest to 1: mean F over all prompts, and mean Σ p₀ (ln p₀ − ln p_s) over the tokens of `kl_sequences` sequences of the capture, special tokens and the first position left out. \
        Table `latent`: s50 = smallest positive strength with c of at least half its maximum; window = strengths with that and a loss of at most 1 nat more than without steering. Table `dose`: all numbers by latent, control and strength, with the share of tokens of continuations that are among the 20 largest logit effects of the latent (echo), which is not scored: a text that only repeats such tokens has a large one.\n\
        Undefined: everything without a latent that has a positive code; numbers whose parts are undefined; continuations without tokens are left out.",
    cost: "(`strengths` + 1) × prompts × `generated_tokens` tokens per latent, three times that with controls: the most expensive metric here. For SmolLM2 on two cores, minutes per latent.",
    source: "Own definition, after AxBench (arXiv 2501.17148; code commit e9b8cd4), which steers in the same way with factors of the largest activation, rates concept, instruction and fluency with a language model, takes the harmonic mean, and chooses the factor by one half of the prompts. \
        Differences: no judge, the beginning-of-text token is not changed, perplexity is of the continuation only (AxBench: of prompt and continuation), loops are found by distinct triples. There is no released program for it: both profiles are the same.",
    interval: "Percentile bootstrap, 1000 resamples of latents and of prompts (half B for scores, all prompts otherwise), with s* fixed; for divergences of latents only.",
    needs: &[&NETWORK, &DICTIONARY, &CODES, &TOKENS],
    uses: &[&ENCODER, &PROMPTS],
    headline: &[
        Output::new("steer_score", "Mean harmonic mean of presence, fluency and relevance.", SHARE, Better::Higher),
        Output::new("steer_score_random", "The same for random directions.", SHARE, Better::Neither),
        Output::new("steer_score_other", "The same for directions of other latents.", SHARE, Better::Neither),
        Output::new("dose_response", "Rank correlation of strength and presence.", CORRELATION, Better::Higher),
        Output::new("readback_response", "Rank correlation of strength and read-back.", CORRELATION, Better::Higher),
        Output::new("steer_fluency", "Fluency at the strength closest to 1.", SHARE, Better::Higher),
        Output::new("steer_kl", "Divergence of predictions at that strength.", POSITIVE, Better::Neither),
        Output::new("steer_kl_random", "The same for random directions.", POSITIVE, Better::Neither),
    ],
    params: &[
        Param::new("steered_latents", "Latents to steer with", Kind::Whole(1, 1_000_000), "8"),
        Param::new(
            "strengths",
            "Strengths, in units of the latent's largest code",
            Kind::Number(-1000.0, 1000.0),
            "-1,0.5,1,2,4",
        )
        .several(),
        Param::new("generated_tokens", "Tokens of a continuation at most", Kind::Whole(1, 100_000), "64"),
        Param::new("kl_sequences", "Sequences for the divergence", Kind::Whole(0, 1_000_000), "4"),
        Param::new("controls", "Whether controls are run", Kind::Word(&["yes", "no"]), "yes"),
    ],
};
