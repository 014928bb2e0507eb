//! The design matrix of a linear probe, dense or sparse, and the three products that training needs.
//!
//! Every product serves several probes at once: values that belong to a probe are a row of a `probes × …` matrix. A
//! product runs on one thread and visits the rows in order; callers distribute groups of probes over threads.

use crate::codes::CodesView;
use etalon_kernel::product::{rows_by_columns, rows_by_rows};
use etalon_kernel::thin;

/// Rows per tile of a product.
const TILE: usize = 256;

/// Rows of a tile that both products of [`Design::hessian_product`] visit while they are in the cache.
const CACHED: usize = 32;

/// Probes that share one product with the rows. With fewer, preparing the rows costs as much as the product.
pub const TOGETHER: usize = 64;

/// A `rows × width` matrix.
#[derive(Clone, Copy, Debug)]
pub enum Design<'a> {
    /// Embeddings, row by row.
    Dense {
        /// All values, row by row.
        values: &'a [f32],
        /// Values per row.
        width: usize,
    },
    /// Codes.
    Sparse {
        /// The rows.
        codes: CodesView<'a>,
        /// The number of latents.
        latents: usize,
    },
}

impl Design<'_> {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match self {
            Design::Dense { values, width } => values.len().checked_div(*width).unwrap_or(0),
            Design::Sparse { codes, .. } => codes.rows(),
        }
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        match self {
            Design::Dense { width, .. } => *width,
            Design::Sparse { latents, .. } => *latents,
        }
    }

    /// The sum of the squares of all values.
    pub fn sum_of_squares(&self) -> f64 {
        let square = |&value: &f32| f64::from(value) * f64::from(value);
        match self {
            Design::Dense { values, .. } => values.iter().map(square).sum(),
            Design::Sparse { codes, .. } => codes.iter().flat_map(|(_, _, values)| values).map(square).sum(),
        }
    }

    /// The sum of the squares of every column.
    pub fn column_squares(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.width()];
        match self {
            Design::Dense { values, width } => {
                for row in values.chunks_exact((*width).max(1)) {
                    sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value) * f64::from(value));
                }
            }
            Design::Sparse { codes, .. } => {
                for row in 0..codes.rows() {
                    each_entry(codes, row, |latent, value| sums[latent] += value * value);
                }
            }
        }
        sums
    }

    /// `probes × rows`: the product of every row with every probe's weights (`probes × width`), in `f64`.
    pub fn scores(&self, weights: &[f64], probes: usize) -> Vec<f64> {
        let rows = self.rows();
        let mut scores = vec![0.0; probes * rows];
        match self {
            Design::Dense { values, width } => {
                let mut part = vec![0.0; probes * TILE];
                for (first, tile) in tiles(values, *width) {
                    let tile: Vec<f64> = tile.iter().map(|&value| f64::from(value)).collect();
                    let count = tile.len() / width;
                    rows_by_rows(weights, &tile, *width, &mut part[..probes * count]);
                    for (probe, part) in part[..probes * count].chunks_exact(count).enumerate() {
                        scores[probe * rows + first..][..count].copy_from_slice(part);
                    }
                }
            }
            Design::Sparse { codes, latents } => {
                let by_latent = transposed(weights, probes, *latents);
                let mut row_scores = vec![0.0; probes];
                for row in 0..rows {
                    row_scores.fill(0.0);
                    each_entry(codes, row, |latent, value| add(&mut row_scores, value, &by_latent[latent * probes..]));
                    row_scores.iter().enumerate().for_each(|(probe, score)| scores[probe * rows + row] = *score);
                }
            }
        }
        scores
    }

    /// `probes × width`: the sum of the rows, each times its factor (`probes × rows`), in `f64`.
    pub fn weighted_sums(&self, factors: &[f64], probes: usize) -> Vec<f64> {
        let (rows, width) = (self.rows(), self.width());
        let mut sums = vec![0.0; probes * width];
        match self {
            Design::Dense { values, width } => {
                let mut part = vec![0.0; probes * width];
                for (first, tile) in tiles(values, *width) {
                    let tile: Vec<f64> = tile.iter().map(|&value| f64::from(value)).collect();
                    let count = tile.len() / width;
                    let picked: Vec<f64> =
                        (0..probes).flat_map(|probe| &factors[probe * rows + first..][..count]).copied().collect();
                    rows_by_columns(&picked, &tile, count, *width, &mut part);
                    sums.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
                }
                sums
            }
            Design::Sparse { codes, .. } => {
                let mut row_factors = vec![0.0; probes];
                for row in 0..rows {
                    row_factors.iter_mut().enumerate().for_each(|(probe, f)| *f = factors[probe * rows + row]);
                    each_entry(codes, row, |latent, value| {
                        add(&mut sums[latent * probes..][..probes], value, &row_factors);
                    });
                }
                transposed(&sums, width, probes)
            }
        }
    }

    /// The product of the Hessian of the loss with a direction: for every probe `Σ_i s_i (x_i·v + c) x_i` and
    /// `Σ_i s_i (x_i·v + c)`, with `v` from `directions` (`probes × width`), `c` from `shifts` and `s` from `curves`
    /// (`probes × rows`).
    ///
    /// Dense rows are multiplied in `f32` and summed in `f64`, which is enough for a search direction. The gradient that
    /// decides about convergence is computed in `f64` throughout.
    pub fn hessian_product(&self, directions: &[f64], shifts: &[f64], curves: &[f64]) -> (Vec<f64>, Vec<f64>) {
        let (rows, probes) = (self.rows(), shifts.len());
        let Design::Dense { values, width } = self else {
            let mut products = self.scores(directions, probes);
            for (probe, products) in products.chunks_exact_mut(rows.max(1)).enumerate() {
                let curves = &curves[probe * rows..][..rows];
                products.iter_mut().zip(curves).for_each(|(score, curve)| *score = curve * (*score + shifts[probe]));
            }
            let totals = (0..probes).map(|probe| products[probe * rows..][..rows].iter().sum()).collect();
            return (self.weighted_sums(&products, probes), totals);
        };
        let directions: Vec<f32> = directions.iter().map(|&value| value as f32).collect();
        let (mut sums, mut totals) = (vec![0.0; probes * width], vec![0.0; probes]);
        let (mut products, mut part) = (vec![0f32; probes * CACHED], vec![0f32; probes * width]);
        for (first, tile) in tiles(values, *width) {
            part.fill(0.0);
            for (cached, first) in tile.chunks((CACHED * width).max(1)).zip((first..).step_by(CACHED)) {
                let count = cached.len() / width;
                let products = &mut products[..probes * count];
                thin::dots(cached, &directions, *width, products);
                for (probe, products) in products.chunks_exact_mut(count).enumerate() {
                    let curves = &curves[probe * rows + first..][..count];
                    for (score, curve) in products.iter_mut().zip(curves) {
                        let value = curve * (f64::from(*score) + shifts[probe]);
                        totals[probe] += value;
                        *score = value as f32;
                    }
                }
                thin::add_weighted_sums(cached, products, *width, &mut part);
            }
            sums.iter_mut().zip(&part).for_each(|(sum, &part)| *sum += f64::from(part));
        }
        (sums, totals)
    }
}

