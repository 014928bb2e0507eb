//! Fewer rows than columns: a probe with a penalty on its squares then lives in the space that the rows span.
//!
//! The products of the rows with each other are all that such a fit needs to know. Their triangular factor is a table
//! with as many columns as rows and the same products, so that a fit on it is the fit on the rows, turned.

use etalon_kernel::monitor::{Cancelled, Monitor};
use etalon_kernel::product::rows_by_rows;

use super::design::Design;
use super::logistic::Probe;
use super::preconditioner::{Spectrum, dot};

/// Rows in coordinates of their own space.
pub struct Span<'a> {
    values: &'a [f32],
    width: usize,
    /// Lower triangle, row by row.
    factor: Vec<f64>,
    table: Vec<f32>,
}

/// Rows whose products are made between two looks at the monitor.
const TOGETHER: usize = 128;

impl<'a> Span<'a> {
    /// Finds the coordinates of some rows.
    pub fn of(values: &'a [f32], width: usize, monitor: &dyn Monitor) -> Result<Span<'a>, Cancelled> {
        let wide: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
        let rows = values.len().checked_div(width).unwrap_or(0);
        let mut factor = vec![0.0; rows * rows];
        // Parts of about the same size: a part of a single row would be multiplied in another order.
        let part = rows.div_ceil(rows.div_ceil(TOGETHER).max(1)).max(1);
        for (some, products) in wide.chunks((part * width).max(1)).zip(factor.chunks_mut((part * rows).max(1))) {
            monitor.check()?;
            rows_by_rows(some, &wide, width, products);
        }
        triangle(&mut factor, rows, monitor)?;
        let table = factor.iter().map(|&value| value as f32).collect();
        Ok(Span { values, width, factor, table })
    }

    /// Bytes that the coordinates of some rows need while they are made.
    pub fn bytes_of(rows: usize, width: usize) -> u64 {
        8 * rows as u64 * width as u64 + 12 * (rows as u64).pow(2)
    }

    /// The rows in these coordinates.
    pub fn design(&self) -> Design<'_> {
        Design::Dense { values: &self.table, width: self.rows() }
    }

    /// How the rows spread: a few directions, because the table is small and its products are cheap.
    pub fn spectrum(&self, monitor: &dyn Monitor) -> Result<Spectrum, Cancelled> {
        Spectrum::rough(&self.design(), 24, 3, monitor)
    }

    fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    fn row(&self, row: usize) -> &'a [f32] {
        &self.values[row * self.width..][..self.width]
    }

    /// A probe on columns in these coordinates; what stands outside the space is lost.
    pub fn narrow(&self, probe: &Probe) -> Probe {
        let rows = self.rows();
        let mut weights: Vec<f64> = Vec::with_capacity(rows);
        for row in 0..rows {
            let score: f64 = self.row(row).iter().zip(&probe.weights).map(|(&x, w)| f64::from(x) * w).sum();
            let line = &self.factor[row * rows..][..rows];
            let left = score - dot(&line[..row], &weights);
            weights.push(if line[row] > 0.0 { left / line[row] } else { 0.0 });
        }
        Probe { weights, ..*probe }
    }

    /// A probe in these coordinates as one on columns.
    pub fn widen(&self, probe: &Probe) -> Probe {
        let rows = self.rows();
        let (mut left, mut weights) = (probe.weights.clone(), vec![0.0; self.width]);
        for row in (0..rows).rev() {
            let line = &self.factor[row * rows..][..=row];
            if line[row] > 0.0 {
                let share = left[row] / line[row];
                left[..row].iter_mut().zip(line).for_each(|(left, part)| *left -= share * part);
                weights.iter_mut().zip(self.row(row)).for_each(|(weight, &x)| *weight += share * f64::from(x));
            }
        }
        Probe { weights, ..*probe }
    }
}

/// Cholesky's factor in place of a matrix of products; a row that those before it make up adds no coordinate.
fn triangle(matrix: &mut [f64], size: usize, monitor: &dyn Monitor) -> Result<(), Cancelled> {
    for row in 0..size {
        monitor.check()?;
        let (above, rest) = matrix.split_at_mut(row * size);
        let line = &mut rest[..size];
        let own = line[row];
        for column in 0..row {
            let other = &above[column * size..][..=column];
            let left = line[column] - dot(&line[..column], &other[..column]);
            line[column] = if other[column] > 0.0 { left / other[column] } else { 0.0 };
        }
        let square = own - dot(&line[..row], &line[..row]);
        line[row] = if square > 1e-10 * own { square.sqrt() } else { 0.0 };
        line[row + 1..].fill(0.0);
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
    fn the_fit_is_the_same_with_a_row_twice() {
        let (rows, width) = (24, 40);
        let mut values: Vec<f32> = (0..rows * width).map(|i| ((i * i * 31 + i * 7) % 97) as f32 / 48.0 - 1.0).collect();
        values.copy_within(3 * width..4 * width, 9 * width);
        let yes = Bits::of(rows, (0..rows).filter(|row| row % 3 == 0));
        let known = Bits::full(rows);
        let target = Target { yes: &yes, known: &known };
        let design = Design::Dense { values: &values, width };
        let span = Span::of(&values, width, &Silent).unwrap();
        let spectrum = span.spectrum(&Silent).unwrap();
        for c in [0.01, 1.0, 100.0] {
            let logistic = Logistic { c, tolerance: 1e-6, ..Logistic::default() };
            let direct = logistic.fit(&design, &[target]).remove(0).unwrap();
            let narrow = span.design();
            let found = logistic.fit_from(&narrow, &spectrum, &target, None, &Silent).unwrap().unwrap();
            let wide = span.widen(&found);
            assert!(direct.converged && wide.converged);
            for (a, b) in direct.weights.iter().zip(&wide.weights) {
                assert!((a - b).abs() < 1e-5 * (1.0 + a.abs()), "{c}: {a} {b}");
            }
            // And back, to go on from there.
            let back = span.narrow(&wide);
            assert!(back.weights.iter().zip(&found.weights).all(|(a, b)| (a - b).abs() < 1e-8));
        }
    }
}
