//! Headline numbers, tables and notes.

use etalon_kernel::statistics::{deviation, mean};
use serde::{Deserialize, Serialize};

use super::MatchedConcept;
use super::strategy::{Strategy, concept_table};
use crate::error::Result;
use crate::metrics::estimate::Estimate;
use crate::results::{Cells, Interval, Profile, Scores, Table};
use crate::run::{Job, Work};

/// The numbers of one strategy.
#[derive(Serialize, Deserialize)]
struct Summary {
    all: Estimate,
    present: Estimate,
    delta: Estimate,
    held_out: Estimate,
    null_score: Option<f64>,
    null_deviation: Option<f64>,
}

/// The results of all stages.
pub(super) struct Findings<'a> {
    pub strategies: &'a [Strategy],
    pub names: &'a [String],
    pub rows: usize,
    /// The selected latents, by concept.
    pub concepts: &'a [MatchedConcept],
    /// Held-out F1 by concept and strategy.
    pub held_out: &'a [Vec<Option<f64>>],
    /// The interval over rows, by strategy.
    pub row_intervals: &'a [Option<Interval>],
    /// F1 by null, concept and strategy.
    pub nulls: &'a [&'a [Vec<f64>]],
    pub profile: Profile,
}

impl Findings<'_> {
    pub fn scores(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let count = self.strategies.len();
        let summaries = work.blocks("strategies", count, |strategy| self.summary(strategy, job))?;
        let mut scores = Scores::default();
        if let Some(summary) = summaries.first() {
            for (key, estimate) in [
                ("match_score", summary.all),
                ("match_score_present", summary.present),
                ("delta_match_score", summary.delta),
                ("match_score_held_out", summary.held_out),
            ] {
                estimate.headline(key, &mut scores);
            }
            scores.tables.push(self.strategy_table(&summaries));
            scores.tables.push(self.concept_table());
            let (table, several) = self.latent_table();
            self.notes(&mut scores);
            if table.rows() > 0 {
                let (selected, strategy) = (table.rows(), self.strategies[0]);
                scores.note(format!(
                    "{several} of {selected} latents selected by `{strategy}` serve more than one concept (polysemantic)"
                ));
            }
            scores.tables.push(table);
        }
        Ok(scores)
    }

    fn summary(&self, strategy: usize, job: &Job<'_>) -> Result<Summary> {
        let average = |values: &[f64], purpose: &str| -> Result<Estimate> {
            job.check()?;
            Ok(Estimate::mean(values, job.seed, purpose))
        };
        let f1: Vec<f64> = self.concepts.iter().map(|concept| concept.choices[strategy].f1()).collect();
        let positives = self.concepts.iter().map(|concept| concept.positives);
        let present: Vec<f64> = f1.iter().zip(positives).filter(|&(_, rows)| rows > 0).map(|(&f1, _)| f1).collect();
        // Without any positive row, the mean would only average conventional zeros.
        let undefined = self.profile == Profile::Paper && present.is_empty();
        let of_null = |null: &&[Vec<f64>]| mean(&null.iter().map(|f1| f1[strategy]).collect::<Vec<f64>>());
        let null_scores: Vec<f64> = self.nulls.iter().filter_map(of_null).collect();
        let gain = |(concept, &f1): (usize, &f64)| {
            f1 - self.nulls.iter().map(|null| null[concept][strategy]).sum::<f64>() / self.nulls.len() as f64
        };
        let gains: Vec<f64> = f1.iter().enumerate().map(gain).collect();
        let held_out: Vec<f64> = self.held_out.iter().filter_map(|of_concept| of_concept[strategy]).collect();
        Ok(Summary {
            all: if undefined { Estimate::default() } else { average(&f1, "match/concepts")? },
            present: average(&present, "match/present")?,
            delta: if undefined || self.nulls.is_empty() {
                Estimate::default()
            } else {
                average(&gains, "match/delta")?
            },
            held_out: average(&held_out, "match/held-out")?,
            null_score: mean(&null_scores),
            null_deviation: deviation(&null_scores),
        })
    }

    fn strategy_table(&self, summaries: &[Summary]) -> Table {
        let strategies = || self.strategies.iter();
        Table::new("strategy")
            .words("strategy", strategies().map(Strategy::to_string))
            .words("matcher", strategies().map(|strategy| strategy.matcher.name()))
            .numbers("beta", strategies().map(|strategy| strategy.beta))
            .counts("k", strategies().map(|strategy| strategy.k))
            .numbers("match_score", summaries.iter().map(|summary| summary.all.value))
            .numbers("low", summaries.iter().map(|summary| summary.all.low()))
            .numbers("high", summaries.iter().map(|summary| summary.all.high()))
            .numbers("low_rows", self.row_intervals.iter().map(|interval| interval.map(|interval| interval.low)))
            .numbers("high_rows", self.row_intervals.iter().map(|interval| interval.map(|interval| interval.high)))
            .numbers("match_score_present", summaries.iter().map(|summary| summary.present.value))
            .numbers("null_score", summaries.iter().map(|summary| summary.null_score))
            .numbers("null_deviation", summaries.iter().map(|summary| summary.null_deviation))
            .numbers("delta_match_score", summaries.iter().map(|summary| summary.delta.value))
            .numbers("match_score_held_out", summaries.iter().map(|summary| summary.held_out.value))
    }

    fn concept_table(&self) -> Table {
        let part = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let defined = |concept: &MatchedConcept| self.profile == Profile::Reference || concept.positives > 0;
        let cells = || (0..self.strategies.len()).flat_map(|s| self.concepts.iter().map(move |concept| (s, concept)));
        let choices = || cells().map(|(s, concept)| &concept.choices[s]);
        let coalitions = choices().map(|choice| choice.latents.iter().map(|&latent| i64::from(latent)).collect());
        let steps = choices().map(|choice| choice.f1_by_step.iter().map(|&f1| Some(f1)).collect());
        let held_out = (0..self.strategies.len()).flat_map(|s| self.held_out.iter().map(move |concept| concept[s]));
        concept_table(self.strategies, self.names)
            .numbers("f1", cells().map(|(s, concept)| defined(concept).then(|| concept.choices[s].f1())))
            .with("coalition", Cells::WholeLists(coalitions.collect()))
            .with("f1_by_step", Cells::NumberLists(steps.collect()))
            .counts("positives", cells().map(|(_, concept)| concept.positives))
            .numbers("precision", cells().map(|(s, c)| part(c.coverage[s].true_positives, c.coverage[s].predicted)))
            .numbers("recall", cells().map(|(s, concept)| part(concept.coverage[s].true_positives, concept.positives)))
            .numbers("f1_held_out", held_out)
    }

    /// The latents of the first strategy, and the number of those that serve several concepts.
    fn latent_table(&self) -> (Table, usize) {
        let mut chosen: Vec<(u32, usize, usize)> = Vec::new();
        for (index, concept) in self.concepts.iter().enumerate() {
            let latents = concept.choices.first().map_or(&[][..], |choice| &choice.latents);
            chosen.extend(latents.iter().zip(&concept.fired).map(|(&latent, &fired)| (latent, index, fired)));
        }
        chosen.sort_unstable();
        let groups = || chosen.chunk_by(|a, b| a.0 == b.0);
        let concepts: Vec<Vec<i64>> =
            groups().map(|group| group.iter().map(|entry| entry.1 as i64).collect()).collect();
        let names = |group: &[(u32, usize, usize)]| {
            group.iter().map(|entry| self.names[entry.1].as_str()).collect::<Vec<_>>().join("; ")
        };
        let several = concepts.iter().filter(|of| of.len() > 1).count();
        let table = Table::new("latent")
            .counts("latent", groups().map(|group| group[0].0 as usize))
            .with("concepts", Cells::WholeLists(concepts))
            .words("names", groups().map(names))
            .counts("fired", groups().map(|group| group[0].2));
        (table, several)
    }

    fn notes(&self, scores: &mut Scores) {
        let concepts = self.concepts.len();
        let absent = self.concepts.iter().filter(|concept| concept.positives == 0).count();
        if concepts == 0 {
            scores.note("there are no concepts: every score is undefined");
        } else if absent == concepts {
            scores.note("no concept has a positive row: every F1 is undefined");
        } else if absent > 0 {
            let treated = match self.profile {
                Profile::Paper => {
                    "their F1 is undefined; they count 0 in `match_score`, which averages over all concepts"
                }
                Profile::Reference => "as in the released code, they are matched and count 0 in `match_score`",
            };
            let verb = if absent == 1 { "has" } else { "have" };
            scores.note(format!(
                "{absent} of {concepts} concepts {verb} no positive row: {treated}; `match_score_present` leaves them out"
            ));
        }
        let cells = concepts * self.rows;
        let known: usize = self.concepts.iter().map(|concept| concept.known).sum();
        if known < cells {
            scores.note(format!(
                "{} of {cells} labels are unknown: these rows are ignored for their concept",
                cells - known
            ));
        }
        let untested = self.held_out.iter().filter(|f1| f1.first().is_some_and(Option::is_none)).count();
        if untested > absent {
            scores.note(format!(
                "{} concepts have positive rows in one half only: `match_score_held_out` leaves them out",
                untested - absent
            ));
        }
        match self.nulls.len() {
            0 => scores.note(
                "no null codes: `delta_match_score` is undefined; pass codes of untrained dictionaries of the same size as `null`",
            ),
            1 => scores.note("one null: its deviation is undefined; use three or more seeds to estimate it"),
            _ => {}
        }
    }
}
