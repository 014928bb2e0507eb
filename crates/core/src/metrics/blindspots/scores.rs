//! Headline numbers with intervals over concepts, and tables by model and latent.

use super::bounds::{ALPHA, Bound};
use super::concept::{Class, delta};
use super::measured::Measured;
use super::{RANKED, ranking};
use crate::codes::Pool;
use crate::error::{Error, Result};
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::{mean, quantile, skewness};
use crate::results::{Cells, Interval, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// Concepts with their p and q, by side (models, then real against real) and latent.
pub(super) struct Judged {
    pub measured: Measured,
    pub p: Vec<Vec<Option<f64>>>,
    pub q: Vec<Vec<Option<f64>>>,
}

/// What is averaged over concepts: yes or no.
const SHARES: usize = 5;
/// Shares, then the skewness of gaps and of δ.
const NUMBERS: usize = SHARES + 2;

/// One concept of one side, ready to be averaged.
#[derive(Clone, Copy)]
struct Drawn {
    yes: [bool; SHARES],
    gap: f64,
    delta: f64,
}

/// One number of the numbers of a resample.
type Statistic<'a> = dyn Fn(&[Option<f64>]) -> Option<f64> + 'a;

/// Resamples of the concepts, in blocks of a few.
pub(super) struct Resampling {
    judged: Judged,
    /// By side and place in `latents`.
    drawn: Vec<Vec<Option<Drawn>>>,
    seed: u64,
}

const RESAMPLES_PER_BLOCK: usize = 50;

impl Resampling {
    pub fn new(judged: Judged, job: &Job<'_>) -> Resampling {
        let measured = &judged.measured;
        let counts = |&latent: &usize| measured.dead_count || measured.sides().any(|side| side[latent].is_some());
        let latents: Vec<usize> = (0..measured.latents).filter(counts).collect();
        let drawn = measured.sides().zip(&judged.q).map(|(side, q)| {
            let one = |&latent: &usize| {
                let Some(concept) = &side[latent] else {
                    let dead = Drawn { yes: [false; SHARES], gap: 0.0, delta: delta(0.0, 1.0) };
                    return (measured.dead_count && measured.rows > 0).then_some(dead);
                };
                let (class, certain) = (concept.class(&measured.rules), concept.certainty(&measured.rules));
                let yes = [
                    class == Class::Suppressed,
                    class == Class::Exaggerated,
                    certain == Class::Suppressed,
                    certain == Class::Exaggerated,
                    q[latent].is_some_and(|q| q < ALPHA),
                ];
                Some(Drawn { yes, gap: concept.gap(), delta: delta(concept.gap(), measured.rules.temperature) })
            };
            latents.iter().map(one).collect()
        });
        let drawn = drawn.collect();
        Resampling { judged, drawn, seed: job.seed }
    }

    fn latents(&self) -> usize {
        self.drawn.first().map_or(0, Vec::len)
    }

    /// The numbers of all sides, for the places given.
    fn numbers(&self, places: &[usize]) -> Vec<Option<f64>> {
        let mut numbers = Vec::with_capacity(self.drawn.len() * NUMBERS);
        for side in &self.drawn {
            let mut yes = [0usize; SHARES];
            let (mut gaps, mut deltas) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
            for drawn in places.iter().filter_map(|&place| side[place]) {
                yes.iter_mut().zip(drawn.yes).for_each(|(count, yes)| *count += usize::from(yes));
                gaps.push(drawn.gap);
                deltas.push(drawn.delta);
            }
            let share = |count: &usize| (!gaps.is_empty()).then(|| *count as f64 / gaps.len() as f64);
            numbers.extend(yes.iter().map(share));
            numbers.extend([skewness(&gaps), skewness(&deltas)]);
        }
        numbers
    }

    /// The mean of a number over models.
    fn over_models(&self, numbers: &[Option<f64>], number: usize) -> Option<f64> {
        let models = self.judged.measured.models.len();
        mean(&(0..models).filter_map(|model| numbers[model * NUMBERS + number]).collect::<Vec<_>>())
    }
}

impl Blocks for Resampling {
    fn count(&self) -> usize {
        RESAMPLES.div_ceil(RESAMPLES_PER_BLOCK)
    }

    fn unit(&self) -> &'static str {
        "blocks of resamples"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let count = self.latents();
        let mut list = Vec::new();
        for resample in block * RESAMPLES_PER_BLOCK..((block + 1) * RESAMPLES_PER_BLOCK).min(RESAMPLES) {
            let mut random = stream(self.seed, "blindspots/concepts", resample as u64);
            let places: Vec<usize> = (0..count).map(|_| index(count, &mut random)).collect();
            list.extend(self.numbers(&places).into_iter().map(|number| number.unwrap_or(f64::NEG_INFINITY)));
        }
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let width = self.drawn.len() * NUMBERS;
        let replicates: Vec<Vec<Option<f64>>> = tally
            .lists(0)?
            .iter()
            .flat_map(|(_, list)| list.chunks_exact(width))
            .map(|numbers| numbers.iter().map(|&number| number.is_finite().then_some(number)).collect())
            .collect();
        if replicates.len() != RESAMPLES {
            return Err(Error::Bug(format!("{} of {RESAMPLES} resamples", replicates.len())));
        }
        Ok(Next::Done(self.scores(&replicates, job)?))
    }
}

