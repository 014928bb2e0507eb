//! Headline numbers with intervals over concepts, and tables by model and latent.

use serde::{Deserialize, Serialize};

use super::bounds::{ALPHA, Bound};
use super::concept::{Class, Concept, delta};
use super::measured::Measured;
use super::{RANKED, ranking};
use crate::codes::Pool;
use crate::error::Result;
use crate::results::{Cells, Interval, Scores, Table, percentile_interval};
use crate::run::{Job, POOLING};
use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{false_discovery, mean, quantile, skewness};

/// Concepts with their p and q, by side (models, then real against real) and latent.
pub(super) struct Judged<'a> {
    measured: &'a Measured,
    p: Vec<Vec<Option<f64>>>,
    q: Vec<Vec<Option<f64>>>,
    /// By side, the concepts that are averaged over.
    drawn: Vec<Vec<Option<Drawn>>>,
}

/// One concept of one side, ready to be averaged.
#[derive(Clone, Copy)]
struct Drawn {
    class: Class,
    certain: Class,
    significant: bool,
    gap: f64,
    delta: f64,
}

/// Concepts with a property.
#[derive(Clone, Copy, Debug, Default)]
struct ClassCounts {
    suppressed: usize,
    exaggerated: usize,
    suppressed_certain: usize,
    exaggerated_certain: usize,
    significant: usize,
}

impl ClassCounts {
    fn add(&mut self, drawn: &Drawn) {
        self.suppressed += usize::from(drawn.class == Class::Suppressed);
        self.exaggerated += usize::from(drawn.class == Class::Exaggerated);
        self.suppressed_certain += usize::from(drawn.certain == Class::Suppressed);
        self.exaggerated_certain += usize::from(drawn.certain == Class::Exaggerated);
        self.significant += usize::from(drawn.significant);
    }
}

/// Means over the concepts of one side: shares of concepts, then skewness.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct SideNumbers {
    suppressed: Option<f64>,
    exaggerated: Option<f64>,
    suppressed_certain: Option<f64>,
    exaggerated_certain: Option<f64>,
    significant: Option<f64>,
    gap_skewness: Option<f64>,
    delta_skewness: Option<f64>,
}

/// One of the numbers of a side.
type Pick = fn(&SideNumbers) -> Option<f64>;

/// Something that is made of the numbers of all sides.
type Statistic<'a> = dyn Fn(&[SideNumbers]) -> Option<f64> + 'a;

