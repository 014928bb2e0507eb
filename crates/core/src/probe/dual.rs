//! The dual form of a fit with an L2 penalty and fewer rows than columns: the weights are a combination of the rows.
//!
//! Such a fit depends on the rows only through their Gram matrix. The Cholesky factor of that matrix has as many columns
//! as there are rows and the same Gram matrix, so a fit on the factor is the fit on the rows, rotated.

use etalon_kernel::monitor::{Cancelled, Monitor};
use etalon_kernel::product::rows_by_rows;

use super::design::Design;
use super::logistic::Probe;
use super::preconditioner::Preconditioner;
use etalon_kernel::lanes::dot_f64;

/// Rows in the coordinates of the space that they dual.
pub struct DualForm<'a> {
    values: &'a [f32],
    width: usize,
    /// The Cholesky factor of the Gram matrix, lower triangle, row by row.
    factor: Vec<f64>,
    /// The same in `f32`: the rows of the dual fit.
    table: Vec<f32>,
}

/// Rows of the Gram matrix between two checks for cancellation.
const TOGETHER: usize = 128;

impl<'a> DualForm<'a> {
    /// Computes the dual form of some rows.
    pub fn of(values: &'a [f32], width: usize, monitor: &dyn Monitor) -> Result<DualForm<'a>, Cancelled> {
        let wide: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
        let rows = values.len().checked_div(width).unwrap_or(0);
        let mut factor = vec![0.0; rows * rows];
        // Parts of about the same size: a part of a single row would be multiplied in a different order.
        let part = rows.div_ceil(rows.div_ceil(TOGETHER).max(1)).max(1);
        for (some, products) in wide.chunks((part * width).max(1)).zip(factor.chunks_mut((part * rows).max(1))) {
            monitor.check()?;
            rows_by_rows(some, &wide, width, products);
        }
        cholesky(&mut factor, rows, monitor)?;
        let table = factor.iter().map(|&value| value as f32).collect();
        Ok(DualForm { values, width, factor, table })
    }

    /// Bytes needed to compute the dual form of some rows.
    pub fn bytes_of(rows: usize, width: usize) -> u64 {
        8 * rows as u64 * width as u64 + 12 * (rows as u64).pow(2)
    }

    /// The rows in dual coordinates.
    pub fn design(&self) -> Design<'_> {
        Design::Dense { values: &self.table, width: self.rows() }
    }

    /// A preconditioner of few directions: products with the small table are cheap.
    pub fn preconditioner(&self, monitor: &dyn Monitor) -> Result<Preconditioner, Cancelled> {
        Preconditioner::rough(&self.design(), 24, 3, monitor)
    }

    fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// Converts a probe on columns to dual coordinates; weights outside the span of the rows are lost.
    pub fn to_dual(&self, probe: &Probe) -> Probe {
        let rows = self.rows();
        let mut weights: Vec<f64> = Vec::with_capacity(rows);
        for row in 0..rows {
            let score: f64 = self.row(row).iter().zip(&probe.weights).map(|(&x, w)| f64::from(x) * w).sum();
            let factor = &self.factor[row * rows..][..rows];
            let left = score - dot_f64(&factor[..row], &weights);
            weights.push(if factor[row] > 0.0 { left / factor[row] } else { 0.0 });
        }
        Probe { weights, ..*probe }
    }

    /// Converts a probe in dual coordinates to one on columns.
    pub fn to_primal(&self, probe: &Probe) -> Probe {
        let rows = self.rows();
        let (mut left, mut weights) = (probe.weights.clone(), vec![0.0; self.width]);
        for row in (0..rows).rev() {
            let factor = &self.factor[row * rows..][..=row];
            if factor[row] > 0.0 {
                let share = left[row] / factor[row];
                left[..row].iter_mut().zip(factor).for_each(|(left, part)| *left -= share * part);
                weights.iter_mut().zip(self.row(row)).for_each(|(weight, &x)| *weight += share * f64::from(x));
            }
        }
        Probe { weights, ..*probe }
    }
}

/// Replaces a Gram matrix by its Cholesky factor. A row that depends on earlier rows gets a zero on the diagonal.
fn cholesky(matrix: &mut [f64], size: usize, monitor: &dyn Monitor) -> Result<(), Cancelled> {
    for row in 0..size {
        monitor.check()?;
        let (above, rest) = matrix.split_at_mut(row * size);
        let current = &mut rest[..size];
        let diagonal = current[row];
        for column in 0..row {
            let other = &above[column * size..][..=column];
            let left = current[column] - dot_f64(&current[..column], &other[..column]);
            current[column] = if other[column] > 0.0 { left / other[column] } else { 0.0 };
        }
        let square = diagonal - dot_f64(&current[..row], &current[..row]);
        current[row] = if square > 1e-10 * diagonal { square.sqrt() } else { 0.0 };
        current[row + 1..].fill(0.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::logistic::{Logistic, Target};
    use etalon_kernel::bits::Bits;
    use etalon_kernel::monitor::Silent;

    #[test]
    fn dual_and_primal_fits_agree_with_a_repeated_row() {
        let (rows, width) = (24, 40);
        let mut values: Vec<f32> = (0..rows * width).map(|i| ((i * i * 31 + i * 7) % 97) as f32 / 48.0 - 1.0).collect();
        values.copy_within(3 * width..4 * width, 9 * width);
        let yes = Bits::of(rows, (0..rows).filter(|row| row % 3 == 0));
        let known = Bits::full(rows);
        let target = Target { yes: &yes, known: &known };
        let design = Design::Dense { values: &values, width };
        let dual = DualForm::of(&values, width, &Silent).unwrap();
        let preconditioner = dual.preconditioner(&Silent).unwrap();
        for c in [0.01, 1.0, 100.0] {
            let logistic = Logistic { c, tolerance: 1e-6, ..Logistic::default() };
            let direct = logistic.fit(&design, &[target]).remove(0).unwrap();
            let found = logistic.fit_from(&dual.design(), &preconditioner, &target, None, &Silent).unwrap().unwrap();
            let wide = dual.to_primal(&found);
            assert!(direct.converged && wide.converged);
            for (a, b) in direct.weights.iter().zip(&wide.weights) {
                assert!((a - b).abs() < 1e-5 * (1.0 + a.abs()), "{c}: {a} {b}");
            }
            let back = dual.to_dual(&wide);
            assert!(back.weights.iter().zip(&found.weights).all(|(a, b)| (a - b).abs() < 1e-8));
        }
    }
}
