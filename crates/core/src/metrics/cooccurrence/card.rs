//! What the co-occurrence metric says about itself.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, EMBEDDINGS, GENERATED};

const SHARE: (f64, f64) = (0.0, 1.0);

const fn output(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

pub(super) static CARD: Card = Card {
    name: "cooccurrence",
    title: "Co-occurrence",
    summary: "Whether generated rows combine concepts as the real rows do.",
    version: 2,
    measures: "A generator may show every concept often enough and still combine them wrongly. Two concepts co-occur where \
        their latents fire in the same row (patch, token or image). The metric counts the pairs that co-occur among \
        generated rows only, or among real rows only, compares the strongest patterns of co-occurrence, and lists the \
        partners of every latent. Rare pairs are missed in any sample, so each number stands beside what two halves of the \
        real rows give.",
    definition: "C = ZᵀZ / N for codes Z of N rows: the mean over rows of the product of two latents' values; only pairs of \
        different latents are counted, each once. At a threshold ε, unique entries are those with C' > ε ≥ C and missing \
        ones those with C > ε ≥ C', C being of the real and C' of the generated rows. `unique_share` divides by the \
        entries of C' above ε, `missing_share` by those of C; undefined where there are none. Because shares fall as rows \
        are added, `..._half` compares one half of the real rows with the other half of the generated ones, and `..._null` \
        the same with the real rows in place of the generated: only these two may be compared with each other. The \
        halves are seeded, and all tokens of an image are in one of them. Table `threshold`: the counts for ε = 0 and \
        quarters of a decade. `subspace_alignment` is the mean squared cosine of the principal angles between the spans of \
        the first `top` eigenvectors of C and C' (fewer, if one of them has fewer eigenvalues above 10⁻¹⁰ of the \
        largest); `vector_alignment` is the mean over real eigenvectors of the largest absolute cosine with a generated \
        one, which also falls when near-equal eigenvalues mix. Slopes are least-squares lines of log eigenvalue over log \
        rank, from rank 10 (from 1 below 20 eigenvalues). With several models, headlines are means over them. Table \
        `latent`: the partners with the largest C (ties to the lower latent) with Jaccard index and pointwise mutual \
        information (natural logarithm) of firing above 0, and the change of each from real to generated rows.",
    cost: "For every row the pairs of its active latents, once per set, and a look at each for the partners; memory for one \
        line of each matrix and for 16 million pairs per thread, never latents × latents. Eigenvalues by block Lanczos: up to \
        3 · `eigenvalues` + 100 vectors of the length of all latents in double precision per spectrum, and as many products \
        with the codes.",
    source: "Appendix F of the paper on conceptual blindspots of image generators. Its captions write ZZᵀ; the program \
        computes ZᵀZ, summed over tokens. Profile `reference` takes sums over rows as that program does, so thresholds \
        and eigenvalues are those of sums. Added here: missing entries, the halves without which unique entries mostly \
        measure how few rows there are, principal angles, and absolute cosines (signs of eigenvectors are arbitrary).",
    interval: "Shares: delete-a-group jackknife over 20 seeded groups of rows (all tokens of an image together), the value \
        ± 2.093 standard errors, cut to [0, 1]; with several models that of their mean. None below 40 rows, and none for \
        halves, alignments and slopes, which have a null or a model beside them.",
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS],
    headline: &[
        output("unique_share", "Share of generated co-occurrences that no real row has.", SHARE, Better::Lower),
        output("unique_share_half", "The same between halves of the rows.", SHARE, Better::Lower),
        output("unique_share_null", "The same between two halves of the real rows.", SHARE, Better::Neither),
        output("missing_share", "Share of real co-occurrences that no generated row has.", SHARE, Better::Lower),
        output("missing_share_half", "The same between halves of the rows.", SHARE, Better::Lower),
        output("missing_share_null", "The same between two halves of the real rows.", SHARE, Better::Neither),
        output("subspace_alignment", "How far the strongest patterns span the same space.", SHARE, Better::Higher),
        output("subspace_alignment_half", "The same between halves of the rows.", SHARE, Better::Higher),
        output("subspace_alignment_null", "The same between two halves of the real rows.", SHARE, Better::Neither),
        output("vector_alignment", "How far the strongest patterns are the same, one by one.", SHARE, Better::Higher),
        output(
            "slope_real",
            "Slope of log eigenvalue over log rank, real rows.",
            (f64::NEG_INFINITY, f64::INFINITY),
            Better::Neither,
        ),
        output("slope_generated", "The same for generated rows.", (f64::NEG_INFINITY, f64::INFINITY), Better::Neither),
    ],
    params: &[
        Param {
            name: "level",
            doc: "rows as they are (token), or the sum of each image's rows, where the embeddings say which they are",
            kind: Kind::Word(&["token", "image"]),
            several: false,
            default: "token",
            reference: None,
        },
        Param {
            name: "epsilon",
            doc: "the ε of the headline numbers; the next threshold of the table below it is taken",
            kind: Kind::Number(0.0, f64::INFINITY),
            several: false,
            default: "0",
            reference: None,
        },
        Param {
            name: "top",
            doc: "eigenvectors that are compared",
            kind: Kind::Whole(1, 1000),
            several: false,
            default: "100",
            reference: None,
        },
        Param {
            name: "eigenvalues",
            doc: "eigenvalues of the spectrum",
            kind: Kind::Whole(1, 10_000),
            several: false,
            default: "1000",
            reference: None,
        },
        Param {
            name: "partners",
            doc: "partners that are listed for every latent",
            kind: Kind::Whole(0, 1000),
            several: false,
            default: "10",
            reference: None,
        },
    ],
};