impl<'a> Judged<'a> {
    pub fn new(measured: &'a Measured, p: Vec<Vec<Option<f64>>>) -> Judged<'a> {
        let q: Vec<Vec<Option<f64>>> = p.iter().map(|p| false_discovery(p)).collect();
        let counts = |&latent: &usize| measured.dead_count || measured.sides().any(|side| side[latent].is_some());
        let latents: Vec<usize> = (0..measured.latents).filter(counts).collect();
        let drawn = measured.sides().zip(&q).map(|(side, q)| {
            let one = |&latent: &usize| {
                let Some(concept) = &side[latent] else {
                    let (class, certain) = (Class::Aligned, Class::Aligned);
                    let dead = Drawn { class, certain, significant: false, gap: 0.0, delta: delta(0.0, 1.0) };
                    return (measured.dead_count && measured.rows > 0).then_some(dead);
                };
                Some(Drawn {
                    class: concept.class(&measured.rules),
                    certain: concept.certainty(&measured.rules),
                    significant: q[latent].is_some_and(|q| q < ALPHA),
                    gap: concept.gap(),
                    delta: delta(concept.gap(), measured.rules.temperature),
                })
            };
            latents.iter().map(one).collect()
        });
        let drawn = drawn.collect();
        Judged { measured, p, q, drawn }
    }

    /// How many concepts are averaged over.
    pub fn concepts(&self) -> usize {
        self.drawn.first().map_or(0, Vec::len)
    }

    /// The numbers of all sides for a resample of the concepts.
    pub fn resampled(&self, seed: u64, resample: u64) -> Vec<SideNumbers> {
        let (mut random, count) = (stream(seed, "blindspots/concepts", resample), self.concepts());
        let drawn: Vec<usize> = (0..count).map(|_| index(count, &mut random)).collect();
        self.numbers(&drawn)
    }

    /// The numbers of all sides, for some concepts.
    fn numbers(&self, concepts: &[usize]) -> Vec<SideNumbers> {
        let of_side = |side: &Vec<Option<Drawn>>| {
            let mut counts = ClassCounts::default();
            let (mut gaps, mut deltas) = (Vec::with_capacity(concepts.len()), Vec::with_capacity(concepts.len()));
            for drawn in concepts.iter().filter_map(|&concept| side[concept]) {
                counts.add(&drawn);
                gaps.push(drawn.gap);
                deltas.push(drawn.delta);
            }
            let share = |count: usize| (!gaps.is_empty()).then(|| count as f64 / gaps.len() as f64);
            SideNumbers {
                suppressed: share(counts.suppressed),
                exaggerated: share(counts.exaggerated),
                suppressed_certain: share(counts.suppressed_certain),
                exaggerated_certain: share(counts.exaggerated_certain),
                significant: share(counts.significant),
                gap_skewness: skewness(&gaps),
                delta_skewness: skewness(&deltas),
            }
        };
        self.drawn.iter().map(of_side).collect()
    }

    /// The mean of a number over models.
    fn over_models(&self, numbers: &[SideNumbers], pick: Pick) -> Option<f64> {
        let models = self.measured.models.len();
        mean(&numbers[..models].iter().filter_map(pick).collect::<Vec<_>>())
    }

    /// From the numbers of all resamples.
    pub fn scores(&self, replicates: &[Vec<SideNumbers>], job: &Job<'_>) -> Result<Scores> {
        let measured = self.measured;
        let numbers = self.numbers(&(0..self.concepts()).collect::<Vec<_>>());
        let interval = |statistic: &Statistic<'_>| -> Option<Interval> {
            let values: Vec<f64> = replicates.iter().filter_map(|replicate| statistic(replicate)).collect();
            (self.concepts() > 1).then(|| percentile_interval(values)).flatten()
        };
        let live = measured.live();
        let null_live = measured.null.iter().flatten().count();
        let null_side = measured.models.len();
        let mut scores = Scores::default();
        let over_models = |scores: &mut Scores, key: &str, pick: Pick| {
            let over = |numbers: &[SideNumbers]| self.over_models(numbers, pick);
            scores.headline(key, over(&numbers), interval(&over), live);
        };
        let of_null = |scores: &mut Scores, key: &str, pick: Pick| {
            let null = |numbers: &[SideNumbers]| pick(&numbers[null_side]);
            scores.headline(key, null(&numbers), interval(&null), null_live);
        };
        over_models(&mut scores, "suppressed", |side| side.suppressed);
        over_models(&mut scores, "exaggerated", |side| side.exaggerated);
        over_models(&mut scores, "suppressed_certain", |side| side.suppressed_certain);
        over_models(&mut scores, "exaggerated_certain", |side| side.exaggerated_certain);
        over_models(&mut scores, "blindspots_significant", |side| side.significant);
        of_null(&mut scores, "null_suppressed", |side| side.suppressed);
        of_null(&mut scores, "null_exaggerated", |side| side.exaggerated);
        of_null(&mut scores, "null_significant", |side| side.significant);
        over_models(&mut scores, "gap_skewness", |side| side.gap_skewness);
        over_models(&mut scores, "delta_skewness", |side| side.delta_skewness);
        let bound = |bound: Bound, concepts: usize| {
            bound.half_width(measured.rows, measured.range, measured.rules.temperature, concepts)
        };
        scores.headline("bound", bound(Bound::Paired, live), None, live);
        scores.headline("bound_published", bound(Bound::Published, live), None, live);
        self.notes(&mut scores, live, &numbers, job.find(&POOLING).copied());

        scores.tables.push(self.model_table(&numbers, &interval));
        scores.tables.push(latent_table(measured));
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

    fn notes(&self, scores: &mut Scores, live: usize, numbers: &[SideNumbers], pooling: Option<Pool>) {
        let measured = self.measured;
        let rows = match pooling {
            Some(pool) => format!("rows are samples, pooled by `{}`", pool.name()),
            None => "rows are taken as they are, not pooled".into(),
        };
        scores.note(format!(
            "{} pairs of rows; {rows}; δ and all counts are at T = {}",
            measured.rows, measured.rules.temperature
        ));
        let dead = measured.latents - live;
        if dead > 0 {
            let counted = if measured.dead_count { "count as aligned" } else { "are left out" };
            scores.note(format!("{dead} of {} concepts fire nowhere and {counted}", measured.latents));
        }
        match measured.rows {
            0 => scores.note("there are no rows: undefined"),
            1 => scores.note("one pair of rows has no deviation: intervals and p are undefined"),
            _ if live < 2 => scores.note("fewer than two concepts fire: no interval over concepts"),
            _ => {}
        }
        if measured.rows > 0 && live < 3 {
            scores.note("skewness needs concepts with different gaps: undefined or meaningless");
        }
        if measured.null.iter().flatten().next().is_none() {
            scores.note("no concept fires in a real row: the null is undefined");
        }
        if self.over_models(numbers, |side| side.gap_skewness).is_none() {
            scores.note("all gaps are the same: their skewness is undefined");
        }
        if measured.range_seen {
            scores.note(format!(
                "bounds take the largest distance between two values that was seen, {:.4}; give `value_range` if \
                 larger ones are possible",
                measured.range
            ));
        }
    }

    /// One line per model, and one for real against real.
    fn model_table(&self, numbers: &[SideNumbers], interval: &dyn Fn(&Statistic<'_>) -> Option<Interval>) -> Table {
        let measured = self.measured;
        let count = |side: &Vec<Option<Drawn>>| {
            let mut counts = ClassCounts::default();
            side.iter().flatten().for_each(|drawn| counts.add(drawn));
            counts
        };
        let counts: Vec<ClassCounts> = self.drawn.iter().map(count).collect();
        let median = |values: fn(&Drawn) -> f64| -> Vec<Option<f64>> {
            let of = |side: &Vec<Option<Drawn>>| {
                let mut sorted: Vec<f64> = side.iter().flatten().map(values).collect();
                sorted.sort_by(f64::total_cmp);
                quantile(&sorted, 0.5)
            };
            self.drawn.iter().map(of).collect()
        };
        let mut table = Table::new("model")
            .words("name", measured.names.iter().map(String::as_str).chain(["real against real"]))
            .counts("live", measured.sides().map(|side| side.iter().flatten().count()))
            .counts("suppressed", counts.iter().map(|counts| counts.suppressed))
            .counts("exaggerated", counts.iter().map(|counts| counts.exaggerated))
            .counts("suppressed_certain", counts.iter().map(|counts| counts.suppressed_certain))
            .counts("exaggerated_certain", counts.iter().map(|counts| counts.exaggerated_certain))
            .counts("significant", counts.iter().map(|counts| counts.significant))
            .numbers("median_gap", median(|drawn| drawn.gap))
            .numbers("median_delta", median(|drawn| drawn.delta));
        let skewness: [(&str, Pick); 2] =
            [("gap_skewness", |side| side.gap_skewness), ("delta_skewness", |side| side.delta_skewness)];
        for (name, pick) in skewness {
            let ends: Vec<Option<Interval>> =
                (0..self.drawn.len()).map(|side| interval(&|numbers| pick(&numbers[side]))).collect();
            table = table
                .numbers(name, numbers.iter().map(pick))
                .numbers(&format!("{name}_low"), ends.iter().map(|end| end.map(|end| end.low)))
                .numbers(&format!("{name}_high"), ends.iter().map(|end| end.map(|end| end.high)));
        }
        table
    }

    /// One line per model and concept that fires in it or in the real rows; model is a line of the table `model`.
    fn latent_model_table(&self) -> Table {
        let measured = self.measured;
        let mut lines = Vec::new();
        for (model, side) in measured.models.iter().enumerate() {
            lines.extend(side.iter().enumerate().filter_map(|(latent, concept)| Some((model, latent, (*concept)?))));
        }
        let rules = &measured.rules;
        let top = |(model, latent, _): &(usize, usize, _)| measured.sums.top_rows(model + 1, *latent);
        Table::new("latent_model")
            .counts("model", lines.iter().map(|line| line.0))
            .counts("latent", lines.iter().map(|line| line.1))
            .numbers("generated_mean", lines.iter().map(|line| Some(line.2.generated)))
            .counts("generated_fires", lines.iter().map(|line| line.2.generated_fires as usize))
            .numbers("gap", lines.iter().map(|line| Some(line.2.gap())))
            .numbers("gap_low", lines.iter().map(|line| line.2.interval().map(|interval| interval.low)))
            .numbers("gap_high", lines.iter().map(|line| line.2.interval().map(|interval| interval.high)))
            .numbers("deviation", lines.iter().map(|line| line.2.deviation))
            .numbers("bernstein", lines.iter().map(|line| line.2.bernstein))
            .numbers("relative_gap", lines.iter().map(|line| line.2.relative()))
            .numbers("delta", lines.iter().map(|line| Some(delta(line.2.gap(), rules.temperature))))
            .numbers("p", lines.iter().map(|line| self.p[line.0][line.1]))
            .numbers("q", lines.iter().map(|line| self.q[line.0][line.1]))
            .words("class", lines.iter().map(|line| line.2.class(rules).name()))
            .words("certain_class", lines.iter().map(|line| line.2.certainty(rules).name()))
            .with("top_rows", Cells::WholeLists(lines.iter().map(top).collect()))
    }
}

/// One line per latent, dead ones included.
fn latent_table(measured: &Measured) -> Table {
    let null = |concept: &Option<Concept>| concept.as_ref().map(Concept::gap);
    let top = (0..measured.latents).map(|latent| measured.sums.top_rows(0, latent)).collect();
    Table::new("latent")
        .counts("latent", 0..measured.latents)
        .numbers("real_mean", measured.real_means().map(Some))
        .counts("real_fires", measured.real_fires().map(|fires| fires as usize))
        .numbers("null_gap", measured.null.iter().map(null))
        .numbers("null_deviation", measured.null.iter().map(|concept| concept.and_then(|concept| concept.deviation)))
        .with("top_rows", Cells::WholeLists(top))
}
