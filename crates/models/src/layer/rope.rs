//! Rotary position embeddings.

use etalon_kernel::neural;
use rayon::prelude::*;

use super::CHUNK;

/// How the frequencies of a longer context are changed.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// Frequencies as they are.
    None,
    /// All frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// Llama 3: low frequencies divided by a factor, high ones kept, a linear transition between them.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Frequencies with fewer turns than this in the original context are divided.
        low: f64,
        /// Frequencies with more turns than this in the original context are kept.
        high: f64,
        /// The original context.
        original: f64,
    },
}

/// Rotates pairs of values of queries and keys by an angle that grows with the position. Value `i` of the first half of the
/// rotated part is paired with value `i` of the second half.
#[derive(Clone, Debug)]
pub struct Rope {
    /// Angle per position, of every pair.
    frequencies: Vec<f64>,
}

impl Rope {
    /// Frequencies `base^(−2i / rotated)` for the first `rotated` values of every head.
    pub fn new(base: f64, rotated: usize, scaling: RopeScaling) -> Rope {
        let frequency = |pair: usize| scale(base.powf(-((2 * pair) as f64) / rotated as f64), scaling);
        Rope { frequencies: (0..rotated / 2).map(frequency).collect() }
    }

    /// Cosines and sines of all pairs at `length` positions from `first` on; `turn` −1 rotates back.
    fn table(&self, first: usize, length: usize, turn: f64) -> (Vec<f32>, Vec<f32>) {
        let angles = (first..first + length).flat_map(|at| self.frequencies.iter().map(move |f| at as f64 * f));
        angles.map(|angle| (angle.cos() as f32, (turn * angle.sin()) as f32)).unzip()
    }

    /// Rotates the first `heads` heads of `dim` values of every row. Rows have `pitch` values; every sequence has `length`
    /// rows, the first of them at position `first`.
    pub fn apply(&self, rows: &mut [f32], pitch: usize, heads: usize, dim: usize, length: usize, first: usize) {
        self.rotate(rows, pitch, heads, dim, (length, first), 1.0);
    }

    /// Rotates back, which is also the gradient of [`Rope::apply`].
    pub fn back(&self, rows: &mut [f32], pitch: usize, heads: usize, dim: usize, length: usize) {
        self.rotate(rows, pitch, heads, dim, (length, 0), -1.0);
    }

    fn rotate(
        &self,
        rows: &mut [f32],
        pitch: usize,
        heads: usize,
        dim: usize,
        (length, first): (usize, usize),
        turn: f64,
    ) {
        let half = self.frequencies.len();
        let (cos, sin) = self.table(first, length, turn);
        rows.par_chunks_mut(CHUNK * pitch).enumerate().for_each(|(chunk, rows)| {
            for (index, row) in rows.chunks_exact_mut(pitch).enumerate() {
                let at = (chunk * CHUNK + index) % length * half;
                neural::rotate_heads(&mut row[..heads * dim], dim, &cos[at..][..half], &sin[at..][..half]);
            }
        });
    }
}

fn scale(frequency: f64, scaling: RopeScaling) -> f64 {
    match scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low, high, original } => {
            let turns = original * frequency / std::f64::consts::TAU;
            // 0 at `low` turns and below, 1 at `high` turns and above.
            let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
            frequency * (kept + (1.0 - kept) / factor)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_turn_and_back() {
        // One pair, one radian per position: position 1 of the second sequence turns (1, 0) by one radian.
        let rope = Rope::new(10_000.0, 2, RopeScaling::None);
        let mut rows = vec![1.0, 0.0, 7.0, 1.0, 0.0, 7.0, 1.0, 0.0, 7.0, 1.0, 0.0, 7.0];
        rope.apply(&mut rows, 3, 1, 2, 2, 0);
        let turned = [1f32.cos(), 1f32.sin(), 7.0];
        for (row, expected) in rows.chunks(3).zip([[1.0, 0.0, 7.0], turned, [1.0, 0.0, 7.0], turned]) {
            assert!(row.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6));
        }
        rope.back(&mut rows, 3, 1, 2, 2);
        assert!(rows.chunks(3).all(|row| (row[0] - 1.0).abs() < 1e-6 && row[1].abs() < 1e-6));
    }

    #[test]
    fn scaled_frequencies() {
        let scaling = RopeScaling::Llama3 { factor: 8.0, low: 1.0, high: 4.0, original: 32.0 };
        // Many turns: kept. Few turns: divided. 2.5 turns: half of each.
        assert_eq!(scale(1.0, scaling), 1.0);
        assert_eq!(scale(0.1, scaling), 0.0125);
        let middle = 2.5 * std::f64::consts::TAU / 32.0;
        assert!((scale(middle, scaling) - middle * (0.5 + 0.5 / 8.0)).abs() < 1e-12);
        assert_eq!(scale(1.0, RopeScaling::Linear { factor: 4.0 }), 0.25);
    }
}
