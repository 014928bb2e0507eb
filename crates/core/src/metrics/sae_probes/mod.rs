//! SAE probes: the stronger protocol of probing a few latents, with a searched penalty and AUC.

mod report;
mod search;
mod task;

#[cfg(test)]
mod tests;

use super::probing::tasks::{Tasks, absent};
use super::probing::{MOST_POSITIVES, REPEATS, ascending, dense};
use super::sparse_probing::SIZES;
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::probe::newton::Penalty;
use crate::results::Scores;
use crate::run::{CODES, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct SaeProbes;

const fn area(key: &'static str, doc: &'static str) -> Output {
    Output { key, doc, range: (0.0, 1.0), better: Better::Higher }
}

static CARD: Card = Card {
    name: "sae_probes",
    title: "SAE probes",
    summary: "How well searched probes on the best few latents rank rows of each class above others, beside the best probe on channels.",
    version: 1,
    measures: "The same question as `sparse_probing`, asked more carefully: latents are compared on their own scale before they are \
        picked, the strength of the penalty is searched for every probe on rows that were held back, and the area under the ROC curve does \
        not depend on a threshold. The baseline is a probe on all channels with the same search. Of the probing benchmarks this one was found \
        the most reliable.",
    definition: "Tasks and groups as in `sparse_probing` (`dataset/class`), rows as they are given (the published protocol takes the last token of a \
        text). Per task and repeat: as many negatives as positives, at most `most_positives` of each; of the N rows the first min(N − 100, \
        `most_trained`) are trained on, the rest is tested on; in `paper` four fifths are trained on where N < 200. \
        Latents: score(j) = |mean over positives − mean over negatives| / mean of the entries of j that are not zero, on the training \
        rows; the `sizes` best, equals to the lower latent. Probes: logistic regression with `penalty` on the absolute or squared weights, intercept free; the inverse \
        strength is one of ten from 1e5 to 1e-5, evenly on the logarithm, by the AUC on rows that are held back: the last fifth, at most 100, of 128 training rows or more; six \
        folds below that; every pair of a positive and a negative up to 12 rows. Then fitted on all training rows. Ties: the strongest \
        penalty in `paper`, the weakest in `reference`. Channels: the same search with squared weights on all of them, in the first \
        `full_repeats` repeats. On the test rows: AUC with ties counted half, accuracy (positive above 0), F1 of either class weighed by its rows. Averages: \
        tasks within a group, then groups, then repeats. Undefined: a task without training and test rows of both kinds.",
    cost: "Per task and repeat ten fits for every size and fold, each a handful of Newton steps: tens of milliseconds up to 100 latents. The search \
        on all channels costs most.",
    source: "Kantamneni and others, Are Sparse Autoencoders Useful? A Case Study in Sparse Probing (arXiv 2502.16681), and the package sae-probes as \
        SAEBench calls it (`sparse_probing_sae_probes`). Differences: the package draws with NumPy's generator and seed 42, and its solver stops after \
        1000 rounds where ours converges (fifty Newton steps at most); splits are redrawn here and give an interval. Profile `reference` trains on N − 100 rows \
        however few, so that 100 rows or fewer are undefined. Not bundled: its 113 data sets.",
    interval: "over repeats by Student's distribution, the error widened by test rows / training rows because splits overlap (Nadeau and Bengio 2003); with \
        one repeat 95 % percentile bootstrap over tasks",
    needs: &[&CODES, &LABELS],
    uses: &[&EMBEDDINGS],
    headline: &[
        area("probes_1_auc", "AUC of probes on the best latent."),
        area("probes_5_auc", "AUC of probes on the best five latents."),
        area("probes_20_auc", "AUC of probes on the best twenty latents."),
        area("probes_100_auc", "AUC of probes on the best hundred latents."),
        area("probes_20_f1", "F1 of either class, weighed by rows, of probes on the best twenty latents."),
        area("probes_20_accuracy", "Accuracy of probes on the best twenty latents."),
        area("probes_channels_auc", "AUC of probes on all channels of the embeddings."),
    ],
    params: &[
        SIZES,
        REPEATS,
        MOST_POSITIVES,
        Param {
            name: "most_trained",
            doc: "At most so many rows are trained on.",
            kind: Kind::Whole(4, u64::MAX),
            several: false,
            default: "1024",
            reference: None,
        },
        Param {
            name: "penalty",
            doc: "What keeps the weights of small probes small.",
            kind: Kind::Word(&["absolute", "squares"]),
            several: false,
            default: "absolute",
            reference: None,
        },
        Param {
            name: "full_repeats",
            doc: "In how many of the repeats probes on all latents and all channels are made.",
            kind: Kind::Whole(0, 10_000),
            several: false,
            default: "1",
            reference: None,
        },
    ],
};

impl Metric for SaeProbes {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        let absent = absent(job, work)?;
        let tasks = Tasks::new(job.get(&LABELS)?, &absent);
        let spectrum = dense::spectrum(job, work, job.has(&EMBEDDINGS) && protocol.full_repeats > 0)?;
        let probing = task::Probing { job, protocol: &protocol, tasks: &tasks, spectrum: spectrum.first() };
        let found = work.blocks("tasks", tasks.count() * protocol.repeats, |block| probing.run(block))?;
        Ok(report::report(&probing, &found))
    }
}

/// What is done with every task.
struct Protocol {
    sizes: Vec<usize>,
    repeats: usize,
    /// In how many repeats there are probes on all channels.
    full_repeats: usize,
    most_positives: usize,
    most_trained: usize,
    /// What keeps the weights of small probes small.
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
