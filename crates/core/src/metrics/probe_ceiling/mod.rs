//! The scores of linear probes on the embeddings: a ceiling for latents, which read the embeddings linearly.

mod fit;
mod packed;
mod results;
#[cfg(test)]
mod tests;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::{Error, Result};
use crate::probe::design::TOGETHER;
use crate::probe::preconditioner::Preconditioner;
use crate::results::{Profile, Scores};
use crate::run::{EMBEDDINGS, Job, LABELS, Lazy, Work};
use fit::{FittedRows, folds, predictions};
use results::Results;

/// The metric `probe_ceiling`.
pub struct ProbeCeiling;

static CARD: Card = Card {
    name: "probe_ceiling",
    title: "Linear-probe ceiling",
    summary: "How well linear probes on the raw embeddings predict the concepts: an upper bound for single latents.",
    version: 1,
    measures: "A latent reads the embeddings through one direction and one threshold. A probe trained with the labels does \
        the same as well as possible, so its F1 shows how much of a low matching score is due to the dictionary, and how \
        much is due to the embeddings or the labels. No codes are needed.",
    definition: "One probe per concept; a row is predicted where weights · embedding + intercept ≥ 0 (probability ≥ 1/2). \
        The predictions of all probes are then treated like latents that fire or not: \
        F1(concept, probe) = 2 TP / (positives + predicted) over the rows with a known label of the concept.\n\
        `f1_best` is the best F1 over all probes (ties to the lowest index), as in one-to-one matching of latents; \
        `probe_f1` is its mean over concepts. `f1` is the F1 of the concept's own probe, without selection; its mean is \
        `probe_own_f1`. `auc` is the area under the ROC curve of the own probe, ties count half; its mean is `probe_auc`.\n\
        Profile `paper`: rows are split into two halves with the seed. On each half, logistic regressions are fitted to \
        convergence (c · Σ loss + ½ ‖w‖², intercept not penalised) on columns with mean 0 and deviation 1 over that half \
        (constant columns are only centred), so that `c` means the same for every encoder; `scale` = raw skips this. Each \
        row is predicted by the probe that was not fitted on it; F1 counts both halves together, AUC is the mean of the two \
        halves.\n\
        Profile `reference`: one linear layer for all labels, see Source; fitted on one half, scored on the other.\n\
        Undefined in `paper`: a concept without a positive row, or with one class only among the known labels of a training \
        half. `reference` keeps such a concept, with F1 = 0 if it has no positive row (0/0 = 0). Rows with an unknown label \
        are ignored for that concept, in training and in scoring.",
    cost: "`paper`: about a hundred products of half the embeddings with 64 probes at a time, twice; a block is 64 concepts \
        and one half. 5,794 rows × 768 with 312 concepts took 36 seconds of processor time. `reference`: two products \
        per step. Memory: a copy of the embeddings, and about 5 numbers per row and probe of a block; predictions as bits.",
    source: "Evaluating the Interpretability of SAEs with Concept Annotations (arXiv 2606.24716), dashed line in the matching \
        figures, and its released code: one linear layer with intercepts on raw embeddings, binary cross-entropy averaged \
        over labels, Adam (learning rate 1e-3, decays 0.9 and 0.999, epsilon 1e-8), 100 epochs, batches of 1024, no class \
        weights, no penalty, weights of the last epoch (its selection of the best epoch keeps no copy), PyTorch's initial \
        weights uniform in ±1/√width. The figures show the F1 of the best prediction column, k = 1.\n\
        Profile `reference` keeps all of this, with seeded weights and batches. Differences: the code trains on the training \
        split and scores on the test split, here both are halves of the given rows; its misplaced last batch is not \
        reproduced; the average is over known labels. Profile `paper` replaces the training, because 100 epochs are far from \
        convergence on raw embeddings and would measure the optimiser.",
    interval: "95 % percentile bootstrap over concepts, 1000 resamples.",
    needs: &[&EMBEDDINGS, &LABELS],
    uses: &[],
    headline: &[
        Output::new("probe_f1", "Mean best F1 of any probe: compare with one-to-one", (0.0, 1.0), Better::Higher),
        Output::new("probe_own_f1", "Mean F1 of the concept's own probe", (0.0, 1.0), Better::Higher),
        Output::new("probe_auc", "Mean area under the ROC curve of the own probe", (0.0, 1.0), Better::Higher),
    ],
    params: &[
        Param::new("c", "Inverse strength of the penalty (profile `paper`)", Kind::Number(1e-9, 1e9), "1"),
        Param::new(
            "scale",
            "Scale every column to mean 0 and deviation 1 before the fit, or use raw columns",
            Kind::Word(&["standard", "raw"]),
            "standard",
        )
        .reference("raw"),
        Param::new("epochs", "Number of passes over the rows (profile `reference`)", Kind::Whole(1, 100_000), "100"),
        Param::new("batch", "Rows per mini-batch (profile `reference`)", Kind::Whole(1, u64::MAX), "1024"),
        Param::new("learning_rate", "Learning rate (profile `reference`)", Kind::Number(0.0, 1e6), "0.001"),
    ],
};

impl Metric for ProbeCeiling {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (store, labels) = (job.get(&EMBEDDINGS)?, job.get(&LABELS)?);
        let (folds, concepts) = (folds(job, store.rows()), labels.concepts());
        let groups = concepts.div_ceil(TOGETHER);
        let prepared = Lazy::new(|| folds.iter().map(|fold| FittedRows::new(job, fold)).collect::<Result<Vec<_>>>());
        let logistic = if job.profile == Profile::Paper { folds.len() } else { 0 };
        let preconditioners = work.blocks_with(&prepared, "preconditioners", logistic, |prepared, fold| {
            Ok(Preconditioner::monitored(&prepared[fold].design(), job.context)?)
        })?;
        let count = folds.len() * groups;
        let probes = work.blocks_with(&prepared, "groups of probes", count, |prepared, block| {
            let (fold, group) = (block / groups, block % groups);
            let concepts = group * TOGETHER..((group + 1) * TOGETHER).min(concepts);
            let fitted = prepared[fold].fit(job, preconditioners.get(fold), concepts.clone())?;
            predictions(job, &folds[fold].scored, concepts, &fitted)
        })?;
        drop(prepared);
        let probes = probes.map(|probes| probes.into_iter().flatten().collect::<Vec<_>>());
        if probes.len() != folds.len() * concepts {
            return Err(Error::Bug("a probe was not fitted".into()));
        }
        let results = Results { folds: &folds, concepts, probes: &probes };
        let predicted = Lazy::new(|| results.predicted(job));
        let scored = work.blocks_with(&predicted, "concepts", concepts, |predicted, concept| {
            results.concept(job, predicted, concept)
        })?;
        results.scores(job, &scored)
    }
}
