//! What a linear probe on the embeddings reaches: the ceiling for any latent that reads them linearly.

mod fit;
mod packed;
mod results;
#[cfg(test)]
mod tests;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::error::{Error, Result};
use crate::probe::logistic::TOGETHER;
use crate::probe::preconditioner::Spectrum;
use crate::results::{Profile, Scores};
use crate::run::{EMBEDDINGS, Job, LABELS, Lazy, Work};
use fit::{FittedRows, folds, predictions};
use results::Results;

/// The metric.
pub struct ProbeCeiling;

static CARD: Card = Card {
    name: "probe_ceiling",
    title: "Linear-probe ceiling",
    summary: "How well linear probes on the raw embeddings find the concepts: an upper bound for single latents.",
    version: 1,
    measures: "Latents read the embeddings through one direction and one threshold each. A probe that was trained with the \
        labels does the same as well as it can be done, so its F1 says how much of a low matching score is the \
        dictionary's fault and how much is not in the embeddings, or not in the labels, at all. No codes are needed.",
    definition: "One probe per concept; a row is predicted where weights · embedding + intercept ≥ 0 (probability ≥ 1/2). \
        The predictions of all probes are then treated like latents that fire or not: \
        F1(concept, probe) = 2 TP / (positives + predicted) over the rows whose label of the concept is known. \
        `f1_best` is the best over all probes (lowest index among equals), which is what the one-to-one matching of latents \
        does, and `probe_f1` is its mean over concepts. `f1` is the F1 of the concept's own probe, nothing selected; its mean is \
        `probe_own_f1`. `auc` is the area under the ROC curve of the own probe, ties half. \
        Profile `paper`: rows are cut into two halves with the seed. On each half logistic regressions are fitted to \
        convergence (c · Σ loss + ½ ‖w‖², intercept without penalty) on columns with mean 0 and deviation 1 over that \
        half (constant columns are only centred), so that `c` means the same for every encoder; `scale` = raw leaves the \
        columns alone. Each row is predicted by the probe that has not seen it; F1 counts both halves together, AUC is the mean of the \
        two halves. \
        Profile `reference`: the labels together, one linear layer, see Source; fitted on the one half, scored on the other. \
        Undefined in `paper`: a concept without a positive row, or with one class only among the known labels of a training half. In \
        `reference` such a concept stays, with F1 = 0 if it has no positive row, as 0/0 = 0 there. \
        Rows with an unknown label are left out for that concept, in training and in scoring.",
    cost: "`paper`: about a hundred products of half the embeddings with 64 probes at a time, twice; a block is 64 concepts \
        and one half. 5,794 rows × 768 with 312 concepts took 36 seconds of processor time. `reference`: two products \
        per step. Memory: a copy of the embeddings, and about 5 numbers per row and probe of a block; predictions as bits.",
    source: "Evaluating the Interpretability of SAEs with Concept Annotations (arXiv 2606.24716), dashed line in the matching figures, and its \
        program: one linear layer with intercepts on raw embeddings, binary cross-entropy averaged over labels, Adam \
        (learning rate 1e-3, decays 0.9 and 0.999, epsilon 1e-8), 100 epochs, batches of 1024, no class weights, no penalty, weights of the \
        last epoch (its choice of the best epoch keeps no copy), PyTorch's first weights uniform in ±1/√width. The \
        figures show the F1 of the best prediction column, k = 1. \
        Profile `reference` keeps all that, with seeded weights and batches. Differences: the program trains on the training split \
        and scores on the test split, here both are halves of the given rows; its misplaced last batch is not repeated; \
        the average runs over known labels. Profile `paper` replaces the training, because 100 epochs are far from \
        convergence on raw embeddings and then measure the optimiser.",
    interval: "95 % percentile bootstrap over concepts, 1000 resamples",
    needs: &[&EMBEDDINGS, &LABELS],
    uses: &[],
    headline: &[
        Output {
            key: "probe_f1",
            doc: "Mean over concepts of the best F1 of any probe's predictions, to compare with one-to-one matching.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "probe_own_f1",
            doc: "Mean over concepts of the F1 of the concept's own probe.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "probe_auc",
            doc: "Mean over concepts of the area under the ROC curve of the concept's own probe.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
    ],
    params: &[
        Param {
            name: "c",
            doc: "The inverse strength of the penalty (profile `paper`).",
            kind: Kind::Number(1e-9, 1e9),
            several: false,
            default: "1",
            reference: None,
        },
        Param {
            name: "scale",
            doc: "Brings every column to mean 0 and deviation 1 before the fit, or leaves it raw.",
            kind: Kind::Word(&["standard", "raw"]),
            several: false,
            default: "standard",
            reference: Some("raw"),
        },
        Param {
            name: "epochs",
            doc: "How often every row is seen (profile `reference`).",
            kind: Kind::Whole(1, 100_000),
            several: false,
            default: "100",
            reference: None,
        },
        Param {
            name: "batch",
            doc: "Rows per step (profile `reference`).",
            kind: Kind::Whole(1, u64::MAX),
            several: false,
            default: "1024",
            reference: None,
        },
        Param {
            name: "learning_rate",
            doc: "The learning rate (profile `reference`).",
            kind: Kind::Number(0.0, 1e6),
            several: false,
            default: "0.001",
            reference: None,
        },
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
        let spectra = work.blocks_with(&prepared, "spectra", logistic, |prepared, fold| {
            Ok(Spectrum::monitored(&prepared[fold].design(), job.context)?)
        })?;
        let count = folds.len() * groups;
        let probes = work.blocks_with(&prepared, "groups of probes", count, |prepared, block| {
            let (fold, group) = (block / groups, block % groups);
            let concepts = group * TOGETHER..((group + 1) * TOGETHER).min(concepts);
            let fitted = prepared[fold].fit(job, spectra.get(fold), concepts.clone())?;
            predictions(job, &folds[fold].scored, concepts, &fitted)
        })?;
        drop(prepared);
        let probes = probes.map(|probes| probes.into_iter().flatten().collect::<Vec<_>>());
        if probes.len() != folds.len() * concepts {
            return Err(Error::Bug("a probe was not fitted".into()));
        }
        let results = Results { folds: &folds, concepts, probes: &probes };
        let predicted = Lazy::new(|| results.predicted(job));
        let found = work.blocks_with(&predicted, "concepts", concepts, |predicted, concept| {
            results.concept(job, predicted, concept)
        })?;
        results.scores(job, &found)
    }
}
