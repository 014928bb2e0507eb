//! Agreement of scores with people: correlations, their noise ceiling, calibration of α, bins and power.

use etalon_kernel::random::{stream, unit};
use etalon_kernel::statistics::{deviation, mean};
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::results::normal_quantile;

/// The correct answers to the tasks of one unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Answers {
    pub correct: usize,
    pub total: usize,
}

impl Answers {
    /// The share of correct answers.
    pub fn share(self) -> Option<f64> {
        (self.total > 0).then(|| self.correct as f64 / self.total as f64)
    }
}

/// Simulates people who answer each unit's tasks correctly with a probability: their share of correct answers.
pub(super) fn simulate(probabilities: &[f64], answers: &[usize], seed: u64, repetition: u64) -> Vec<f64> {
    let mut random = stream(seed, "his/people", repetition);
    let share = |(&probability, &count): (&f64, &usize)| {
        (0..count).filter(|_| unit(&mut random) < probability).count() as f64 / count.max(1) as f64
    };
    probabilities.iter().zip(answers).map(share).collect()
}

/// Range of the temperature in a calibration.
const TEMPERATURES: (f64, f64) = (1e-4, 1e2);

/// Points of the first search, and relative width at which the second one ends.
const POINTS: usize = 200;
const WIDTH: f64 = 1e-9;

/// The temperature that minimises the mean over units of (MIS − HIS)², with the mean. `differences` has D⁺ − D⁻ of
/// every task of a unit. The best of a grid of logarithms is refined by golden-section search.
pub(super) fn calibrate(differences: &[Vec<f64>], his: &[f64]) -> Option<(f64, f64)> {
    let error = |logarithm: f64| squared_error(differences, his, logarithm.exp());
    if his.is_empty() || differences.iter().any(Vec::is_empty) {
        return None;
    }
    let (from, to) = (TEMPERATURES.0.ln(), TEMPERATURES.1.ln());
    let point = |index: usize| from + (to - from) * index as f64 / (POINTS - 1) as f64;
    let best = (0..POINTS).min_by(|&a, &b| error(point(a)).total_cmp(&error(point(b))).then(a.cmp(&b)))?;
    let (mut low, mut high) = (point(best.saturating_sub(1)), point((best + 1).min(POINTS - 1)));
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    while high - low > WIDTH {
        let (a, b) = (high - golden * (high - low), low + golden * (high - low));
        if error(a) <= error(b) { high = b } else { low = a }
    }
    let logarithm = low.midpoint(high);
    Some((logarithm.exp(), error(logarithm)))
}

/// The mean over units of (MIS − HIS)² with a temperature.
fn squared_error(differences: &[Vec<f64>], his: &[f64], tau: f64) -> f64 {
    let unit = |(tasks, his): (&Vec<f64>, &f64)| {
        let chance = tasks.iter().map(|difference| 1.0 / (1.0 + (-difference / tau).exp())).sum::<f64>();
        (chance / tasks.len() as f64 - his).powi(2)
    };
    differences.iter().zip(his).map(unit).sum::<f64>() / his.len() as f64
}

/// What a study of people can detect, from the answers of a first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Power {
    /// Variance of one answer to a unit's task, mean over units.
    pub answer: f64,
    /// Variance of the true shares of units.
    pub between: f64,
    /// Number of units.
    pub units: usize,
}

impl Power {
    /// Estimates both variances without bias; `None` if no unit has two answers.
    pub fn of(answers: &[Answers]) -> Option<Power> {
        let several: Vec<(f64, f64)> = answers
            .iter()
            .filter(|unit| unit.total > 1)
            .filter_map(|unit| Some((unit.share()?, unit.total as f64)))
            .collect();
        let each: Vec<f64> =
            several.iter().map(|(share, total)| share * (1.0 - share) * total / (total - 1.0)).collect();
        let noise: Vec<f64> = several.iter().zip(&each).map(|((_, total), each)| each / total).collect();
        let shares: Vec<f64> = several.iter().map(|(share, _)| *share).collect();
        let spread = deviation(&shares).map_or(0.0, |deviation| deviation * deviation);
        Some(Power { answer: mean(&each)?, between: (spread - mean(&noise)?).max(0.0), units: several.len() })
    }

