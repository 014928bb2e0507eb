//! The rows of a small fit: nonzero entries where these are few, otherwise all values.

use super::LabelledTable;
use etalon_kernel::lanes::dot_f64;
use etalon_kernel::product::rows_by_columns;

/// Rows per tile of a product.
const TILE: usize = 256;
/// Up to this many columns a matrix product costs more to prepare than it saves.
const NARROW: usize = 12;

/// The rows of a fit, each followed by a 1 for the intercept.
pub(super) enum RowStorage {
    /// Nonzero entries, row by row, columns ascending.
    Sparse { starts: Vec<usize>, columns: Vec<u32>, values: Vec<f64> },
    /// All values, row by row.
    Dense(Vec<f64>),
}

impl RowStorage {
    /// Copies some rows of a table.
    pub fn of(table: &LabelledTable<'_>, rows: impl Iterator<Item = usize> + Clone) -> RowStorage {
        let side = table.width + 1;
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        let (mut cost, mut count) = (0, 0);
        for row in rows.clone() {
            let before = values.len();
            for (column, &value) in table.row(row).iter().enumerate().filter(|(_, value)| **value != 0.0) {
                columns.push(column as u32);
                values.push(f64::from(value));
            }
            columns.push(table.width as u32);
            values.push(1.0);
            starts.push(values.len());
            cost += (values.len() - before).pow(2);
            count += 1;
        }
        // An entry of the Hessian costs about four times as much alone as within a matrix product.
        if side <= NARROW || cost * 4 < count * side * side {
            return RowStorage::Sparse { starts, columns, values };
        }
        RowStorage::Dense(
            rows.flat_map(|row| table.row(row).iter().chain(&[1.0])).map(|&value| f64::from(value)).collect(),
        )
    }

    /// The scores of all rows; the intercept is the last weight.
    pub fn scores(&self, weights: &[f64]) -> Vec<f64> {
        match self {
            RowStorage::Dense(values) => values.chunks_exact(weights.len()).map(|row| dot_f64(row, weights)).collect(),
            RowStorage::Sparse { starts, columns, values } => {
                let score = |span: &[usize]| {
                    let entries = columns[span[0]..span[1]].iter().zip(&values[span[0]..span[1]]);
                    entries.map(|(&column, value)| value * weights[column as usize]).sum()
                };
                starts.windows(2).map(score).collect()
            }
        }
    }

    /// The sum of the rows, each times its factor.
    pub fn weighted_sum(&self, factors: &[f64], side: usize) -> Vec<f64> {
        let mut sum = vec![0.0; side];
        match self {
            RowStorage::Dense(values) => {
                for (row, factor) in values.chunks_exact(side).zip(factors) {
                    sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += factor * value);
                }
            }
            RowStorage::Sparse { starts, columns, values } => {
                for (span, factor) in starts.windows(2).zip(factors) {
                    let entries = columns[span[0]..span[1]].iter().zip(&values[span[0]..span[1]]);
                    entries.for_each(|(&column, value)| sum[column as usize] += factor * value);
                }
            }
        }
        sum
    }

    /// `Σ_i s_i x_i x_iᵀ`.
    pub fn hessian(&self, curves: &[f64], side: usize) -> Vec<f64> {
        let mut sum = vec![0.0; side * side];
        match self {
            RowStorage::Dense(values) => {
                let (mut part, mut transposed) = (vec![0.0; side * side], Vec::new());
                for (tile, curves) in values.chunks(TILE * side).zip(curves.chunks(TILE)) {
                    let count = curves.len();
                    transposed.resize(side * count, 0.0);
                    for (index, (row, curve)) in tile.chunks_exact(side).zip(curves).enumerate() {
                        for (column, value) in row.iter().enumerate() {
                            transposed[column * count + index] = curve * value;
                        }
                    }
                    rows_by_columns(&transposed, tile, count, side, &mut part);
                    sum.iter_mut().zip(&part).for_each(|(sum, part)| *sum += part);
                }
            }
            RowStorage::Sparse { starts, columns, values } => {
                for (span, curve) in starts.windows(2).zip(curves) {
                    let (columns, values) = (&columns[span[0]..span[1]], &values[span[0]..span[1]]);
                    for (index, (&column, value)) in columns.iter().zip(values).enumerate() {
                        let (sums, by) = (&mut sum[column as usize * side..][..side], curve * value);
                        let entries = columns[..=index].iter().zip(values);
                        entries.for_each(|(&other, value)| sums[other as usize] += by * value);
                    }
                }
                for row in 0..side {
                    (0..row).for_each(|column| sum[column * side + row] = sum[row * side + column]);
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_and_dense_rows_agree() {
        // 300 rows, so that there are two tiles; 20 columns of which one in five is filled.
        let values: Vec<f32> =
            (0..300 * 20).map(|i| if i * i % 5 == 1 { (i % 17) as f32 - 8.0 } else { 0.0 }).collect();
        let filled: Vec<f32> = values.iter().map(|value| value + 0.5).collect();
        let table = |values| LabelledTable { values, stride: 20, width: 20, positive: &[] };
        let all = RowStorage::of(&table(&filled), 0..300);
        assert!(matches!(all, RowStorage::Dense(_)));
        let sparse = RowStorage::of(&table(&values), 0..300);
        let RowStorage::Sparse { .. } = sparse else { panic!("not sparse") };
        let dense = RowStorage::Dense(
            (0..300).flat_map(|row| values[row * 20..][..20].iter().chain(&[1.0])).map(|&v| f64::from(v)).collect(),
        );
        let weights: Vec<f64> = (0..21).map(|i| f64::from(i) / 8.0 - 1.0).collect();
        let curves: Vec<f64> = (0..300).map(|i| f64::from(i % 7) / 8.0).collect();
        let close =
            |a: Vec<f64>, b: Vec<f64>| a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(close(sparse.scores(&weights), dense.scores(&weights)));
        assert!(close(sparse.weighted_sum(&curves, 21), dense.weighted_sum(&curves, 21)));
        assert!(close(sparse.hessian(&curves, 21), dense.hessian(&curves, 21)));
    }
}
