//! Ridge regression of many targets at once. The intercept is not penalised.
//!
//! scikit-learn's convention: minimise `Σ_i (w · x_i + b − y_i)² + penalty · ‖w‖²`. Solved by conjugate gradients on
//! centred columns; the products do the centring, so sparse rows stay sparse and no square matrix is built.

use super::design::Design;
use super::logistic::Probe;
use etalon_kernel::lanes::dot_f64;

/// Settings of a ridge regression.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ridge {
    /// The weight of the penalty.
    pub penalty: f64,
    /// Stops when the norm of the residual is below this share of the right side's.
    pub tolerance: f64,
    /// Maximum number of conjugate gradient steps.
    pub steps: usize,
}

impl Default for Ridge {
    fn default() -> Ridge {
        Ridge { penalty: 1.0, tolerance: 1e-10, steps: 1000 }
    }
}

impl Ridge {
    /// Fits one probe per target (`targets × rows`); returns none without rows.
    pub fn fit(&self, design: &Design<'_>, targets: &[f64]) -> Vec<Probe> {
        let (rows, width) = (design.rows(), design.width());
        if rows == 0 {
            return Vec::new();
        }
        let count = targets.len() / rows;
        let share = 1.0 / rows as f64;
        let centres: Vec<f64> = design.weighted_sums(&vec![share; rows], 1);
        let means: Vec<f64> = targets.chunks_exact(rows).map(|y| y.iter().sum::<f64>() * share).collect();
        let centred: Vec<f64> =
            targets.chunks_exact(rows).zip(&means).flat_map(|(y, mean)| y.iter().map(move |y| y - mean)).collect();
        // The column means drop out because the centred targets sum to zero.
        let right = design.weighted_sums(&centred, count);
        let limits: Vec<f64> =
            right.chunks_exact(width.max(1)).map(|right| self.tolerance * dot_f64(right, right).sqrt()).collect();
        let (mut weights, mut residual, mut along) = (vec![0.0; count * width], right.clone(), right);
        let mut sizes: Vec<f64> =
            residual.chunks_exact(width.max(1)).map(|residual| dot_f64(residual, residual)).collect();
        for _ in 0..self.steps {
            if sizes.iter().zip(&limits).all(|(size, limit)| size.sqrt() <= *limit) {
                break;
            }
            let mut scores = design.scores(&along, count);
            for (scores, along) in scores.chunks_exact_mut(rows).zip(along.chunks_exact(width.max(1))) {
                let centre = dot_f64(&centres, along);
                scores.iter_mut().for_each(|score| *score -= centre);
            }
            let mut product = design.weighted_sums(&scores, count);
            product.iter_mut().zip(&along).for_each(|(product, along)| *product += self.penalty * along);
            for target in 0..count {
                let range = target * width..(target + 1) * width;
                let (product, along) = (&product[range.clone()], &mut along[range.clone()]);
                let curve = dot_f64(along, product);
                if sizes[target].sqrt() <= limits[target] || curve <= 0.0 {
                    continue;
                }
                let length = sizes[target] / curve;
                let residual = &mut residual[range.clone()];
                weights[range].iter_mut().zip(&*along).for_each(|(weight, along)| *weight += length * along);
                residual.iter_mut().zip(product).for_each(|(residual, product)| *residual -= length * product);
                let size = dot_f64(residual, residual);
                let keep = size / sizes[target];
                along.iter_mut().zip(&*residual).for_each(|(along, residual)| *along = residual + keep * *along);
                sizes[target] = size;
            }
        }
        let probe = |target: usize| {
            let weights = weights[target * width..][..width].to_vec();
            let intercept = means[target] - dot_f64(&centres, &weights);
            let converged = sizes.get(target).is_none_or(|size| size.sqrt() <= limits[target]);
            Probe { weights, intercept, converged }
        };
        (0..count).map(probe).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;

    #[test]
    fn worked_example() {
        // x = 0, 1, 2, 3 and y = 1, 3, 5, 7: centred x·x = 5, x·y = 10, so w = 10 / (5 + penalty). Penalty 5: w = 1 and
        // b = 4 - 1.5 = 2.5. The second target is constant: w = 0, b = 2.
        let values = [0.0, 1.0, 2.0, 3.0];
        let codes = Codes::from_dense(&values, 1).unwrap();
        let designs =
            [Design::Dense { values: &values, width: 1 }, Design::Sparse { codes: codes.all().unwrap(), latents: 1 }];
        for design in designs {
            let probes =
                Ridge { penalty: 5.0, ..Ridge::default() }.fit(&design, &[1.0, 3.0, 5.0, 7.0, 2.0, 2.0, 2.0, 2.0]);
            assert!(probes.iter().all(|probe| probe.converged));
            assert!((probes[0].weights[0] - 1.0).abs() < 1e-12 && (probes[0].intercept - 2.5).abs() < 1e-12);
            assert_eq!((probes[1].weights[0], probes[1].intercept), (0.0, 2.0));
        }
        assert!(Ridge::default().fit(&Design::Dense { values: &[], width: 3 }, &[]).is_empty());
    }
}