impl Resampling {
    fn scores(&self, replicates: &[Vec<Option<f64>>], job: &Job<'_>) -> Result<Scores> {
        let measured = &self.judged.measured;
        let numbers = self.numbers(&(0..self.latents()).collect::<Vec<_>>());
        let interval = |number: &Statistic<'_>| -> Option<Interval> {
            let values: Vec<f64> = replicates.iter().filter_map(|replicate| number(replicate)).collect();
            (self.latents() > 1).then(|| percentile_interval(values)).flatten()
        };
        let live = measured.live();
        let null_live = measured.null.iter().flatten().count();
        let null_side = measured.models.len() * NUMBERS;
        let mut scores = Scores::default();
        for (number, key) in
            ["suppressed", "exaggerated", "suppressed_certain", "exaggerated_certain", "blindspots_significant"]
                .into_iter()
                .enumerate()
        {
            let over = |numbers: &[Option<f64>]| self.over_models(numbers, number);
            scores.headline(key, over(&numbers), interval(&over), live);
        }
        for (number, key) in [(0, "null_suppressed"), (1, "null_exaggerated"), (4, "null_significant")] {
            let null = |numbers: &[Option<f64>]| numbers[null_side + number];
            scores.headline(key, null(&numbers), interval(&null), null_live);
        }
        for (number, key) in [(SHARES, "gap_skewness"), (SHARES + 1, "delta_skewness")] {
            let over = |numbers: &[Option<f64>]| self.over_models(numbers, number);
            scores.headline(key, over(&numbers), interval(&over), live);
        }
        let bound = |bound: Bound, concepts: usize| {
            bound.half_width(measured.rows, measured.range, measured.rules.temperature, concepts)
        };
        scores.headline("bound", bound(Bound::Paired, live), None, live);
        scores.headline("bound_published", bound(Bound::Published, live), None, live);
        self.notes(&mut scores, live, job.inputs.pooling);

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

    fn notes(&self, scores: &mut Scores, live: usize, pooling: Option<Pool>) {
        let measured = &self.judged.measured;
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
        if self.over_models(&self.numbers(&(0..self.latents()).collect::<Vec<_>>()), SHARES).is_none() {
            scores.note("all gaps are the same: their skewness is undefined");
        }
        if measured.range_seen {
            scores.note(format!(
                "bounds take the largest distance between two values that was seen, {:.4}; give `--value-range` if \
                 larger ones are possible",
                measured.range
            ));
        }
    }

    /// One line per model, and one for real against real.
    fn model_table(&self, numbers: &[Option<f64>], interval: &dyn Fn(&Statistic<'_>) -> Option<Interval>) -> Table {
        let measured = &self.judged.measured;
        let count = |yes: usize| -> Vec<usize> {
            self.drawn.iter().map(|side| side.iter().flatten().filter(|drawn| drawn.yes[yes]).count()).collect()
        };
        let median = |values: &dyn Fn(&Drawn) -> f64| -> Vec<Option<f64>> {
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
            .counts("suppressed", count(0))
            .counts("exaggerated", count(1))
            .counts("suppressed_certain", count(2))
            .counts("exaggerated_certain", count(3))
            .counts("significant", count(4))
            .numbers("median_gap", median(&|drawn| drawn.gap))
            .numbers("median_delta", median(&|drawn| drawn.delta));
        for (number, name) in [(SHARES, "gap_skewness"), (SHARES + 1, "delta_skewness")] {
            let places = (0..self.drawn.len()).map(|side| side * NUMBERS + number);
            let ends: Vec<Option<Interval>> = places.clone().map(|place| interval(&|numbers| numbers[place])).collect();
            table = table
                .numbers(name, places.map(|place| numbers[place]))
                .numbers(&format!("{name}_low"), ends.iter().map(|end| end.map(|end| end.low)))
                .numbers(&format!("{name}_high"), ends.iter().map(|end| end.map(|end| end.high)));
        }
        table
    }

    /// One line per model and concept that fires in it or in the real rows; model is a line of the table `model`.
    fn latent_model_table(&self) -> Table {
        let measured = &self.judged.measured;
        let mut lines = Vec::new();
        for (model, side) in measured.models.iter().enumerate() {
            lines.extend(side.iter().enumerate().filter_map(|(latent, concept)| Some((model, latent, (*concept)?))));
        }
        let rules = &measured.rules;
        let top = |(model, latent, _): &(usize, usize, _)| rows_of(measured.top[model + 1].of(*latent));
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
            .numbers("p", lines.iter().map(|line| self.judged.p[line.0][line.1]))
            .numbers("q", lines.iter().map(|line| self.judged.q[line.0][line.1]))
            .words("class", lines.iter().map(|line| line.2.class(rules).name()))
            .words("certain_class", lines.iter().map(|line| line.2.certainty(rules).name()))
            .with("top_rows", Cells::WholeLists(lines.iter().map(top).collect()))
    }
}

/// One line per latent, dead ones included.
fn latent_table(measured: &Measured) -> Table {
    let null = |concept: &Option<super::concept::Concept>| concept.as_ref().map(super::concept::Concept::gap);
    Table::new("latent")
        .counts("latent", 0..measured.latents)
        .numbers("real_mean", measured.real.iter().map(|&mean| Some(mean)))
        .counts("real_fires", measured.real_fires.iter().map(|&fires| fires as usize))
        .numbers("null_gap", measured.null.iter().map(null))
        .numbers("null_deviation", measured.null.iter().map(|concept| concept.and_then(|concept| concept.deviation)))
        .with(
            "top_rows",
            Cells::WholeLists(
                (0..measured.top[0].things()).map(|latent| rows_of(measured.top[0].of(latent))).collect(),
            ),
        )
}

fn rows_of(list: impl Iterator<Item = (f32, u32)>) -> Vec<i64> {
    list.map(|entry| i64::from(entry.1)).collect()
}
