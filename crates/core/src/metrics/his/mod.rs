//! Human interpretability score: how often people solve the tasks of units, and how well the machine's score agrees.

mod agreement;
mod bca;
mod card;
mod people;
mod tables;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::{deviation, mean, pearson, quantile, spearman};

use super::estimate::Estimate;
use super::mis::units::Selected;
use super::rank_tests::correlation_p;
use super::resamples::{Draws, resamples};
use super::{Card, Metric, mis};
use crate::error::{InputError, Key, Result};
use crate::results::{Interval, Profile, Scores, Table, percentile_interval};
use crate::run::{IMAGE_SIMILARITY, Job, RESPONSES, UNIT_ACTIVATIONS, UNITS, Unit, Work};
use agreement::{Answers, calibrate, simulate};
use bca::bca_of_mean;
use people::Rules;
use tables::{Study, add_power, by_model};

/// The share of correct answers of people, and its agreement with the machine interpretability score.
pub struct His;

/// Repetitions of simulated studies per block.
const BLOCK: usize = 50;

impl Metric for His {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let units = units_of(job)?;
        let (answers, excluded) = Rules::of(job)?.answers(&job.get(&RESPONSES)?.trials, &units)?;
        let mut scores = Scores::default();
        let machine = Machine::of(job, work, &units)?;
        let human: Vec<Option<f64>> = answers.iter().map(|answers| answers.share()).collect();
        let shares: Vec<f64> = human.iter().copied().flatten().collect();
        let mut estimate = Estimate::mean(&shares, job.seed, "his/units");
        if job.profile == Profile::Reference {
            estimate.interval = bca_of_mean(&shares, job.seed, "his/units");
        }
        estimate.headline("his", &mut scores);
        let both: Vec<usize> =
            (0..units.len()).filter(|&unit| human[unit].is_some() && machine.mis[unit].is_some()).collect();
        let pick = |values: &[Option<f64>]| both.iter().filter_map(|&unit| values[unit]).collect::<Vec<f64>>();
        let (mis, his) = (pick(&machine.mis), pick(&human));
        let over_units = correlations(&mis, &his);
        for (key, (value, correlation)) in
            ["his_pearson", "his_spearman"].into_iter().zip(over_units.into_iter().zip(CORRELATIONS))
        {
            let interval = match value {
                Some(_) => correlation_interval(job, work, key, correlation, &mis, &his)?,
                None => None,
            };
            scores.headline(key, value, interval, mis.len());
        }
        add_ceiling(job, work, &mut scores, &mis, &his, &both, &answers)?;
        let models = by_model(&units, &machine.mis, &human);
        let paired = models.iter().filter_map(|model| Some((mean(&model.mis)?, mean(&model.his)?)));
        let (model_mis, model_his): (Vec<f64>, Vec<f64>) = paired.unzip();
        let over_models = correlations(&model_mis, &model_his);
        for (key, value) in ["his_model_pearson", "his_model_spearman"].into_iter().zip(over_models) {
            scores.headline(key, value, None, model_mis.len());
        }
        let calibration = machine.calibrate(job, &both, &human)?;
        let (alpha, count) =
            (calibration.as_ref().map(|found| found.0), calibration.as_ref().map_or(0, |found| found.2));
        scores.headline("his_alpha", alpha, None, count);
        add_power(job, &mut scores, &answers)?;
        if let Some((alpha, error, count)) = calibration {
            scores.note(format!(
                "α = {alpha:.4} leaves a mean squared difference of {error:.5} on {count} units (seed {})",
                job.seed
            ));
        }
        notes(&mut scores, both.len(), models.len(), &machine);
        scores.notes.extend(excluded.notes());
        scores.tables.push(correlation_table([(over_units, mis.len()), (over_models, model_mis.len())]));
        let study =
            Study { units: &units, mis: &machine.mis, his: &human, answers: &answers, both: &both, models: &models };
        study.add_tables(job, &mut scores)?;
        Ok(scores)
    }
}

/// The units: those of the table, or else those of the activations, about which nothing else is known.
fn units_of<'a>(job: &Job<'a>) -> Result<Cow<'a, [Unit]>> {
    match (job.find(&UNITS), job.find(&UNIT_ACTIVATIONS)) {
        (Some(units), _) => Ok(Cow::Borrowed(&units.units)),
        (None, Some(activations)) => Ok(Cow::Owned(vec![Unit::default(); activations.units()])),
        (None, None) => Err(InputError::new("the units that people were asked about are unknown")
            .expected(format!("a table of units as {}, or activations", Key("units")))
            .needs("units")
            .needs("codes")
            .into()),
    }
}

/// The machine's scores.
struct Machine {
    mis: Vec<Option<f64>>,
    /// D⁺ − D⁻ of all tasks, by unit; empty if the scores are given.
    differences: Vec<Vec<f64>>,
}

impl Machine {
    fn of(job: &Job<'_>, work: &mut Work<'_>, units: &[Unit]) -> Result<Machine> {
        if units.iter().any(|unit| unit.mis.is_some()) {
            return Ok(Machine { mis: units.iter().map(|unit| unit.mis).collect(), differences: Vec::new() });
        }
        if !job.has(&UNIT_ACTIVATIONS) || !job.has(&IMAGE_SIMILARITY) {
            return Err(InputError::new("the machine interpretability scores of the units are unknown")
                .expected(format!("a column `mis` in {}, or activations and similarity of the images", Key("units")))
                .needs("codes")
                .needs("similarity")
                .into());
        }
        let selected = Selected::new(job, work)?;
        let all = selected.score(job, work, false)?;
        let mis = all.mis();
        let of_unit = |unit: Option<mis::units::UnitScore>| {
            unit.map_or_else(Vec::new, |unit| unit.differences.iter().map(|[plus, minus]| plus - minus).collect())
        };
        Ok(Machine { mis, differences: all.units.into_iter().map(of_unit).collect() })
    }

