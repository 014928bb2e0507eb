//! Non-negative least squares: `argmin ‖A w − b‖` over `w ≥ 0`.
//!
//! The active-set method of Lawson and Hanson. Weights enter one at a time, in order of steepest descent, and leave when
//! they turn negative. The products `AᵀA` and `Aᵀb` suffice while `A` is well conditioned. They square its condition
//! number, so nearly dependent columns need the matrix itself.

/// A Cholesky pivot below this share of its column means that the products have lost too many digits.
const WELL_CONDITIONED: f64 = 1e-8;

/// A column is dependent if less than this share of its length is outside the span of the others.
const INDEPENDENT: f64 = 1e-12;

/// Weights from the products `AᵀA` (row-major, `products.len()` squared) and `Aᵀb`. `None` if the columns are nearly
/// dependent; use [`from_columns`] then.
pub fn from_products(gram: &[f64], products: &[f64]) -> Option<Vec<f64>> {
    let size = products.len();
    let mut lost = false;
    let solve = |passive: &[usize]| {
        let solution = cholesky(gram, products, passive);
        lost |= solution.is_none();
        solution
    };
    let gradient = |weights: &[f64], out: &mut [f64]| {
        for (index, out) in out.iter_mut().enumerate() {
            let row = &gram[index * size..][..size];
            *out = products[index] - row.iter().zip(weights).map(|(g, w)| g * w).sum::<f64>();
        }
    };
    let weights = lawson_hanson(size, scale(products), solve, gradient);
    (!lost).then_some(weights)
}

/// Weights from the columns of `A`, all as long as `b`, and `b` itself.
pub fn from_columns(columns: &[Vec<f64>], b: &[f64]) -> Vec<f64> {
    let products: Vec<f64> = columns.iter().map(|column| dot(column, b)).collect();
    let solve = |passive: &[usize]| orthogonal(columns, b, passive);
    let gradient = |weights: &[f64], out: &mut [f64]| {
        let mut residual = b.to_vec();
        for (column, &weight) in columns.iter().zip(weights) {
            residual.iter_mut().zip(column).for_each(|(r, a)| *r -= weight * a);
        }
        out.iter_mut().zip(columns).for_each(|(out, column)| *out = dot(column, &residual));
    };
    lawson_hanson(columns.len(), scale(&products), solve, gradient)
}

