//! The bias-corrected and accelerated bootstrap interval of a mean, which the published analysis uses.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{mean, quantile};
use statrs::distribution::{ContinuousCDF, Normal};

use crate::results::{Interval, normal_quantile};

/// Resamples of the published analysis.
const RESAMPLES: usize = 10_000;

/// The 95 % interval of a mean from 10,000 resamples; `None` if the values do not vary. `purpose` names the random stream.
pub(super) fn bca_of_mean(values: &[f64], seed: u64, purpose: &str) -> Option<Interval> {
    let mut random = stream(seed, purpose, 0);
    let count = values.len();
    let replicate = |_| (0..count).map(|_| values[index(count, &mut random)]).sum::<f64>() / count as f64;
    let mut replicates: Vec<f64> = if count < 2 { Vec::new() } else { (0..RESAMPLES).map(replicate).collect() };
    replicates.sort_by(f64::total_cmp);
    let levels = Levels::new(values, &replicates)?;
    Some(Interval { low: quantile(&replicates, levels.low)?, high: quantile(&replicates, levels.high)? })
}

/// The levels of the replicates' quantiles that are the ends of the interval, and what they follow from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Levels {
    bias: f64,
    acceleration: f64,
    low: f64,
    high: f64,
}

impl Levels {
    /// `replicates` are sorted means of resamples of the values.
    fn new(values: &[f64], replicates: &[f64]) -> Option<Levels> {
        let (normal, centre, count) = (Normal::standard(), mean(values)?, values.len() as f64);
        let below = replicates.partition_point(|replicate| *replicate < centre);
        let up_to = replicates.partition_point(|replicate| *replicate <= centre);
        let share = (below + up_to) as f64 / (2 * replicates.len()) as f64;
        // The jackknife: the mean without one value is below the mean of all such means by this, up to a factor.
        let (mut squares, mut cubes) = (0.0, 0.0);
        for value in values {
            let difference = (value - centre) / (count - 1.0);
            squares += difference * difference;
            cubes += difference * difference * difference;
        }
        if !(0.0 < share && share < 1.0) || squares <= 0.0 {
            return None;
        }
        let (bias, acceleration) = (normal.inverse_cdf(share), cubes / (6.0 * squares.powf(1.5)));
        let level = |z: f64| normal.cdf(bias + (bias + z) / (1.0 - acceleration * (bias + z)));
        Some(Levels { bias, acceleration, low: level(-normal_quantile()), high: level(normal_quantile()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::percentile_interval;
    use etalon_kernel::statistics::deviation;
    use serde_json::Value;

    fn golden(name: &str) -> Vec<u8> {
        std::fs::read(format!("{}/../../tests/golden/mis/humans/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    }

    #[test]
    fn intervals_agree_with_scipy() {
        let expected: Value = serde_json::from_slice(&golden("statistics.json")).unwrap();
        let expected = &expected["bootstrap"];
        let values: Vec<f64> = serde_json::from_value(expected["data"].clone()).unwrap();
        let bytes = golden(expected["indices_file"].as_str().unwrap());
        // One byte per index after the header of 128 bytes.
        let resample =
            |indices: &[u8]| indices.iter().map(|&index| values[usize::from(index)]).sum::<f64>() / values.len() as f64;
        let mut replicates: Vec<f64> = bytes[128..].chunks_exact(values.len()).map(resample).collect();
        assert_eq!(replicates.len() as u64, expected["n_resamples"].as_u64().unwrap());
        let close = |found: f64, expected: &Value| {
            let expected = expected.as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
        };
        close(deviation(&replicates).unwrap(), &expected["standard_error"]);
        replicates.sort_by(f64::total_cmp);
        let levels = Levels::new(&values, &replicates).unwrap();
        close(levels.bias, &expected["z0"]);
        close(levels.acceleration, &expected["acceleration"]);
        close(levels.low, &expected["alpha_1"]);
        close(levels.high, &expected["alpha_2"]);
        close(quantile(&replicates, levels.low).unwrap(), &expected["bca"][0]);
        close(quantile(&replicates, levels.high).unwrap(), &expected["bca"][1]);
        // The percentile interval of all metrics; the basic one is its mirror image.
        let (percentile, centre) = (percentile_interval(replicates).unwrap(), mean(&values).unwrap());
        close(percentile.low, &expected["percentile"][0]);
        close(percentile.high, &expected["percentile"][1]);
        close(2.0 * centre - percentile.high, &expected["basic"][0]);
        close(2.0 * centre - percentile.low, &expected["basic"][1]);
        // Other random numbers: the ends have a standard error of about 0.0005.
        let own = bca_of_mean(&values, 1, "bca").unwrap();
        let wanted = &expected["bca_10000_resamples_seeded"];
        let off = (own.low - wanted[0].as_f64().unwrap()).abs().max((own.high - wanted[1].as_f64().unwrap()).abs());
        assert!(off < 0.003, "{own:?}, expected {wanted}");
    }

    #[test]
    fn constants_and_single_values_have_no_interval() {
        assert_eq!(
            (bca_of_mean(&[0.5; 4], 0, "x"), bca_of_mean(&[0.5], 0, "x"), bca_of_mean(&[], 0, "x")),
            (None, None, None)
        );
    }
}
