//! MATCHScore: do latents, alone or in coalitions, fire where a concept is annotated?

mod fbmp;
mod firing;
mod held_out;
mod jackknife;
mod matched_sets;
mod naive;
mod nnomp;
mod prepared;
mod row_order;
mod strategy;
mod tables;
mod target;
#[cfg(test)]
mod tests;

pub(super) use matched_sets::{MatchedSets, matched_sets};
pub(super) use row_order::RowOrder;
use strategy::ROW_GROUPS;
pub(super) use strategy::{BETA, K, MATCHER, REFERENCE_BATCH, Strategy, THRESHOLD, concept_table};
pub(super) use target::f1;

use serde::{Deserialize, Serialize};

use super::{Better, Card, Metric, Output};
use crate::error::Result;
use crate::results::{Profile, Scores};
use crate::run::{CODES, Job, LABELS, Lazy, NULLS, Work};
use prepared::{Choice, PreparedCodes};
use tables::Findings;

/// The metric `match`.
pub struct Match;

static CARD: Card = Card {
    name: "match",
    title: "MATCHScore",
    summary: "How well coalitions of latents fire where a concept is annotated.",
    version: 2,
    measures: "\
For every annotated concept (\"striped belly\"), a few latents are selected that together fire where the concept is. The \
score is the mean over concepts of the F1 between the annotation and the rows in which any latent of this coalition \
fires: 1 if the codes contain every concept, 0 if they contain none. Coalitions are allowed because one concept is often \
split over several latents.\n\
A large dictionary matches anything by chance, so the same search runs on untrained dictionaries (`null`) and their score \
is subtracted: `delta_match_score`. Selecting and scoring on the same rows is optimistic, so latents are also selected on \
one half of the rows and scored on the other: `match_score_held_out`. Latents that serve several concepts are listed as \
polysemantic.",
    definition: "\
Y[a]: the rows with concept a. Z[l]: the rows in which latent l is above `threshold`. Rows with an unknown label are \
ignored for that concept. F1(Y, P) = 2 |Y and P| / (|Y| + |P|), and 0 if both are empty. A strategy is one combination of \
`matcher`, `beta` and `k`.\n\
one-to-one: the latent with the largest F1(Y, Z[l]); ties go to the lowest index.\n\
naive: the k latents with the largest F1, each scored alone; ties go to the lowest index; F1 = 0 is never selected.\n\
fbmp: the residual R starts as Y. Each step selects the latent with the largest \
(1 + beta^2) |R and Z[l]| / (beta^2 |R| + |Z[l]|), with 0/0 = 0 and ties to the lowest index, and removes the rows of Z[l] \
from R. It stops at k latents, or before the first latent that does not raise the F1 of the coalition against Y (above 0 \
for the first latent).\n\
nnomp: each step selects the latent whose column of code values, scaled to length 1, has the largest (signed) correlation \
with the residual of Y, then refits all weights by non-negative least squares. A row is predicted where the weighted sum \
is above 0.5. It stops at k latents, when the best correlation is below 1e-12 |Y|^(1/2), or when a latent is selected \
again. F1 may fall from step to step.\n\
match_score = mean over all concepts of F1(Y[a], union of Z[l] over the coalition of a). A concept without a positive row \
counts 0; its own F1 is undefined, and match_score_present leaves it out. Without any positive row every score is \
undefined.\n\
delta_match_score = match_score minus the mean match_score of the nulls, strategy by strategy.\n\
match_score_held_out: rows are split into two random halves; latents (and weights) are selected on each half and scored on \
the other. The F1 of a concept is the mean of both directions, undefined if a half has no positive row. The score is the \
mean over defined concepts: compare it with match_score_present.\n\
The headline is the first strategy; the table `strategy` has all of them.",
    cost: "\
All data in memory. fbmp visits the entries of a concept's positive rows about twice, and all latents once per step; all \
k and the first step of all beta share one run. 5,794 rows x 312 concepts x 4,096 latents with 32 active take tens of \
milliseconds per beta. Binary codes take 8 bytes per firing entry, or 1/4 byte per cell if more than one in sixteen \
fires. nnomp stores the products of selected latents with all latents, 8 bytes each. Held-out scores cost as much again, \
so do every null and every group of `row_groups`.",
    source: "\
Evaluating the Interpretability of SAEs with Concept Annotations (arXiv 2606.24716): Eq. 2 (one-to-one), Algorithm 1 \
(fbmp), Eq. 3 (MATCHScore), Eq. 4 (delta), section S6.3 (nnomp); released code JonasKlotz/sae-concept-eval at f47d745. \
Differences between paper and code, and what the profiles do:\n\
1. Eq. 3 prints an AND over the coalition; Algorithm 1, the text and the code use OR. Both profiles use OR.\n\
2. The text fires above 0, the code above 1e-8: the default of `threshold` follows the profile.\n\
3. Algorithm 1 rejects a first latent that does not raise F1 above 0; the code keeps it, so a concept without positives is \
matched to latent 0. `paper` leaves the coalition empty, `reference` keeps latent 0.\n\
4. The code runs fbmp for min(20, rows, concepts) steps (concepts, not latents) and cuts to k later; so does `reference`, \
which also pads `f1_by_step` with its last value. naive runs 10 steps and nnomp min(20, latents).\n\
5. naive: the code breaks ties by an unstable sort, in effect highest index first; so does `reference`, which also selects \
latents with F1 = 0.\n\
6. one-to-one: the code adds 1e-8 to three denominators (Eqs. 8-9), but its figures plot the first naive latent without \
it. `reference` adds 1e-8; use `matcher` naive with `k` = 1 for the plotted number.\n\
7. The code writes its last, shorter batch of rows to the wrong offset: some rows are lost and as many are zero (CUB: 674 \
of 5,794). `reference` does the same with `reference_batch` = 1024; 0 switches it off.\n\
8. The untrained dictionary of the code is a dense linear map without the top-k of the trained one, drawn anew for every \
score, and some figures subtract one mean over several strategies. Here the user passes the nulls, and they are subtracted \
strategy by strategy, as in Eq. 4.\n\
9. Paper and code select and score on the same rows, which favours large dictionaries; `match_score_held_out` does not.\n\
10. For pairs of images, the code uses a coalition cut at the best step of the whole run, and one latent if none was \
selected; see `tapa`.",
    interval: "\
Percentile bootstrap over concepts, 1000 resamples (for `delta_match_score`, of the difference to the nulls per concept). \
`low_rows` and `high_rows` of the table `strategy`, for other rows and the same concepts, if `row_groups` is not 0: delete-a-group \
jackknife over seeded groups of rows with latents selected again, the value ± Student's t times the standard error; none \
below two rows per group.",
    needs: &[&CODES, &LABELS],
    uses: &[&NULLS],
    headline: &[
        Output::new("match_score", "Mean F1 over all concepts; without a positive row 0", (0.0, 1.0), Better::Higher),
        Output::new("match_score_present", "Mean F1 over concepts with a positive row", (0.0, 1.0), Better::Higher),
        Output::new(
            "delta_match_score",
            "match_score minus that of untrained dictionaries",
            (-1.0, 1.0),
            Better::Higher,
        ),
        Output::new("match_score_held_out", "Mean F1 on rows not used for selection", (0.0, 1.0), Better::Higher),
    ],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH, ROW_GROUPS],
};

