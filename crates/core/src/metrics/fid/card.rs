//! The card of the Fréchet distance.

use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, DICTIONARY, EMBEDDINGS, GENERATED};

const fn distance(key: &'static str, doc: &'static str, better: Better) -> Output {
    Output::new(key, doc, (0.0, f64::INFINITY), better)
}

const fn corrected(key: &'static str) -> Output {
    Output::new(
        key,
        "The next number without its bias to first order.",
        (f64::NEG_INFINITY, f64::INFINITY),
        Better::Lower,
    )
}

const HALF: &str = "The same between halves of the rows.";
const FLOOR: &str = "The same between two halves of the real rows.";

pub(super) static CARD: Card = Card {
    name: "fid",
    title: "Fréchet distance",
    summary: "Distance between the distributions of generated and real rows, on features, reconstructions and codes.",
    version: 3,
    measures: "Real and generated rows are each approximated by a normal distribution; the Fréchet distance compares the two means \
        and covariances. It is 0 for equal distributions and has the squared unit of the rows. It is computed on the features \
        that the dictionary encodes, on their reconstructions, and on the codes, which shows whether a change of the generator \
        survives the dictionary. The three have different units: do not compare them with each other.",
    definition: "FID = |μ − μ'|² + tr Σ + tr Σ' − 2 tr (Σ Σ')^½, covariances with n − 1. On codes with more active latents \
        than `most_rows`, the same number is |μ − μ'|² + |A|² + |B|² − 2 ‖A Bᵀ‖ with the centred rows A, B over √(n − 1) and \
        the nuclear norm, on a seeded sample of `most_rows` rows. FID has a positive bias that falls with the number of rows: \
        `..._corrected` removes it to first order (10 θ − 9 times the mean of θ without each of 10 groups of rows) and \
        can be negative. `..._floor` is the distance between two halves of the real rows; compare it with \
        `..._half`, the mean distance between one half of the real and the other half of the generated rows. \
        With several models, headlines are means over them. Undefined without the inputs of a space and below two rows \
        in a part.",
    cost: "One pass per space and set; dimensions² numbers for each of 10 groups and sets; 13 eigenvalue problems of that size \
        per model and space.",
    source: "Heusel et al. (2017); Appendix K of the paper on conceptual blindspots of image generators, whose theorem states that \
        codes preserve FID within the extreme singular values of D Dᵀ. With more latents than dimensions the smallest of \
        these is 0, and the theorem's condition DᵀD = 1 makes it empty. For linear codes of full rank the true bounds are \
        the squares of the extreme singular values of D, which table `decoder` has. Real codes are not linear, so the bounds \
        do not apply to them and only distances are reported. Both profiles are the same.",
    interval: "`..._corrected`: delete-a-group jackknife over 10 seeded groups of rows, value ± 2.262 standard errors (Student's \
        t, 9 degrees of freedom); none below 20 rows, and none with fewer rows than dimensions (active latents), where the bias \
        is more than the correction removes. None for the uncorrected number: its bias exceeds its error. None for halves. \
        Differences between dictionaries on the same rows are paired by group.",
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS, &DICTIONARY],
    headline: &[
        corrected("fid_features_corrected"),
        distance("fid_features", "Fréchet distance of features.", Better::Lower),
        distance("fid_features_half", HALF, Better::Lower),
        distance("fid_features_floor", FLOOR, Better::Neither),
        corrected("fid_reconstructions_corrected"),
        distance("fid_reconstructions", "Fréchet distance of reconstructions.", Better::Lower),
        distance("fid_reconstructions_half", HALF, Better::Lower),
        distance("fid_reconstructions_floor", FLOOR, Better::Neither),
        corrected("fid_codes_corrected"),
        distance("fid_codes", "Fréchet distance of codes.", Better::Lower),
        distance("fid_codes_half", HALF, Better::Lower),
        distance("fid_codes_floor", FLOOR, Better::Neither),
    ],
    params: &[Param::new(
        "most_rows",
        "With more active latents than this, compare codes on a seeded sample of this many rows.",
        Kind::Whole(2, 20_000),
        "2000",
    )],
};
