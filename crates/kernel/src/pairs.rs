//! Dot products of a few pairs of rows that are not adjacent.

use pulp::{Arch, Simd, WithSimd};

use super::vector::{LANES, tree};
use super::vectorised::vectorised;

/// Products that are computed together.
const TOGETHER: usize = 8;

/// Values multiplied before they are added.
const PIECE: usize = 64;

/// The dot products of pairs of rows, with the bits of [`thin::dots`](super::thin::dots): sixteen lanes, each one chain of
/// fused multiply-adds, added in a fixed tree.
pub fn pair_dots<const COUNT: usize>(left: [&[f32]; COUNT], right: [&[f32]; COUNT], width: usize) -> [f32; COUNT] {
    let (left, right) = (left.map(|row| &row[..width]), right.map(|row| &row[..width]));
    let mut lanes = [[0.0f32; LANES]; COUNT];
    Arch::new().dispatch(PairDots { left, right, lanes: &mut lanes });
    lanes.map(|lanes| tree(&lanes))
}

/// Fills the lanes of some pairs.
struct PairDots<'a, const COUNT: usize> {
    left: [&'a [f32]; COUNT],
    right: [&'a [f32]; COUNT],
    lanes: &'a mut [[f32; LANES]; COUNT],
}

impl<const COUNT: usize> WithSimd for PairDots<'_, COUNT> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 1>(simd),
            8 => self.run::<S, 2>(simd),
            4 => self.run::<S, 4>(simd),
            _ => self.run::<S, 16>(simd),
        }
    }
}

impl<const COUNT: usize> PairDots<'_, COUNT> {
    /// `SIXTEEN` registers hold sixteen lanes.
    #[inline(always)]
    fn run<S: Simd, const SIXTEEN: usize>(self, simd: S) {
        let width = self.left.first().map_or(0, |row| row.len());
        let whole = width / LANES * LANES;
        let registers = whole / S::F32_LANES;
        let mut a = [&S::as_simd_f32s(&[]).0[..0]; COUNT];
        let mut b = a;
        for pair in 0..COUNT {
            a[pair] = &S::as_simd_f32s(&self.left[pair][..whole]).0[..registers];
            b[pair] = &S::as_simd_f32s(&self.right[pair][..whole]).0[..registers];
        }
        let mut sums = [[simd.splat_f32s(0.0); SIXTEEN]; COUNT];
        for first in (0..registers).step_by(SIXTEEN) {
            for part in 0..SIXTEEN {
                for pair in 0..COUNT {
                    sums[pair][part] =
                        simd.mul_add_f32s(a[pair][first + part], b[pair][first + part], sums[pair][part]);
                }
            }
        }
        for (pair, (lanes, sums)) in self.lanes.iter_mut().zip(&sums).enumerate() {
            S::as_mut_simd_f32s(lanes).0.copy_from_slice(sums);
            let rest = self.left[pair][whole..].iter().zip(&self.right[pair][whole..]);
            lanes.iter_mut().zip(rest).for_each(|(lane, (a, b))| *lane = a.mul_add(*b, *lane));
        }
    }
}

/// The dot products of a row with others in `f64`, each added in the order of the index, with the bits of
/// [`dot`](super::product::dot).
pub fn ordered_dots(row: &[f32], others: &[&[f32]]) -> Vec<f64> {
    ordered_sums(
        row,
        others,
        #[inline(always)]
        |a, b| a * b,
    )
}

/// The squared distances of a row from others in `f64`, each added in the order of the index.
pub fn ordered_squares(row: &[f32], others: &[&[f32]]) -> Vec<f64> {
    ordered_sums(
        row,
        others,
        #[inline(always)]
        |a, b| (a - b) * (a - b),
    )
}

/// Sums of terms, each added in the order of the index. Several are computed together, because each addition waits for the
/// one before.
fn ordered_sums(row: &[f32], others: &[&[f32]], term: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut all = Vec::with_capacity(others.len().next_multiple_of(TOGETHER));
    for group in others.chunks(TOGETHER) {
        // A shorter last group repeats its first row.
        let group: [&[f32]; TOGETHER] =
            std::array::from_fn(|index| &group.get(index).unwrap_or(&group[0])[..row.len()]);
        let mut sums = [-0.0f64; TOGETHER];
        vectorised(
            #[inline(always)]
            || {
                for start in (0..row.len()).step_by(PIECE) {
                    let piece = &row[start..(start + PIECE).min(row.len())];
                    let mut terms = [[0.0f64; PIECE]; TOGETHER];
                    for (other, terms) in group.iter().zip(&mut terms) {
                        let pairs = piece.iter().zip(&other[start..start + piece.len()]);
                        terms.iter_mut().zip(pairs).for_each(|(to, (&a, &b))| *to = term(f64::from(a), f64::from(b)));
                    }
                    for index in 0..piece.len() {
                        sums.iter_mut().zip(&terms).for_each(|(sum, terms)| *sum += terms[index]);
                    }
                }
            },
        );
        all.extend(sums);
    }
    all.truncate(others.len());
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::dot;
    use crate::random::{stream, unit};
    use crate::thin;

    #[test]
    fn both_have_the_bits_of_their_definitions() {
        let mut random = stream(0, "pairs", 0);
        for width in [0, 1, 7, 16, 64, 131, 200] {
            let mut draw = || -> Vec<f32> { (0..width).map(|_| unit(&mut random) as f32 - 0.5).collect() };
            let rows: Vec<Vec<f32>> = (0..20).map(|_| draw()).collect();
            let left = std::array::from_fn(|index| &rows[index][..]);
            let right = std::array::from_fn(|index| &rows[4 + index][..]);
            for (index, found) in pair_dots::<4>(left, right, width).into_iter().enumerate() {
                let mut expected = [0.0];
                thin::dots(left[index], right[index], width, &mut expected);
                assert_eq!(found.to_bits(), expected[0].to_bits());
            }
            let others: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let expected: Vec<u64> = others.iter().map(|other| dot(&rows[3], other).to_bits()).collect();
            let found: Vec<u64> = ordered_dots(&rows[3], &others).into_iter().map(f64::to_bits).collect();
            assert_eq!(found, expected);
            for (other, found) in others.iter().zip(ordered_squares(&rows[3], &others)) {
                let pairs = rows[3].iter().zip(*other);
                let expected: f64 = pairs.map(|(&a, &b)| (f64::from(a) - f64::from(b)).powi(2)).sum();
                assert_eq!(found.to_bits(), expected.to_bits());
            }
        }
    }
}
