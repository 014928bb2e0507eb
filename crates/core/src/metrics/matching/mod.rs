//! MATCHScore: do latents, alone or in coalitions, fire where people see a concept?

mod concepts;
mod fbmp;
mod firing;
mod held_out;
mod naive;
mod nnomp;
mod prepared;
mod resample;
mod row_order;
mod strategy;
mod tables;
#[cfg(test)]
mod tests;

pub use concepts::{Matching, match_concepts};
pub(super) use row_order::RowOrder;
pub use strategy::{BETA, K, MATCHER, Matcher, REFERENCE_BATCH, Strategy, THRESHOLD};

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
    summary: "How well coalitions of latents fire where people annotated a concept",
    version: 1,
    measures: "\
For every annotated concept (\"striped belly\") a few latents are sought that together fire exactly where the concept is. \
The score is the mean over concepts of the F1 between the annotation and the rows in which any latent of the coalition \
fires: 1 when every concept can be read off the codes, 0 when none can. A coalition is allowed because one concept is \
often split over several latents. A large dictionary finds some match for anything, so the same search is done in \
untrained dictionaries and its score is subtracted (`delta_match_score`); and a search is rewarded for luck, so latents \
are also chosen on one half of the rows and scored on the other (`match_score_held_out`). Latents that serve several \
concepts are listed as polysemantic.",
    definition: "\
Y[a] is the set of rows with concept a, Z[l] the set of rows in which latent l is above `threshold`. Rows whose label is \
unknown do not exist for that concept. F1(Y, P) = 2 |Y and P| / (|Y| + |P|), and 0 when both are empty.\n\
one-to-one: the latent with the largest F1(Y, Z[l]); ties to the lowest index.\n\
naive: the k latents with the largest F1, each judged alone; ties to the lowest index; latents with F1 = 0 are not taken.\n\
fbmp: the residual R starts as Y. Each step takes the latent with the largest \
(1 + beta^2) |R and Z[l]| / (beta^2 |R| + |Z[l]|), 0 for 0/0, ties to the lowest index; then R loses the rows of Z[l]. The \
pursuit ends at k latents, or before the first one that does not raise F1 of the whole coalition against Y; the first \
latent too must raise it above 0.\n\
nnomp: columns of the values of the codes, scaled to length 1, are chosen by largest (signed) correlation with the \
residual of Y; after each choice all weights are fitted by non-negative least squares; the coalition says yes where the \
weighted sum is above 0.5. It ends at k latents, when the best correlation is below 1e-12 |Y|^(1/2), or when a latent \
comes up again. F1 may fall from step to step.\n\
match_score(strategy) = mean over all concepts of F1(Y[a], union of Z[l] over the coalition of a). A concept without a \
positive row counts 0 there; its own F1 is undefined, and match_score_present leaves it out. With no positive row \
anywhere every score is undefined.\n\
delta_match_score = match_score minus the mean over nulls of their match_score with the same strategy.\n\
match_score_held_out: rows are split into two random halves; latents (and weights) are chosen on each half and scored on \
the other; F1 of a concept is the mean of both directions, undefined if a half has no positive row, and the score is the \
mean over the defined ones: compare it with match_score_present.\n\
The headline is the first strategy; table `strategy` has all of them.",
    cost: "\
Everything in memory. fbmp walks the entries of a concept's positive rows about twice, and all latents once per step; all \
k and the first step of all beta share one run. 5,794 rows x 312 concepts x 4,096 latents with 32 active take tens of \
milliseconds per beta. Binary codes take 8 bytes per firing entry, or 1/4 byte per cell where more than one in \
sixteen fires. nnomp makes the products of chosen latents with all latents, 8 bytes each. Held-out scores cost as \
much again as the score, and so does every null.",
    source: "\
Evaluating the Interpretability of SAEs with Concept Annotations (arXiv 2606.24716): Eq. 2 (one-to-one), Algorithm 1 \
(fbmp), Eq. 3 (MATCHScore), Eq. 4 (delta), section S6.3 (nnomp); released program JonasKlotz/sae-concept-eval at f47d745. \
Differences of the two, and what the profiles do:\n\
1. Eq. 3 prints an AND over the coalition; Algorithm 1, the text and the program use OR. Both profiles use OR.\n\
2. The text fires above 0, the program above 1e-8: the default of `threshold` follows the profile.\n\
3. Algorithm 1 rejects a first latent that does not raise F1 above 0; the program keeps it, so a concept without \
positives is matched to latent 0. `paper` leaves the coalition empty, `reference` keeps latent 0.\n\
4. The program runs fbmp for min(20, rows, concepts) steps - concepts, not latents - and cuts to k later; so does \
`reference`, which also pads `f1_by_step` with its last value. naive runs 10 steps and nnomp min(20, latents).\n\
5. naive: the program's order among equal scores is that of an unstable sort, in effect highest index first: so does \
`reference`. `reference` also takes latents with F1 = 0.\n\
6. one-to-one: the program adds 1e-8 to three denominators (Eqs. 8-9), but its figures plot the first naive latent without \
it. `reference` has the 1e-8; use `--matcher naive --k 1` for the plotted number.\n\
7. The program writes its last, short batch of rows to the wrong place: part of the rows is lost and as many are zero \
(CUB: 674 of 5,794). `reference` does the same with `reference_batch` = 1024; 0 switches it off.\n\
8. The program's untrained dictionary is a dense linear map without the top-k of the trained one, drawn anew for every \
measure, and some figures subtract one mean over several strategies. Here nulls are given by the user and subtracted \
strategy by strategy, as Eq. 4 says.\n\
9. Paper and program choose and score on the same rows, which flatters large dictionaries. `match_score_held_out` does not.\n\
10. Pair scores of the program use a coalition cut at the best step of the whole run, and one latent where nothing was \
chosen; see `tapa`.",
    interval: "\
percentile bootstrap, 1000 resamples of concepts (for `delta_match_score` of differences to the nulls, concept by \
concept); `low_rows` and `high_rows` of table `strategy`: 200 resamples of rows with the coalitions kept",
    needs: &[&CODES, &LABELS],
    uses: &[&NULLS],
    headline: &[
        Output {
            key: "match_score",
            doc: "mean F1 over all concepts; a concept without a positive row counts 0",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "match_score_present",
            doc: "mean F1 over the concepts that have a positive row",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "delta_match_score",
            doc: "match_score minus that of untrained dictionaries under the same strategy",
            range: (-1.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "match_score_held_out",
            doc: "mean F1 on rows that took no part in choosing the latents",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
    ],
    params: &[MATCHER, BETA, K, THRESHOLD, REFERENCE_BATCH],
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
        let row_intervals = resample::row_intervals(job, work, &prepared, &concepts, strategies.len())?;
        drop(prepared);
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
        note_settings(&mut scores, job, &order, &strategies)?;
        Ok(scores)
    }
}

