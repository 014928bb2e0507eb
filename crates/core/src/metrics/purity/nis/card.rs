//! The card of `nis`.

use crate::metrics::purity::concepts::DIMENSIONS;
use crate::metrics::purity::ois::REPEATS;
use crate::metrics::{Better, Card, Kind, Output, Param};
use crate::run::{CODES, FACTORS, LABELS, TASK_LABELS};

pub(super) static CARD: Card = Card {
    name: "nis",
    title: "Niche impurity score",
    summary: "How well concepts are predicted from the representations that are not correlated with them.",
    version: 3,
    measures: "Information about a concept may be spread over many representations, each of which looks unrelated \
        to it. One classifier predicts all concepts from all representations. For each concept, the representations \
        that correlate with it (its niche) are then set to zero, from none to all as the threshold falls, and the \
        rest has to predict it. The score is the mean area under the ROC curve over all thresholds: 1/2 if nothing \
        outside the niches tells anything, 1 if everything is told outside. `nis_unmasked` is the area of the \
        classifier with nothing set to zero.",
    definition: "f is a network with two hidden layers of `hidden` rectified linear units and one sigmoid per \
        concept (per class for more than two classes), trained on four fifths of the rows with Adam (learning rate \
        0.001, epsilon 1e-8), batches of min(512, rows), an L2 penalty of 1e-4, until the loss has not fallen by \
        1e-4 for more than 10 epochs, at most `epochs`; start uniform in ±√(6/(inputs + outputs)), intercepts too.\n\
        ν(i, j) = |Pearson| of representation i and concept j on the training rows: the largest over the latents of \
        i and, for more than two classes, over the indicators of classes. A constant has 0. The niche of j at β is \
        {i : ν(i, j) > β}. NI_j(β) = the area (mean one-against-all over classes) of output j on the test rows with \
        all latents of the niche set to 0; f is not trained again. `nis` = ∫ mean_j NI_j(β) dβ over [0, 1], by the \
        trapezoid rule at 0, 0.05, …, 1, the mean over `repeats`; `integral` = `exact` adds the steps themselves. \
        At β = 0 everything correlated is masked. The curves are in the tables `threshold` and `niche`.\n\
        Profile `reference` applies a softmax across all outputs before the areas and ends at β = 0.95: chance is \
        0.475 and the maximum 0.95. The softmax lets other concepts' outputs speak for a masked one, so that \
        `integral` = `exact` adds the steps of the niches of all concepts there.\n\
        `balance` = `task` first draws rows with replacement so that all classes of the task are as frequent as the \
        rarest, in the training and in the test rows.\n\
        Several values of `hidden` are compared in the table `helper`; the headline is that of the first.\n\
        Undefined: fewer than 5 rows, and no concept with two classes in both parts of every split; a concept that \
        has not does not count. Cells without a label are left out.",
    cost: "One network per split and size on one thread (rows × latents × hidden per epoch), then rows × hidden per \
        concept and threshold. Memory: the dense codes, and rows × concepts × thresholds in profile \
        `reference`. `integral` = `exact` has as many thresholds as representations, in profile `reference` times concepts.",
    source: "Espinosa Zarlenga et al., Towards Robust Metrics for Concept Representation Evaluation (AAAI 2023), \
        definitions 3.3 to 3.6 and appendix A.4, and the released program concept-quality.\n\
        The paper's wording masks the complement of the niche; its program and its meaning mask the niche. By the \
        definition, the published pure and impure codes score 0.51 and 0.48, in the wrong order; with the program's \
        softmax 0.70 and 0.74. For representations of several latents the program's code does not run; the rule \
        here is the paper's. The program is for concepts of two classes. Not reproduced: its random numbers.",
    interval: "From the repeats (Nadeau and Bengio 2003): value ± Student's t times the deviation between splits times \
        √(1/repeats + 1/4), cut at 0 and 1; `null` with one repeat. How the classifier varies with its start and its \
        training rows is most of it.",
    needs: &[&CODES, &LABELS],
    uses: &[&FACTORS, &TASK_LABELS],
    headline: &[
        Output::new("nis", "Niche impurity score", (0.0, 1.0), Better::Lower),
        Output::new("nis_unmasked", "Mean area of the classifier without a mask", (0.0, 1.0), Better::Higher),
    ],
    params: &[
        Param::new("hidden", "Units of both hidden layers; several values are compared", Kind::Whole(1, 4096), "20")
            .several(),
        Param::new(
            "integral",
            "How the integral over thresholds is taken",
            Kind::Word(&["trapezoid", "exact"]),
            "trapezoid",
        ),
        Param::new(
            "balance",
            "Resampling of the rows by the classes of the task",
            Kind::Word(&["none", "task"]),
            "none",
        ),
        Param::new("epochs", "Maximum number of passes over the training rows", Kind::Whole(1, 100_000), "1000"),
        DIMENSIONS,
        REPEATS,
    ],
};
