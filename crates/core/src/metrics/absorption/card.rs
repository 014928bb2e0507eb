//! The card of `absorption`.

use crate::metrics::probing::TEST_SHARE;
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, LABELS};

const SHARE: (f64, f64) = (0.0, 1.0);

pub(super) static CARD: Card = Card {
    name: "absorption",
    title: "Absorption",
    summary: "How much of a class is carried by latents other than its main latents, such as a latent for a single word.",
    version: 4,
    measures: "A latent seems to represent a class, such as \"starts with S\", but does not fire on some members of the class, \
        because a narrower latent, say for the word \"short\", fires instead and carries the class. The latent then has \
        unexplained gaps. For every class a probe on the activations gives the true direction and a sparse probe on the codes \
        the main latents. On rows that the probe assigns to the class, the metric measures how much of that direction comes \
        from other latents.",
    definition: "Directions are scaled to length 1 and codes multiplied by their lengths, so that \
        dictionaries that are the same function have the same scores. Rows with a known label of a class are split into training and test rows at random.\n\
        (1) Probe of a class on activations: logistic regression, balanced classes, C = 1, with weights w and its F1 on test \
        rows. (2) Latents are ranked by the weights of a probe on all codes: mean loss, positive rows weighted by negatives / \
        positives, plus `sparsity` · Σ|w|, solved exactly; only positive weights count. (3) For k = 1, 2, …, `most_latents`: \
        logistic regression, balanced, C = 1, on the first k latents. As long as F1 on test rows grows by more than `jump`, these \
        k latents are the main latents M.\n\
        (4) For test rows of the class that probe (1) predicts positive: p = w/‖w‖, a = x·p; latent j carries π_j = f_j (d_j·p), \
        and c_j is the cosine of d_j and p; m = Σ_M π_j.\n\
        `absorption_fraction` (code since March 2025): A is the sum of the three largest π_j > 0 with j outside M and c_j ≥ 0.1; \
        0 if m ≥ a or A/a < 0.4, 1 if m ≤ 0, else t/(t + m) with t = min(A, a − m).\n\
        `absorption_fraction_paper`: A over all j outside M with π_j > 0, no thresholds, t = A.\n\
        `absorption_fraction_january` (code of January 2025, probably used for the published results): T = Σ π_j over all \
        latents; 0 if m ≥ a or T ≤ 0, else (T − m)/T.\n\
        `full_absorption`: no main latent is active, and the latent with the largest π outside M has c ≥ 0.025 and carries at \
        least 0.4 a.\n\
        Rows are averaged within a class, then classes with an F1 of (1) above `probe_floor` and at least one such row are \
        averaged. With fewer than `fewest_classes` of them everything is undefined. Ties go to the lower latent (the released code \
        leaves them to the sort of PyTorch); a direction of length 0 carries nothing.",
    cost: "No pass. Per class one exact sparse probe on the codes and at most `most_latents` small ones: 20,000 words, 16,384 \
        latents and 26 classes take seconds. Memory: a copy of the activations and codes.",
    source: "SAEBench (paper 4), after Chanin et al., A is for Absorption. The released code runs a language model for every \
        word and dictionary, with new random examples in the prompt; here the same activations serve probe and test (captures make such prompts from the \
        vocabulary of a model: input `first-letters`). It trains \
        both probes by a few epochs of Adam, unseeded; here they are exact minima (weight decay: C = 1 in (1), none in (2)). It \
        multiplies codes by cosines, which is the same for directions of length 1; here directions may have any length. Profile \
        `reference` needs at least 20 classes, as the code does; the scores are the same.",
    interval: "Shares: Wilson's interval for as many observations as have the standard error between classes, at most \
        the number of rows, with Student's t for classes − 1; none below two classes. It also holds where no class shows any \
        absorption. None for `split_features`: it counts steps of a selection whose threshold depends on the test rows, so that it \
        changes with the number of rows and hardly varies between classes. No cost. Too wide as an interval over rows: in \
        simulations with 600 and 2,000 rows it contains the expected value in 99 to 100 % of data sets. Differences between \
        dictionaries are paired by class.",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output::new(
            "absorption_fraction",
            "Share of a class that other latents carry, current code.",
            SHARE,
            Better::Lower,
        ),
        Output::new("absorption_fraction_january", "The same, code of January 2025.", SHARE, Better::Lower),
        Output::new("absorption_fraction_paper", "The same, definition of the paper.", SHARE, Better::Lower),
        Output::new("full_absorption", "Share of rows that another latent carries alone.", SHARE, Better::Lower),
        Output::new("split_features", "Mean number of main latents of a class.", (0.0, f64::INFINITY), Better::Lower),
    ],
    params: &[
        Param::new("jump", "Minimum gain of F1 for one more main latent.", Kind::Number(0.0, 1.0), "0.03"),
        Param::new("most_latents", "Maximum number of main latents of a class.", Kind::Whole(1, 1000), "10"),
        Param::new("sparsity", "Weight of Σ|w| in the probe that ranks latents.", Kind::Number(1e-9, 1e9), "0.01"),
        TEST_SHARE,
        Param::new("probe_floor", "Leaves out classes with a probe F1 up to this.", Kind::Number(0.0, 1.0), "0.6"),
        Param::new("fewest_classes", "Minimum number of classes.", Kind::Whole(1, u64::MAX), "1").reference("20"),
    ],
};
