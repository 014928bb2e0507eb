//! `core`: sparsity, reconstruction and geometry of a dictionary.

mod cosines;
mod latents;
mod numbers;
mod samples;
mod sums;
#[cfg(test)]
mod tests;
mod weights;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::codes::Latent;
use crate::error::Result;
use crate::results::Scores;
use crate::run::{CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, Job, Over, Work};
use cosines::{LargestCosines, largest_cosines};
use latents::Latents;
use numbers::RowNumbers;
use samples::samples_by_latent;
use sums::Scan;
use weights::{LatentWeights, latent_weights};

/// The metric.
pub struct Reconstruction;

const BATCH: Param = Param::new(
    "batch_rows",
    "Consecutive rows per batch, for the numbers that depend on batches.",
    Kind::Whole(16, 65_536),
    "2048",
);

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);
const SHARE: (f64, f64) = (0.0, 1.0);
const COSINE: (f64, f64) = (-1.0, 1.0);

static CARD: Card = Card {
    name: "core",
    title: "Core",
    summary: "Sparsity of the codes, quality of reconstructions, and similarity of directions.",
    version: 2,
    measures: "The numbers that every paper on sparse autoencoders reports. Few active latents (`l0`) and a good reconstruction \
        (`explained_variance` near 1) are in conflict, so read them together. Lengths show whether reconstructions shrink \
        (`l2_ratio` and `relative_reconstruction_bias` below 1). Frequencies show whether latents are dead or always active, and \
        the largest cosine between two directions whether latents are redundant. No language model is needed: loss recovered \
        and KL divergence are not included.",
    definition: "x: a row of embeddings; z: its codes; x̂: the reconstruction from z; e = x − x̂; means are over rows.\n\
        l0 = mean #{z ≠ 0}. l1 = mean Σ|z_j| |d_j|, d_j the direction (length 1 if unknown). mse = mean |e|², summed over the width. cossim = mean x·x̂/(|x||x̂|). \
        l2_norm_in = mean |x|, l2_norm_out = mean |x̂|, l2_ratio = mean |x̂|/|x|. \
        relative_reconstruction_bias = mean |x̂|² / mean x·x̂.\n\
        explained_variance = 1 − mean|e|² / (mean|x|² − Σ_d μ_d²), μ the mean row. \
        explained_variance_legacy = mean of 1 − |e|²/|x − μ_b|², μ_b the mean row of its batch of `batch_rows` rows.\n\
        A latent fires where z ≠ 0. density = rows where it fires / rows. frac_alive: share of latents with density above 0. \
        freq_over_1_percent, freq_over_10_percent: share of latents with density above 0.01, 0.1; normalized_…: their share of \
        the sum of densities. average_max_…_cosine_sim: mean over latents of the largest signed cosine with another latent's \
        decoder or encoder row.\n\
        Table `latent`: feature_density and its log10, mean_when_active, max, encoder_bias, encoder_norm, \
        encoder_decoder_cosine_sim, the two largest cosines, and, if rows belong to samples (texts), \
        consistent_activation_heuristic = rows where it fires / samples with at least one such row. Table `density`: histogram \
        of log10 of density in steps of a quarter. Table `resample`: the numbers over rows on 1,000 resamples of blocks of rows, \
        which are the same for every dictionary; differences between dictionaries are paired by them.\n\
        Rows of length 0 have no cosine and no ratio; rows at the mean of their batch have no legacy share: they are left out \
        and counted in a note, as are directions of length 0. Undefined: everything without rows; numbers of x without \
        embeddings; numbers of x̂ or of the encoder without a dictionary; explained variance of rows that are all equal; shares \
        of densities that are all 0.\n\
        Profile `reference`: fires and density mean z > 0; l1 = mean Σ z_j |d_j|, with signs; mse = mean |e|²/n_b, n_b the rows of the \
        batch; relative_reconstruction_bias = mean over batches of the same quotient within the batch; \
        explained_variance = 1 − R/(S − M²), with S and R the means over batches of the batch's mean |x|² and |e|², and \
        M = S/width; a length below 0.0001 counts as 1 in l2_ratio; shares of densities that are all 0 are 0.",
    cost: "One pass: entries · width operations for decoding, in tiles of 1024 rows; 24 bytes per latent and at most 512 mean \
        rows for each of about threads + log2(units) sums. One more visit of the codes if rows belong to samples. Cosines: \
        latents² · width / 2 operations for decoder and encoder each (once if they are equal), in blocks of 1024 × 1024; no \
        latents × latents table is stored. 65,536 latents of width 768 take a copy of 201 MB.",
    source: "SAEBench (arXiv 2503.09532), evaluation `core`, code version 0.6.0, with its names of numbers. Differences that \
        profile `paper` corrects, all above: signed l1; mse that shrinks with the batch; a mean of quotients over batches; \
        explained variance in which the mean row is averaged to one number before squaring, so that it is measured from 0 and \
        not from the mean; latents of signed codes that count as dead where they are negative. The code computes reconstruction \
        and sparsity on different texts, and uses batches of 16 texts of 128 tokens without special tokens; here all numbers \
        are of the same rows, and a batch is `batch_rows` consecutive rows. It writes −1 for NaN and for 0/0; here these are \
        undefined.",
    interval: "Numbers over rows: percentile bootstrap over at most 512 blocks of consecutive rows, 1000 resamples (reference: \
        the bias over batches). Numbers over latents: the same over latents.",
    needs: &[&CODES],
    uses: &[&EMBEDDINGS, &DICTIONARY, &DIRECTIONS],
    headline: &[
        Output::new("explained_variance", "Share of the variance that is reconstructed.", ANY, Better::Higher),
        Output::new(
            "explained_variance_legacy",
            "Mean over rows of the share that is reconstructed.",
            ANY,
            Better::Higher,
        ),
        Output::new("l0", "Mean number of active latents per row.", POSITIVE, Better::Lower),
        Output::new(
            "l1",
            "Mean sum of absolute codes per row (reference: of codes), for directions of length 1.",
            ANY,
            Better::Neither,
        ),
        Output::new("mse", "Mean squared length of the error.", POSITIVE, Better::Lower),
        Output::new("cossim", "Mean cosine of row and reconstruction.", COSINE, Better::Higher),
        Output::new("l2_norm_in", "Mean length of a row.", POSITIVE, Better::Neither),
        Output::new("l2_norm_out", "Mean length of a reconstruction.", POSITIVE, Better::Neither),
        Output::new(
            "l2_ratio",
            "Mean ratio of the lengths of reconstruction and row; 1 is best.",
            POSITIVE,
            Better::Neither,
        ),
        Output::new(
            "relative_reconstruction_bias",
            "Factor that reconstructions should be divided by; 1 is best.",
            ANY,
            Better::Neither,
        ),
        Output::new("frac_alive", "Share of latents that fire at all.", SHARE, Better::Higher),
        Output::new("freq_over_1_percent", "Share of latents that fire in over 1 % of rows.", SHARE, Better::Neither),
        Output::new("freq_over_10_percent", "Share of latents that fire in over 10 % of rows.", SHARE, Better::Lower),
        Output::new("normalized_freq_over_1_percent", "Their share of all firing.", SHARE, Better::Neither),
        Output::new("normalized_freq_over_10_percent", "Their share of all firing.", SHARE, Better::Lower),
        Output::new("average_max_encoder_cosine_sim", "Mean largest cosine of encoder rows.", COSINE, Better::Lower),
        Output::new("average_max_decoder_cosine_sim", "Mean largest cosine of directions.", COSINE, Better::Lower),
    ],
    params: &[BATCH],
};

