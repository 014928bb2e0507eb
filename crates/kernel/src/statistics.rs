//! Small statistics with stated conventions: sums in order, ties averaged, undefined as `None`.
//!
//! ```
//! use etalon_kernel::statistics::{mean, median, spearman};
//!
//! assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
//! assert_eq!(median(&mut [6.0, 1.0, 2.0, 3.0]), Some(2.5));
//! assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 99.0]), Some(1.0));
//! // A constant has no correlation.
//! assert_eq!(spearman(&[1.0, 2.0, 3.0], &[5.0; 3]), None);
//! ```

/// The mean of a list, or `None` when it is empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation with `n − 1`, or `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    (values.len() > 1)
        .then(|| (values.iter().map(|v| (v - centre) * (v - centre)).sum::<f64>() / (values.len() - 1) as f64).sqrt())
}

/// The quantile by linear interpolation between order statistics (NumPy's default); `sorted` must be ascending.
pub fn quantile(sorted: &[f64], level: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = level.clamp(0.0, 1.0) * last as f64;
    let (below, part) = (position.floor() as usize, position.fract());
    let above = (below + 1).min(last);
    Some(sorted[below] + part * (sorted[above] - sorted[below]))
}

/// The median; the mean of the two middle values for an even count. Reorders the values, which is faster than sorting.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len().checked_sub(1)? / 2;
    let even = values.len().is_multiple_of(2);
    let (_, &mut low, above) = values.select_nth_unstable_by(half, f64::total_cmp);
    let high = above.iter().copied().min_by(f64::total_cmp).filter(|_| even);
    Some(high.map_or(low, |high| low + 0.5 * (high - low)))
}

/// Pearson's correlation, or `None` when a side is constant or there are fewer than two pairs.
pub fn pearson(x: &[f64], y: &[f64]) -> Option<f64> {
    let (centre_x, centre_y) = (mean(x)?, mean(y)?);
    let (mut xx, mut yy, mut xy) = (0.0, 0.0, 0.0);
    for (a, b) in x.iter().zip(y) {
        let (a, b) = (a - centre_x, b - centre_y);
        xx += a * a;
        yy += b * b;
        xy += a * b;
    }
    (xx > 0.0 && yy > 0.0).then(|| (xy / (xx * yy).sqrt()).clamp(-1.0, 1.0))
}

/// Spearman's correlation: Pearson's of the ranks, ties averaged.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<f64> {
    pearson(&ranks(x), &ranks(y))
}

/// Ranks from 1; equal values share their mean rank.
pub fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let mut end = start + 1;
        while end < order.len() && values[order[end]] == values[order[start]] {
            end += 1;
        }
        let shared = (start + 1 + end) as f64 / 2.0;
        order[start..end].iter().for_each(|&index| ranks[index] = shared);
        start = end;
    }
    ranks
}

/// The area under the ROC curve of a score for a binary label, ties counted half; `None` when a class is missing.
pub fn area_under_curve(positive: &[bool], score: &[f64]) -> Option<f64> {
    let ranks = ranks(score);
    let (mut sum, mut yes) = (0.0, 0usize);
    for (rank, _) in ranks.iter().zip(positive).filter(|(_, yes)| **yes) {
        sum += rank;
        yes += 1;
    }
    let no = positive.len() - yes;
    (yes > 0 && no > 0).then(|| (sum - (yes * (yes + 1)) as f64 / 2.0) / (yes as f64 * no as f64))
}

/// Fisher's skewness g1 = m3 / m2^1.5, or `None` for no values and for equal ones.
pub fn skewness(values: &[f64]) -> Option<f64> {
    let centre = mean(values)?;
    let (mut second, mut third) = (0.0, 0.0);
    for value in values {
        let off = value - centre;
        second += off * off;
        third += off * off * off;
    }
    let count = values.len() as f64;
    // Equal values differ from their mean by rounding only.
    let scale = values.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    (second / count > (1e-12 * scale).powi(2)).then(|| (third / count) / (second / count).powf(1.5))
}

/// The two-sided p-value of a standard normal statistic.
pub fn two_sided(z: f64) -> f64 {
    libm::erfc(z.abs() / std::f64::consts::SQRT_2)
}

