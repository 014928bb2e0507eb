//! Linear maps.

use etalon_kernel::neural;
use etalon_kernel::product::{Shape, Strided, Update, strided};
use rayon::prelude::*;

use super::CHUNK;

/// `y = x W + b`. The weights are stored (in, out): products with rows are fastest in this order.
#[derive(Clone, Debug)]
pub struct Linear {
    from: usize,
    to: usize,
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
}

/// Inputs that are transposed at a time, so that whole cache lines are read.
const LINES: usize = 16;

/// Outputs that one task computes for a single row.
const COLUMNS: usize = 512;

impl Linear {
    /// From the order (in, out).
    pub fn new(from: usize, to: usize, weight: Vec<f32>, bias: Option<Vec<f32>>) -> Linear {
        debug_assert!(weight.len() == from * to && bias.as_ref().is_none_or(|bias| bias.len() == to));
        Linear { from, to, weight, bias }
    }

    /// From PyTorch's order (out, in). Several maps of the same input are put side by side.
    pub fn stacked(from: usize, parts: &[&[f32]], bias: Option<Vec<f32>>) -> Linear {
        let to = parts.iter().map(|part| part.len() / from).sum();
        let mut weight = vec![0.0; from * to];
        weight.par_chunks_mut(LINES * to).enumerate().for_each(|(block, lines)| {
            let rows = parts.iter().flat_map(|part| part.chunks_exact(from));
            for (column, row) in rows.enumerate() {
                let row = &row[LINES * block..];
                lines.chunks_exact_mut(to).zip(row).for_each(|(line, &weight)| line[column] = weight);
            }
        });
        Linear::new(from, to, weight, bias)
    }

    /// Values per output row.
    pub fn to(&self) -> usize {
        self.to
    }

    /// The weights, in the order (in, out).
    pub fn into_weight(self) -> Vec<f32> {
        self.weight
    }

    /// `out = x W + b`.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        self.product(x, out, Update::SET);
    }

    /// `out += x W + b`.
    pub fn add(&self, x: &[f32], out: &mut [f32]) {
        self.product(x, out, Update::ADD);
    }

    /// The rows of one chunk, on the calling thread.
    pub fn apply_chunk(&self, x: &[f32], out: &mut [f32]) {
        self.chunk(x, out, Update::SET);
    }

    fn product(&self, x: &[f32], out: &mut [f32], update: Update) {
        if x.len() == self.from && self.to > COLUMNS {
            return self.single(x, out, update);
        }
        let chunks = out.par_chunks_mut(CHUNK * self.to).zip(x.par_chunks(CHUNK * self.from));
        chunks.for_each(|(out, x)| self.chunk(x, out, update));
    }

    fn chunk(&self, x: &[f32], out: &mut [f32], update: Update) {
        let shape = Shape { rows: x.len() / self.from, columns: self.to, inner: self.from };
        let weight = Strided::rows(&self.weight, self.to);
        strided(shape, update, Strided::rows(x, self.from), weight, out, self.to);
        if let Some(bias) = &self.bias {
            neural::add_rows(bias, out);
        }
    }

    /// One row: its outputs are divided between tasks.
    fn single(&self, x: &[f32], out: &mut [f32], update: Update) {
        out.par_chunks_mut(COLUMNS).enumerate().for_each(|(block, out)| {
            let first = block * COLUMNS;
            let shape = Shape { rows: 1, columns: out.len(), inner: self.from };
            let weight = Strided::rows(&self.weight[first..], self.to);
            strided(shape, update, Strided::rows(x, self.from), weight, out, out.len().max(1));
            if let Some(bias) = &self.bias {
                neural::add(&bias[first..][..out.len()], out);
            }
        });
    }

    /// The gradient at the input: `out = d Wᵀ`.
    pub fn back(&self, d: &[f32], out: &mut [f32]) {
        let chunks = out.par_chunks_mut(CHUNK * self.from).zip(d.par_chunks(CHUNK * self.to));
        chunks.for_each(|(out, d)| {
            let shape = Shape { rows: d.len() / self.to, columns: self.from, inner: self.to };
            let weight = Strided::transposed(&self.weight, self.to);
            strided(shape, Update::SET, Strided::rows(d, self.to), weight, out, self.from);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_hand() {
        // Two maps of width 2: (x, y) → x + 2y and (x, y) → 3x, then their bias.
        let linear = Linear::stacked(2, &[&[1.0, 2.0], &[3.0, 0.0]], Some(vec![0.5, -1.0]));
        let mut out = [0.0; 4];
        linear.apply(&[1.0, 1.0, 2.0, 0.0], &mut out);
        assert_eq!(out, [3.5, 2.0, 2.5, 5.0]);
        linear.add(&[1.0, 0.0, 0.0, 0.0], &mut out);
        assert_eq!(out, [5.0, 4.0, 3.0, 4.0]);
        let mut back = [0.0; 2];
        linear.back(&[1.0, 1.0], &mut back);
        assert_eq!(back, [4.0, 2.0]);
    }

    #[test]
    fn one_row_equals_the_row_among_others() {
        let (from, to) = (40, 1300);
        let part: Vec<f32> = (0..from * to).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect();
        let linear = Linear::stacked(from, &[&part], Some(vec![0.25; to]));
        let x: Vec<f32> = (0..2 * from).map(|i| (i % 7) as f32 - 3.0).collect();
        let (mut both, mut one) = (vec![0.0; 2 * to], vec![0.0; to]);
        linear.apply(&x, &mut both);
        linear.apply(&x[..from], &mut one);
        assert!(one.iter().zip(&both).all(|(a, b)| (a - b).abs() < 1e-4));
    }
}
