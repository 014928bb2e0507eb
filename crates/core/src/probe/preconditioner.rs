//! A low-rank preconditioner for conjugate gradients: the directions in which rows have the largest sums of squares.
//!
//! Embeddings vary a hundred times more along some directions than along others, which makes conjugate gradients slow.
//! The Hessians of all logistic losses on the same rows are nearly proportional, so one approximation serves all
//! concepts. It changes how fast the weights are found, not which.

use etalon_kernel::lanes::dot_f64;
use etalon_kernel::monitor::{Cancelled, Monitor, Silent};
use etalon_kernel::random::{stream, unit};
use serde::{Deserialize, Serialize};

use super::design::{Design, TOGETHER};

/// Orthonormal directions with the sum of squares of the rows along each, and the mean of the remaining directions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Preconditioner {
    width: usize,
    directions: Vec<f64>,
    sizes: Vec<f64>,
    rest: f64,
    /// The sum of squares of every column, used instead of the directions.
    columns: Option<Vec<f64>>,
}

/// The number of directions.
const DIRECTIONS: usize = 128;
/// Power iterations.
const ROUNDS: usize = 5;

impl Preconditioner {
    /// Treats all directions alike.
    pub fn flat(design: &Design<'_>) -> Preconditioner {
        let width = design.width();
        let rest = design.sum_of_squares() / width.max(1) as f64;
        Preconditioner { width, directions: Vec::new(), sizes: Vec::new(), rest, columns: None }
    }

    /// Diagonal: cheap, and suited to codes, whose latents differ in scale more than they overlap.
    pub fn by_column(design: &Design<'_>) -> Preconditioner {
        Preconditioner { columns: Some(design.column_squares()), ..Preconditioner::flat(design) }
    }

    /// Finds the directions by power iteration from a fixed random start.
    pub fn of(design: &Design<'_>) -> Preconditioner {
        // `Silent` never cancels.
        Preconditioner::monitored(design, &Silent).unwrap_or_else(|_| Preconditioner::flat(design))
    }

    /// The same, with cancellation.
    pub fn monitored(design: &Design<'_>, monitor: &dyn Monitor) -> Result<Preconditioner, Cancelled> {
        Preconditioner::rough(design, DIRECTIONS, ROUNDS, monitor)
    }

    /// The same with a given number of directions and iterations, for rows that are fitted only a few times.
    pub fn rough(
        design: &Design<'_>,
        directions: usize,
        rounds: usize,
        monitor: &dyn Monitor,
    ) -> Result<Preconditioner, Cancelled> {
        let (rows, width) = (design.rows(), design.width());
        let count = directions.min(width / 2).min(rows / 2);
        if count == 0 {
            return Ok(Preconditioner::flat(design));
        }
        let mut random = stream(0, "probe/spectrum", 0);
        let mut directions: Vec<f64> = (0..count * width).map(|_| unit(&mut random) - 0.5).collect();
        let mut products = Vec::new();
        for _ in 0..rounds {
            orthonormalise(&mut directions, width, monitor)?;
            products.clear();
            for group in directions.chunks(TOGETHER * width) {
                monitor.check()?;
                let (shifts, curves) = (vec![0.0; group.len() / width], vec![1.0; group.len() / width * rows]);
                products.extend(design.hessian_product(group, &shifts, &curves).0);
            }
            std::mem::swap(&mut directions, &mut products);
        }
        // After the swap `products` are the orthonormal directions of the last round, `directions` their images.
        let sizes: Vec<f64> = products
            .chunks(width)
            .zip(directions.chunks(width))
            .map(|(v, product)| dot_f64(v, product).max(0.0))
            .collect();
        let rest = (design.sum_of_squares() - sizes.iter().sum::<f64>()).max(0.0) / (width - count) as f64;
        Ok(Preconditioner { width, directions: products, sizes, rest, columns: None })
    }

    /// The preconditioner for `by` times as many rows of the same distribution.
    pub fn scaled(mut self, by: f64) -> Preconditioner {
        self.sizes.iter_mut().chain(self.columns.iter_mut().flatten()).for_each(|size| *size *= by);
        self.rest *= by;
        self
    }

    /// Divides a vector by `curve` times the sum of squares along each direction, plus the penalty.
    pub fn divide(&self, vector: &[f64], curve: f64, penalty: f64) -> Vec<f64> {
        if let Some(columns) = &self.columns {
            return vector.iter().zip(columns).map(|(value, column)| value / (curve * column + penalty)).collect();
        }
        let base = 1.0 / (curve * self.rest + penalty);
        let mut divided: Vec<f64> = vector.iter().map(|value| value * base).collect();
        for (direction, size) in self.directions.chunks(self.width.max(1)).zip(&self.sizes) {
            let along = dot_f64(direction, vector) * (1.0 / (curve * size + penalty) - base);
            divided.iter_mut().zip(direction).for_each(|(value, part)| *value += along * part);
        }
        divided
    }
}

/// Gram-Schmidt; a vector that depends on earlier ones becomes zero.
fn orthonormalise(vectors: &mut [f64], width: usize, monitor: &dyn Monitor) -> Result<(), Cancelled> {
    for index in 0..vectors.len() / width {
        monitor.check()?;
        let (before, rest) = vectors.split_at_mut(index * width);
        let vector = &mut rest[..width];
        let length = dot_f64(vector, vector).sqrt();
        // Twice, against rounding errors where little of the vector is new.
        for _ in 0..2 {
            for other in before.chunks(width) {
                let part = dot_f64(other, vector);
                vector.iter_mut().zip(other).for_each(|(value, other)| *value -= part * other);
            }
        }
        let left = dot_f64(vector, vector).sqrt();
        let factor = if left > 1e-10 * length { 1.0 / left } else { 0.0 };
        vector.iter_mut().for_each(|value| *value *= factor);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_direction_with_the_largest_squares_is_found() {
        // 40 rows of size 8 along (1, 1, 0, 0)/√2, 1 along the third column and 1/8 along the fourth.
        let values: Vec<f32> = (0..40)
            .flat_map(|row: usize| {
                let sign = |bit: usize| if row >> bit & 1 == 1 { 1.0 } else { -1.0 };
                [8.0 * sign(0), 8.0 * sign(0), sign(1), sign(2) / 8.0]
            })
            .collect();
        let design = Design::Dense { values: &values, width: 4 };
        let preconditioner = Preconditioner::of(&design);
        // Products are in single precision.
        assert!((preconditioner.sizes[0] - 40.0 * 128.0).abs() < 0.01, "{:?}", preconditioner.sizes);
        let half = 0.5f64.sqrt();
        let divided = preconditioner.divide(&[half, half, 0.0, 0.0], 0.25, 1.0);
        let expected = half / (0.25 * 40.0 * 128.0 + 1.0);
        assert!((divided[0] - expected).abs() < 1e-6 * expected && (divided[1] - expected).abs() < 1e-6 * expected);
        assert!(divided[2].abs() < 1e-9);
        let columns = Preconditioner::by_column(&design).scaled(0.5);
        assert!((columns.divide(&[1.0; 4], 0.25, 1.0)[2] - 1.0 / (0.25 * 20.0 + 1.0)).abs() < 1e-12);
        let none = Preconditioner::of(&Design::Dense { values: &[], width: 4 });
        assert_eq!(none.divide(&[1.0, 2.0, 3.0, 4.0], 1.0, 2.0), [0.5, 1.0, 1.5, 2.0]);
    }
}