/// The two-sided p-value of Wilcoxon's signed-rank test, zeros removed. Exact up to 30 differences, ties included; beyond
/// that the normal approximation with the variance corrected for ties.
pub fn signed_rank(differences: &[f64]) -> Option<f64> {
    let differences: Vec<f64> = differences.iter().copied().filter(|&difference| difference != 0.0).collect();
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).collect();
    let ranks = ranks(&sizes);
    let positive: f64 = ranks.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let count = differences.len();
    let off = (positive - (count * (count + 1)) as f64 / 4.0).abs();
    match count {
        0 => None,
        1..=30 => {
            // Shared ranks are multiples of 1/2, so twice a rank is an integer.
            let doubled: Vec<usize> = ranks.iter().map(|rank| (2.0 * rank).round() as usize).collect();
            let total: usize = doubled.iter().sum();
            let mut ways = vec![0.0f64; total + 1];
            ways[0] = 1.0;
            for rank in doubled {
                (rank..=total).rev().for_each(|sum| ways[sum] += ways[sum - rank]);
            }
            let far = |sum: &usize| (*sum as f64 / 2.0 - total as f64 / 4.0).abs() >= off - 1e-9;
            let large: f64 = (0..=total).filter(far).map(|sum| ways[sum]).sum();
            Some((large / 2.0f64.powi(count as i32)).min(1.0))
        }
        // The sum of squared ranks, ties shared, is 4 times the variance.
        _ => Some(two_sided(off / (ranks.iter().map(|rank| rank * rank).sum::<f64>() / 4.0).sqrt())),
    }
}

/// Benjamini-Hochberg q-values: the smallest false discovery rate at which each p-value is rejected. Missing p-values
/// have no q-value and are not counted.
pub fn false_discovery(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(f64, usize)> = p.iter().enumerate().filter_map(|(index, p)| Some(((*p)?, index))).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut q = vec![None; p.len()];
    let mut smallest: f64 = 1.0;
    for (rank, &(value, index)) in order.iter().enumerate().rev() {
        smallest = smallest.min(value * order.len() as f64 / (rank + 1) as f64);
        q[index] = Some(smallest);
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn medians_are_quantiles() {
        assert_eq!((median(&mut []), median(&mut [7.0])), (None, Some(7.0)));
        assert_eq!(median(&mut [4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 3.0, 2.0]), quantile(&[1.0, 2.0, 3.0, 4.0], 0.5));
    }

    #[test]
    fn ranks_share_ties() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0]), [3.5, 1.0, 3.5, 2.0]);
    }

    #[test]
    fn skewness_of_a_small_example() {
        // 0 0 3: mean 1, m2 = (1 + 1 + 4)/3 = 2, m3 = (−1 − 1 + 8)/3 = 2, so 2/2^1.5 = 0.7071.
        assert!((skewness(&[0.0, 0.0, 3.0]).unwrap() - 0.5f64.sqrt()).abs() < 1e-12);
        assert_eq!((skewness(&[]), skewness(&[0.1, 0.1, 0.1])), (None, None));
    }

    #[test]
    fn tails_and_false_discoveries() {
        assert!((two_sided(1.959_963_984_540_054) - 0.05).abs() < 1e-12);
        assert_eq!(two_sided(0.0), 1.0);
        // Three tests. Largest p 0.04 · 3/3 = 0.04; the middle 0.03 · 3/2 = 0.045, but no more than 0.04; 0.01 · 3 = 0.03.
        let q = false_discovery(&[Some(0.04), None, Some(0.01), Some(0.03)]);
        let expected = [Some(0.04), None, Some(0.03), Some(0.04)];
        assert!(q.iter().zip(expected).all(|(q, e)| (q.unwrap_or(-1.0) - e.unwrap_or(-1.0)).abs() < 1e-12), "{q:?}");
    }

    #[test]
    fn signed_rank_p_values() {
        // 1 2 3, all positive: 2 of 8 sign patterns are as extreme. With −1 the rank sum is 5 of 6; 0, 1, 5, 6 are: 4 of 8.
        assert_eq!(signed_rank(&[1.0, 2.0, 3.0]), Some(0.25));
        assert_eq!(signed_rank(&[-1.0, 2.0, 0.0, 3.0]), Some(0.5));
        assert_eq!((signed_rank(&[0.0]), signed_rank(&[2.0, -2.0])), (None, Some(1.0)));
        // Ties 1 1 1 1 share the rank 2.5: all positive is 2 of 16.
        assert_eq!(signed_rank(&[1.0; 4]), Some(0.125));
        // 31 differences 1..31, those divisible by 5 negative: positive 496 − 105 = 391, off 391 − 248 = 143, variance
        // 31·32·63/24 = 2604, z = 2.8023.
        let many: Vec<f64> = (1..=31).map(|i| if i % 5 == 0 { -f64::from(i) } else { f64::from(i) }).collect();
        assert!((signed_rank(&many).unwrap() - two_sided(143.0 / 2604.0f64.sqrt())).abs() < 1e-12);
    }

    #[test]
    fn constant_sides_have_no_correlation() {
        assert_eq!(pearson(&[1.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(area_under_curve(&[true, true], &[0.1, 0.2]), None);
        assert_eq!(area_under_curve(&[true, false], &[0.2, 0.2]), Some(0.5));
    }
}
