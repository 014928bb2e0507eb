//! From matchings to scores: headline, tables and notes.

use super::Matching;
use super::concepts::Field;
use crate::codes::Latent;
use crate::error::Result;
use crate::kernel::bits::Bits;
use crate::kernel::statistics::{deviation, mean};
use crate::labels::Concept;
use crate::results::{Cells, Interval, Profile, Scores, Table, bootstrap_mean};

/// One strategy with everything that was found out about it.
pub(super) struct Judged {
    /// The coalitions.
    pub matching: Matching,
    /// The known rows in which each coalition says yes.
    pub predicted: Vec<Bits>,
    /// F1 of each concept on rows that did not choose.
    pub held_out: Vec<Option<f64>>,
    /// The interval of the score over rows.
    pub rows: Option<Interval>,
    /// F1 of each concept under the same strategy, by null.
    pub nulls: Vec<Vec<f64>>,
}

/// A mean over concepts.
#[derive(Clone, Copy, Default)]
struct Average {
    value: Option<f64>,
    interval: Option<Interval>,
    n: usize,
}

impl Average {
    fn of(values: &[f64], seed: u64, purpose: &str) -> Average {
        Average { value: mean(values), interval: bootstrap_mean(values, seed, purpose), n: values.len() }
    }
}

/// The numbers of one strategy.
struct Summary {
    all: Average,
    present: Average,
    delta: Average,
    held_out: Average,
    null_score: Option<f64>,
    null_deviation: Option<f64>,
}

/// What the tables speak about.
pub(super) struct Subject<'a> {
    /// The codes and labels.
    pub field: &'a Field<'a>,
    /// The seed of the intervals.
    pub seed: u64,
}

