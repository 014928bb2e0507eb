//! The scores of all units: selection, tasks, and the answers of the simulated person.

use etalon_kernel::statistics::{deviation, mean};
use serde::{Deserialize, Serialize};

use super::extremes::{Ranked, Side};
use super::judge::{Judge, check_rows};
use super::row_order::RowOrder;
use super::selection::{extreme_rows, ranges};
use super::tasks::{Shuffles, Task, TaskPlan, tasks_of};
use crate::context::Reserved;
use crate::error::{Error, InputError, Key, Result};
use crate::results::{Interval, student_quantile};
use crate::run::{Job, Lazy, UNIT_ACTIVATIONS, UNITS, Unit, Work};

/// A unit is constant if its activations differ by less.
pub(in crate::metrics) const CONSTANT: f64 = 1e-8;

/// Units per block.
const BLOCK: usize = 64;

/// How a difference becomes a probability.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::metrics) struct Reading {
    pub alpha: f64,
    pub kind: ReadingKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::metrics) enum ReadingKind {
    /// σ((D⁺ − D⁻) / α).
    Temperature,
    /// σ(α (D⁺ − D⁻)).
    Multiplier,
    /// σ(α D⁺ − D⁻).
    Literal,
}

impl Reading {
    pub fn of(job: &Job<'_>) -> Result<Reading> {
        let kind = match job.word("reading")? {
            "temperature" => ReadingKind::Temperature,
            "multiplier" => ReadingKind::Multiplier,
            "literal" => ReadingKind::Literal,
            other => return Err(Error::Bug(format!("unknown reading {other}"))),
        };
        Ok(Reading { alpha: job.number("alpha")?, kind })
    }

    /// The probability of a correct answer.
    pub fn probability(self, [plus, minus]: [f64; 2]) -> f64 {
        let logit = match self.kind {
            ReadingKind::Temperature => (plus - minus) / self.alpha,
            ReadingKind::Multiplier => (plus - minus) * self.alpha,
            ReadingKind::Literal => self.alpha * plus - minus,
        };
        1.0 / (1.0 + (-logit).exp())
    }
}

/// The score of one unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::metrics) struct UnitScore {
    pub mis: f64,
    /// Share of tasks with D⁺ > D⁻.
    pub hard: f64,
    /// From the spread over tasks.
    pub interval: Option<Interval>,
    /// D⁺ and D⁻ of every task.
    pub differences: Vec<[f64; 2]>,
}

/// What a block of units returns.
#[derive(Serialize, Deserialize)]
struct BlockScores {
    /// `None` for constant units.
    units: Vec<Option<UnitScore>>,
    /// By number of tasks i from 1: the sum over units of |MIS of the first i tasks − MIS|.
    prefix: Vec<f64>,
    /// The same with i tasks built from i times as many images; empty if not requested.
    rebuilt: Vec<f64>,
}

/// The scores of all units.
pub(in crate::metrics) struct AllScores {
    pub units: Vec<Option<UnitScore>>,
    /// Smallest and largest activation of every unit.
    pub extremes: Vec<[Option<f64>; 2]>,
    /// Scored units with the same activation on all of their lowest, or highest, rows.
    pub arbitrary: usize,
    /// By number of tasks i from 1, the mean over units of |MIS of i tasks − MIS|; empty without a scored unit.
    pub prefix: Vec<f64>,
    /// The same with i tasks built from i times as many images; empty if not requested.
    pub rebuilt: Vec<f64>,
}

impl AllScores {
    /// The score of every unit.
    pub fn mis(&self) -> Vec<Option<f64>> {
        self.units.iter().map(|unit| unit.as_ref().map(|unit| unit.mis)).collect()
    }
}

/// The ranked rows of all units, with the plan of their tasks.
pub(in crate::metrics) struct Selected {
    pub plan: TaskPlan,
    ranked: Vec<Reserved<Ranked>>,
    step: usize,
    units: usize,
}

impl Selected {
    /// Checks the inputs and selects the extreme rows of all units.
    pub fn new(job: &Job<'_>, work: &mut Work<'_>) -> Result<Selected> {
        let activations = job.get(&UNIT_ACTIVATIONS)?;
        check_rows(job)?;
        if let Some(units) = job.find(&UNITS)
            && units.units.len() != activations.units()
        {
            return Err(InputError::new(format!("{} does not have a line per unit", Key("units")))
                .expected(format!("{} units, as the activations have", activations.units()))
                .found(units.units.len())
                .into());
        }
        let plan = TaskPlan::of(job, activations.rows())?;
        let units = activations.units();
        let ranked = extreme_rows(job, work, plan.keep(), RowOrder::of(job)?)?;
        Ok(Selected { plan, ranked, step: ranges(units, plan.keep()), units })
    }

