//! Headline numbers with intervals over concepts, and tables by model and latent.

use super::bootstrap::{interval_of_defined, mean_of_defined, resampled, with_interval};
use super::bounds::{ALPHA, Bound};
use super::concept::{Class, Concept, delta};
use super::measured::Measured;
use super::{RANKED, ranking};
use crate::context::Reserved;
use crate::error::Result;
use crate::results::{Cells, Interval, Scores, Table};
use crate::run::{Job, POOLING, Work};
use etalon_kernel::statistics::{false_discovery, quantile, skewness};

/// A number that is computed from those of all sides.
type Statistic<'a> = dyn Fn(&[SideNumbers]) -> Option<f64> + 'a;

/// Properties that are counted over concepts.
const PROPERTIES: [&str; 5] = ["suppressed", "exaggerated", "suppressed_certain", "exaggerated_certain", "significant"];

/// The numbers of a side: the share of concepts with each of [`PROPERTIES`], then the skewness of gaps and of δ.
type SideNumbers = [Option<f64>; 7];

/// Headlines: the key, whether the side is the null (else the mean over models), and the index in [`SideNumbers`].
const HEADLINES: [(&str, bool, usize); 10] = [
    ("blindspots_significant", false, 4),
    ("null_significant", true, 4),
    ("suppressed", false, 0),
    ("exaggerated", false, 1),
    ("suppressed_certain", false, 2),
    ("exaggerated_certain", false, 3),
    ("null_suppressed", true, 0),
    ("null_exaggerated", true, 1),
    ("gap_skewness", false, GAP_SKEWNESS),
    ("delta_skewness", false, DELTA_SKEWNESS),
];

const GAP_SKEWNESS: usize = 5;
const DELTA_SKEWNESS: usize = 6;

/// Concepts with their p and q, by side (models, then real against real) and latent.
pub(super) struct Judged<'a> {
    measured: &'a Measured,
    p: Vec<Vec<Option<f64>>>,
    q: Vec<Vec<Option<f64>>>,
    /// By side, the concepts that are averaged over.
    sides: Vec<Vec<Option<JudgedConcept>>>,
}

/// One concept of one side.
#[derive(Clone, Copy)]
struct JudgedConcept {
    /// Which of [`PROPERTIES`] it has.
    properties: [bool; 5],
    gap: f64,
    delta: f64,
}

fn count_properties<'a>(concepts: impl Iterator<Item = &'a JudgedConcept>) -> [usize; 5] {
    let mut counts = [0; 5];
    for concept in concepts {
        counts.iter_mut().zip(concept.properties).for_each(|(count, has)| *count += usize::from(has));
    }
    counts
}

fn numbers_of_side(concepts: &[&JudgedConcept]) -> SideNumbers {
    let gaps: Vec<f64> = concepts.iter().map(|concept| concept.gap).collect();
    let deltas: Vec<f64> = concepts.iter().map(|concept| concept.delta).collect();
    let share = |count: usize| (!concepts.is_empty()).then(|| count as f64 / concepts.len() as f64);
    let [a, b, c, d, e] = count_properties(concepts.iter().copied()).map(share);
    [a, b, c, d, e, skewness(&gaps), skewness(&deltas)]
}