    /// The standard errors of a difference with `n` answers per unit: of one unit in two conditions, of the mean of all units in
    /// two conditions, and of the means of two halves of the units.
    pub fn errors(&self, n: f64) -> [f64; 3] {
        let units = self.units as f64;
        let noise = self.answer / n;
        [(2.0 * noise).sqrt(), (2.0 * noise / units).sqrt(), (4.0 * (self.between + noise) / units).sqrt()]
    }

    /// The probability that a two-sided test at 5 % detects a difference.
    pub fn power(difference: f64, error: f64) -> f64 {
        let normal = Normal::standard();
        if error <= 0.0 {
            return 1.0;
        }
        let z = difference / error;
        normal.sf(normal_quantile() - z) + normal.cdf(-normal_quantile() - z)
    }

    /// The smallest number of answers per unit with a power of 80 % for a design of [`Power::errors`]; `None` if none is enough.
    pub fn needed(&self, difference: f64, design: usize) -> Option<usize> {
        let enough = |n: usize| Power::power(difference, self.errors(n as f64)[design]) >= 0.8;
        let mut high = 1;
        while !enough(high) {
            high *= 2;
            if high > MOST_ANSWERS {
                return None;
            }
        }
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low.midpoint(high);
            if enough(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }
}

/// No study asks more often.
const MOST_ANSWERS: usize = 1 << 24;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::mis::layer_types::equal_count_bins;
    use crate::metrics::rank_tests::correlation_p;
    use etalon_kernel::statistics::{pearson, spearman};
    use serde_json::Value;

