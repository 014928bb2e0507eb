//! The geometric median: the point with the smallest sum of distances to all rows.

/// Weiszfeld's algorithm, started at the mean: at most 100 iterations, until the change is below 0.00001.
pub(super) fn geometric_median(rows: &[f32], width: usize) -> Vec<f32> {
    let count = (rows.len() / width.max(1)).max(1) as f64;
    let mut guess = vec![0.0f64; width];
    for row in rows.chunks_exact(width) {
        guess.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value) / count);
    }
    for _ in 0..100 {
        let (mut next, mut total) = (vec![0.0f64; width], 0.0);
        for row in rows.chunks_exact(width) {
            let square: f64 = row.iter().zip(&guess).map(|(&value, guess)| (f64::from(value) - guess).powi(2)).sum();
            // A row at the guess itself would have infinite weight.
            let weight = 1.0 / square.sqrt().max(1e-12);
            total += weight;
            next.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * f64::from(value));
        }
        if total == 0.0 {
            break;
        }
        next.iter_mut().for_each(|value| *value /= total);
        let moved: f64 = next.iter().zip(&guess).map(|(a, b)| (a - b).powi(2)).sum();
        guess = next;
        if moved.sqrt() < 1e-5 {
            break;
        }
    }
    guess.into_iter().map(|value| value as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_hardly_changes_the_median() {
        // On a line the geometric median is the median.
        let median = geometric_median(&[0.0, 1.0, 2.0, 3.0, 1000.0], 1);
        assert!((median[0] - 2.0).abs() < 0.01, "{median:?}");
        assert_eq!(geometric_median(&[4.0, 5.0], 2), [4.0, 5.0]);
    }
}