impl<'a> Judged<'a> {
    pub fn new(measured: &'a Measured, p: Vec<Vec<Option<f64>>>) -> Judged<'a> {
        let q: Vec<Vec<Option<f64>>> = p.iter().map(|p| false_discovery(p)).collect();
        let counts = |&latent: &usize| measured.dead_count || measured.sides().any(|side| side[latent].is_some());
        let latents: Vec<usize> = (0..measured.latents).filter(counts).collect();
        let sides = measured.sides().zip(&q).map(|(side, q)| {
            let judge = |&latent: &usize| {
                let Some(concept) = &side[latent] else {
                    let dead = JudgedConcept { properties: [false; 5], gap: 0.0, delta: delta(0.0, 1.0) };
                    return (measured.dead_count && measured.rows > 0).then_some(dead);
                };
                let (class, certain) = (concept.class(&measured.rules), concept.certainty(&measured.rules));
                Some(JudgedConcept {
                    properties: [
                        class == Class::Suppressed,
                        class == Class::Exaggerated,
                        certain == Class::Suppressed,
                        certain == Class::Exaggerated,
                        q[latent].is_some_and(|q| q < ALPHA),
                    ],
                    gap: concept.gap(),
                    delta: delta(concept.gap(), measured.rules.temperature),
                })
            };
            latents.iter().map(judge).collect()
        });
        let sides = sides.collect();
        Judged { measured, p, q, sides }
    }

    /// How many concepts are averaged over.
    fn concepts(&self) -> usize {
        self.sides.first().map_or(0, Vec::len)
    }

    /// The numbers of all sides, by resample of the concepts.
    pub fn resampled(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Vec<Vec<SideNumbers>>>> {
        // An index, a reference, a gap and a δ per concept.
        resampled(job, work, ("blindspots/concepts", self.concepts(), 32), |drawn| self.numbers(drawn))
    }

    /// The numbers of all sides over some concepts.
    fn numbers(&self, drawn: &[usize]) -> Vec<SideNumbers> {
        let of_side = |side: &Vec<Option<JudgedConcept>>| {
            numbers_of_side(&drawn.iter().filter_map(|&concept| side[concept].as_ref()).collect::<Vec<_>>())
        };
        self.sides.iter().map(of_side).collect()
    }

    /// `replicates` are the numbers of all resamples.
    pub fn scores(&self, replicates: &[Vec<SideNumbers>], job: &Job<'_>) -> Result<Scores> {
        let measured = self.measured;
        let numbers = self.numbers(&(0..self.concepts()).collect::<Vec<_>>());
        let interval = |statistic: &Statistic<'_>| -> Option<Interval> {
            let replicates = replicates.iter().map(|replicate| statistic(replicate));
            (self.concepts() > 1).then(|| interval_of_defined(replicates)).flatten()
        };
        let (models, live) = (measured.models.len(), measured.live());
        let null_live = measured.null.iter().flatten().count();
        let mut scores = Scores::default();
        for (key, null, number) in HEADLINES {
            let of_models = |sides: &[SideNumbers]| mean_of_defined(sides[..models].iter().map(|side| side[number]));
            let statistic = |sides: &[SideNumbers]| if null { sides[models][number] } else { of_models(sides) };
            scores.headline(key, statistic(&numbers), interval(&statistic), if null { null_live } else { live });
        }
        let bound = |bound: Bound, concepts: usize| {
            bound.half_width(measured.rows, measured.range, measured.rules.temperature, concepts)
        };
        scores.headline("bound", bound(Bound::Paired, live), None, live);
        scores.headline("bound_published", bound(Bound::Published, live), None, live);
        self.notes(&mut scores, live, job);

        scores.tables.push(self.model_table(&numbers, &interval));
        scores.tables.push(self.latent_table());
        scores.tables.push(self.latent_model_table());
        scores.tables.push(ranking::table(measured, job.whole(RANKED.name)?));
        let rows: Vec<(Bound, usize)> = Bound::ALL.into_iter().flat_map(|bound| [(bound, 1), (bound, live)]).collect();
        scores.tables.push(
            Table::new("bound")
                .words("bound", rows.iter().map(|(bound, _)| bound.name()))
                .counts("concepts", rows.iter().map(|(_, concepts)| *concepts))
                .numbers("half_width", rows.iter().map(|&(kind, concepts)| bound(kind, concepts))),
        );
        Ok(scores)
    }

    fn notes(&self, scores: &mut Scores, live: usize, job: &Job<'_>) {
        let measured = self.measured;
        let rows = match job.find(&POOLING) {
            Some(pool) => format!("rows are samples, pooled by `{}`", pool.name()),
            None => "rows are not pooled".into(),
        };
        let temperature = measured.rules.temperature;
        scores.note(format!("{} pairs of rows; {rows}; δ and all counts are at T = {temperature}", measured.rows));
        let dead = measured.latents - live;
        if dead > 0 {
            let counted = if measured.dead_count { "count as aligned" } else { "are left out" };
            scores.note(format!("{dead} of {} concepts fire nowhere and {counted}", measured.latents));
        }
        match measured.rows {
            0 => scores.note("there are no rows: undefined"),
            1 => scores.note("one pair of rows has no standard deviation: intervals and p are undefined"),
            _ if live < 2 => scores.note("fewer than two concepts fire: no interval over concepts"),
            _ => {}
        }
        if measured.rows > 0 && live < 3 {
            scores.note("skewness needs at least three concepts with different gaps: undefined or meaningless");
        }
        if measured.null.iter().flatten().next().is_none() {
            scores.note("no concept fires in a real row: the null is undefined");
        }
        if scores.value("gap_skewness").is_none() {
            scores.note("all gaps are equal: their skewness is undefined");
        }
        if measured.range_seen {
            scores.note(format!(
                "bounds use the largest observed difference between two values, {:.4}; set `value_range` if larger ones \
                 are possible",
                measured.range
            ));
        }
    }

    /// One row per model, and one for real against real.
    fn model_table(&self, numbers: &[SideNumbers], interval: &dyn Fn(&Statistic<'_>) -> Option<Interval>) -> Table {
        let measured = self.measured;
        let mut table = Table::new("model")
            .words("name", measured.names.iter().map(String::as_str).chain(["real against real"]))
            .counts("live", measured.sides().map(|side| side.iter().flatten().count()));
        let counts: Vec<[usize; 5]> = self.sides.iter().map(|side| count_properties(side.iter().flatten())).collect();
        for (index, name) in PROPERTIES.iter().enumerate() {
            table = table.counts(name, counts.iter().map(|counts| counts[index]));
        }
        let median = |value: fn(&JudgedConcept) -> f64| {
            self.sides.iter().map(move |side| {
                let mut sorted: Vec<f64> = side.iter().flatten().map(value).collect();
                sorted.sort_by(f64::total_cmp);
                quantile(&sorted, 0.5)
            })
        };
        table = table
            .numbers("median_gap", median(|concept| concept.gap))
            .numbers("median_delta", median(|concept| concept.delta));
        for (name, number) in [("gap_skewness", GAP_SKEWNESS), ("delta_skewness", DELTA_SKEWNESS)] {
            let cell = |side: usize| (numbers[side][number], interval(&|sides: &[SideNumbers]| sides[side][number]));
            table = with_interval(table, name, (0..numbers.len()).map(cell));
        }
        table
    }

    /// One row per model and concept that fires in it or in the real rows; `model` is a row of the table `model`.
    fn latent_model_table(&self) -> Table {
        let measured = self.measured;
        let mut lines: Vec<(usize, usize, Concept)> = Vec::new();
        for (model, side) in measured.models.iter().enumerate() {
            lines.extend(side.iter().enumerate().filter_map(|(latent, concept)| Some((model, latent, (*concept)?))));
        }
        let rules = &measured.rules;
        let concepts = || lines.iter().map(|(_, _, concept)| concept);
        let table = Table::new("latent_model")
            .counts("model", lines.iter().map(|line| line.0))
            .counts("latent", lines.iter().map(|line| line.1))
            .numbers("generated_mean", concepts().map(|concept| Some(concept.generated)))
            .counts("generated_fires", concepts().map(|concept| concept.generated_fires as usize));
        with_interval(table, "gap", concepts().map(|concept| (Some(concept.gap()), concept.interval())))
            .numbers("deviation", concepts().map(|concept| concept.deviation))
            .numbers("bernstein", concepts().map(|concept| concept.bernstein))
            .numbers("relative_gap", concepts().map(Concept::relative))
            .numbers("delta", concepts().map(|concept| Some(delta(concept.gap(), rules.temperature))))
            .numbers("p", lines.iter().map(|line| self.p[line.0][line.1]))
            .numbers("q", lines.iter().map(|line| self.q[line.0][line.1]))
            .words("class", concepts().map(|concept| concept.class(rules).name()))
            .words("certain_class", concepts().map(|concept| concept.certainty(rules).name()))
            .with(
                "top_rows",
                Cells::WholeLists(lines.iter().map(|line| measured.sums.top_rows(line.0 + 1, line.1)).collect()),
            )
    }

    /// One row per latent, dead ones included.
    fn latent_table(&self) -> Table {
        let measured = self.measured;
        let null = || measured.null.iter().map(Option::as_ref);
        let top_rows = (0..measured.latents).map(|latent| measured.sums.top_rows(0, latent)).collect();
        let table = Table::new("latent")
            .counts("latent", 0..measured.latents)
            .numbers("real_mean", measured.real_means().map(Some))
            .counts("real_fires", measured.real_fires().map(|fires| fires as usize));
        let gap = |concept: Option<&Concept>| (concept.map(Concept::gap), concept.and_then(Concept::interval));
        with_interval(table, "null_gap", null().map(gap))
            .numbers("null_deviation", null().map(|concept| concept.and_then(|concept| concept.deviation)))
            .numbers("null_q", self.q[measured.models.len()].iter().copied())
            .with("top_rows", Cells::WholeLists(top_rows))
    }
}
