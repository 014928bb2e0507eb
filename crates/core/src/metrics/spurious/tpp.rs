//! Targeted probe perturbation: the metric and its card.

use std::cmp::Reverse;

use super::perturbation::{AblationResult, Perturbation};
use super::{ABLATED, Protocol, tpp_report};
use crate::error::Result;
use crate::metrics::probing::tasks::{Tasks, absent};
use crate::metrics::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE};
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::Scores;
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

static CARD: Card = Card {
    name: "tpp",
    title: "Targeted probe perturbation",
    summary: "Whether ablating the latents of a class harms the probe of that class and no other.",
    version: 5,
    measures: "Every class of a data set has a linear probe on the embeddings. The latents with the largest effect on one probe \
        are ablated. If the dictionary separates the classes, that probe loses accuracy (intended) and the others do not \
        (unintended). The score is the difference of the two losses: at most about 1/2, because probes fall to chance. Scores \
        vary between draws: differences below `tpp_detectable` are not meaningful.",
    definition: "Tasks, groups and draws as in `sparse_probing`: every concept against the others of its group \
        (`dataset/class`), as many negatives as positives, training and test rows. Task i has a probe w_i on the embeddings with \
        accuracy A_i on its test rows.\n\
        effect_i(j) = max(mean of latent j over positives − mean over negatives, 0) · (w_i·d_j) on the training rows. The n \
        latents with the largest positive effects are ablated, ties to the lower latent. Without them a row scores \
        w·x + b − Σ f_j (w·d_j). A_ik is then the accuracy of probe k on its own test rows.\n\
        intended_i = A_i − A_ii; unintended_i = mean over k ≠ i of (A_k − A_ik); total = intended − unintended. Means over the \
        tasks of a group, then over groups, then over repeats.\n\
        Undefined: a task without rows of both classes, and a group with fewer than two such tasks. A group of more than \
        `most_tasks` keeps those with most positives. Directions must be the decoder rows that belong to the codes; embeddings \
        and codes must be pooled by mean.",
    cost: "A probe per task and repeat, then for every pair of tasks one visit of the entries of the test rows for all n together. \
        No row is decoded.",
    source: "Karvonen et al., SAEBench (arXiv 2503.09532) and its code, evaluation `tpp`. The text defines the score with the \
        opposite sign; losses are positive here, as in the code. Profile `paper`: probes are logistic regressions fitted to \
        convergence, nothing is selected on test rows, only latents with a positive effect are ablated. Profile `reference` \
        keeps: one linear layer, AdamW (rate 0.001, decay 0.01, L1 penalty 0.001, batches of 16, 20 epochs), with the epoch that \
        is best on the test rows, whose negatives are then drawn again to measure accuracies; n is limited by the number of nonzero effects, so latents with a negative or zero effect can be \
        among them. Not reproduced: latents of padding positions that leak into pooled rows, and bf16. Chanin (arXiv 2605.18229) \
        finds that this score falls with training.",
    interval: "`tpp_20_intended`: Student's t over repeats, with the standard error enlarged by test rows / training rows because \
        splits overlap (Nadeau and Bengio 2003); in simulations with 600 and 2,000 rows it contains the expected value in 96 to \
        99 % of data sets. None with one repeat, which does not show the variation of rows. None for totals and \
        `tpp_20_unintended`: the same method contains the expected value in 58 to 84 % of data sets, because latents are selected \
        on rows that splits share, and their variation between data sets hardly falls with more rows. Differences between \
        dictionaries are paired by concept.",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output::new("tpp_20", "Total after ablating 20 latents.", (-2.0, 2.0), Better::Higher),
        Output::new("tpp_20_intended", "Loss of the class's own probe, 20 latents.", (-1.0, 1.0), Better::Higher),
        Output::new("tpp_20_unintended", "Mean loss of the other probes, 20 latents.", (-1.0, 1.0), Better::Lower),
        Output::new("tpp_10", "Total after ablating 10 latents.", (-2.0, 2.0), Better::Higher),
        Output::new(
            "tpp_noise",
            "Standard deviation of `tpp_20` between draws from the same rows.",
            (0.0, 2.0),
            Better::Neither,
        ),
        Output::new(
            "tpp_detectable",
            "Smallest difference in `tpp_20` that exceeds the variation of draws.",
            POSITIVE,
            Better::Neither,
        ),
    ],
    params: &[
        ABLATED,
        REPEATS,
        TEST_SHARE,
        MOST_POSITIVES,
        C,
        Param::new(
            "most_tasks",
            "Maximum concepts per group, those with most positives.",
            Kind::Whole(2, 100_000),
            "20",
        ),
    ],
};

/// The metric.
pub struct Tpp;

impl Metric for Tpp {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        let absent = absent(job, work)?;
        let tasks = Tasks::new(job.get(&LABELS)?, &absent);
        let preconditioner = protocol.preconditioner(job, work)?;
        let perturbation =
            Perturbation { job, protocol: &protocol, tasks: &tasks, preconditioner: preconditioner.first() };
        let mut results: Vec<Option<AblationResult>> = Vec::new();
        results.resize_with(protocol.repeats * tasks.count(), || None);
        let most = job.whole("most_tasks")?;
        let mut evaluated = 0;
        // Group by group, so that only the probes of one group are in memory.
        for group in tasks.groups() {
            let members = fullest(&tasks, &group.tasks, most);
            evaluated += members.len();
            let probed = work.blocks("probes", protocol.repeats * members.len(), |block| {
                perturbation.probe(members[block % members.len()], block / members.len())
            })?;
            let by_repeat = work.blocks("repeats", protocol.repeats, |repeat| {
                perturbation.perturb(&probed[repeat * members.len()..][..members.len()])
            })?;
            for (repeat, of_repeat) in by_repeat.into_parts().0.into_iter().enumerate() {
                for (&task, result) in members.iter().zip(of_repeat) {
                    results[repeat * tasks.count() + task] = result;
                }
            }
        }
        Ok(tpp_report::report(&perturbation, evaluated, &results))
    }
}

/// The tasks of a group with most positives, ascending.
fn fullest(tasks: &Tasks<'_>, members: &[usize], most: usize) -> Vec<usize> {
    let mut kept = members.to_vec();
    kept.sort_by_key(|&task| (Reverse(tasks.positive_count(task)), task));
    kept.truncate(most);
    kept.sort_unstable();
    kept
}