    fn ranked(&self, unit: usize) -> (&Ranked, usize) {
        (&self.ranked[unit / self.step], unit % self.step)
    }

    /// The least and the most activating value of a unit.
    pub fn extremes(&self, unit: usize) -> [Option<f64>; 2] {
        let (ranked, local) = self.ranked(unit);
        [Side::Low, Side::High].map(|side| ranked.value(local, side).map(f64::from))
    }

    /// Whether a unit is not constant.
    pub fn varies(&self, unit: usize) -> bool {
        let (ranked, local) = self.ranked(unit);
        ranked.range(local).is_some_and(|range| range >= CONSTANT)
    }

    /// The order of images in tasks, for a plan with the same or fewer tasks.
    pub fn shuffles(&self, job: &Job<'_>, plan: &TaskPlan) -> Result<Shuffles> {
        if job.word("shuffle")? == "seeded" {
            return Ok(Shuffles::seeded(job.seed, plan));
        }
        let scored: Vec<usize> = (0..self.units).filter(|&unit| self.varies(unit)).collect();
        let order = match job.find(&UNITS) {
            Some(units) => by_layer(&units.units, &scored),
            None => scored,
        };
        Shuffles::numpy(job, plan, self.units, &order)
    }

    /// The tasks of a unit.
    pub fn tasks(&self, plan: &TaskPlan, shuffles: &Shuffles, unit: usize) -> Vec<Task> {
        let (ranked, local) = self.ranked(unit);
        tasks_of(plan, shuffles, ranked, local, unit)
    }

    /// The scores of all units; `rebuilt` builds the tasks again for every smaller number of tasks.
    pub fn score(&self, job: &Job<'_>, work: &mut Work<'_>, rebuilt: bool) -> Result<AllScores> {
        let reading = Reading::of(job)?;
        let shared = Lazy::new(|| {
            let judge = Judge::new(job, self.units, self.plan.explanations)?;
            let smaller = if rebuilt { 1 } else { self.plan.tasks };
            let plans = (smaller..self.plan.tasks).map(|tasks| self.plan.with_tasks(tasks)).chain([self.plan]);
            let plans = plans.map(|plan| Ok((plan, self.shuffles(job, &plan)?))).collect::<Result<Vec<_>>>()?;
            Ok((judge, plans))
        });
        let blocks = work.blocks_with(&shared, "units", self.units.div_ceil(BLOCK), |(judge, plans), block| {
            let units = block * BLOCK..((block + 1) * BLOCK).min(self.units);
            self.score_block(job, judge, plans, reading, units)
        })?;
        let (blocks, _memory) = blocks.into_parts();
        let count = blocks.iter().flat_map(|block| &block.units).flatten().count();
        let curve = |of: fn(&BlockScores) -> &Vec<f64>| -> Vec<f64> {
            let length = if count == 0 { 0 } else { blocks.iter().map(|block| of(block).len()).max().unwrap_or(0) };
            let sum = |index: usize| blocks.iter().filter_map(|block| of(block).get(index)).sum::<f64>();
            (0..length).map(|index| sum(index) / count as f64).collect()
        };
        let (prefix, rebuilt) = (curve(|block| &block.prefix), curve(|block| &block.rebuilt));
        let extremes = (0..self.units).map(|unit| self.extremes(unit)).collect();
        let units = blocks.into_iter().flat_map(|block| block.units).collect();
        let is_arbitrary = |unit: &usize| {
            let (ranked, local) = self.ranked(*unit);
            self.varies(*unit) && [Side::Low, Side::High].iter().any(|&side| ranked.is_arbitrary(local, side))
        };
        let arbitrary = (0..self.units).filter(is_arbitrary).count();
        Ok(AllScores { units, extremes, arbitrary, prefix, rebuilt })
    }

