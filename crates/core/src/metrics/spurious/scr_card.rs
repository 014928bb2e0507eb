//! What spurious correlation removal is.

use super::ABLATED;
use crate::metrics::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE};
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, LABELS};

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

pub static CARD: Card = Card {
    name: "scr",
    title: "Spurious correlation removal",
    summary: "How much of a probe's bias goes away when the latents of the biasing attribute are taken away.",
    version: 1,
    measures: "A probe that was trained on rows where a task (nurse or not) and an attribute (female or not) always go together \
        learns both. If the dictionary holds the attribute in latents of its own, taking those away leaves a probe that \
        answers the task. 0: nothing changed; 1: as good as a probe that was trained on unbiased rows; below 0: worse than \
        before. Read it with its noise: scores differ from draw to draw, and differences below `scr_detectable` mean nothing.",
    definition: "For a couple (task t, attribute g) rows with both labels known fall into four quadrants. Per repeat each quadrant is cut \
        into training and test rows, and as many rows q of every quadrant are taken. Probes on the embeddings: t on rows of all quadrants, g on \
        the same rows, s (biased) on rows with both against rows with none, up to 2q of either. \
        effect(j) = |(mean of latent j over positives − over negatives) · (w·d_j)| on the training rows of the probe w = g or t; A = the n \
        latents with the largest effects that are not zero, equals to the lower latent. A row without A scores w·x + b − Σ_{j ∈ A} f_j (w·d_j). \
        dir1(n) = (acc'_s − acc_s) / (acc_t − acc_s) on the task's test rows after taking away latents of g; dir2(n) the same \
        with task and attribute exchanged. score(n) is the direction in which s is less accurate before anything is taken away, the mean of both if \
        equal. `scr_10` and `scr_20` are means over couples. Not clipped. \
        Undefined in `paper`: acc_t − acc_s < 0.001; a couple with an empty quadrant. Couples: those of `couples`, or the `most_couples` couples of all \
        concepts with the fullest smallest quadrant and at least `quadrant_rows` rows in each; classes that exclude each other \
        have no row with both. Directions must be the decoder's rows that belong to the codes, embeddings and codes pooled by mean.",
    cost: "Three probes per couple and repeat, then one look at the entries of the test rows for all n together; no row is decoded.",
    source: "Karvonen and others, SAEBench (arXiv 2503.09532), after Marks and others, Sparse Feature Circuits (arXiv 2403.19647), and the \
        program's evaluation `scr`. Profile `paper`: probes are logistic regressions fitted to convergence, nothing is chosen on \
        test rows, splits are redrawn and give noise and interval. Profile `reference` keeps: one linear layer, AdamW (rate 0.001, decay \
        0.01, absolute weights 0.001, batches of 16, 20 epochs), the epoch that is best on the test rows (where they are \
        told apart at once this is the first, and the biased probe still the random one it began as); a score of 0 where the \
        oracle is not better than the biased probe; no score where both directions start equal. Not reproduced: latents of \
        padding positions that leak into pooled rows, bf16, and the first rows of a split instead of random ones. \
        Chanin (arXiv 2605.18229) finds that this score falls with quality at large n.",
    interval: "over repeats by Student's distribution, the error widened by test rows / training rows because splits overlap (Nadeau and Bengio 2003); with \
        one repeat 95 % percentile bootstrap over couples",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output { key: "scr_10", doc: "Mean score after taking 10 latents away.", range: ANY, better: Better::Higher },
        Output { key: "scr_20", doc: "Mean score after taking 20 latents away.", range: ANY, better: Better::Higher },
        Output {
            key: "scr_noise",
            doc: "The standard deviation of `scr_20` from one draw of rows to the next.",
            range: (0.0, f64::INFINITY),
            better: Better::Neither,
        },
        Output {
            key: "scr_detectable",
            doc: "The smallest difference in `scr_20` between two dictionaries that these repeats can tell.",
            range: (0.0, f64::INFINITY),
            better: Better::Neither,
        },
    ],
    params: &[
        ABLATED,
        REPEATS,
        TEST_SHARE,
        MOST_POSITIVES,
        C,
        Param {
            name: "couples",
            doc: "Couples of concepts, by name or number, or all that have enough rows.",
            kind: Kind::Text("task:attribute, or all"),
            several: true,
            default: "all",
            reference: None,
        },
        Param {
            name: "quadrant_rows",
            doc: "With `couples` = all: at least so many rows in each quadrant.",
            kind: Kind::Whole(2, u64::MAX),
            several: false,
            default: "50",
            reference: None,
        },
        Param {
            name: "most_couples",
            doc: "With `couples` = all: at most so many couples.",
            kind: Kind::Whole(1, 1_000_000),
            several: false,
            default: "20",
            reference: None,
        },
    ],
};
