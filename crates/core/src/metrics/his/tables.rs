//! The tables of `his`: units, bins, models, pairs of models, extreme units, power.

use std::collections::BTreeMap;

use etalon_kernel::statistics::{deviation, mean};

use super::super::mis::extreme_units::extreme_units;
use super::super::mis::layer_types::equal_count_bins;
use super::super::rank_tests::{PairTest, adjust, brunner_munzel, kruskal, mann_whitney};
use super::agreement::{Answers, Power};
use crate::error::Result;
use crate::results::{Interval, Scores, Table, bootstrap_mean};
use crate::run::{Job, Unit};

/// Numbers of answers in the table of power.
const ANSWERS: [usize; 9] = [5, 10, 20, 30, 50, 100, 200, 500, 1000];

/// Variances that differ by more are compared by Brunner and Munzel's test.
const VARIANCES: f64 = 0.01;

/// Models with more units are compared with the normal distribution.
const FEW_UNITS: usize = 50;

/// The scores of a model's units with both scores.
pub(super) struct Model {
    pub name: String,
    accuracy: Option<f64>,
    pub mis: Vec<f64>,
    pub his: Vec<f64>,
}

pub(super) fn by_model(units: &[Unit], mis: &[Option<f64>], his: &[Option<f64>]) -> Vec<Model> {
    let mut models: BTreeMap<&str, Model> = BTreeMap::new();
    for (unit, (mis, his)) in units.iter().zip(mis.iter().zip(his)) {
        let (Some(mis), Some(his)) = (mis, his) else { continue };
        let empty = || Model { name: unit.model.clone(), accuracy: unit.accuracy, mis: Vec::new(), his: Vec::new() };
        let model = models.entry(&unit.model).or_insert_with(empty);
        model.mis.push(*mis);
        model.his.push(*his);
    }
    models.into_values().collect()
}

/// What the tables are made of.
pub(super) struct Study<'a> {
    pub units: &'a [Unit],
    pub mis: &'a [Option<f64>],
    pub his: &'a [Option<f64>],
    pub answers: &'a [Answers],
    /// Units with both scores.
    pub both: &'a [usize],
    pub models: &'a [Model],
}