    fn score_block(
        &self,
        job: &Job<'_>,
        judge: &Judge<'_>,
        plans: &[(TaskPlan, Shuffles)],
        reading: Reading,
        units: std::ops::Range<usize>,
    ) -> Result<BlockScores> {
        let (smaller, whole) = plans.split_at(plans.len() - 1);
        let mut found = BlockScores {
            units: Vec::with_capacity(units.len()),
            prefix: vec![0.0; self.plan.tasks],
            rebuilt: vec![0.0; if smaller.is_empty() { 0 } else { self.plan.tasks }],
        };
        let mut scratch = Vec::new();
        let mut answers = |plan: &TaskPlan, shuffles: &Shuffles, unit: usize| -> Result<Vec<[f64; 2]>> {
            let tasks = self.tasks(plan, shuffles, unit);
            tasks.iter().map(|task| judge.differences(unit, task, &mut scratch)).collect()
        };
        for unit in units {
            job.check()?;
            if !self.varies(unit) {
                found.units.push(None);
                continue;
            }
            let (plan, shuffles) = &whole[0];
            let pairs = answers(plan, shuffles, unit)?;
            let chances: Vec<f64> = pairs.iter().map(|&pair| reading.probability(pair)).collect();
            let mis = chances.iter().sum::<f64>() / chances.len() as f64;
            let mut sum = 0.0;
            for (index, chance) in chances.iter().enumerate() {
                sum += chance;
                found.prefix[index] += (sum / (index + 1) as f64 - mis).abs();
            }
            for (index, (plan, shuffles)) in smaller.iter().enumerate() {
                let pairs = answers(plan, shuffles, unit)?;
                let fewer = pairs.iter().map(|&pair| reading.probability(pair)).sum::<f64>() / pairs.len() as f64;
                found.rebuilt[index] += (fewer - mis).abs();
            }
            let right = pairs.iter().filter(|[plus, minus]| plus - minus > 0.0).count();
            found.units.push(Some(UnitScore {
                mis,
                hard: right as f64 / pairs.len() as f64,
                interval: interval(&chances),
                differences: pairs,
            }));
        }
        Ok(found)
    }
}

/// The interval of the mean of the tasks by Student's t with Hall's correction for skewness, within 0 and 1. Scores near 1 are
/// skewed: without it, intervals are too high.
fn interval(chances: &[f64]) -> Option<Interval> {
    let (centre, spread, count) = (mean(chances)?, deviation(chances)?, chances.len() as f64);
    let (error, quantile) = (spread / count.sqrt(), student_quantile(count - 1.0)?);
    let cubes = chances.iter().map(|chance| (chance - centre).powi(3)).sum::<f64>();
    let is_skewed = count > 2.0 && spread > 0.0;
    let skewness = if is_skewed { cubes * count / ((count - 1.0) * (count - 2.0)) / spread.powi(3) } else { 0.0 };
    let limit = |quantile: f64| centre - error * corrected(quantile, skewness / count.sqrt());
    Some(Interval { low: limit(quantile).max(0.0), high: limit(-quantile).min(1.0) })
}

/// Hall's transformation of a quantile; `skewness` is that of the mean.
fn corrected(quantile: f64, skewness: f64) -> f64 {
    // Near 0, the formula is the quantile itself, but divides by 0.
    if skewness.abs() < 1e-6 {
        return quantile;
    }
    3.0 / skewness * ((1.0 + skewness * (quantile - skewness / 6.0)).cbrt() - 1.0)
}

/// The units grouped by layer, layers in the order of their first unit.
pub(super) fn by_layer(units: &[Unit], scored: &[usize]) -> Vec<usize> {
    let layer = |unit: usize| (&units[unit].model, &units[unit].layer);
    let mut first = std::collections::BTreeMap::new();
    scored.iter().for_each(|&unit| {
        first.entry(layer(unit)).or_insert(unit);
    });
    let mut order = scored.to_vec();
    order.sort_by_key(|&unit| (first[&layer(unit)], unit));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_skewed_scores_are_lower() {
        // Mean 0.9, standard deviation 0.2, standard error 0.1; sum of cubes 3 · 0.001 − 0.027 = −0.024, skewness
        // −0.024 · 4 / (3 · 2) / 0.008 = −2, and −2 / √4 = −1 of the mean. t = 3.182446 with 3 degrees of freedom:
        // −3 · (∛(1 − 3.182446 − 1/6) − 1) = 6.988, so the low limit is 0.9 − 0.6988; the high one is above 1.
        let found = interval(&[1.0, 1.0, 1.0, 0.6]).unwrap();
        assert!((found.low - 0.201_199_321).abs() < 1e-6 && found.high == 1.0, "{found:?}");
        // Mirrored, the interval is mirrored. Without skewness it is that of Student: 0.5 ± 3.182446 · 0.1 / √3.
        let mirrored = interval(&[0.0, 0.0, 0.0, 0.4]).unwrap();
        assert!((mirrored.high - (1.0 - found.low)).abs() < 1e-12 && mirrored.low == 0.0);
        let even = interval(&[0.4, 0.4, 0.6, 0.6]).unwrap();
        assert!(
            (even.high - 0.5 - 3.182_446 * 0.1 / 3f64.sqrt()).abs() < 1e-6
                && (even.low + even.high - 1.0).abs() < 1e-12
        );
        assert_eq!(interval(&[0.7; 4]), Some(Interval { low: 0.7, high: 0.7 }));
        assert_eq!(interval(&[0.7]), None);
    }
}
