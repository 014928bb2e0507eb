//! TAPAScore: do the latents of a concept react when exactly that concept is changed in an image?

mod response;
mod summary;

pub(super) use response::fires;
use serde::{Deserialize, Serialize};

use super::matching::{BETA, K, MATCHER, REFERENCE_BATCH, Strategy, THRESHOLD, match_concepts};
use super::{Better, Card, Metric, Output};
use crate::codes::Latent;
use crate::error::{Error, Result};
use crate::labels::Concept;
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{CODES, Job, LABELS, PAIRS, Work};
use response::{Change, Response, responses};
use summary::{Summary, summarise};

/// Targeted attribute perturbation alignment.
pub struct Tapa;

static CARD: Card = Card {
    name: "tapa",
    title: "TAPAScore",
    summary: "Whether the latents of a concept switch on when it is added to an image and off when it is removed.",
    version: 1,
    measures: "Latents that merely go along with a concept are told from latents that encode it by changing the image: two \
        images differ in one attribute, and the latents matched to that attribute must follow. The concept counts as seen \
        where any of its latents fires. 2 means that every added concept is switched on and every removed one switched \
        off; 0 means no reaction; on data with removals only the best value is 1.",
    definition: "S_c = the latents matched to concept c on the annotated rows. For a pair (x, x') that adds concept p and \
        removes concept q: δ_add = [any of S_p fires in x'] − [any of S_p fires in x], δ_rem likewise with S_q; an empty \
        set never fires and gives 0. Δ_add is the mean of δ_add over the pairs that add something, Δ_rem over those that \
        remove something; `tapa_score` = Δ_add − Δ_rem, where a side that no pair has counts as 0 (and is undefined by \
        itself). `tapa_score_macro` takes the mean by concept first, so that frequent concepts do not decide. Latents \
        fire above `threshold`. Profile `reference`: matching with threshold 1e-8 but pairs with 0; latents that stand \
        for both concepts are taken out of both sets; a pair whose added concept then has no latents is lost with both \
        its sides, while an empty removed side counts 0; concepts are never without latents.",
    cost: "The cost of matching, then a look-up per pair and latent: milliseconds for every strategy together.",
    source: "\"Evaluating the Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716), equations 5 to 7. The \
        paper averages over all pairs; where some pairs only remove and others only add, each mean here is over the pairs \
        that have its side. Removing shared latents and losing pairs is in the released program only; with one latent per \
        concept it drops exactly the pairs whose two concepts share their latent, the unselective ones. The table \
        `strategy` counts such pairs in both profiles. The program also reports variants on continuous values; the \
        published score is the binary one.",
    interval: "percentile bootstrap over pairs, 1000 resamples, with the matching held fixed",
    needs: &[&CODES, &LABELS, &PAIRS],
    uses: &[],
    headline: &[
        Output {
            key: "tapa_score",
            doc: "the mean reaction to adding minus the mean reaction to removing, first strategy",
            range: (-2.0, 2.0),
            better: Better::Higher,
        },
        Output {
            key: "delta_add",
            doc: "how much more often the latents of an added concept are switched on than off, per pair",
            range: (-1.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "delta_rem",
            doc: "how much more often the latents of a removed concept are switched on than off, per pair",
            range: (-1.0, 1.0),
            better: Better::Lower,
        },
        Output {
            key: "tapa_score_macro",
            doc: "the same as tapa_score with every concept counted alike",
            range: (-2.0, 2.0),
            better: Better::Higher,
        },
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
        let matchings = match_concepts(job, work, &strategies)?;
        let sets: Vec<Vec<Vec<Latent>>> = matchings.iter().map(|matching| matching.matched_sets(job.profile)).collect();
        let results = work.blocks("strategies", strategies.len(), |strategy| {
            let responses = responses(job, &sets[strategy], above)?;
            let summary = summarise(job, &responses, labels.concepts())?;
            Ok(StrategyResult { responses, summary })
        })?;
        let first = results.first().ok_or_else(|| Error::Bug("no strategy".into()))?;
        let mut scores = Scores::default();
        for (key, estimate) in first.summary.named() {
            scores.headline(key, estimate.value, estimate.interval, estimate.n);
        }
        first.notes(&mut scores, job.profile);
        scores.tables.push(strategy_table(&strategies, &results));
        scores.tables.push(concept_table(&strategies, &sets, &results, labels.names(), job.profile));
        scores.tables.push(pair_table(first, job)?);
        Ok(scores)
    }
}

/// Above which value a latent fires in a pair. The released program matches with its own threshold, and then takes 0.
pub(super) fn threshold_of_pairs(job: &Job<'_>) -> Result<f32> {
    match job.profile {
        Profile::Paper => Ok(job.number(THRESHOLD.name)? as f32),
        Profile::Reference => Ok(0.0),
    }
}

/// What the pairs do under one strategy.
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

    fn notes(&self, scores: &mut Scores, profile: Profile) {
        let (pairs, lost) = (self.responses.len(), self.count(|response| response.is_lost(profile)));
        scores.note(format!(
            "{pairs} pairs: the added concept has no latents in {}, the removed one in {}, both share a latent in {}",
            self.empty_added(),
            self.empty_removed(),
            self.shared()
        ));
        if lost > 0 {
            scores.note(format!(
                "left out, as the released program does, for want of latents to add: {lost} of {pairs} pairs"
            ));
        }
        match (self.summary.added.value, self.summary.removed.value) {
            (None, None) => scores.note("no pair is left: every score is undefined"),
            (None, _) => {
                scores.note("no pair adds a concept: `delta_add` is undefined and counts as 0 in `tapa_score`")
            }
            (_, None) => {
                scores.note("no pair removes a concept: `delta_rem` is undefined and counts as 0 in `tapa_score`")
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
        .numbers("low", summaries().map(|summary| summary.score.interval.map(|interval| interval.low)))
        .numbers("high", summaries().map(|summary| summary.score.interval.map(|interval| interval.high)))
        .numbers("delta_add", summaries().map(|summary| summary.added.value))
        .numbers("delta_rem", summaries().map(|summary| summary.removed.value))
        .numbers("tapa_score_macro", summaries().map(|summary| summary.macro_score.value))
        .counts("pairs", summaries().map(|summary| summary.score.n))
        .counts("empty_add", results.iter().map(StrategyResult::empty_added))
        .counts("empty_rem", results.iter().map(StrategyResult::empty_removed))
        .counts("shared", results.iter().map(StrategyResult::shared))
}

/// How often the latents of one concept stayed on, stayed off, were switched on, were switched off.
#[derive(Clone, Copy, Default)]
struct Outcomes([usize; 4]);

const OUTCOMES: [&str; 4] = ["stay_on", "stay_off", "on", "off"];

impl Outcomes {
    fn add(&mut self, change: &Change) {
        let outcome = match (change.before, change.after) {
            (true, true) => 0,
            (false, false) => 1,
            (false, true) => 2,
            (true, false) => 3,
        };
        self.0[outcome] += 1;
    }

    fn pairs(&self) -> usize {
        self.0.iter().sum()
    }

    fn delta(&self) -> Option<f64> {
        let [_, _, on, off] = self.0.map(|count| count as f64);
        (self.pairs() > 0).then(|| (on - off) / self.pairs() as f64)
    }
}

fn concept_table(
    strategies: &[Strategy],
    sets: &[Vec<Vec<Latent>>],
    results: &[StrategyResult],
    names: &[String],
    profile: Profile,
) -> Table {
    let (mut added, mut removed) = (Vec::new(), Vec::new());
    for result in results {
        let mut roles = [vec![Outcomes::default(); names.len()], vec![Outcomes::default(); names.len()]];
        for response in result.responses.iter().filter(|response| !response.is_lost(profile)) {
            for (role, change) in roles.iter_mut().zip([response.added, response.removed]) {
                if let Some(change) = change {
                    role[change.concept].add(&change);
                }
            }
        }
        let [of_added, of_removed] = roles;
        added.extend(of_added);
        removed.extend(of_removed);
    }
    let whole = |set: &Vec<Latent>| set.iter().map(|latent| i64::from(latent.0)).collect();
    let mut table = Table::new("concept")
        .words("strategy", strategies.iter().flat_map(|strategy| names.iter().map(|_| strategy.to_string())))
        .words("name", strategies.iter().flat_map(|_| names.iter().cloned()))
        .with("coalition", Cells::WholeLists(sets.iter().flatten().map(whole).collect()));
    for (role, delta, outcomes) in [("added", "delta_add", &added), ("removed", "delta_rem", &removed)] {
        table = table.counts(&format!("pairs_{role}"), outcomes.iter().map(Outcomes::pairs));
        table = table.numbers(delta, outcomes.iter().map(Outcomes::delta));
        for (index, outcome) in OUTCOMES.iter().enumerate() {
            table = table.counts(&format!("{role}_{outcome}"), outcomes.iter().map(|of| of.0[index]));
        }
    }
    table
}

fn pair_table(first: &StrategyResult, job: &Job<'_>) -> Result<Table> {
    let pairs = &job.get(&PAIRS)?.pairs;
    let concepts = |of: &dyn Fn(usize) -> Option<Concept>| {
        Cells::Whole((0..pairs.len()).map(|pair| of(pair).map(|concept| i64::from(concept.0))).collect())
    };
    let delta = |response: &Response, change: Option<Change>| {
        change.filter(|_| !response.is_lost(job.profile)).map(|change| change.delta())
    };
    Ok(Table::new("pair")
        .counts("before", pairs.iter().map(|pair| pair.before))
        .counts("after", pairs.iter().map(|pair| pair.after))
        .with("added", concepts(&|pair| pairs[pair].added))
        .with("removed", concepts(&|pair| pairs[pair].removed))
        .numbers("delta_add", first.responses.iter().map(|response| delta(response, response.added)))
        .numbers("delta_rem", first.responses.iter().map(|response| delta(response, response.removed))))
}

#[cfg(test)]
pub(super) mod tests;
