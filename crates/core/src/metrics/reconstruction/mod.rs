//! `core`: how sparse the codes are, how well they reconstruct, and what the directions look like.

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

/// Sparsity, reconstruction and geometry of a dictionary.
pub struct Reconstruction;

const BATCH: Param = Param {
    name: "batch_rows",
    doc: "Consecutive rows that form a batch, for the numbers that depend on batches",
    kind: Kind::Whole(16, 65_536),
    several: false,
    default: "2048",
    reference: None,
};

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);
const SHARE: (f64, f64) = (0.0, 1.0);
const COSINE: (f64, f64) = (-1.0, 1.0);

const fn output(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

static CARD: Card = Card {
    name: "core",
    title: "Core",
    summary: "How sparse the codes are, how well they reconstruct, and how alike the directions are.",
    version: 1,
    measures: "The numbers that every paper on sparse autoencoders reports beside its own measure. Few active latents \
        (`l0`) and a good reconstruction (`explained_variance` near 1) pull against each other, so read them together. \
        Lengths tell whether reconstructions shrink (`l2_ratio` and `relative_reconstruction_bias` below 1). Frequencies \
        tell whether latents are dead or always on, and the largest cosine between two directions whether latents repeat \
        each other. It needs no language model: loss recovered and divergence are not part of it.",
    definition: "x: a row of embeddings; z: its codes; x̂: what the dictionary decodes from z; e = x − x̂; means are over \
        rows. l0 = mean #{z ≠ 0}. l1 = mean Σ|z|. mse = mean |e|², summed over the width. cossim = mean x·x̂/(|x||x̂|). \
        l2_norm_in = mean |x|, l2_norm_out = mean |x̂|, l2_ratio = mean |x̂|/|x|. \
        relative_reconstruction_bias = mean |x̂|² / mean x·x̂.\n\
        explained_variance = 1 − mean|e|² / (mean|x|² − Σ_d μ_d²), μ the mean row. \
        explained_variance_legacy = mean of 1 − |e|²/|x − μ_b|², μ_b the mean row of its batch of `batch_rows` rows.\n\
        A latent fires where z ≠ 0. density = rows where it fires / rows. frac_alive: latents with density above 0. \
        freq_over_1_percent, freq_over_10_percent: latents with density above 0.01, 0.1; normalized_…: their share of the \
        sum of densities. average_max_…_cosine_sim: mean over latents of the largest signed cosine with another latent's \
        decoder or encoder row.\n\
        Table `latent`, one line each: feature_density and its log10, mean_when_active, max, encoder_bias, encoder_norm, \
        encoder_decoder_cosine_sim, the two largest cosines, and, where rows know their sample (a text), \
        consistent_activation_heuristic = rows where it fires / samples with at least one such row. Table `density` counts \
        latents by log10 of density, in steps of a quarter.\n\
        Rows without length have no cosine and no ratio; rows at the mean of their batch have no legacy share: they are \
        left out and counted in a note, and so are directions without length. Undefined: everything without rows; what \
        speaks of x without embeddings; what speaks of x̂ or of the encoder without a dictionary; explained variance of \
        rows that are all the same; shares of densities that are all 0.\n\
        Profile `reference`: fires and density mean z > 0; l1 = mean Σz, negative values counted as such; \
        mse = mean |e|²/n_b, n_b the rows of the batch; relative_reconstruction_bias = mean over batches of the same \
        quotient within the batch; explained_variance = 1 − R/(S − M²), with S and R means over batches of the batch's mean \
        |x|² and |e|², and M = S/width; a length below 0.0001 counts as 1 in l2_ratio; shares of densities that are all 0 \
        are 0.",
    cost: "One pass: entries · width for decoding, in tiles of 1024 rows; 24 bytes per latent and at most 512 mean rows \
        for each of about threads + log2(units) sums. One more look at the codes where rows know their sample. Cosines: \
        latents² · width / 2 operations for decoder and encoder each (once if they are the same), in blocks of 1024 × 1024; \
        no table of latents × latents exists. 65,536 latents of width 768 take a copy of 201 MB.",
    source: "SAEBench (arXiv 2503.09532), evaluation `core`, program at version 0.6.0. Names of numbers are its own. \
        Differences that profile `paper` corrects, all above: signed l1; mse that shrinks with the batch; a mean of \
        quotients over batches; explained variance in which the squares of the mean row were collapsed to one number \
        before squaring, so that it is measured from 0 and not from the mean; latents of signed codes that count as dead \
        where they are negative. The program reads reconstruction and sparsity from different texts, and takes batches of \
        16 texts of 128 tokens without special tokens; here all numbers are of the same rows, and a batch is `batch_rows` \
        consecutive rows. It writes −1 for NaN and for 0/0; here that is undefined.",
    interval: "Numbers over rows: percentile bootstrap over blocks of consecutive rows, at most 512 of them, 1000 \
        resamples (reference: the bias over batches). Numbers over latents: the same over latents.",
    needs: &[&CODES],
    uses: &[&EMBEDDINGS, &DICTIONARY, &DIRECTIONS],
    headline: &[
        output("explained_variance", "share of the variance that is reconstructed", ANY, Better::Higher),
        output("explained_variance_legacy", "mean over rows of the share reconstructed", ANY, Better::Higher),
        output("l0", "mean number of active latents of a row", POSITIVE, Better::Lower),
        output("l1", "mean sum of absolute codes of a row (reference: of codes)", ANY, Better::Neither),
        output("mse", "mean squared length of the error", POSITIVE, Better::Lower),
        output("cossim", "mean cosine of row and reconstruction", COSINE, Better::Higher),
        output("l2_norm_in", "mean length of a row", POSITIVE, Better::Neither),
        output("l2_norm_out", "mean length of a reconstruction", POSITIVE, Better::Neither),
        output("l2_ratio", "mean of length out over length in; 1 is best", POSITIVE, Better::Neither),
        output(
            "relative_reconstruction_bias",
            "what reconstructions should be divided by; 1 is best",
            ANY,
            Better::Neither,
        ),
        output("frac_alive", "share of latents that fire at all", SHARE, Better::Higher),
        output("freq_over_1_percent", "share of latents that fire in over 1 % of rows", SHARE, Better::Neither),
        output("freq_over_10_percent", "share of latents that fire in over 10 % of rows", SHARE, Better::Lower),
        output("normalized_freq_over_1_percent", "their share of all firing", SHARE, Better::Neither),
        output("normalized_freq_over_10_percent", "their share of all firing", SHARE, Better::Lower),
        output("average_max_encoder_cosine_sim", "mean largest cosine of encoder rows", COSINE, Better::Lower),
        output("average_max_decoder_cosine_sim", "mean largest cosine of directions", COSINE, Better::Lower),
    ],
    params: &[BATCH],
};

impl Metric for Reconstruction {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let scan = Scan::new(job, job.whole(BATCH.name)?)?;
        let sums = work.pass("sums of rows", Over::ROWS, || scan.empty(), |sums, rows| scan.add(sums, rows))?;
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

/// The largest cosines of the dictionary's directions, or of those that are given.
fn decoder_cosines(job: &Job<'_>, work: &mut Work<'_>) -> Result<Option<LargestCosines>> {
    let name = "blocks of directions";
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
    // Tied weights: nothing new would come out.
    if weights.iter().all(|latent| latent.tied) {
        return Ok(decoder.cloned());
    }
    let size = (dictionary.card().latents, dictionary.card().width);
    let copy = |latent: usize, into: &mut [f32]| {
        dictionary.encoder_row(Latent(latent as u32), into);
        Ok(())
    };
    largest_cosines(job, work, "blocks of encoder rows", size, copy).map(Some)
}