impl Metric for Reconstruction {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let scan = Scan::new(job, job.whole(BATCH.name)?)?;
        let sums = work.pass("rows", Over::ROWS, || scan.empty(), |sums, rows| scan.add(sums, rows))?;
        let decoded = scan.decodes();
        drop(scan);
        let samples = samples_by_latent(job, work)?;
        let weights = job.find(&DICTIONARY).map(|dictionary| latent_weights(&**dictionary, work)).transpose()?;
        let decoder = decoder_cosines(job, work)?;
        let encoder = encoder_cosines(job, work, weights.as_deref(), decoder.as_ref())?;
        let mut scores = Scores::default();
        let width = job.find(&EMBEDDINGS).map(|store| store.width());
        RowNumbers { sums: &sums, width, decoded, profile: job.profile }.put(job, work, &mut scores)?;
        let latents = Latents {
            rows: job.get(&CODES)?.rows(),
            sums: &sums,
            samples: samples.as_ref().map(|samples| &samples[..]),
            weights: weights.as_deref(),
            decoder,
            encoder,
        };
        latents.put(job, work, &mut scores)?;
        Ok(scores)
    }
}

/// The largest cosines of the dictionary's directions, or of the given directions.
fn decoder_cosines(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<LargestCosines>> {
    let name = "cosines of directions";
    if let Some(dictionary) = job.find(&DICTIONARY) {
        let size = (dictionary.card().latents, dictionary.card().width);
        let copy = |latent: usize, into: &mut [f32]| {
            into.copy_from_slice(dictionary.direction(Latent(latent as u32)));
            Ok(())
        };
        return largest_cosines(job, work, name, size, copy).map(Some);
    }
    let Some(store) = job.find(&DIRECTIONS) else { return Ok(None) };
    let copy = |latent: usize, into: &mut [f32]| {
        into.copy_from_slice(store.tile(latent..latent + 1)?.row(0));
        Ok(())
    };
    largest_cosines(job, work, name, (store.rows(), store.width()), copy).map(Some)
}

fn encoder_cosines(
    job: &Job<'_>,
    work: &mut Work<'_>,
    weights: Option<&[LatentWeights]>,
    decoder: Option<&LargestCosines>,
) -> Result<Option<LargestCosines>> {
    let (Some(dictionary), Some(weights)) = (job.find(&DICTIONARY), weights) else { return Ok(None) };
    // Tied weights have the same cosines.
    if weights.iter().all(|latent| latent.tied) {
        return Ok(decoder.cloned());
    }
    let size = (dictionary.card().latents, dictionary.card().width);
    let copy = |latent: usize, into: &mut [f32]| {
        dictionary.encoder_row(Latent(latent as u32), into);
        Ok(())
    };
    largest_cosines(job, work, "cosines of encoder rows", size, copy).map(Some)
}
