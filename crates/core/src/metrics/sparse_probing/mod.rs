//! Sparse probing: how well do a few latents, picked by their class means, tell classes apart?

mod report;
mod task;

#[cfg(test)]
mod tests;

use super::probing::draw::Shares;
use super::probing::tasks::{Tasks, absent};
use super::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE, VALIDATION_SHARE, ascending, dense};
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::results::{Profile, Scores};
use crate::run::{CODES, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct SparseProbing;

/// How many latents a probe sees.
pub(super) const SIZES: Param = Param {
    name: "sizes",
    doc: "How many latents (or channels) a small probe sees.",
    kind: Kind::Whole(1, 100_000),
    several: true,
    default: "1,2,5,10,20,50,100",
    reference: None,
};

const fn accuracy(key: &'static str, doc: &'static str) -> Output {
    Output { key, doc, range: (0.0, 1.0), better: Better::Higher }
}

static CARD: Card = Card {
    name: "sparse_probing",
    title: "Sparse probing",
    summary: "How well probes on the best few latents tell each class from the others, beside probes on raw channels.",
    version: 1,
    measures: "If a dictionary has a latent for a class, a probe that sees only that latent is nearly as good as one that sees \
        everything. Latents are picked by how much their means differ between the class and the rest, which needs no \
        probe; then a logistic regression on them is tested on new rows. 1/2 is chance, because as many rows of either \
        kind are drawn. The same on raw channels shows what the dictionary adds, and probes on all latents and all \
        channels show the ceilings.",
    definition: "Every concept is a task: its rows against rows where it is known to be absent. What stands before the last `/` of its name is \
        its group (`bios/nurse`, `news/sport`: two data sets); concepts without `/` form one group. Rows are samples: pool tokens \
        first with `pool` = mean. \
        Per task and repeat: rows with the concept, at most `most_positives`, and rows of every other class of the group are \
        cut at random into training, validation and test parts; in each part as many negatives as positives are drawn, evenly \
        from the other classes of the group that a row has (the lowest, if several; rows of no class are a class of their own), \
        small classes filled up from the others; where negatives are fewer than positives, positives are cut. \
        score(j) = |mean of latent j over positives − over negatives| on the training part; the `sizes` best are taken, equals \
        to the lower latent, all of them where there are fewer. Probe: logistic regression, c · Σ loss + ½ ‖w‖², nothing \
        standardised; a row is positive where its score is above 0. Accuracy on the test part. \
        Probes on everything, in the first `full_repeats` repeats: `paper` fits logistic regressions for every `full_c` \
        to convergence and keeps the one that is best on the validation part, the smallest among equals; `reference` \
        trains AdamW, see Source. \
        Averages: tasks within a group, then groups, then repeats. Undefined: a task without training and test rows of both kinds. A sample whose embedding is zero and that no latent \
        fires on had no rows to pool, and is left out.",
    cost: "Per task and repeat one look at the entries of its rows, then Newton steps with sizes² · rows products: milliseconds. \
        The probes on all latents cost more than everything else together; `full_repeats` = 0 leaves them out. Memory: a copy of the \
        rows of a task per thread.",
    source: "Karvonen and others, SAEBench (arXiv 2503.09532) and its program, evaluation `sparse_probing`, after Gurnee and others \
        (arXiv 2305.01610). Profile `paper` corrects: the probes on everything are chosen on validation rows, not on the test rows; all \
        probes of a task see the same negatives, so that sizes can be compared; splits are redrawn and give an interval. Profile \
        `reference` keeps: two parts of 4 : 1; fresh negatives for every probe; the probes on everything are one linear layer, \
        AdamW (rate 0.01, decay 0.01, batches of 250, at most 100 epochs, patience 10), the epoch that is best on the test rows. \
        Not reproduced: its generator of random numbers, bf16, and its data sets (sentiment is there counted from both sides).",
    interval: "over repeats by Student's distribution, the error widened by test rows / training rows because splits overlap (Nadeau and Bengio 2003); with \
        one repeat 95 % percentile bootstrap over tasks",
    needs: &[&CODES, &LABELS],
    uses: &[&EMBEDDINGS],
    headline: &[
        accuracy("top_1_accuracy", "Accuracy of probes on the best latent."),
        accuracy("top_2_accuracy", "Accuracy of probes on the best two latents."),
        accuracy("top_5_accuracy", "Accuracy of probes on the best five latents."),
        accuracy("all_latents_accuracy", "Accuracy of probes on all latents."),
        accuracy("top_1_channels_accuracy", "Accuracy of probes on the best channel of the embeddings."),
        accuracy("top_2_channels_accuracy", "Accuracy of probes on the best two channels."),
        accuracy("top_5_channels_accuracy", "Accuracy of probes on the best five channels."),
        accuracy("all_channels_accuracy", "Accuracy of probes on all channels."),
    ],
    params: &[
        SIZES,
        REPEATS,
        TEST_SHARE,
        VALIDATION_SHARE,
        MOST_POSITIVES,
        C,
        Param {
            name: "full_repeats",
            doc: "In how many of the repeats probes on all latents and all channels are made.",
            kind: Kind::Whole(0, 10_000),
            several: false,
            default: "1",
            reference: None,
        },
        Param {
            name: "full_c",
            doc: "The inverse strengths of the penalty that probes on everything may choose from (profile `paper`).",
            kind: Kind::Number(1e-9, 1e9),
            several: true,
            default: "0.01,0.1,1",
            reference: None,
        },
    ],
};

impl Metric for SparseProbing {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        let absent = absent(job, work)?;
        let tasks = Tasks::new(job.get(&LABELS)?, &absent);
        // Only the probes that converge use it.
        let wanted = job.has(&EMBEDDINGS) && protocol.full_repeats > 0 && job.profile == Profile::Paper;
        let spectrum = dense::spectrum(job, work, wanted)?;
        let probing = task::Probing { job, protocol: &protocol, tasks: &tasks, spectrum: spectrum.first() };
        let found = work.blocks("tasks", tasks.count() * protocol.repeats, |block| probing.run(block))?;
        report::report(&probing, &found)
    }
}

/// What is done with every task.
struct Protocol {
    sizes: Vec<usize>,
    /// The inverse strength of the penalty of small probes.
    c: f64,
    /// The inverse strengths that probes on everything may choose from, ascending.
    full_cs: Vec<f64>,
    repeats: usize,
    /// In how many repeats there are probes on everything.
    full_repeats: usize,
    shares: Shares,
}

impl Protocol {
    fn of(job: &Job<'_>) -> Result<Protocol> {
        let mut full_cs: Vec<f64> = job.several("full_c")?.iter().filter_map(serde_json::Value::as_f64).collect();
        full_cs.sort_by(f64::total_cmp);
        let repeats = job.whole("repeats")?;
        Ok(Protocol {
            sizes: ascending(job, "sizes")?,
            c: job.number("c")?,
            full_cs,
            repeats,
            full_repeats: job.whole("full_repeats")?.min(repeats),
            shares: Shares::of(job)?,
        })
    }
}
