//! What targeted probe perturbation is.

use super::ABLATED;
use crate::metrics::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE};
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, LABELS};

pub static CARD: Card = Card {
    name: "tpp",
    title: "Targeted probe perturbation",
    summary: "Whether taking away the latents of a class harms the probe of that class and no other.",
    version: 1,
    measures: "Every class of a data set has a linear probe on the embeddings. The latents that matter most to one of them are \
        taken away. If the dictionary separates the classes, that probe gets worse (intended) and the others do not \
        (unintended). The score is the difference of the two falls in accuracy: at most about 1/2, because probes fall to \
        chance. Read it with its noise: differences below `tpp_detectable` mean nothing.",
    definition: "Tasks, groups and draws as in `sparse_probing`: every concept against the others of its group (`dataset/class`), as many \
        negatives as positives, training and test rows. Per task i a probe w_i on the embeddings, accuracy A_i on its test rows. \
        effect_i(j) = max(mean of latent j over positives − over negatives, 0) · (w_i·d_j) on the training rows; the n latents with the \
        largest positive effects are taken away, equals to the lower latent. A row without them scores w·x + b − Σ f_j (w·d_j). A_ik is the \
        accuracy of probe k on its own test rows then. intended_i = A_i − A_ii; unintended_i = mean over k ≠ i of (A_k − A_ik); total = intended − \
        unintended. Means over tasks of a group, then groups, then repeats. Undefined: a task without rows of both kinds, and a \
        group with fewer than two such tasks. A group of more than `most_tasks` keeps those with most positives. \
        Directions must be the decoder's rows that belong to the codes, embeddings and codes pooled by mean.",
    cost: "A probe per task and repeat, then for every pair of tasks one look at the entries of the test rows, all n together; no row is \
        decoded.",
    source: "Karvonen and others, SAEBench (arXiv 2503.09532) and its program, evaluation `tpp`. The text defines the score with the \
        opposite sign; falls are positive here as in the program. Profile `paper`: probes are logistic regressions fitted to convergence, \
        nothing is chosen on test rows, only latents with a positive effect are taken. Profile `reference` keeps: one linear layer, AdamW \
        (rate 0.001, decay 0.01, absolute weights 0.001, batches of 16, 20 epochs), the epoch that is best on the test rows; n is bounded by the effects \
        that are not zero, so that latents with a negative effect, or none, can be among them. Not reproduced: latents of padding positions that leak into \
        pooled rows, and bf16. Chanin (arXiv 2605.18229) finds that this score falls with training.",
    interval: "over repeats by Student's distribution, the error widened by test rows / training rows because splits overlap (Nadeau and Bengio 2003); with \
        one repeat 95 % percentile bootstrap over tasks",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        fall("tpp_10", "The total after taking 10 latents away.", (-2.0, 2.0), Better::Higher),
        fall("tpp_20", "The total after taking 20 latents away.", (-2.0, 2.0), Better::Higher),
        fall("tpp_20_intended", "The fall of the class's own probe, 20 latents.", (-1.0, 1.0), Better::Higher),
        fall("tpp_20_unintended", "The mean fall of the other probes, 20 latents.", (-1.0, 1.0), Better::Lower),
        fall("tpp_noise", "The standard deviation of `tpp_20` from one draw to the next.", (0.0, 2.0), Better::Neither),
        fall(
            "tpp_detectable",
            "The smallest difference in `tpp_20` between two dictionaries that these repeats can tell.",
            (0.0, f64::INFINITY),
            Better::Neither,
        ),
    ],
    params: &[
        ABLATED,
        REPEATS,
        TEST_SHARE,
        MOST_POSITIVES,
        C,
        Param {
            name: "most_tasks",
            doc: "At most so many concepts of a group, those with most positive rows.",
            kind: Kind::Whole(2, 100_000),
            several: false,
            default: "20",
            reference: None,
        },
    ],
};

const fn fall(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}