impl Metric for Match {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, labels) = (job.get(&CODES)?, job.get(&LABELS)?);
        let (strategies, order) = (Strategy::from_params(job)?, RowOrder::of_job(job)?);
        let prepared = Lazy::new(|| PreparedCodes::new(job, codes, order.clone(), &strategies));
        let concepts = work.blocks_with(&prepared, "concepts", labels.concepts(), MatchedConcept::new)?;
        drop(prepared);
        let row_intervals = jackknife::row_intervals(job, work, &order, &strategies, &concepts)?;
        let held_out = held_out::held_out(job, work, &order, &strategies)?;
        let mut nulls = Vec::new();
        for (number, (_, null)) in job.all(&NULLS).into_iter().enumerate() {
            let prepared = Lazy::new(|| PreparedCodes::new(job, null, order.clone(), &strategies));
            let name = format!("concepts of null {}", number + 1);
            nulls.push(work.blocks_with(&prepared, &name, labels.concepts(), |prepared, concept| {
                let choices = prepared.choose(&prepared.rows_of(concept))?;
                Ok(choices.iter().map(Choice::f1).collect::<Vec<f64>>())
            })?);
        }
        let findings = Findings {
            strategies: &strategies,
            names: labels.names(),
            rows: labels.rows(),
            concepts: &concepts,
            held_out: &held_out,
            row_intervals: &row_intervals,
            nulls: &nulls.iter().map(|null| &null[..]).collect::<Vec<_>>(),
            profile: job.profile,
        };
        let mut scores = findings.scores(job, work)?;
        if concepts.iter().all(|concept| concept.choices.iter().all(|choice| choice.latents.is_empty())) {
            note_silent(&mut scores, job)?;
        }
        note_settings(&mut scores, job, &order, &strategies)?;
        Ok(scores)
    }
}

