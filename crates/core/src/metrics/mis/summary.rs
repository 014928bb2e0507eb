//! Headline numbers, tables and notes of the scores of units.

use etalon_kernel::statistics::{mean, quantile};
use statrs::distribution::{Binomial, DiscreteCDF};

use super::extreme_units::extreme_units;
use super::groups::group_tables;
use super::layer_types::type_tables;
use super::units::{AllScores, CONSTANT, UnitScore};
use crate::error::Result;
use crate::metrics::resamples::mean_interval;
use crate::results::{Cells, Interval, Scores, Table};
use crate::run::{Job, UNITS, Unit, Work};

/// Percentiles of the paper's figures.
const LEVELS: [(&str, f64); 2] = [("mis_p05", 0.05), ("mis_p95", 0.95)];

/// Fills the scores of `mis`.
pub(super) fn summarise(job: &Job<'_>, work: &mut Work<'_>, all: &AllScores) -> Result<Scores> {
    let mut scores = Scores::default();
    let scored: Vec<&UnitScore> = all.units.iter().flatten().collect();
    for (key, value) in [("mis", (|unit| unit.mis) as fn(&UnitScore) -> f64), ("mis_hard", |unit| unit.hard)] {
        let values: Vec<f64> = scored.iter().map(|unit| value(unit)).collect();
        let interval = mean_interval(job, work, &format!("{key}/units"), &values)?;
        scores.headline(key, mean(&values), interval, values.len());
    }
    let mut sorted: Vec<f64> = scored.iter().map(|unit| unit.mis).collect();
    sorted.sort_by(f64::total_cmp);
    for (key, level) in LEVELS {
        scores.headline(key, quantile(&sorted, level), quantile_interval(&sorted, level), sorted.len());
    }
    let constant = all.units.len() - scored.len();
    if constant > 0 {
        scores.note(format!(
            "{constant} of {} units are constant (their activations differ by less than {CONSTANT:e}) and have no score",
            all.units.len()
        ));
    }
    if all.arbitrary > 0 {
        scores.note(format!(
            "{} of {} units have the same activation on all images of one side: those images are the {} in the order of rows (`ties`)",
            all.arbitrary,
            all.units.len(),
            if job.word("ties")? == "row" { "first or last ones" } else { "first ones after a shuffle" }
        ));
    }
    if scored.is_empty() {
        scores.note("no unit has a score");
    }
    let units = job.find(&UNITS).map(|units| &units.units[..]);
    scores.tables.push(unit_table(all, units, job.word("task_scores")? == "yes"));
    let mis = all.mis();
    if let Some(units) = units {
        scores.tables.extend(group_tables(&mis, units));
        scores.tables.extend(type_tables(&mis, units));
    }
    let extreme = extreme_units(&mis, units, job.whole("extreme_units")?);
    if !extreme.is_empty() {
        scores.tables.push(
            Table::new("extreme")
                .words("kind", extreme.iter().map(|unit| unit.kind))
                .words("model", extreme.iter().map(|unit| unit.model.clone()))
                .counts("unit", extreme.iter().map(|unit| unit.unit))
                .numbers("mis", extreme.iter().map(|unit| Some(unit.mis))),
        );
    }
    if !all.prefix.is_empty() {
        let table = Table::new("tasks").counts("tasks", 1..=all.prefix.len());
        let table = table.numbers("prefix_difference", all.prefix.iter().copied().map(Some));
        scores.tables.push(match all.rebuilt.is_empty() {
            true => table,
            false => table.numbers("rebuilt_difference", all.rebuilt.iter().copied().map(Some)),
        });
    }
    Ok(scores)
}

/// The exact distribution-free interval of a quantile: the order statistics between which it lies with a probability of
/// 95 %, at most 2.5 % on either side. `None` if there are too few values: 72 for the 5th and the 95th percentile.
fn quantile_interval(sorted: &[f64], level: f64) -> Option<Interval> {
    let below = Binomial::new(level, sorted.len() as u64).ok()?;
    // The quantile is below value number i (from 0) if at most i values are below it.
    let low = (0..sorted.len()).rev().find(|&number| below.cdf(number as u64) <= 0.025)?;
    let high = (0..sorted.len()).find(|&number| below.cdf(number as u64) >= 0.975)?;
    Some(Interval { low: sorted[low], high: sorted[high] })
}

fn unit_table(all: &AllScores, units: Option<&[Unit]>, differences: bool) -> Table {
    let of = |value: fn(&UnitScore) -> Option<f64>| all.units.iter().map(move |unit| unit.as_ref().and_then(value));
    let mut table = Table::new("latent")
        .numbers("mis", of(|unit| Some(unit.mis)))
        .numbers("low", of(|unit| unit.interval.map(|interval| interval.low)))
        .numbers("high", of(|unit| unit.interval.map(|interval| interval.high)))
        .numbers("hard", of(|unit| Some(unit.hard)))
        .numbers("smallest_activation", all.extremes.iter().map(|extremes| extremes[0]))
        .numbers("largest_activation", all.extremes.iter().map(|extremes| extremes[1]));
    if let Some(units) = units {
        table = table.words("model", units.iter().map(|unit| unit.model.clone()));
        table = table.words("layer", units.iter().map(|unit| unit.layer.clone()));
        if units.iter().any(|unit| unit.epoch.is_some()) {
            table = table.numbers("epoch", units.iter().map(|unit| unit.epoch));
        }
    }
    if differences {
        let differences = |unit: &Option<UnitScore>| {
            let pairs = unit.as_ref().map_or(&[][..], |unit| &unit.differences);
            pairs.iter().map(|[plus, minus]| Some(plus - minus)).collect()
        };
        table = table.with("differences", Cells::NumberLists(all.units.iter().map(differences).collect()));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_percentile_is_that_of_order_statistics() {
        // 100 values 0, 1, … 99. Binomial(100, 0.05): P(≤ 0) = 0.0059, P(≤ 1) = 0.0371; P(≤ 9) = 0.9718, P(≤ 10) = 0.9885.
        let values: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(quantile_interval(&values, 0.05), Some(Interval { low: 0.0, high: 10.0 }));
        // Mirrored: P(≤ 89) = P(at least 11 of 5 %) = 0.0115, P(≤ 90) = 0.0282; P(≤ 98) = 0.9629, P(≤ 99) = 0.9941.
        assert_eq!(quantile_interval(&values, 0.95), Some(Interval { low: 89.0, high: 99.0 }));
        // 0.95⁷¹ = 0.0262, 0.95⁷² = 0.0249.
        assert_eq!(quantile_interval(&values[..71], 0.05), None);
        assert!(quantile_interval(&values[..72], 0.05).is_some() && quantile_interval(&[], 0.05).is_none());
    }
}
