//! TAPAScore: do the latents of a concept respond when that concept is changed in an image?

mod response;
mod summary;

pub(super) use response::{fires, is_lost};
use serde::{Deserialize, Serialize};

use super::matching::{
    BETA, K, MATCHER, MatchedSets, REFERENCE_BATCH, Strategy, THRESHOLD, concept_table, matched_sets,
};
use super::{Better, Card, Metric, Output};
use crate::codes::Latent;
use crate::error::{Error, Result};
use crate::labels::{Concept, Pair};
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, Job, LABELS, PAIRS, Work};
use response::{Change, Response, responses};
use summary::{Outcomes, Summary, Totals, summarise};

/// Targeted attribute perturbation alignment.
pub struct Tapa;

static CARD: Card = Card {
    name: "tapa",
    title: "TAPAScore",
    summary: "Whether the latents of a concept switch on when it is added to an image and off when it is removed.",
    version: 1,
    measures: "Separates latents that encode a concept from latents that merely correlate with it, by intervention: two \
        images differ in one attribute, and the latents matched to that attribute must respond. A concept counts as \
        detected where any of its latents fires. 2 means that every added concept is switched on and every removed \
        concept is switched off; 0 means no response. On data with removals only, the best value is 1.",
    definition: "S_c: the latents matched to concept c on the annotated rows (see `match`). For a pair (x, x') that adds \
        concept p and removes concept q: δ_add = [any of S_p fires in x'] − [any of S_p fires in x], and δ_rem likewise \
        with S_q. An empty set never fires and gives 0. Latents fire above `threshold`.\n\
        Δ_add is the mean of δ_add over the pairs that add a concept, Δ_rem that of δ_rem over the pairs that remove one. \
        `tapa_score` = Δ_add − Δ_rem; a side without pairs counts as 0 and is itself undefined. `tapa_score_macro` \
        averages within each concept first, so that every concept has the same weight.\n\
        Profile `reference`: matching uses the threshold 1e-8, pairs use 0. Latents matched to both concepts are removed \
        from both sets. A pair whose added concept then has no latents is dropped on both sides; an empty removed side \
        counts 0. Sets of matched latents are never empty before that.",
    cost: "Matching, then one lookup per pair and latent: milliseconds for all strategies together.",
    source: "\"Evaluating the Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716), equations 5 to 7. The \
        paper averages over all pairs; here each mean is over the pairs that have its side, because some pairs only add or \
        only remove. Only the released code removes shared latents and drops pairs; with one latent per concept, it drops \
        exactly the unselective pairs, whose two concepts share their latent. The table `strategy` counts such pairs in \
        both profiles. The code also reports variants on continuous values; the published score is binary.",
    interval: "Percentile bootstrap over pairs, 1000 resamples, with fixed matching.",
    needs: &[&CODES, &LABELS, &PAIRS],
    uses: &[],
    headline: &[
        Output::new("tapa_score", "delta_add minus delta_rem, first strategy", (-2.0, 2.0), Better::Higher),
        Output::new("delta_add", "Mean response to adding: share on minus share off", (-1.0, 1.0), Better::Higher),
        Output::new("delta_rem", "Mean response to removing: share on minus share off", (-1.0, 1.0), Better::Lower),
        Output::new("tapa_score_macro", "tapa_score with equal weight for every concept", (-2.0, 2.0), Better::Higher),
    ],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH],
};

impl Metric for Tapa {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (labels, above) = (job.get(&LABELS)?, threshold_of_pairs(job)?);
        let strategies = Strategy::from_params(job)?;
        let sets = matched_sets(job, work, &strategies)?;
        let results = work.blocks("strategies", strategies.len(), |strategy| {
            let responses = responses(job, &sets[strategy], above)?;
            let summary = summarise(job, &responses, labels.concepts())?;
            Ok(StrategyResult { responses, summary })
        })?;
        let first = results.first().ok_or_else(|| Error::Bug("no strategy".into()))?;
        let mut scores = Scores::default();
        for (key, estimate) in first.summary.named() {
            estimate.headline(key, &mut scores);
        }
        first.notes(&mut scores);
        scores.tables.push(strategy_table(&strategies, &results));
        scores.tables.push(outcome_table(&strategies, &sets, &results, labels.names()));
        scores.tables.push(pair_table(first, job)?);
        Ok(scores)
    }
}

/// The threshold for pairs. The released code applies its threshold in matching only, and 0 in pairs.
pub(super) fn threshold_of_pairs(job: &Job<'_>) -> Result<f32> {
    match job.profile {
        Profile::Paper => Ok(job.number(THRESHOLD.name)? as f32),
        Profile::Reference => Ok(0.0),
    }
}

/// The responses to all pairs under one strategy.
#[derive(Serialize, Deserialize)]
struct StrategyResult {
    responses: Vec<Response>,
    summary: Summary,
}

