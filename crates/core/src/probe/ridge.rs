//! Ridge regression: least squares with a penalty on the weights and none on the intercept, many targets at once.
//!
//! scikit-learn's convention: minimise `Σ_i (w · x_i + b − y_i)² + penalty · ‖w‖²`. Solved by conjugate gradients on
//! centred columns; the centring is done in the products, so that sparse rows stay sparse and no square matrix is made.

use super::design::Design;
use super::logistic::Probe;
use super::preconditioner::dot;

/// How the weights are found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ridge {
    /// The weight of the penalty.
    pub penalty: f64,
    /// Stops when the equations are solved to this share of their right side.
    pub tolerance: f64,
    /// Gives up after so many products.
    pub steps: usize,
}

impl Default for Ridge {
    fn default() -> Ridge {
        Ridge { penalty: 1.0, tolerance: 1e-10, steps: 1000 }
    }
}

impl Ridge {
    /// Weights and intercept for every target (`targets × rows`); nothing where there are no rows.
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
        // The centres of the columns drop out: the centred targets sum to zero.
        let right = design.weighted_sums(&centred, count);
        let wanted: Vec<f64> =
            right.chunks_exact(width.max(1)).map(|right| self.tolerance * dot(right, right).sqrt()).collect();
        let (mut weights, mut left, mut along) = (vec![0.0; count * width], right.clone(), right);
        let mut sizes: Vec<f64> = left.chunks_exact(width.max(1)).map(|left| dot(left, left)).collect();
        for _ in 0..self.steps {
            if sizes.iter().zip(&wanted).all(|(size, wanted)| size.sqrt() <= *wanted) {
                break;
            }
            let mut scores = design.scores(&along, count);
            for (scores, along) in scores.chunks_exact_mut(rows).zip(along.chunks_exact(width.max(1))) {
                let centre = dot(&centres, along);
                scores.iter_mut().for_each(|score| *score -= centre);
            }
            let mut bent = design.weighted_sums(&scores, count);
            bent.iter_mut().zip(&along).for_each(|(bent, along)| *bent += self.penalty * along);
            for target in 0..count {
                let place = target * width..(target + 1) * width;
                let (bent, along) = (&bent[place.clone()], &mut along[place.clone()]);
                let curve = dot(along, bent);
                if sizes[target].sqrt() <= wanted[target] || curve <= 0.0 {
                    continue;
                }
                let length = sizes[target] / curve;
                let left = &mut left[place.clone()];
                weights[place].iter_mut().zip(&*along).for_each(|(weight, along)| *weight += length * along);
                left.iter_mut().zip(bent).for_each(|(left, bent)| *left -= length * bent);
                let size = dot(left, left);
                let keep = size / sizes[target];
                along.iter_mut().zip(&*left).for_each(|(along, left)| *along = left + keep * *along);
                sizes[target] = size;
            }
        }
        let probe = |target: usize| {
            let weights = weights[target * width..][..width].to_vec();
            let intercept = means[target] - dot(&centres, &weights);
            let converged = sizes.get(target).is_none_or(|size| size.sqrt() <= wanted[target]);
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
    fn by_hand() {
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