/// The result for one concept.
#[derive(Serialize, Deserialize)]
struct MatchedConcept {
    /// Rows with the concept.
    positives: usize,
    /// Rows with a known label.
    known: usize,
    /// The selected latents, by strategy.
    choices: Vec<Choice>,
    /// What they predict, by strategy.
    coverage: Vec<Coverage>,
    /// The number of rows in which each latent of the first strategy fires.
    fired: Vec<usize>,
}

/// Counts of known rows.
#[derive(Serialize, Deserialize)]
struct Coverage {
    predicted: usize,
    true_positives: usize,
}

impl MatchedConcept {
    fn new(prepared: &PreparedCodes<'_>, concept: usize) -> Result<MatchedConcept> {
        let rows = prepared.rows_of(concept);
        let choices = prepared.choose(&rows)?;
        let coverage = |choice: &Choice| {
            let predicted = prepared.predicted(choice, &rows)?;
            Ok(Coverage { predicted: predicted.count(), true_positives: predicted.count_and(&rows.yes) })
        };
        let first = choices.first().map_or(&[][..], |choice| &choice.latents);
        Ok(MatchedConcept {
            positives: rows.yes.count(),
            known: rows.known.count(),
            coverage: choices.iter().map(coverage).collect::<Result<_>>()?,
            fired: first.iter().map(|&latent| prepared.fired(latent)).collect::<Result<_>>()?,
            choices,
        })
    }
}

/// Explains scores of 0 if no latent fires at all: codes can be negative, or too small for their number type.
fn note_silent(scores: &mut Scores, job: &Job<'_>) -> Result<()> {
    let (codes, threshold) = (job.get(&CODES)?, job.number(THRESHOLD.name)?);
    let (smallest, largest) = codes.all()?.extremes();
    if f64::from(largest) > threshold {
        return Ok(());
    }
    scores.note(match (smallest, largest) {
        (0.0, 0.0) => "all codes are 0: no latent fires, and every F1 is 0".into(),
        (_, 0.0) => format!("all codes are 0 or negative, down to {smallest}: no latent fires, and every F1 is 0"),
        _ => format!("no code is above `threshold` ({threshold}); the largest is {largest}: every F1 is 0"),
    });
    Ok(())
}

fn note_settings(scores: &mut Scores, job: &Job<'_>, order: &RowOrder, strategies: &[Strategy]) -> Result<()> {
    let (codes, concepts) = (job.get(&CODES)?, job.get(&LABELS)?.concepts());
    order.note_lost(scores);
    let steps = |strategy: &Strategy| strategy.steps(Profile::Reference, codes, concepts);
    let cut = strategies.iter().find(|strategy| strategy.k.min(codes.latents()) > steps(strategy));
    if let (Profile::Reference, Some(strategy)) = (job.profile, cut) {
        let steps = steps(strategy);
        scores.note(format!("`{strategy}` is cut at {steps} latents, where the released code stops"));
    }
    let latents = codes.latents();
    if let Some((_, null)) = job.all(&NULLS).into_iter().find(|(_, null)| null.latents() != latents) {
        let of_null = null.latents();
        scores.note(format!(
            "a null has {of_null} latents and the codes have {latents}: the larger dictionary matches more by chance"
        ));
    }
    Ok(())
}
