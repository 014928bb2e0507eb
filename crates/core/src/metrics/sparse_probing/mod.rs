//! Sparse probing: the accuracy of probes on the few latents whose class means differ most.

mod report;
mod task;

#[cfg(test)]
mod tests;

use super::probing::draw::Shares;
use super::probing::{
    C, FULL_REPEATS, INTERVAL, MOST_POSITIVES, REPEATS, TEST_SHARE, VALIDATION_SHARE, ascending, with_tasks,
};
use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::Result;
use crate::results::{Profile, Scores};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct SparseProbing;

/// Sizes of small probes.
pub(super) const SIZES: Param =
    Param::new("sizes", "Numbers of columns of small probes.", Kind::Whole(1, 100_000), "1,2,5,10,20,50,100").several();

const fn accuracy(key: &'static str, doc: &'static str) -> Output {
    Output::new(key, doc, (0.0, 1.0), Better::Higher)
}

static CARD: Card = Card {
    name: "sparse_probing",
    title: "Sparse probing",
    summary: "Accuracy of probes on the few latents that best separate a class, compared with probes on raw channels.",
    version: 4,
    measures: "If a dictionary has a latent for a class, a probe on that latent alone is nearly as accurate as a probe on all \
        latents. Latents are selected by the difference of their class means, without a probe; a logistic regression on them \
        is then tested on held-out rows. Classes are balanced, so chance is 1/2. The same on raw channels shows what the \
        dictionary adds; probes on all latents and all channels are the ceilings.",
    definition: "Tasks. Every concept is a binary task: rows with the concept against rows known not to have it. The name up to \
        the last `/` is its group (`bios/nurse` and `news/sport` are in two groups); concepts without `/` form one group. Rows \
        are samples: pool tokens first with `pool` = mean. A sample with a zero embedding and no active latent had no rows to \
        pool and is left out. If directions are known, every latent is multiplied by the length of its direction, so that \
        dictionaries that are the same function have the same scores.\n\
        Draws. Per task and repeat the positive rows (at most `most_positives`) and the rows of every other class of the group \
        are split at random into training, validation and test parts. Each part has as many negatives as positives, drawn \
        evenly from the other classes of the group (a row of several classes belongs to the lowest; rows of no class are one \
        more class). Large classes fill the gaps of small ones; if negatives are fewer than positives, positives are dropped.\n\
        Small probes. score(j) = |mean of latent j over positives − mean over negatives| on the training part. The `sizes` best \
        latents are used, ties to the lower latent, all latents if there are fewer. Logistic regression minimises \
        c · Σ loss + ½ ‖w‖² on unstandardised values; a row is predicted positive if its score is above 0. The result is the \
        accuracy on the test part.\n\
        Probes on all latents and all channels, in the first `full_repeats` repeats. `paper`: logistic regression to \
        convergence for every `full_c`; the highest validation accuracy wins, ties to the smallest. `reference`: AdamW, see \
        Source.\n\
        Averages: over the tasks of a group, then over groups, then over repeats. Undefined: a task without training and test \
        rows of both classes.",
    cost: "Per task and repeat one visit of the entries of its rows and a few Newton steps of sizes² · rows products: \
        milliseconds. Probes on all latents cost more than everything else; `full_repeats` = 0 skips them. Memory: a copy of \
        the rows of a task per thread.",
    source: "Karvonen et al., SAEBench (arXiv 2503.09532) and its code, evaluation `sparse_probing`, after Gurnee et al. (arXiv \
        2305.01610). Profile `paper` corrects: probes on all columns are selected on validation rows, not on test rows; all \
        probes of a task see the same negatives, so sizes are comparable; splits are redrawn, which gives an interval. Both profiles fold \
        lengths of directions into the codes, as the code does when it loads a dictionary. Profile \
        `reference` keeps: two parts of 4 : 1; new negatives for every probe; probes on all columns are one linear layer trained \
        with AdamW (rate 0.01, decay 0.01, batches of 250, at most 100 epochs, patience 10), with the epoch that is best on the \
        test rows. Not reproduced: its random numbers, bf16, and its data sets (there, sentiment counts from both sides).",
    interval: INTERVAL,
    needs: &[&CODES, &LABELS],
    uses: &[&EMBEDDINGS, &DIRECTIONS],
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
        FULL_REPEATS,
        Param::new("full_c", "Values of `c` for probes on all columns.", Kind::Number(1e-9, 1e9), "0.01,0.1,1")
            .several(),
    ],
};

impl Metric for SparseProbing {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        // Only converged probes use a preconditioner.
        let needed = job.has(&EMBEDDINGS) && protocol.full_repeats > 0 && job.profile == Profile::Paper;
        with_tasks(job, work, &protocol, needed, |probing, work| {
            let results = work.blocks("tasks", probing.tasks.count() * protocol.repeats, |block| probing.run(block))?;
            report::report(probing, &results)
        })
    }
}

/// The parameters.
struct Protocol {
    sizes: Vec<usize>,
    /// Inverse strength of the penalty of small probes.
    c: f64,
    /// Inverse strengths that probes on all columns select from, ascending.
    full_cs: Vec<f64>,
    repeats: usize,
    /// Number of repeats with probes on all columns.
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