    /// α, the mean squared difference and the number of units; `None` without differences.
    fn calibrate(&self, job: &Job<'_>, both: &[usize], human: &[Option<f64>]) -> Result<Option<(f64, f64, usize)>> {
        if self.differences.is_empty() || both.is_empty() {
            return Ok(None);
        }
        let count = ((job.number("calibration_share")? * both.len() as f64).round() as usize).clamp(1, both.len());
        let mut chosen = permutation(both.len(), &mut stream(job.seed, "his/calibration", 0));
        chosen.truncate(count);
        chosen.sort_unstable();
        let units: Vec<usize> = chosen.into_iter().map(|index| both[index]).collect();
        let differences: Vec<Vec<f64>> = units.iter().map(|&unit| self.differences[unit].clone()).collect();
        let his: Vec<f64> = units.iter().filter_map(|&unit| human[unit]).collect();
        Ok(calibrate(&differences, &his).map(|(alpha, error)| (alpha, error, count)))
    }
}

type Correlation = fn(&[f64], &[f64]) -> Option<f64>;

/// Pearson's and Spearman's.
const CORRELATIONS: [Correlation; 2] = [pearson, spearman];

/// Both correlations; undefined below 3 pairs.
fn correlations(mis: &[f64], his: &[f64]) -> [Option<f64>; 2] {
    CORRELATIONS.map(|correlation| if mis.len() < 3 { None } else { correlation(mis, his) })
}

/// The bootstrap interval of a correlation over units.
fn correlation_interval(
    job: &Job<'_>,
    work: &mut Work<'_>,
    key: &str,
    correlation: Correlation,
    mis: &[f64],
    his: &[f64],
) -> Result<Option<Interval>> {
    let statistic = |draws: Draws<'_>| {
        let (a, b): (Vec<f64>, Vec<f64>) = draws.map(|index| (mis[index], his[index])).unzip();
        correlation(&a, &b)
    };
    let found = resamples(job, work, &format!("{key}/resamples"), mis.len(), statistic)?;
    Ok(percentile_interval(found.into_iter().flatten().collect()))
}

/// Correlations over units and over models, with their p values.
fn correlation_table(over: [([Option<f64>; 2], usize); 2]) -> Table {
    let column = |which: usize| over.iter().map(move |(found, _)| found[which]);
    let p = |which: usize| over.iter().map(move |(found, n)| found[which].and_then(|found| correlation_p(found, *n)));
    Table::new("correlation")
        .words("over", ["units", "models"])
        .counts("n", over.iter().map(|(_, n)| *n))
        .numbers("pearson", column(0))
        .numbers("pearson_p", p(0))
        .numbers("spearman", column(1))
        .numbers("spearman_p", p(1))
}

fn add_ceiling(
    job: &Job<'_>,
    work: &mut Work<'_>,
    scores: &mut Scores,
    mis: &[f64],
    his: &[f64],
    both: &[usize],
    answers: &[Answers],
) -> Result<()> {
    let repetitions = job.whole("repetitions")?;
    let counts: Vec<usize> = both.iter().map(|&unit| answers[unit].total).collect();
    let found = work.blocks("simulated studies", repetitions.div_ceil(BLOCK), |block| {
        let numbers = block * BLOCK..((block + 1) * BLOCK).min(repetitions);
        let one = |repetition: usize| {
            job.check()?;
            let people = simulate(his, &counts, job.seed, repetition as u64);
            Ok((pearson(his, &people), pearson(mis, &people)))
        };
        numbers.map(one).collect::<Result<Vec<_>>>()
    })?;
    let enough = both.len() >= 3;
    let of = |which: usize| -> Vec<f64> {
        let one = |pair: &(Option<f64>, Option<f64>)| if which == 0 { pair.0 } else { pair.1 };
        let mut values: Vec<f64> = found.iter().flatten().filter_map(one).filter(|_| enough).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let both_lists = [of(0), of(1)];
    for (key, values) in ["his_ceiling", "his_attenuated"].into_iter().zip(&both_lists) {
        scores.headline(key, mean(values), None, both.len());
    }
    scores.tables.push(
        Table::new("ceiling")
            .words("of", ["ceiling", "attenuated"])
            .numbers("pearson", both_lists.iter().map(|values| mean(values)))
            .numbers("deviation", both_lists.iter().map(|values| deviation(values)))
            .numbers("p2_5", both_lists.iter().map(|values| quantile(values, 0.025)))
            .numbers("p97_5", both_lists.iter().map(|values| quantile(values, 0.975))),
    );
    Ok(())
}

fn notes(scores: &mut Scores, both: usize, models: usize, machine: &Machine) {
    if both < 3 {
        scores.note(format!("{both} units have both scores: correlations need 3"));
    }
    if models < 3 {
        scores.note(format!("{models} models: correlations over models need 3"));
    }
    if machine.differences.is_empty() {
        scores.note("α cannot be calibrated: the machine's scores are given, not computed");
    }
    let undefined: Vec<&str> = scores
        .headline
        .iter()
        .filter(|headline| headline.value.is_none())
        .map(|headline| headline.key.as_str())
        .collect();
    if !undefined.is_empty() {
        let undefined = undefined.join(", ");
        scores.note(format!("undefined: {undefined}"));
    }
}