/// What was found out about one concept.
#[derive(Serialize, Deserialize)]
struct MatchedConcept {
    /// Rows where the concept is.
    positives: usize,
    /// Rows where somebody looked for it.
    known: usize,
    /// What each strategy chose.
    choices: Vec<Choice>,
    /// What the latents of each strategy cover.
    coverage: Vec<Coverage>,
    /// In how many rows each latent of the first strategy fires.
    fired: Vec<usize>,
}

/// The known rows in which a coalition says that its concept is there.
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

fn note_settings(scores: &mut Scores, job: &Job<'_>, order: &RowOrder, strategies: &[Strategy]) -> Result<()> {
    let codes = job.get(&CODES)?;
    if order.lost() > 0 {
        scores.note(format!(
            "{} of {} rows are lost and as many are zero, as in the released program; `reference_batch` 0 keeps them all",
            order.lost(),
            codes.rows()
        ));
    }
    let most = |matcher: Matcher| if matcher == Matcher::Naive { 10 } else { 20 };
    let beyond = strategies.iter().find(|strategy| strategy.k > most(strategy.matcher));
    if let (Profile::Reference, Some(strategy)) = (job.profile, beyond) {
        scores.note(format!(
            "`{strategy}` is cut at {} latents, where the released program ends",
            most(strategy.matcher)
        ));
    }
    if let Some((_, null)) = job.all(&NULLS).into_iter().find(|(_, null)| null.latents() != codes.latents()) {
        scores.note(format!(
            "a null has {} latents and the codes have {}: the larger dictionary finds more by chance",
            null.latents(),
            codes.latents()
        ));
    }
    Ok(())
}
