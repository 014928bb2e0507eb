//! The card of `his`.

use super::super::{Better, Card, Kind, Output, Param, mis};
use crate::run::{CODES, DIRECTIONS, DISTANCES, EMBEDDINGS, RESPONSES, SIMILARITY, UNITS, VISUALISATIONS};

pub(super) static CARD: Card = Card {
    name: "his",
    title: "Human interpretability score",
    summary: "How often people solve the two-choice tasks of units, and how well the machine interpretability score agrees.",
    version: 1,
    measures: "People see the tasks of `mis` and say which of two images activates a unit more. The score of a unit is the share of right \
        answers. The agreement with the machine's score is a correlation over units; because a unit has few answers, even a perfect \
        score would not reach 1, so its ceiling is simulated. The answers also calibrate α, and say how many answers a new study needs.",
    definition: "HIS of a unit: mean of `correct` over the answers that count: neither exercises nor checks of attention, of `mode`, of sessions \
        that pass the checks. MIS: the column `mis` of `units`, or computed from activations and similarity as `mis` does.\n\
        his_pearson, his_spearman: over units with both. his_model_...: over the means of models (three or more). Table `correlation`: with \
        two-sided p values by Student's t.\n\
        his_ceiling: mean over `repetitions` of r(HIS, HIS′), HIS′ the share of as many simulated answers as the unit has, each right with \
        probability HIS. his_attenuated: the same for r(MIS, HIS′). Table `ceiling`: their standard deviation and percentiles over repetitions.\n\
        his_alpha: the α that minimises the mean of (MIS − HIS)² on a random `calibration_share` of the units, by golden-section search of log α; \
        undefined if MIS is given as a column.\n\
        his_needed_unit, his_needed_all: answers per unit with which a two-sided test at 5 % detects a difference of `difference` with \
        probability 0.8, between two conditions of one unit and between the means of all units in two conditions (normal \
        approximation with the variance of the given answers). Table `power` has other numbers of answers and two halves of the units (`groups`).\n\
        Sessions: participant and task. Checks: `passed_checks` of the table if it is there (`checks` stored), or the published rules as \
        far as the table has their columns: share of attention checks, total_time, instruction_time, answers in the rarer of two places \
        (exercises do not count, attention checks do), demo_attempts. A session of somebody who took part before (`multi_participation`) does not count.\n\
        Tables: `latent` (both scores), `bin` (bins of equal count by MIS: the first get one more), `model`, `model_pair` (for every two models Mann and \
        Whitney's test of the units' HIS if their variances differ by at most 0.01, else Brunner and Munzel's, with Student's t if a model has at \
        most 50 units; Holm's adjustment), `extreme` (easiest and hardest units of every model by MIS), `group` (HIS of the easiest, the other and the \
        hardest units), `power`. Undefined: correlations with fewer than 3 units, or if one side is constant.",
    cost: "That of `mis` without a column `mis`; `repetitions` · answers random numbers.",
    source: "Zimmermann et al. (2024), sections 4.1 and C, and the data and program of Zimmermann et al. (2023, \"IMI\"). The paper describes the ceiling as \
        r(MIS, HIS′), which cannot exceed r(MIS, HIS) = 0.80 on average and is given as 0.82: it must be r(HIS, HIS′). No loss of the \
        calibration is given. Profile `reference`: the tasks of `mis` as released, and the interval of `his` by the bias-corrected and accelerated \
        bootstrap with 10,000 resamples. The released analysis takes the thresholds of the checks from its notebook, as here; its script \
        for starting an experiment does not limit the time of the instructions.",
    interval: "Percentile bootstrap over units, 1000 resamples, of `his` and of the correlations over units. None for correlations over models, \
        which are too few. The coverage of the intervals was not measured.",
    needs: &[&RESPONSES],
    uses: &[&UNITS, &CODES, &EMBEDDINGS, &DIRECTIONS, &SIMILARITY, &DISTANCES, &VISUALISATIONS],
    headline: &[
        Output::new("his", "Mean over units of the share of right answers", (0.0, 1.0), Better::Higher),
        Output::new("his_pearson", "Correlation of both scores over units", (-1.0, 1.0), Better::Higher),
        Output::new("his_spearman", "Rank correlation of both scores over units", (-1.0, 1.0), Better::Higher),
        Output::new("his_ceiling", "Correlation that a perfect score would have", (-1.0, 1.0), Better::Neither),
        Output::new(
            "his_attenuated",
            "Correlation of the machine's score with other people",
            (-1.0, 1.0),
            Better::Neither,
        ),
        Output::new("his_model_pearson", "Correlation of both scores over models", (-1.0, 1.0), Better::Higher),
        Output::new("his_model_spearman", "Rank correlation of both scores over models", (-1.0, 1.0), Better::Higher),
        Output::new("his_alpha", "The calibrated α", (0.0, f64::INFINITY), Better::Neither),
        Output::new(
            "his_needed_unit",
            "Answers per unit to detect a difference in one unit",
            (0.0, f64::INFINITY),
            Better::Neither,
        ),
        Output::new(
            "his_needed_all",
            "Answers per unit to detect a difference over all units",
            (0.0, f64::INFINITY),
            Better::Neither,
        ),
    ],
    params: &[
        mis::TASKS,
        mis::EXPLANATIONS,
        mis::ALPHA,
        mis::READING,
        mis::MEASURE,
        mis::QUERY_QUANTILE,
        mis::RANK_GAP,
        mis::TIES,
        mis::SHUFFLE,
        Param::new("checks", "Which sessions count", Kind::Word(&["stored", "computed", "none"]), "stored"),
        Param::new(
            "mode",
            "Count answers about this mode of explanation; empty for all",
            Kind::Text("a mode"),
            "natural",
        ),
        Param::new("catch_share", "Least share of attention checks passed", Kind::Number(0.0, 1.0), "0.8"),
        Param::new("min_seconds", "Shortest session", Kind::Number(0.0, 1e9), "135"),
        Param::new("max_seconds", "Longest session", Kind::Number(0.0, 1e9), "2500"),
        Param::new("min_instruction_seconds", "Shortest reading of the instructions", Kind::Number(0.0, 1e9), "15"),
        Param::new("max_instruction_seconds", "Longest reading of the instructions", Kind::Number(0.0, 1e9), "180"),
        Param::new("rarer_choice", "Least number of answers in the rarer place", Kind::Whole(0, 1000), "5"),
        Param::new("demo_attempts", "Most attempts at the exercises", Kind::Number(0.0, 1e9), "3"),
        Param::new("repetitions", "Simulated studies for the ceiling", Kind::Whole(2, 100_000), "1000"),
        Param::new("calibration_share", "Share of units that calibrate alpha", Kind::Number(0.0, 1.0), "0.05"),
        Param::new("count_bins", "Bins of equal count", Kind::Whole(1, 1000), "20"),
        mis::EXTREME_UNITS,
        Param::new("difference", "The difference of shares to detect", Kind::Number(1e-6, 1.0), "0.05"),
    ],
};
