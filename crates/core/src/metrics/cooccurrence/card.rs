//! The card of the co-occurrence metric.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, EMBEDDINGS, GENERATED};

const SHARE: (f64, f64) = (0.0, 1.0);
const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

const HALF: &str = "The same between halves of the rows.";
const NULL: &str = "The same between two halves of the real rows.";

pub(super) static CARD: Card = Card {
    name: "cooccurrence",
    title: "Co-occurrence",
    summary: "Whether generated rows combine concepts as the real rows do.",
    version: 4,
    measures: "A generator may show every concept often enough and still combine them wrongly. Two concepts co-occur where \
        their latents fire in the same row (patch, token or image). The metric counts the pairs that co-occur only in \
        generated rows, or only in real rows, compares the strongest patterns of co-occurrence, and lists the \
        partners of every latent. Every sample misses rare pairs, so each number is reported together with that of two halves \
        of the real rows.",
    definition: "C = ZᵀZ / N for codes Z of N rows: the mean over rows of the product of two latents' values. Only pairs of \
        different latents are counted, each once. At a threshold ε, unique entries are those with C' > ε ≥ C and missing \
        ones those with C > ε ≥ C', where C is that of the real and C' that of the generated rows. `unique_share` divides by \
        the entries of C' above ε, `missing_share` by those of C; undefined where there are none. Shares fall as rows are \
        added, so `..._half` compares one half of the real rows with the other half of the generated ones, and `..._null` \
        one half of the real rows with the other: compare only these two with each other. Halves are seeded, and all tokens of \
        an image are in one of them. Table `threshold`: counts for ε = 0 and quarters of a decade. `subspace_alignment`: mean \
        squared cosine of the principal angles between the spans of the first `top` eigenvectors of C and C' (fewer, if one \
        has fewer eigenvalues above 10⁻¹⁰ of the largest, and at most half as many as latents fire in any set: larger spans \
        share directions by their dimension alone). `vector_alignment`: mean over real eigenvectors of the largest \
        absolute cosine with a generated one; it also falls when near-equal eigenvalues mix. Slopes: least-squares lines of \
        log eigenvalue over log rank, from rank 10 (from 1 below 20 eigenvalues). With several models, headlines are means \
        over them. Table `latent`: the partners with the largest C (ties: lower latent first), with Jaccard index and \
        pointwise mutual information (natural logarithm) of firing above 0, and the change of each from real to generated \
        rows.",
    cost: "The pairs of active latents of every row, once per set, and a second scan for the partners. Memory: one \
        row of each matrix and 16 million pairs per thread, never latents × latents. Eigenvalues by block Lanczos: up to \
        3 · `eigenvalues` + 100 vectors over all latents in double precision per spectrum, and as many products with the codes.",
    source: "Appendix F of the paper on conceptual blindspots of image generators. Its captions write ZZᵀ; the released code \
        computes ZᵀZ, summed over tokens. Profile `reference` uses sums over rows as that code does, so thresholds \
        and eigenvalues are those of sums. Not in the paper: missing entries, the halves (without them unique entries mostly \
        measure how few rows there are), principal angles, and absolute cosines (signs of eigenvectors are arbitrary).",
    interval: "Shares: delete-a-group jackknife over 20 seeded groups of rows (all tokens of an image together), the value \
        ± 2.093 standard errors, clipped to [0, 1]; with several models that of their mean. None below 40 rows. None for \
        halves, alignments and slopes: compare them with the null or between models. In simulations with 600 and 2,000 rows the \
        interval contains the expected value in 96 to 99 % of data sets. Differences between dictionaries on the same rows are \
        paired by group.",
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS],
    headline: &[
        Output::new("unique_share", "Share of generated co-occurrences that no real row has.", SHARE, Better::Lower),
        Output::new("unique_share_half", HALF, SHARE, Better::Lower),
        Output::new("unique_share_null", NULL, SHARE, Better::Neither),
        Output::new("missing_share", "Share of real co-occurrences that no generated row has.", SHARE, Better::Lower),
        Output::new("missing_share_half", HALF, SHARE, Better::Lower),
        Output::new("missing_share_null", NULL, SHARE, Better::Neither),
        Output::new("subspace_alignment", "Overlap of the spans of the strongest patterns.", SHARE, Better::Higher),
        Output::new("subspace_alignment_half", HALF, SHARE, Better::Higher),
        Output::new("subspace_alignment_null", NULL, SHARE, Better::Neither),
        Output::new("vector_alignment", "Agreement of the strongest patterns, one by one.", SHARE, Better::Higher),
        Output::new("slope_real", "Slope of log eigenvalue over log rank, real rows.", ANY, Better::Neither),
        Output::new("slope_generated", "The same for generated rows.", ANY, Better::Neither),
    ],
    params: &[
        Param::new(
            "level",
            "Count by row (token), or by the sum of each image's rows if the embeddings record their images.",
            Kind::Word(&["token", "image"]),
            "token",
        ),
        Param::new(
            "epsilon",
            "Threshold ε of the headline numbers, rounded down to one of the table.",
            Kind::Number(0.0, f64::INFINITY),
            "0",
        ),
        Param::new("top", "Number of eigenvectors to compare.", Kind::Whole(1, 1000), "100"),
        Param::new("eigenvalues", "Number of eigenvalues of the spectrum.", Kind::Whole(1, 10_000), "1000"),
        Param::new("partners", "Number of partners to list for every latent.", Kind::Whole(0, 1000), "10"),
    ],
};