    fn golden() -> Value {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/mis/humans/his.json");
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn list(value: &Value) -> Vec<f64> {
        serde_json::from_value(value.clone()).unwrap()
    }

    /// The standard deviation with `n`.
    fn population(values: &[f64]) -> Option<f64> {
        deviation(values).map(|sample| sample * ((values.len() - 1) as f64 / values.len() as f64).sqrt())
    }

    fn assert_close(found: Option<f64>, expected: &Value, tolerance: f64) {
        let (found, expected) = (found.unwrap(), expected.as_f64().unwrap());
        assert!((found - expected).abs() <= tolerance, "{found}, expected {expected}");
    }

    #[test]
    fn correlations_and_ceilings_agree_with_scipy() {
        let golden = golden();
        let (mis, his) = (list(&golden["mis"]), list(&golden["his"]));
        assert_close(pearson(&mis, &his), &golden["pearson"][0], 1e-9);
        assert_close(spearman(&mis, &his), &golden["spearman"][0], 1e-9);
        for (correlation, key) in [(pearson(&mis, &his), "pearson"), (spearman(&mis, &his), "spearman")] {
            let (p, expected) = (correlation_p(correlation.unwrap(), 60).unwrap(), golden[key][1].as_f64().unwrap());
            assert!((p / expected - 1.0).abs() < 1e-6, "{p}, expected {expected}");
        }
        let drawn: Vec<Vec<f64>> = golden["simulated_his"].as_array().unwrap().iter().map(list).collect();
        for (people, (ceiling, attenuated)) in drawn
            .iter()
            .zip(list(&golden["ceiling_r_per_draw"]).into_iter().zip(list(&golden["attenuated_r_per_draw"])))
        {
            assert!((pearson(&his, people).unwrap() - ceiling).abs() < 1e-9);
            assert!((pearson(&mis, people).unwrap() - attenuated).abs() < 1e-9);
        }
        let of = |left: &[f64], people: &[Vec<f64>]| -> Vec<f64> {
            people.iter().map(|people| pearson(left, people).unwrap()).collect()
        };
        assert_close(mean(&of(&his, &drawn)), &golden["ceiling_mean"], 1e-9);
        assert_close(deviation(&of(&his, &drawn)), &golden["ceiling_sd_sample"], 1e-9);
        assert_close(population(&of(&his, &drawn)), &golden["ceiling_sd_population"], 1e-9);
        assert_close(mean(&of(&mis, &drawn)), &golden["attenuated_mean"], 1e-9);
        // Our own thousand draws of 30 answers: within three standard errors of both means.
        let own: Vec<Vec<f64>> = (0..1000).map(|repetition| simulate(&his, &[30; 60], 7, repetition)).collect();
        for (left, key) in [(&his, "ceiling_1000_draws_mean_sd"), (&mis, "attenuated_1000_draws_mean_sd")] {
            let error = 3.0 * 2f64.sqrt() * golden[key][1].as_f64().unwrap() / 1000f64.sqrt();
            assert_close(mean(&of(left, &own)), &golden[key][0], error);
        }
    }

    #[test]
    fn calibration_agrees_with_scipy() {
        let golden = golden();
        let tasks: Vec<Vec<f64>> =
            golden["calibration"]["logit_times_tau"].as_array().unwrap().iter().map(list).collect();
        let (tau, error) = calibrate(&tasks, &list(&golden["his"])).unwrap();
        let expected = golden["calibration"]["best_tau"].as_f64().unwrap();
        assert!((tau / expected - 1.0).abs() < 1e-5, "{tau}");
        assert_close(Some(error), &golden["calibration"]["best_objective"], 1e-9);
        let published = squared_error(&tasks, &list(&golden["his"]), 0.16);
        assert_close(Some(published), &golden["calibration"]["objective_at_0.16"], 1e-9);
        assert_eq!(calibrate(&[], &[]), None);
    }

    #[test]
    fn bins_agree_with_numpy() {
        let golden = golden();
        let (mis, his, bins) = (list(&golden["mis"]), list(&golden["his"]), &golden["equal_count_bins"]);
        let found = equal_count_bins(&mis, 7);
        let members: Vec<Vec<usize>> = serde_json::from_value(bins["members"].clone()).unwrap();
        assert_eq!(found, members);
        for (index, bin) in found.iter().enumerate() {
            let values: Vec<f64> = bin.iter().map(|&unit| his[unit]).collect();
            assert_close(mean(&values), &bins["mean_his"][index], 1e-9);
            assert_close(deviation(&values), &bins["sd_his_sample"][index], 1e-9);
            assert_close(population(&values), &bins["sd_his_population"][index], 1e-9);
            let scores: Vec<f64> = bin.iter().map(|&unit| mis[unit]).collect();
            assert_close(mean(&scores), &bins["mean_mis"][index], 1e-9);
        }
        // Quantile bins of pandas have the same sizes in another order.
        let mut sizes: Vec<u64> = serde_json::from_value(golden["pandas_qcut_7_counts"].clone()).unwrap();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        assert_eq!(found.iter().map(|bin| bin.len() as u64).collect::<Vec<_>>(), sizes);
    }

    #[test]
    fn power_is_that_of_simulated_studies() {
        // 40 units with 0.6 to 0.9 correct, 50 answers each, twice, one of the conditions 0.05 better: the mean differs by more
        // than 1.96 standard errors as often as the formula says.
        let shares: Vec<f64> = (0..40).map(|unit| 0.6 + 0.3 * unit as f64 / 39.0).collect();
        let better: Vec<f64> = shares.iter().map(|share| share + 0.05).collect();
        let answers: Vec<Answers> =
            shares.iter().map(|share| Answers { correct: (share * 2000.0) as usize, total: 2000 }).collect();
        let power = Power::of(&answers).unwrap();
        let error = power.errors(50.0)[1];
        let found = (0..400)
            .filter(|&study| {
                let means = [(&shares, 0), (&better, 1)]
                    .map(|(shares, condition)| mean(&simulate(shares, &[50; 40], 3, 2 * study + condition)).unwrap());
                (means[1] - means[0]).abs() > 1.96 * error
            })
            .count();
        let expected = Power::power(0.05, error);
        assert!((found as f64 / 400.0 - expected).abs() < 0.08, "{found} of 400, expected {expected}");
        // The number that is needed is the smallest one.
        for design in 0..3 {
            if let Some(needed) = power.needed(0.05, design) {
                let reached = |n: usize| Power::power(0.05, power.errors(n as f64)[design]) >= 0.8;
                assert!(reached(needed) && (needed == 1 || !reached(needed - 1)), "{design}");
            }
        }
        // One unit: n = 2 · variance · (1.96 + 0.8416)² / 0.05², up to the other tail of the test.
        let one = 2.0 * power.answer * (1.959964f64 + 0.841621).powi(2) / 0.0025;
        assert!((power.needed(0.05, 0).unwrap() as f64 - one).abs() <= 1.0);
        assert_eq!(Power::of(&[Answers { correct: 1, total: 1 }]), None);
    }
}
