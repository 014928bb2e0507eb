//! Spurious correlation removal: the metric and its card.

use super::quadrants::{Questions, couples, quadrants};
use super::removal::Removal;
use super::{ABLATED, Protocol, scr_report};
use crate::error::Result;
use crate::metrics::probing::tasks::absent;
use crate::metrics::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE};
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::Scores;
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);
const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

static CARD: Card = Card {
    name: "scr",
    title: "Spurious correlation removal",
    summary: "How much of a probe's bias disappears when the latents of the biasing attribute are ablated.",
    version: 3,
    measures: "A probe trained on rows in which a task (nurse or not) and an attribute (female or not) always occur together \
        learns both. If the dictionary has separate latents for the attribute, ablating them leaves a probe for the task. 0: no \
        change; 1: as accurate as a probe trained on unbiased rows; below 0: worse than before. Scores vary between draws: \
        differences below `scr_detectable` are not meaningful.",
    definition: "For a couple (task t, attribute g), rows with both labels known belong to one of four quadrants. Per repeat each \
        quadrant is split into training and test rows, and q rows of every quadrant are used. Probes on the embeddings: t and g \
        on rows of all quadrants; s (biased) on rows with both against rows with neither, up to 2q of each.\n\
        effect(j) = |(mean of latent j over positives − mean over negatives) · (w·d_j)| on the training rows of the probe w = g \
        or t. A is the set of the n latents with the largest nonzero effects, ties to the lower latent. Without A a row scores \
        w·x + b − Σ_{j ∈ A} f_j (w·d_j).\n\
        dir1(n) = (acc'_s − acc_s) / (acc_t − acc_s) on the test rows of the task after ablating latents of g; dir2(n) is the \
        same with task and attribute exchanged. score(n) is the direction in which s is less accurate before the ablation, or \
        the mean of both if equal. `scr_10` and `scr_20` are means over couples. Scores are not clipped.\n\
        Undefined in `paper`: acc_t − acc_s < 0.001; a couple with an empty quadrant.\n\
        Couples: those in `couples`, or of all couples with at least `quadrant_rows` rows in every quadrant the `most_couples` \
        with the fullest smallest quadrant. Mutually exclusive classes have no row with both. Directions must be the decoder \
        rows that belong to the codes; embeddings and codes must be pooled by mean.",
    cost: "Three probes per couple and repeat, then one visit of the entries of the test rows for all n together. No row is \
        decoded.",
    source: "Karvonen et al., SAEBench (arXiv 2503.09532), after Marks et al., Sparse Feature Circuits (arXiv 2403.19647), and the \
        evaluation `scr` of its code. Profile `paper`: probes are logistic regressions fitted to convergence, nothing is selected \
        on test rows, splits are redrawn, which gives noise and interval. Profile `reference` keeps: one linear layer, AdamW \
        (rate 0.001, decay 0.01, L1 penalty 0.001, batches of 16, 20 epochs), with the epoch that is best on the test rows (for \
        easily separated rows this is the first, when the biased probe is still close to its random start); a score of 0 where \
        the oracle is not better than the biased probe; no score where both directions start equal. Not reproduced: latents of \
        padding positions that leak into pooled rows, bf16, and the first rows of a split instead of random ones. Chanin (arXiv \
        2605.18229) finds that this score falls with quality at large n.",
    interval: "Student's t over repeats, with the standard error enlarged by test rows / training rows because splits overlap \
        (Nadeau and Bengio 2003). None with one repeat, which does not show the variation of rows. Too wide: in simulations \
        with 600 and 2,000 rows it contains the expected value of `scr_10` in 99 to 100 % of data sets, of `scr_20` in 97 to 99 %.",
    needs: &[&CODES, &EMBEDDINGS, &LABELS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output::new("scr_20", "Mean score after ablating 20 latents.", ANY, Better::Higher),
        Output::new("scr_10", "Mean score after ablating 10 latents.", ANY, Better::Higher),
        Output::new("scr_noise", "Standard deviation of `scr_20` between draws of rows.", POSITIVE, Better::Neither),
        Output::new("scr_detectable", "Smallest detectable difference in `scr_20`.", POSITIVE, Better::Neither),
    ],
    params: &[
        ABLATED,
        REPEATS,
        TEST_SHARE,
        MOST_POSITIVES,
        C,
        Param::new("couples", "Couples by name or number.", Kind::Text("task:attribute, or all"), "all").several(),
        Param::new("quadrant_rows", "With `couples` = all: minimum rows per quadrant.", Kind::Whole(2, u64::MAX), "50"),
        Param::new("most_couples", "With `couples` = all: maximum number of couples.", Kind::Whole(1, 1_000_000), "20"),
    ],
};

/// The metric.
pub struct Scr;

impl Metric for Scr {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (labels, protocol) = (job.get(&LABELS)?, Protocol::of(job)?);
        let absent = absent(job, work)?;
        let couples = couples(job, work, &absent)?;
        let preconditioner = protocol.preconditioner(job, work)?;
        let removal = Removal { job, protocol: &protocol, preconditioner: preconditioner.first() };
        let results = work.blocks("couples", couples.len() * protocol.repeats, |block| {
            let couple = couples[block % couples.len()];
            // Every row twice: by quadrant, and split into parts.
            let bytes = 32 * labels.known(couple.task).count() as u64;
            let _memory = job.budget().reserve(bytes, "the rows of a couple")?;
            let lists = quadrants(labels, couple, &absent);
            match Questions::draw(&lists, &protocol.shares, job.seed, block as u64) {
                Some(questions) => removal.run(&questions, block as u64),
                None => Ok(None),
            }
        })?;
        Ok(scr_report::report(&removal, labels, &couples, &absent, &results))
    }
}
