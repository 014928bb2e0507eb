//! What the Fréchet distance says about itself.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DICTIONARY, EMBEDDINGS, GENERATED};

const fn distance(key: &'static str, doc: &'static str, better: Better) -> Output {
    Output { key, doc, range: (0.0, f64::INFINITY), better }
}

const fn corrected(key: &'static str) -> Output {
    let doc = "The same without the part that grows as rows get fewer.";
    Output { key, doc, range: (f64::NEG_INFINITY, f64::INFINITY), better: Better::Lower }
}

const HALF: &str = "The same between halves of the rows.";
const FLOOR: &str = "The same between two halves of the real rows.";

pub(super) static CARD: Card = Card {
    name: "fid",
    title: "Fréchet distance",
    summary: "How far generated rows are from real ones as clouds, on features, reconstructions and codes.",
    version: 1,
    measures: "Real and generated rows are each taken for a normal distribution; the Fréchet distance compares the two means \
        and covariances. It is 0 for equal ones and has the square of the unit of the rows. It is computed on the \
        features that the dictionary reads, on what the dictionary keeps of them, and on the codes, so that one sees \
        whether a change of the generator survives the dictionary. The three are in different units and may not be \
        compared with each other.",
    definition: "FID = |μ − μ'|² + tr Σ + tr Σ' − 2 tr (Σ Σ')^½, covariances with n − 1. On codes with more active latents \
        than `most_rows`, the same number is |μ − μ'|² + |A|² + |B|² − 2 ‖A Bᵀ‖ with the centred rows A, B over √(n − 1) and \
        the nuclear norm, on a seeded sample of so many rows. FID is too large by an amount that falls as rows are added: \
        `..._corrected` removes it to first order (10 θ − 9 times the mean of θ without each of 10 groups of rows) and \
        can be negative; `..._floor` is the distance between two halves of the real rows, to be compared with \
        `..._half`, the mean distance between one half of the real and the other half of the generated rows. \
        With several models, headlines are means over them. Undefined without the inputs of a space and below two rows \
        in a part.",
    cost: "One look at every row per space and set; dimensions² numbers for each of 10 groups and sets; 13 eigenvalue problems \
        of that size per model and space.",
    source: "Heusel et al. (2017); appendix K of the paper on conceptual blindspots of image generators, whose theorem says that \
        codes preserve FID within the extreme singular values of D Dᵀ. With more latents than dimensions the smallest of \
        these is 0, and the theorem's condition DᵀD = 1 makes it empty; for linear codes of full rank the true bounds are \
        the squares of the extreme singular values of D, which table `decoder` shows. Real codes are not linear, so nothing \
        follows from them: the distances are reported, and no claim is made. Both profiles are the same.",
    interval: "delete-a-group jackknife over 10 seeded groups of rows: value ± 2.262 standard errors (Student's t, 9 degrees \
        of freedom). It does not contain the bias of the uncorrected number. None below 20 rows, and none for halves.",
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS, &DICTIONARY],
    headline: &[
        distance("fid_features", "Fréchet distance of features.", Better::Lower),
        corrected("fid_features_corrected"),
        distance("fid_features_half", HALF, Better::Lower),
        distance("fid_features_floor", FLOOR, Better::Neither),
        distance("fid_reconstructions", "Fréchet distance of reconstructions.", Better::Lower),
        corrected("fid_reconstructions_corrected"),
        distance("fid_reconstructions_half", HALF, Better::Lower),
        distance("fid_reconstructions_floor", FLOOR, Better::Neither),
        distance("fid_codes", "Fréchet distance of codes.", Better::Lower),
        corrected("fid_codes_corrected"),
        distance("fid_codes_half", HALF, Better::Lower),
        distance("fid_codes_floor", FLOOR, Better::Neither),
    ],
    params: &[Param {
        name: "most_rows",
        doc: "with more active latents than this, codes are compared on a seeded sample of so many rows",
        kind: Kind::Whole(2, 20_000),
        several: false,
        default: "2000",
        reference: None,
    }],
};
