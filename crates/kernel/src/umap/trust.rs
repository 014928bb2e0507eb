//! Trustworthiness: whether neighbours in the embedding are neighbours among the rows.

use rayon::prelude::*;

use crate::monitor::{Cancelled, Monitor};
use crate::neighbours::Points;
use crate::random::{permutation, stream};
use crate::top_k::largest;
use crate::vectorised::vectorised;

/// Maximum number of points whose neighbours are ranked.
const SAMPLE: usize = 2048;

/// Rows compared with all others per block.
const ROWS: usize = 64;

/// The trustworthiness of Venna and Kaski and its standard error from the sample; `None` with fewer than four points.
///
/// `1 − 2 / (n k (2n − 3k − 1)) · Σ_i Σ_j max(0, rank(i, j) − k)` over the k nearest j of i in the embedding; rank is that
/// of j among the rows by distance from i (ties to the lower). k is limited to (n − 1) / 2.
pub fn trustworthiness(
    points: &Points,
    embedded: &[[f32; 2]],
    neighbours: usize,
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<Option<(f64, f64)>, Cancelled> {
    let count = embedded.len();
    if count < 4 {
        return Ok(None);
    }
    let k = neighbours.min((count - 1) / 2);
    let mut sample = permutation(count, &mut stream(seed, "umap/trust", 0));
    sample.truncate(SAMPLE);
    sample.sort_unstable();
    monitor.start("trustworthiness", sample.len() as u64, "points");
    let penalties: Result<Vec<Vec<f64>>, Cancelled> = sample
        .par_chunks(ROWS)
        .map(|rows| {
            monitor.check()?;
            let mut nearness = vec![0f32; rows.len() * count];
            points.nearness_to_all(rows, &mut nearness);
            let (mut distances, mut top) = (vec![0f32; count], Vec::new());
            let mut penalty = |(&row, near): (&usize, &mut [f32])| {
                monitor.advance(1);
                monitor.check()?;
                let here = embedded[row];
                vectorised(
                    #[inline(always)]
                    || {
                        for (distance, point) in distances.iter_mut().zip(embedded) {
                            *distance = -((point[0] - here[0]).powi(2) + (point[1] - here[1]).powi(2));
                        }
                    },
                );
                distances[row] = f32::NEG_INFINITY;
                largest(&distances, k, &mut top);
                near[row] = f32::NEG_INFINITY;
                let rank = |&(_, other): &(f32, u32)| {
                    let (other, value) = (other as usize, near[other as usize]);
                    let nearer = vectorised(
                        #[inline(always)]
                        || near.iter().map(|&near| u32::from(near > value)).sum::<u32>(),
                    );
                    nearer as usize + near[..other].iter().filter(|&&near| near == value).count() + 1
                };
                Ok(top.iter().map(|entry| rank(entry).saturating_sub(k) as f64).sum::<f64>())
            };
            rows.iter().zip(nearness.chunks_exact_mut(count)).map(&mut penalty).collect()
        })
        .collect();
    monitor.finish();
    let penalties = penalties?.concat();
    let (n, k, taken) = (count as f64, k as f64, penalties.len() as f64);
    let scale = 2.0 / (k * (2.0 * n - 3.0 * k - 1.0));
    let mean = penalties.iter().sum::<f64>() / taken;
    let spread = penalties.iter().map(|penalty| (penalty - mean).powi(2)).sum::<f64>() / (taken - 1.0);
    let error = if penalties.len() < count { scale * (spread / taken).sqrt() } else { 0.0 };
    Ok(Some((1.0 - scale * mean, error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Silent, Stop};
    use crate::neighbours::Distance;

    #[test]
    fn small_examples() {
        // Rows 0, 1, 2.5, 4.5, 7 on a line and k = 1. A faithful embedding has no penalty.
        let rows = [0.0, 1.0, 2.5, 4.5, 7.0];
        let points = Points::new(&rows, 1, Distance::Euclidean);
        let faithful = rows.map(|x| [x, 0.0]);
        assert_eq!(trustworthiness(&points, &faithful, 1, 0, &Silent), Ok(Some((1.0, 0.0))));
        assert_eq!(trustworthiness(&points, &faithful, 1, 0, &Stop), Err(Cancelled));
        // The first and the last point are exchanged. Nearest in the embedding, and its rank among the rows:
        // 0 (at 7): row 3, third of 1 2 3 4 → penalty 2. 1: row 4 (at 0), fourth of 0 2 3 4 → 3. 2 (at 2.5): row 1 → 0.
        // 3 (at 4.5): row 2 → 0. 4 (at 0): row 1, third of 3 2 1 0 → 2. Sum 7; 1 − 2 / (5·1·(10−3−1)) · 7 = 1 − 14/30.
        let map = [7.0, 1.0, 2.5, 4.5, 0.0].map(|x| [x, 0.0]);
        let (value, _) = trustworthiness(&points, &map, 1, 0, &Silent).unwrap().unwrap();
        assert!((value - (1.0 - 14.0 / 30.0)).abs() < 1e-12, "{value}");
        assert_eq!(trustworthiness(&points, &map[..3], 1, 0, &Silent), Ok(None));
    }
}