impl Study<'_> {
    /// Adds all tables, and the test of all models as a note.
    pub fn add_tables(&self, job: &Job<'_>, scores: &mut Scores) -> Result<()> {
        scores.tables.push(self.latent());
        scores.tables.push(self.bins(job.whole("count_bins")?));
        scores.tables.push(self.model());
        scores.tables.extend(self.model_pairs());
        let shares: Vec<Vec<f64>> = self.models.iter().map(|model| model.his.clone()).collect();
        if let Some(test) = kruskal(&shares) {
            scores.note(format!(
                "HIS of {} models by Kruskal and Wallis' test: H = {:.4}, p = {:.3e}",
                shares.len(),
                test.statistic,
                test.p
            ));
        }
        scores.tables.extend(self.extreme(job)?);
        Ok(())
    }

    fn latent(&self) -> Table {
        Table::new("latent")
            .numbers("mis", self.mis.iter().copied())
            .numbers("his", self.his.iter().copied())
            .counts("answers", self.answers.iter().map(|answers| answers.total))
            .words("model", self.units.iter().map(|unit| unit.model.clone()))
            .words("layer", self.units.iter().map(|unit| unit.layer.clone()))
    }

    fn bins(&self, count: usize) -> Table {
        let of = |values: &[Option<f64>], bin: &[usize]| -> Vec<f64> {
            bin.iter().filter_map(|&index| values[self.both[index]]).collect()
        };
        let sorted: Vec<f64> = self.both.iter().filter_map(|&unit| self.mis[unit]).collect();
        let bins = equal_count_bins(&sorted, count);
        Table::new("bin")
            .numbers("mis", bins.iter().map(|bin| mean(&of(self.mis, bin))))
            .numbers("his", bins.iter().map(|bin| mean(&of(self.his, bin))))
            .numbers("his_deviation", bins.iter().map(|bin| deviation(&of(self.his, bin))))
            .counts("units", bins.iter().map(Vec::len))
    }

    fn model(&self) -> Table {
        let models = self.models;
        Table::new("model")
            .words("model", models.iter().map(|model| model.name.clone()))
            .numbers("mis", models.iter().map(|model| mean(&model.mis)))
            .numbers("his", models.iter().map(|model| mean(&model.his)))
            .numbers("accuracy", models.iter().map(|model| model.accuracy))
            .counts("units", models.iter().map(|model| model.mis.len()))
    }

    /// The HIS of every two models, as the published analysis compares them.
    fn model_pairs(&self) -> Option<Table> {
        let variance = |values: &[f64]| {
            let centre = mean(values)?;
            mean(&values.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>())
        };
        let (mut names, mut statistics, mut tests) = (Vec::new(), Vec::new(), Vec::new());
        for one in 0..self.models.len() {
            for other in one + 1..self.models.len() {
                let [first, second] = [one, other].map(|index| &self.models[index].his[..]);
                let Some((a, b)) = variance(first).zip(variance(second)) else { continue };
                let (name, test) = if (a - b).abs() <= VARIANCES {
                    ("Mann-Whitney", mann_whitney(first, second))
                } else {
                    let normal = first.len().min(second.len()) > FEW_UNITS;
                    ("Brunner-Munzel", brunner_munzel(first, second, normal))
                };
                if let Some(test) = test {
                    names.push(name);
                    statistics.push(Some(test.statistic));
                    tests.push(PairTest { pair: [one, other], p: test.p, holm: test.p });
                }
            }
        }
        adjust(&mut tests);
        let model = |side: usize| tests.iter().map(move |test| self.models[test.pair[side]].name.clone());
        (!tests.is_empty()).then(|| {
            Table::new("model_pair")
                .words("model", model(0))
                .words("other", model(1))
                .words("test", names)
                .numbers("statistic", statistics)
                .numbers("p", tests.iter().map(|test| Some(test.p)))
                .numbers("p_holm", tests.iter().map(|test| Some(test.holm)))
        })
    }

    /// The easiest and hardest units of every model, and the HIS of these groups beside all other units.
    fn extreme(&self, job: &Job<'_>) -> Result<Vec<Table>> {
        let extreme = extreme_units(self.mis, Some(self.units), job.whole("extreme_units")?);
        if extreme.is_empty() {
            return Ok(Vec::new());
        }
        let table = Table::new("extreme")
            .words("kind", extreme.iter().map(|unit| unit.kind))
            .words("model", extreme.iter().map(|unit| unit.model.clone()))
            .counts("unit", extreme.iter().map(|unit| unit.unit))
            .numbers("mis", extreme.iter().map(|unit| Some(unit.mis)))
            .numbers("his", extreme.iter().map(|unit| self.his[unit.unit]));
        let kind = |unit: usize| extreme.iter().find(|one| one.unit == unit).map_or("other", |one| one.kind);
        let mut groups: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for &unit in self.both {
            groups.entry((&self.units[unit].model, kind(unit))).or_default().push(unit);
        }
        let of = |values: &[Option<f64>], units: &[usize]| -> Vec<f64> {
            units.iter().filter_map(|&unit| values[unit]).collect()
        };
        let intervals: Vec<Option<Interval>> = groups
            .iter()
            .map(|((model, kind), units)| {
                bootstrap_mean(&of(self.his, units), job.seed, &format!("his/{model}/{kind}"))
            })
            .collect();
        let group = Table::new("group")
            .words("model", groups.keys().map(|(model, _)| *model))
            .words("kind", groups.keys().map(|(_, kind)| *kind))
            .numbers("mis", groups.values().map(|units| mean(&of(self.mis, units))))
            .numbers("his", groups.values().map(|units| mean(&of(self.his, units))))
            .numbers("low", intervals.iter().map(|interval| interval.map(|interval| interval.low)))
            .numbers("high", intervals.iter().map(|interval| interval.map(|interval| interval.high)))
            .counts("units", groups.values().map(Vec::len));
        Ok(vec![table, group])
    }
}

/// Adds the numbers of answers that a study needs, and the power of others.
pub(super) fn add_power(job: &Job<'_>, scores: &mut Scores, answers: &[Answers]) -> Result<()> {
    let (power, difference) = (Power::of(answers), job.number("difference")?);
    for (key, design) in [("his_needed_unit", 0), ("his_needed_all", 1)] {
        let needed = power.and_then(|power| power.needed(difference, design));
        scores.headline(key, needed.map(|needed| needed as f64), None, power.map_or(0, |power| power.units));
    }
    if let Some(power) = power {
        let chance = |n: usize, design: usize| Some(Power::power(difference, power.errors(n as f64)[design]));
        scores.tables.push(
            Table::new("power")
                .counts("answers", ANSWERS)
                .numbers("unit", ANSWERS.map(|n| chance(n, 0)))
                .numbers("all", ANSWERS.map(|n| chance(n, 1)))
                .numbers("groups", ANSWERS.map(|n| chance(n, 2))),
        );
    }
    Ok(())
}