impl StrategyResult {
    fn count(&self, test: impl Fn(&Response) -> bool) -> usize {
        self.responses.iter().filter(|response| test(response)).count()
    }

    fn empty_added(&self) -> usize {
        self.count(|response| response.added.is_some_and(|change| change.empty))
    }

    fn empty_removed(&self) -> usize {
        self.count(|response| response.removed.is_some_and(|change| change.empty))
    }

    fn shared(&self) -> usize {
        self.count(|response| response.shared)
    }

    fn notes(&self, scores: &mut Scores) {
        let (pairs, lost) = (self.responses.len(), self.count(|response| response.lost));
        let (added, removed, shared) = (self.empty_added(), self.empty_removed(), self.shared());
        scores.note(format!(
            "{pairs} pairs: the added concept has no latents in {added}, the removed one in {removed}, both share a \
             latent in {shared}"
        ));
        if lost > 0 {
            scores.note(format!(
                "{lost} of {pairs} pairs are left out, as in the released code: their added concept has no latents"
            ));
        }
        match (self.summary.added.value, self.summary.removed.value) {
            (None, None) => scores.note("no pair is left: every score is undefined"),
            (None, _) => scores.note("no pair adds a concept: `delta_add` is undefined and counts 0 in `tapa_score`"),
            (_, None) => {
                scores.note("no pair removes a concept: `delta_rem` is undefined and counts 0 in `tapa_score`")
            }
            _ => {}
        }
    }
}

fn strategy_table(strategies: &[Strategy], results: &[StrategyResult]) -> Table {
    let summaries = || results.iter().map(|result| &result.summary);
    Table::new("strategy")
        .words("strategy", strategies.iter().map(Strategy::to_string))
        .numbers("tapa_score", summaries().map(|summary| summary.score.value))
        .numbers("low", summaries().map(|summary| summary.score.low()))
        .numbers("high", summaries().map(|summary| summary.score.high()))
        .numbers("delta_add", summaries().map(|summary| summary.added.value))
        .numbers("delta_rem", summaries().map(|summary| summary.removed.value))
        .numbers("tapa_score_macro", summaries().map(|summary| summary.macro_score.value))
        .counts("pairs", summaries().map(|summary| summary.score.n))
        .counts("empty_add", results.iter().map(StrategyResult::empty_added))
        .counts("empty_rem", results.iter().map(StrategyResult::empty_removed))
        .counts("shared", results.iter().map(StrategyResult::shared))
}

const OUTCOMES: [&str; 4] = ["stay_on", "stay_off", "on", "off"];

fn outcome_table(strategies: &[Strategy], sets: &MatchedSets, results: &[StrategyResult], names: &[String]) -> Table {
    let totals = |result: &StrategyResult| {
        Totals::of(result.responses.iter().filter(|response| !response.lost), names.len()).concepts
    };
    let outcomes: Vec<[Outcomes; 2]> = results.iter().flat_map(totals).collect();
    let whole = |set: &Vec<Latent>| set.iter().map(|latent| i64::from(latent.0)).collect();
    let coalitions = Cells::WholeLists(sets.iter().flatten().map(whole).collect());
    let mut table = concept_table(strategies, names).with("coalition", coalitions);
    for (role, (name, delta)) in [("added", "delta_add"), ("removed", "delta_rem")].into_iter().enumerate() {
        table = table.counts(&format!("pairs_{name}"), outcomes.iter().map(|outcomes| outcomes[role].pairs()));
        table = table.numbers(delta, outcomes.iter().map(|outcomes| outcomes[role].delta()));
        for (index, outcome) in OUTCOMES.iter().enumerate() {
            let counts = outcomes.iter().map(|outcomes| outcomes[role].0[index] as usize);
            table = table.counts(&format!("{name}_{outcome}"), counts);
        }
    }
    table
}

fn pair_table(first: &StrategyResult, job: &Job<'_>) -> Result<Table> {
    let pairs = &job.get(&PAIRS)?.pairs;
    let concepts = |of: &dyn Fn(&Pair) -> Option<Concept>| {
        Cells::Whole(pairs.iter().map(|pair| of(pair).map(|concept| i64::from(concept.0))).collect())
    };
    let delta =
        |response: &Response, change: Option<Change>| change.filter(|_| !response.lost).map(|change| change.delta());
    Ok(Table::new("pair")
        .counts("before", pairs.iter().map(|pair| pair.before))
        .counts("after", pairs.iter().map(|pair| pair.after))
        .with("added", concepts(&|pair| pair.added))
        .with("removed", concepts(&|pair| pair.removed))
        .numbers("delta_add", first.responses.iter().map(|response| delta(response, response.added)))
        .numbers("delta_rem", first.responses.iter().map(|response| delta(response, response.removed))))
}

#[cfg(test)]
pub(super) mod tests;
