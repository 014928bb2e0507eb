//! Two queries against a weighted sum of gathered rows, in `f64`: the inner loop of two-choice tasks.

use pulp::{Arch, Simd, WithSimd};

/// Lanes of the dot products. They are added in a fixed order, so the bits do not depend on the processor.
const LANES: usize = 16;

/// `sum = Σ weights[i] · rows[i]`; returns the dot products of the sum with both queries.
///
/// All rows and queries have the length of `sum`.
pub fn contrast(rows: &[&[f32]], weights: &[f64], queries: [&[f32]; 2], sum: &mut [f64]) -> [f64; 2] {
    assert!(
        rows.len() == weights.len() && rows.iter().chain(&queries).all(|row| row.len() == sum.len()),
        "rows, weights and queries differ in length"
    );
    Arch::new().dispatch(Contrast { rows, weights, queries, sum })
}

struct Contrast<'a> {
    rows: &'a [&'a [f32]],
    weights: &'a [f64],
    queries: [&'a [f32]; 2],
    sum: &'a mut [f64],
}

impl WithSimd for Contrast<'_> {
    type Output = [f64; 2];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> [f64; 2] {
        self.sum.fill(0.0);
        for (row, &weight) in self.rows.iter().zip(self.weights) {
            for (sum, &value) in self.sum.iter_mut().zip(*row) {
                *sum += weight * f64::from(value);
            }
        }
        self.queries.map(|query| dot(self.sum, query))
    }
}

#[inline(always)]
fn dot(sum: &[f64], query: &[f32]) -> f64 {
    let (sums, rest) = sum.as_chunks::<LANES>();
    let (queries, query_rest) = query.as_chunks::<LANES>();
    let mut lanes = [0.0; LANES];
    for (sum, query) in sums.iter().zip(queries) {
        for (lane, (&sum, &value)) in lanes.iter_mut().zip(sum.iter().zip(query)) {
            *lane += sum * f64::from(value);
        }
    }
    let rest = rest.iter().zip(query_rest).map(|(&sum, &value)| sum * f64::from(value));
    lanes.iter().copied().chain(rest).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worked_example() {
        // 2 · (1, 2, 3) − (0, 1, 5) = (2, 3, 1); with (1, 0, 0): 2, with (−1, 1, 2): −2 + 3 + 2 = 3.
        let rows: [&[f32]; 2] = [&[1.0, 2.0, 3.0], &[0.0, 1.0, 5.0]];
        let mut sum = [9.0; 3];
        let found = contrast(&rows, &[2.0, -1.0], [&[1.0, 0.0, 0.0], &[-1.0, 1.0, 2.0]], &mut sum);
        assert_eq!((found, sum), ([2.0, 3.0], [2.0, 3.0, 1.0]));
    }

    #[test]
    fn long_rows_agree_with_a_plain_loop() {
        let row = |shift: usize| (0..53).map(|i| ((i * 37 + shift * 11) % 19) as f32 - 9.0).collect::<Vec<_>>();
        let rows: Vec<Vec<f32>> = (0..5).map(row).collect();
        let (weights, queries) = ([0.5, -1.0, 0.25, 2.0, -0.125], [row(8), row(9)]);
        let views: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
        let found = contrast(&views, &weights, [&queries[0], &queries[1]], &mut [0.0; 53]);
        for (query, found) in queries.iter().zip(found) {
            let expected: f64 =
                rows.iter().zip(weights).map(|(row, weight)| weight * crate::product::dot(row, query)).sum();
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }
}