impl Subject<'_> {
    fn positives(&self) -> Vec<usize> {
        (0..self.field.labels.concepts())
            .map(|concept| self.field.labels.yes(Concept(concept as u32)).count())
            .collect()
    }

    /// Everything at once.
    pub fn scores(&self, strategies: &[Judged]) -> Result<Scores> {
        let positives = self.positives();
        let summaries: Vec<Summary> = strategies.iter().map(|judged| self.summary(judged, &positives)).collect();
        let mut scores = Scores::default();
        if let (Some(first), Some(summary)) = (strategies.first(), summaries.first()) {
            for (key, average) in [
                ("match_score", summary.all),
                ("match_score_present", summary.present),
                ("delta_match_score", summary.delta),
                ("match_score_held_out", summary.held_out),
            ] {
                scores.headline(key, average.value, average.interval, average.n);
            }
            scores.tables.push(strategy_table(strategies, &summaries));
            scores.tables.push(self.concept_table(strategies, &positives));
            let (table, several) = self.latent_table(first)?;
            self.notes(&mut scores, first, &positives);
            if table.rows() > 0 {
                let chosen = table.rows();
                let strategy = first.matching.strategy;
                scores.note(format!(
                    "{several} of {chosen} latents chosen by `{strategy}` serve more than one concept (polysemantic)"
                ));
            }
            scores.tables.push(table);
        }
        Ok(scores)
    }

    fn summary(&self, judged: &Judged, positives: &[usize]) -> Summary {
        let f1: Vec<f64> = (0..positives.len()).map(|concept| judged.matching.f1(Concept(concept as u32))).collect();
        let present: Vec<f64> = f1.iter().zip(positives).filter(|&(_, &rows)| rows > 0).map(|(&f1, _)| f1).collect();
        // A mean of nothing but zeros by convention says nothing.
        let undefined = self.field.settings.profile == Profile::Paper && present.is_empty();
        let null_scores: Vec<f64> = judged.nulls.iter().filter_map(|null| mean(null)).collect();
        let gain = |(concept, &f1): (usize, &f64)| {
            f1 - judged.nulls.iter().map(|null| null[concept]).sum::<f64>() / judged.nulls.len() as f64
        };
        let gains: Vec<f64> = f1.iter().enumerate().map(gain).collect();
        let held_out: Vec<f64> = judged.held_out.iter().flatten().copied().collect();
        Summary {
            all: if undefined { Average::default() } else { Average::of(&f1, self.seed, "match/concepts") },
            present: Average::of(&present, self.seed, "match/present"),
            delta: if undefined || judged.nulls.is_empty() {
                Average::default()
            } else {
                Average::of(&gains, self.seed, "match/delta")
            },
            held_out: Average::of(&held_out, self.seed, "match/held-out"),
            null_score: mean(&null_scores),
            null_deviation: deviation(&null_scores),
        }
    }

    fn concept_table(&self, strategies: &[Judged], positives: &[usize]) -> Table {
        let names = self.field.labels.names();
        let cells = || strategies.iter().flat_map(|judged| (0..names.len()).map(move |concept| (judged, concept)));
        let yes = |concept: usize| self.field.labels.yes(Concept(concept as u32));
        let part = |part: usize, whole: usize| (whole > 0).then(|| part as f64 / whole as f64);
        let defined = |concept: usize| self.field.settings.profile == Profile::Reference || positives[concept] > 0;
        let coalition = |(judged, concept): (&Judged, usize)| {
            judged.matching.coalitions[concept].iter().map(|latent| i64::from(latent.0)).collect()
        };
        let by_step = |(judged, concept): (&Judged, usize)| {
            judged.matching.f1_by_step[concept].iter().map(|&f1| Some(f1)).collect()
        };
        let f1 =
            |(judged, concept): (&Judged, usize)| defined(concept).then(|| judged.matching.f1(Concept(concept as u32)));
        let precision = |(judged, concept): (&Judged, usize)| {
            part(judged.predicted[concept].count_and(yes(concept)), judged.predicted[concept].count())
        };
        let recall = |(judged, concept): (&Judged, usize)| {
            part(judged.predicted[concept].count_and(yes(concept)), positives[concept])
        };
        Table::new("concept")
            .words("strategy", cells().map(|(judged, _)| judged.matching.strategy.to_string()))
            .words("name", cells().map(|(_, concept)| names[concept].clone()))
            .numbers("f1", cells().map(f1))
            .with("coalition", Cells::WholeLists(cells().map(coalition).collect()))
            .with("f1_by_step", Cells::NumberLists(cells().map(by_step).collect()))
            .counts("positives", cells().map(|(_, concept)| positives[concept]))
            .numbers("precision", cells().map(precision))
            .numbers("recall", cells().map(recall))
            .numbers("f1_held_out", cells().map(|(judged, concept)| judged.held_out[concept]))
    }

    /// The latents of one strategy and how many of them serve several concepts.
    fn latent_table(&self, judged: &Judged) -> Result<(Table, usize)> {
        let mut chosen: Vec<(u32, i64)> = Vec::new();
        for (concept, coalition) in judged.matching.coalitions.iter().enumerate() {
            chosen.extend(coalition.iter().map(|latent| (latent.0, concept as i64)));
        }
        chosen.sort_unstable();
        let (mut latents, mut concepts, mut names, mut fired) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for group in chosen.chunk_by(|a, b| a.0 == b.0) {
            latents.push(group[0].0 as usize);
            fired.push(self.field.fired(Latent(group[0].0))?);
            let of: Vec<i64> = group.iter().map(|entry| entry.1).collect();
            let words: Vec<&str> =
                of.iter().map(|&concept| self.field.labels.names()[concept as usize].as_str()).collect();
            names.push(words.join("; "));
            concepts.push(of);
        }
        let several = concepts.iter().filter(|of| of.len() > 1).count();
        let table = Table::new("latent")
            .counts("latent", latents)
            .with("concepts", Cells::WholeLists(concepts))
            .words("names", names)
            .counts("fired", fired);
        Ok((table, several))
    }

    fn notes(&self, scores: &mut Scores, first: &Judged, positives: &[usize]) {
        let concepts = positives.len();
        let absent = positives.iter().filter(|&&rows| rows == 0).count();
        if concepts == 0 {
            scores.note("there are no concepts: every score is undefined");
        } else if absent == concepts {
            scores.note("no concept has a positive row: every F1 is undefined");
        } else if absent > 0 {
            let treated = match self.field.settings.profile {
                Profile::Paper => {
                    "their F1 is undefined; they count 0 in `match_score`, which averages over all concepts"
                }
                Profile::Reference => {
                    "as in the released program they are matched all the same and count 0 in `match_score`"
                }
            };
            let verb = if absent == 1 { "has" } else { "have" };
            scores.note(format!(
                "{absent} of {concepts} concepts {verb} no positive row: {treated}; `match_score_present` leaves them out"
            ));
        }
        let cells = concepts * self.field.labels.rows();
        let known: usize = (0..concepts).map(|concept| self.field.labels.known(Concept(concept as u32)).count()).sum();
        if known < cells {
            scores.note(format!(
                "{} of {cells} labels are unknown: those rows do not exist for their concept",
                cells - known
            ));
        }
        let untested = first.held_out.iter().filter(|f1| f1.is_none()).count();
        if untested > absent {
            scores.note(format!(
                "{} concepts have positive rows in one half only: they are not in `match_score_held_out`",
                untested - absent
            ));
        }
        match first.nulls.len() {
            0 => scores.note(
                "no null codes: `delta_match_score` is undefined; give codes of untrained dictionaries of the same size with --null",
            ),
            1 => scores.note("one null: its deviation is undefined; three or more seeds show how much the null moves"),
            _ => {}
        }
    }
}

fn strategy_table(strategies: &[Judged], summaries: &[Summary]) -> Table {
    let of = |judged: &Judged| judged.matching.strategy;
    let low = |interval: Option<Interval>| interval.map(|interval| interval.low);
    let high = |interval: Option<Interval>| interval.map(|interval| interval.high);
    Table::new("strategy")
        .words("strategy", strategies.iter().map(|judged| of(judged).to_string()))
        .words("matcher", strategies.iter().map(|judged| of(judged).matcher.name()))
        .numbers("beta", strategies.iter().map(|judged| of(judged).beta))
        .counts("k", strategies.iter().map(|judged| of(judged).k))
        .numbers("match_score", summaries.iter().map(|summary| summary.all.value))
        .numbers("low", summaries.iter().map(|summary| low(summary.all.interval)))
        .numbers("high", summaries.iter().map(|summary| high(summary.all.interval)))
        .numbers("low_rows", strategies.iter().map(|judged| low(judged.rows)))
        .numbers("high_rows", strategies.iter().map(|judged| high(judged.rows)))
        .numbers("match_score_present", summaries.iter().map(|summary| summary.present.value))
        .numbers("null_score", summaries.iter().map(|summary| summary.null_score))
        .numbers("null_deviation", summaries.iter().map(|summary| summary.null_deviation))
        .numbers("delta_match_score", summaries.iter().map(|summary| summary.delta.value))
        .numbers("match_score_held_out", summaries.iter().map(|summary| summary.held_out.value))
}