/// Tiles of rows, each with the index of its first row.
fn tiles(values: &[f32], width: usize) -> impl Iterator<Item = (usize, &[f32])> {
    values.chunks((TILE * width).max(1)).enumerate().map(|(index, tile)| (index * TILE, tile))
}

fn each_entry(codes: &CodesView<'_>, row: usize, mut visit: impl FnMut(usize, f64)) {
    let (latents, values) = codes.row(row);
    latents.iter().zip(values).for_each(|(&latent, &value)| visit(latent as usize, f64::from(value)));
}

fn add(sum: &mut [f64], factor: f64, values: &[f64]) {
    sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += factor * value);
}

fn transposed(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut transposed = vec![0.0; values.len()];
    for row in 0..rows {
        for column in 0..columns {
            transposed[column * rows + row] = values[row * columns + column];
        }
    }
    transposed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;

    #[test]
    fn dense_and_sparse_rows_agree_with_the_definition() {
        // 300 rows, so that there are two tiles.
        let (rows, width, probes) = (300, 5, 3);
        let values: Vec<f32> =
            (0..rows * width).map(|i| if i % 3 == 0 { (i % 17) as f32 / 4.0 - 2.0 } else { 0.0 }).collect();
        let weights: Vec<f64> = (0..probes * width).map(|i| (i % 7) as f64 / 8.0 - 0.25).collect();
        let curves: Vec<f64> = (0..probes * rows).map(|i| (i % 5) as f64 / 16.0).collect();
        let shifts = [0.5, 0.0, -1.0];
        let codes = Codes::from_dense(&values, width).unwrap();
        let designs =
            [Design::Dense { values: &values, width }, Design::Sparse { codes: codes.all().unwrap(), latents: width }];
        let x = |row: usize, column: usize| f64::from(values[row * width + column]);
        let score = |probe: usize, row: usize| (0..width).map(|c| weights[probe * width + c] * x(row, c)).sum::<f64>();
        for design in designs {
            assert_eq!((design.rows(), design.width()), (rows, width));
            let scores = design.scores(&weights, probes);
            let sums = design.weighted_sums(&curves, probes);
            let (products, totals) = design.hessian_product(&weights, &shifts, &curves);
            let squares = design.column_squares();
            assert!((squares.iter().sum::<f64>() - design.sum_of_squares()).abs() < 1e-9);
            assert!((squares[2] - (0..rows).map(|row| x(row, 2).powi(2)).sum::<f64>()).abs() < 1e-9);
            for probe in 0..probes {
                let curve = |row: usize| curves[probe * rows + row];
                let mut total = 0.0;
                for row in 0..rows {
                    assert!((scores[probe * rows + row] - score(probe, row)).abs() < 1e-12);
                    total += curve(row) * (score(probe, row) + shifts[probe]);
                }
                assert!((totals[probe] - total).abs() < 1e-5, "{} {total}", totals[probe]);
                for column in 0..width {
                    let sum: f64 = (0..rows).map(|row| curve(row) * x(row, column)).sum();
                    assert!((sums[probe * width + column] - sum).abs() < 1e-10);
                    let sum: f64 =
                        (0..rows).map(|row| curve(row) * (score(probe, row) + shifts[probe]) * x(row, column)).sum();
                    assert!((products[probe * width + column] - sum).abs() < 1e-4);
                }
            }
        }
    }
}
