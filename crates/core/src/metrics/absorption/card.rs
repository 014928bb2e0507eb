//! What `absorption` says about itself.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, LABELS};

pub(super) static CARD: Card = Card {
    name: "absorption",
    title: "Absorption",
    summary: "How much of a class is carried by latents that are not the class's own, such as one for a single word.",
    version: 1,
    measures: "A latent seems to stand for a class, such as \"starts with S\", and yet stays silent on some of its members, \
        because a narrower latent, say one for the word \"short\", fires there and carries the class along. To people the \
        latent then has unexplained holes. For every class a probe on the activations gives its true direction and a sparse \
        probe on the codes its main latents; on rows where the probe sees the class it is asked how much of that direction \
        comes from other latents.",
    definition: "Rows that are known for a class are cut into training and test rows by the seed. (1) A probe per class on \
        activations: logistic regression, classes balanced, C = 1; w its weights, F1 on test rows. (2) The latents are ranked \
        by the weights of a probe on all codes: mean loss, positive rows weighed by negatives / positives, plus \
        `sparsity` · Σ|w|, solved exactly; only positive weights count. (3) For k = 1, 2, …, `most_latents`: logistic \
        regression, balanced, C = 1, on the first k; as long as F1 on test rows grows by more than `jump` the k latents become \
        the main ones M. (4) For test rows of the class that the probe of (1) calls positive: p = w/‖w‖, a = x·p; a latent j \
        carries π_j = f_j (d_j·p), and c_j is the cosine of d_j and p; m = Σ_M π_j. `absorption_fraction` (code since March \
        2025): A is the sum of the three largest π_j > 0 with j outside M and c_j ≥ 0.1; 0 if m ≥ a or A/a < 0.4, 1 if m ≤ 0, \
        else t/(t + m) with t = min(A, a − m). `absorption_fraction_paper`: A over all j outside M with π_j > 0, no thresholds, \
        t = A. `absorption_fraction_january` (code of January 2025, probably behind the published results): T = Σ π_j over all \
        latents; 0 if m ≥ a or T ≤ 0, else (T − m)/T. `full_absorption`: no main latent is active, the latent with the largest \
        π outside M has c ≥ 0.025, and carries at least 0.4 a. Rows are averaged in a class, and classes with an F1 of (1) \
        above `probe_floor` and at least one such row are averaged. With fewer than `fewest_classes` of them all is undefined. \
        Ties go to the lower latent; a direction of length 0 carries nothing.",
    cost: "No pass; per class one exact sparse probe on the codes and at most `most_latents` small ones; 20,000 words, 16,384 \
        latents and 26 classes take seconds. Memory for the activations as they are.",
    source: "SAEBench (paper 4), after Chanin et al., A is for Absorption. The reference asks a language model again for every \
        word and dictionary, with new random examples in the prompt; here the same activations serve probe and test. It trains \
        both probes by a few epochs of Adam, unseeded; these are their exact minima (weight decay: C = 1 in (1), none in (2)). \
        It multiplies codes by cosines, which is the same once directions have length 1; here they may have any. In the profile \
        `reference` at least 20 classes are wanted, as there; the scores are the same.",
    interval: "Bootstrap over classes, 1000 resamples; the cut into training and test rows is kept.",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output {
            key: "absorption_fraction",
            doc: "Mean share of a class's direction that other latents carry, as SAEBench computes it now.",
            range: (0.0, 1.0),
            better: Better::Lower,
        },
        Output {
            key: "absorption_fraction_january",
            doc: "The same as SAEBench computed it in January 2025.",
            range: (0.0, 1.0),
            better: Better::Lower,
        },
        Output {
            key: "absorption_fraction_paper",
            doc: "The same as the paper defines it.",
            range: (0.0, 1.0),
            better: Better::Lower,
        },
        Output {
            key: "full_absorption",
            doc: "Mean share of rows on which the main latents are silent and one other latent stands in for them.",
            range: (0.0, 1.0),
            better: Better::Lower,
        },
        Output {
            key: "split_features",
            doc: "Mean number of main latents of a class.",
            range: (0.0, f64::INFINITY),
            better: Better::Lower,
        },
    ],
    params: &[
        Param {
            name: "jump",
            doc: "How much F1 one more main latent must add.",
            kind: Kind::Number(0.0, 1.0),
            several: false,
            default: "0.03",
            reference: None,
        },
        Param {
            name: "most_latents",
            doc: "The most main latents that a class may have.",
            kind: Kind::Whole(1, 1000),
            several: false,
            default: "10",
            reference: None,
        },
        Param {
            name: "sparsity",
            doc: "The weight of Σ|w| in the probe that ranks latents.",
            kind: Kind::Number(1e-9, 1e9),
            several: false,
            default: "0.01",
            reference: None,
        },
        Param {
            name: "test_share",
            doc: "The share of rows that is tested on.",
            kind: Kind::Number(0.01, 0.9),
            several: false,
            default: "0.2",
            reference: None,
        },
        Param {
            name: "probe_floor",
            doc: "Classes whose probe on the activations has an F1 up to this are left out.",
            kind: Kind::Number(0.0, 1.0),
            several: false,
            default: "0.6",
            reference: None,
        },
        Param {
            name: "fewest_classes",
            doc: "With fewer classes left the scores are undefined.",
            kind: Kind::Whole(1, u64::MAX),
            several: false,
            default: "1",
            reference: Some("20"),
        },
    ],
};