fn scale(products: &[f64]) -> f64 {
    products.iter().fold(0.0, |largest, product| product.abs().max(largest))
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The active-set loop. `solve` returns the unconstrained solution on some columns, or `None` if they are dependent;
/// `gradient` writes `Aᵀ(b − A w)`; `scale` is the largest of `|Aᵀb|`.
fn lawson_hanson(
    size: usize,
    scale: f64,
    mut solve: impl FnMut(&[usize]) -> Option<Vec<f64>>,
    gradient: impl Fn(&[f64], &mut [f64]),
) -> Vec<f64> {
    let mut weights = vec![0.0; size];
    let mut slopes = vec![0.0; size];
    let mut passive: Vec<usize> = Vec::new();
    // Columns that could not enter since the weights last changed.
    let mut refused = vec![false; size];
    let tolerance = 10.0 * size as f64 * f64::EPSILON * scale;
    // Each entering column lowers the residual, so the loop ends. The limit guards against cycles due to rounding.
    for _ in 0..10 * size + 10 {
        gradient(&weights, &mut slopes);
        let mut entering: Option<usize> = None;
        for column in 0..size {
            let free = !refused[column] && !passive.contains(&column) && slopes[column] > tolerance;
            if free && entering.is_none_or(|best| slopes[column] > slopes[best]) {
                entering = Some(column);
            }
        }
        let Some(entering) = entering else { break };
        passive.push(entering);
        passive.sort_unstable();
        let enters = |solution: &Vec<f64>| passive.iter().zip(solution).any(|(&p, &w)| p == entering && w > 0.0);
        let Some(mut solution) = solve(&passive).filter(enters) else {
            passive.retain(|&column| column != entering);
            refused[entering] = true;
            continue;
        };
        refused.fill(false);
        // Move towards the unconstrained solution until a weight would turn negative, drop that column, and retry.
        while solution.iter().any(|&weight| weight <= 0.0) {
            let mut step = 1.0f64;
            for (&column, &goal) in passive.iter().zip(&solution) {
                if goal <= 0.0 {
                    step = step.min(weights[column] / (weights[column] - goal));
                }
            }
            for (&column, &goal) in passive.iter().zip(&solution) {
                let moved = weights[column] + step * (goal - weights[column]);
                let leaves = goal <= 0.0 && moved <= f64::EPSILON * weights[column].abs();
                weights[column] = if leaves { 0.0 } else { moved.max(0.0) };
            }
            let before = passive.len();
            passive.retain(|&column| weights[column] > 0.0);
            match solve(&passive) {
                Some(next) if passive.len() < before => solution = next,
                _ => return weights,
            }
        }
        weights.fill(0.0);
        passive.iter().zip(&solution).for_each(|(&column, &weight)| weights[column] = weight);
    }
    weights
}

/// Solves the normal equations of the passive columns; `None` if a pivot is too small.
fn cholesky(gram: &[f64], products: &[f64], passive: &[usize]) -> Option<Vec<f64>> {
    let (size, n) = (products.len(), passive.len());
    let mut factor = vec![0.0; n * n];
    for row in 0..n {
        for column in 0..=row {
            let entry = gram[passive[row] * size + passive[column]];
            let done = dot(&factor[row * n..][..column], &factor[column * n..][..column]);
            factor[row * n + column] = if row > column {
                (entry - done) / factor[column * n + column]
            } else if entry - done > WELL_CONDITIONED * entry {
                (entry - done).sqrt()
            } else {
                return None;
            };
        }
    }
    let mut solution: Vec<f64> = passive.iter().map(|&column| products[column]).collect();
    for row in 0..n {
        solution[row] = (solution[row] - dot(&factor[row * n..][..row], &solution[..row])) / factor[row * n + row];
    }
    for row in (0..n).rev() {
        let above: f64 = (row + 1..n).map(|later| factor[later * n + row] * solution[later]).sum();
        solution[row] = (solution[row] - above) / factor[row * n + row];
    }
    Some(solution)
}

/// Solves least squares on the passive columns by orthogonalising each twice; `None` if one depends on the others.
fn orthogonal(columns: &[Vec<f64>], b: &[f64], passive: &[usize]) -> Option<Vec<f64>> {
    let n = passive.len();
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(n);
    let mut upper = vec![0.0; n * n];
    for (index, &column) in passive.iter().enumerate() {
        let mut left = columns[column].clone();
        let length = dot(&left, &left).sqrt();
        // Twice, because once is not enough for nearly equal columns.
        for _ in 0..2 {
            for (other, direction) in basis.iter().enumerate() {
                let part = dot(direction, &left);
                upper[other * n + index] += part;
                left.iter_mut().zip(direction).for_each(|(l, d)| *l -= part * d);
            }
        }
        let rest = dot(&left, &left).sqrt();
        // A zero column fails too.
        if rest <= INDEPENDENT * length {
            return None;
        }
        upper[index * n + index] = rest;
        left.iter_mut().for_each(|value| *value /= rest);
        basis.push(left);
    }
    let mut solution: Vec<f64> = basis.iter().map(|direction| dot(direction, b)).collect();
    for row in (0..n).rev() {
        let right: f64 = (row + 1..n).map(|later| upper[row * n + later] * solution[later]).sum();
        solution[row] = (solution[row] - right) / upper[row * n + row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    fn products(columns: &[Vec<f64>], b: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let gram = columns.iter().flat_map(|a| columns.iter().map(|c| dot(a, c))).collect();
        (gram, columns.iter().map(|column| dot(column, b)).collect())
    }

    #[test]
    fn a_negative_weight_becomes_zero() {
        // Columns (1, 0) and (1, 1), target (1, −1): free weights (2, −1). With w₁ = 0 the best w₀ is 1.
        let columns = [vec![1.0, 0.0], vec![1.0, 1.0]];
        let b = [1.0, -1.0];
        let (gram, target) = products(&columns, &b);
        assert_eq!(from_products(&gram, &target).unwrap(), [1.0, 0.0]);
        assert_eq!(from_columns(&columns, &b), [1.0, 0.0]);
    }

    #[test]
    fn both_solvers_agree_and_satisfy_the_kkt_conditions() {
        for trial in 0..200 {
            let mut random = stream(trial, "nnls", 0);
            let (rows, size) = (5 + trial as usize % 20, 1 + trial as usize % 9);
            let column = |random: &mut _| (0..rows).map(|_| unit(random) - 0.3).collect::<Vec<f64>>();
            let columns: Vec<Vec<f64>> = (0..size).map(|_| column(&mut random)).collect();
            let b = column(&mut random);
            let tall = from_columns(&columns, &b);
            let (gram, target) = products(&columns, &b);
            if let Some(short) = from_products(&gram, &target) {
                tall.iter().zip(&short).for_each(|(a, b)| assert!((a - b).abs() < 1e-6, "{tall:?} {short:?}"));
            }
            // KKT conditions: gradient 0 where a weight is positive, at most 0 elsewhere.
            let mut residual = b.clone();
            for (column, weight) in columns.iter().zip(&tall) {
                residual.iter_mut().zip(column).for_each(|(r, a)| *r -= weight * a);
            }
            for (column, &weight) in columns.iter().zip(&tall) {
                let slope = dot(column, &residual);
                assert!(weight >= 0.0 && slope < 1e-9 && (weight == 0.0 || slope > -1e-9), "{weight} {slope}");
            }
        }
    }

    #[test]
    fn equal_columns_are_used_once() {
        let columns = [vec![1.0, 2.0, 0.0], vec![1.0, 2.0, 0.0], vec![0.0, 0.0, 1.0]];
        let b = [2.0, 4.0, 3.0];
        let (gram, target) = products(&columns, &b);
        for weights in [from_products(&gram, &target).unwrap(), from_columns(&columns, &b)] {
            assert!((weights[0] - 2.0).abs() < 1e-12 && weights[1] == 0.0 && (weights[2] - 3.0).abs() < 1e-12);
        }
    }

    #[test]
    fn nearly_equal_columns_need_the_full_matrix() {
        // b = 3·a₀ + 2·a₁ where a₁ − a₀ is 1e-6 long: their products agree to 12 digits, the columns only to 6.
        let columns = [vec![1.0, 0.0, 0.0], vec![1.0, 1e-6, 0.0]];
        let b = [5.0, 2e-6, 1.0];
        let (gram, target) = products(&columns, &b);
        assert_eq!(from_products(&gram, &target), None);
        let weights = from_columns(&columns, &b);
        assert!((weights[0] - 3.0).abs() < 1e-6 && (weights[1] - 2.0).abs() < 1e-6, "{weights:?}");
    }

    #[test]
    fn empty_and_zero_columns() {
        assert_eq!(from_products(&[], &[]), Some(vec![]));
        assert_eq!(from_columns(&[vec![0.0; 3]], &[1.0; 3]), [0.0]);
    }
}
