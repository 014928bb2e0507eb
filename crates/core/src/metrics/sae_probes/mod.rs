//! SAE probes: probes on a few latents with a searched penalty, scored by AUC.

mod report;
mod search;
mod task;

#[cfg(test)]
mod tests;

use super::probing::{FULL_REPEATS, INTERVAL, MOST_POSITIVES, REPEATS, ascending, with_tasks};
use super::sparse_probing::SIZES;
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::probe::newton::Penalty;
use crate::results::Scores;
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct SaeProbes;

const fn output(key: &'static str, doc: &'static str) -> Output {
    Output::new(key, doc, (0.0, 1.0), Better::Higher)
}

static CARD: Card = Card {
    name: "sae_probes",
    title: "SAE probes",
    summary: "AUC of probes with a searched penalty on the best few latents, compared with probes on all channels.",
    version: 5,
    measures: "The same question as `sparse_probing` with a more careful protocol: latents are compared on their own scale \
        before they are selected, the penalty of every probe is searched on held-out rows, and AUC does not depend on a \
        threshold. The baseline is a probe on all channels with the same search. Among the probing benchmarks it was \
        found to be the most reliable.",
    definition: "Tasks and groups as in `sparse_probing` (`dataset/class`); rows as given (the published protocol uses the last \
        token of a text). If directions are known, every latent is multiplied by the length of its direction; this matters \
        for the penalties only.\n\
        Draws. Per task and repeat as many negatives as positives, at most `most_positives` of each. Of these N rows the first \
        min(N − 100, `most_trained`) are training rows and the others test rows; in `paper`, four fifths are training rows if \
        N < 200.\n\
        Latents. score(j) = |mean over positives − mean over negatives| / mean |nonzero entry of j|, on the training \
        rows. The `sizes` best are used, ties to the lower latent.\n\
        Probes. Logistic regression with an L1 (`penalty` = absolute) or L2 (squares) penalty and a free intercept. The inverse \
        strength is one of ten from 1e5 to 1e-5, evenly spaced on a logarithmic scale, with the highest AUC on held-out rows: \
        the last fifth, at most 100, of 128 training rows or more; six folds with fewer; every pair of a positive and a \
        negative with at most 12. Then the probe is fitted on all training rows. Ties: the strongest penalty in `paper`, the \
        weakest in `reference`. Probes on all channels use the same search with an L2 penalty, in the first `full_repeats` \
        repeats.\n\
        On the test rows: AUC with ties counted half, accuracy (positive above 0), and the mean F1 of both classes weighted by \
        their rows. Averages: over the tasks of a group, then over groups, then over repeats. Undefined: a task without training \
        and test rows of both classes.",
    cost: "Per task and repeat ten fits for every size and fold, each a few Newton steps: tens of milliseconds up to 100 \
        latents. The search on all channels costs most.",
    source: "Kantamneni et al., Are Sparse Autoencoders Useful? A Case Study in Sparse Probing (arXiv 2502.16681), and the \
        package sae-probes as SAEBench calls it (`sparse_probing_sae_probes`). Differences: the package draws with NumPy's \
        generator and seed 42; its solver stops after 1000 iterations, ours converges (at most a hundred Newton steps); splits are \
        redrawn here, which gives an interval. Profile `reference` trains on N − 100 rows however few, so tasks of 100 rows or \
        fewer are undefined. Not bundled: its 113 data sets.",
    interval: INTERVAL,
    needs: &[&CODES, &LABELS],
    uses: &[&EMBEDDINGS, &DIRECTIONS],
    headline: &[
        output("probes_20_auc", "AUC of probes on the best twenty latents."),
        output("probes_1_auc", "AUC of probes on the best latent."),
        output("probes_5_auc", "AUC of probes on the best five latents."),
        output("probes_100_auc", "AUC of probes on the best hundred latents."),
        output("probes_20_f1", "Mean F1 of both classes, weighted by rows, of probes on the best twenty latents."),
        output("probes_20_accuracy", "Accuracy of probes on the best twenty latents."),
        output("probes_channels_auc", "AUC of probes on all channels of the embeddings."),
    ],
    params: &[
        SIZES,
        REPEATS,
        MOST_POSITIVES,
        Param::new("most_trained", "Maximum number of training rows.", Kind::Whole(4, u64::MAX), "1024"),
        Param::new("penalty", "Penalty of small probes: L1 or L2.", Kind::Word(&["absolute", "squares"]), "absolute"),
        FULL_REPEATS,
    ],
};

impl Metric for SaeProbes {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        let needed = job.has(&EMBEDDINGS) && protocol.full_repeats > 0;
        with_tasks(job, work, &protocol, needed, |probing, work| {
            let results = work.blocks("tasks", probing.tasks.count() * protocol.repeats, |block| probing.run(block))?;
            Ok(report::report(probing, &results))
        })
    }
}

/// The parameters.
struct Protocol {
    sizes: Vec<usize>,
    repeats: usize,
    /// Number of repeats with probes on all channels.
    full_repeats: usize,
    most_positives: usize,
    most_trained: usize,
    /// The penalty of small probes.
    penalty: Penalty,
}

impl Protocol {
    fn of(job: &Job<'_>) -> Result<Protocol> {
        let repeats = job.whole("repeats")?;
        Ok(Protocol {
            sizes: ascending(job, "sizes")?,
            repeats,
            full_repeats: job.whole("full_repeats")?.min(repeats),
            most_positives: job.whole("most_positives")?,
            most_trained: job.whole("most_trained")?,
            penalty: if job.word("penalty")? == "absolute" { Penalty::Absolute } else { Penalty::Squares },
        })
    }
}
