//! The card of `ois`.

use crate::metrics::purity::concepts::DIMENSIONS;
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, FACTORS, LABELS};

/// The parameter of the splits, shared with `nis`.
pub(in crate::metrics::purity) const REPEATS: Param =
    Param::new("repeats", "Number of random splits of the rows, averaged", Kind::Whole(1, 10_000), "5").reference("1");

pub(super) static CARD: Card = Card {
    name: "ois",
    title: "Oracle impurity score",
    summary: "How much the representation of a concept says about other concepts, beyond what the labels themselves \
        say.",
    version: 3,
    measures: "In a concept bottleneck, or in a dictionary whose latents were matched to concepts, every concept \
        has a representation of its own: one number, or a few. It is pure if it predicts the other concepts no \
        better than the true label of its concept does: labels may be correlated, a representation must not add to \
        that. 0 is pure; 1 means that every representation predicts all concepts but its own. A score above \
        `ois_noise` is impurity, one near it is chance.",
    definition: "Representation i is a latent, or `dimensions` consecutive latents. P_ij is the area under the ROC \
        curve of a probe that predicts concept j from representation i: one hidden layer of `hidden` rectified \
        linear units, one logit for two classes, otherwise a softmax and the mean one-against-all area over the \
        classes of the test rows. Glorot's uniform start, Adam (learning rate 0.001, decays 0.9 and 0.999, epsilon \
        1e-7), `epochs` epochs of batches of min(`batch`, rows), no scaling of inputs unless `probe_input` is `ranks`. A \
        fifth of the rows, drawn with the seed, is the test; the rest trains. The initial weights are drawn per (i, \
        j), the order of rows per i.\n\
        O_ij is the same with the labels of concept i in place of the representation, on another split unless \
        `oracle_split` is `shared`; O_ii = 1. Where both concepts have two classes the probe's output has two \
        values and the area follows from the 2 × 2 table of the test rows and the sign of the association in the \
        training rows, so nothing is trained.\n\
        `ois` = 2/k · ‖P − O‖ (Frobenius), the mean over `repeats`. `ois_noise` = 2/k · √(Σ var(P_ij − O_ij)), \
        with DeLong's variances and the covariance through test rows that both splits share: the score that pure \
        representations are expected to have for these rows. `ois_corrected` = 2/k · √max(0, ‖P − O‖² − Σ var).\n\
        `align`: `none` takes representation i for concept i. Otherwise every concept gets a representation of its \
        own: `greedy` sorts all P_ij and takes the largest whose row and column are free (ties: lowest i, then j); \
        `optimal` maximises the sum. `auto` is `none` if there are as many representations as concepts, otherwise \
        `greedy`. Alignment chooses by the areas that enter the score, which flatters it. With many latents, only \
        the `candidates` representations per concept whose best latent has the area farthest from 1/2 are probed \
        (profile `reference`: all); where concepts share them, more are probed until there is one for every concept.\n\
        `probe_input` = `ranks` replaces every value by its rank among all rows, scaled to variance 1: a probe on raw \
        values sees only what varies on the scale of its inputs, and misses what a representation hides within a \
        narrow range.\n\
        Several values of `hidden` are compared in the table `helper`; the headline is that of the first.\n\
        Undefined: fewer than 5 rows, fewer representations than concepts, and no concept with two classes in both \
        parts of every split; a concept that has not does not count in k. Rows without a label of a concept are \
        left out for it.",
    cost: "Per repeat k' × k probes of rows × epochs × hidden steps, sixteen at a time on every core; the oracle \
        costs nothing for two classes. Aligned representations are probed twice. Memory: the codes by latent, and a few numbers \
        per row and thread.",
    source: "Espinosa Zarlenga et al., Towards Robust Metrics for Concept Representation Evaluation (AAAI 2023), \
        definitions 3.1 and 3.2, appendix A.3 and A.4, and the released program concept-quality.\n\
        Profile `paper`: batches of 128, the factor 2/k also with alignment, and the mean of 5 repeats, as many \
        trials as the paper reports. Profile `reference`: batches of min(512, rows) and one repeat; with alignment \
        the factor 2/k is missing, as in the program, so that scores with and without alignment differ in scale. Both: the program's `multi_class='ovo'` has no effect for indicator \
        targets, which makes it one-against-all, as the paper says; the oracle has a split of its own, as in the \
        program (the paper does not say).\n\
        Not reproduced: the program draws splits, weights and orders without a seed; it stores matrices as 32-bit \
        numbers.\n\
        With raw inputs the published impure codes score 0.22 although a perfect probe would give 0.89: see `probe_input`.",
    interval: "From the repeats (Nadeau and Bengio 2003): value ± Student's t times the deviation between splits times \
        √(1/repeats + 1/4), cut at 0; `null` with one repeat. With pure representations the norm is all noise, and \
        the interval does not contain 0: compare with `ois_noise`.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS],
    headline: &[
        Output::new("ois", "Oracle impurity score", (0.0, f64::INFINITY), Better::Lower),
        Output::new(
            "ois_noise",
            "Score expected of pure representations by chance",
            (0.0, f64::INFINITY),
            Better::Neither,
        ),
        Output::new("ois_corrected", "Score after removing what chance adds", (0.0, f64::INFINITY), Better::Lower),
    ],
    params: &[
        Param::new("hidden", "Hidden units of the probes; several values are compared", Kind::Whole(1, 4096), "32")
            .several(),
        Param::new("epochs", "Number of passes over the training rows", Kind::Whole(1, 100_000), "25"),
        Param::new("batch", "Rows per mini-batch", Kind::Whole(1, u64::MAX), "128").reference("512"),
        Param::new("probe_input", "Values that the probes read", Kind::Word(&["raw", "ranks"]), "raw"),
        Param::new(
            "align",
            "How representations are matched to concepts",
            Kind::Word(&["auto", "none", "greedy", "optimal"]),
            "auto",
        ),
        Param::new(
            "candidates",
            "Representations considered per concept when they are aligned; 0 considers all",
            Kind::Whole(0, 1_000_000),
            "10",
        )
        .reference("0"),
        Param::new(
            "oracle_split",
            "Whether the oracle matrix has a split of its own",
            Kind::Word(&["separate", "shared"]),
            "separate",
        ),
        DIMENSIONS,
        REPEATS,
    ],
};
