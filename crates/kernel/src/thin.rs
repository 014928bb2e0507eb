//! Products of many rows with a few vectors. A general product rearranges the rows first, which costs more than the product
//! if there are few vectors.
//!
//! Every dot product runs in sixteen lanes, each one chain of fused multiply-adds in the order of the index, which are then
//! added in a fixed tree; every weighted sum is one chain over the rows. Results depend neither on the instruction set nor
//! on neighbouring rows and vectors.

use pulp::{Arch, Simd, WithSimd};

use super::vector::{LANES, tree};

/// `out[v, r] = vectors[v] · rows[r]`, all row-major with `width` values per row and vector.
pub fn dots(rows: &[f32], vectors: &[f32], width: usize, out: &mut [f32]) {
    if width == 0 {
        out.fill(0.0);
        return;
    }
    let (count, number) = (rows.len() / width, vectors.len() / width);
    assert!(rows.len() == count * width && vectors.len() == number * width && out.len() == count * number);
    Arch::new().dispatch(Dots { rows, vectors, width, count, out });
}

/// `into[v] += Σ_r factors[v, r] · rows[r]`, all row-major with `width` values per row and vector.
pub fn add_weighted_sums(rows: &[f32], factors: &[f32], width: usize, into: &mut [f32]) {
    if width == 0 || rows.is_empty() {
        return;
    }
    let (count, number) = (rows.len() / width, into.len() / width);
    assert!(rows.len() == count * width && factors.len() == count * number && into.len() == number * width);
    Arch::new().dispatch(WeightedSums { rows, factors, width, count, into });
}

struct Dots<'a> {
    rows: &'a [f32],
    vectors: &'a [f32],
    width: usize,
    /// Number of rows.
    count: usize,
    out: &'a mut [f32],
}

impl WithSimd for Dots<'_> {
    type Output = ();

    /// Blocks of rows times vectors, as large as the registers permit.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 1, 4>(simd),
            8 => self.run::<S, 2, 2>(simd),
            4 => self.run::<S, 4, 1>(simd),
            _ => self.run::<S, 16, 1>(simd),
        }
    }
}

impl Dots<'_> {
    /// `SIXTEEN` registers hold sixteen lanes; a block has `SIDE` rows and `SIDE` vectors.
    #[inline(always)]
    fn run<S: Simd, const SIXTEEN: usize, const SIDE: usize>(mut self, simd: S) {
        let number = self.vectors.len() / self.width;
        let (whole_rows, whole_vectors) = (self.count / SIDE * SIDE, number / SIDE * SIDE);
        for row in (0..whole_rows).step_by(SIDE) {
            for vector in (0..whole_vectors).step_by(SIDE) {
                self.block::<S, SIXTEEN, SIDE, SIDE>(simd, row, vector);
            }
            for vector in whole_vectors..number {
                self.block::<S, SIXTEEN, SIDE, 1>(simd, row, vector);
            }
        }
        for row in whole_rows..self.count {
            for vector in 0..number {
                self.block::<S, SIXTEEN, 1, 1>(simd, row, vector);
            }
        }
    }

    #[inline(always)]
    fn block<S: Simd, const SIXTEEN: usize, const ROWS: usize, const VECTORS: usize>(
        &mut self,
        simd: S,
        row: usize,
        vector: usize,
    ) {
        let (width, whole) = (self.width, self.width / LANES * LANES);
        let registers = whole / S::F32_LANES;
        let rows: [&[f32]; ROWS] = std::array::from_fn(|r| &self.rows[(row + r) * width..][..width]);
        let vectors: [&[f32]; VECTORS] = std::array::from_fn(|v| &self.vectors[(vector + v) * width..][..width]);
        let a = rows.map(|row| &S::as_simd_f32s(&row[..whole]).0[..registers]);
        let b = vectors.map(|vector| &S::as_simd_f32s(&vector[..whole]).0[..registers]);
        let mut sums = [[[simd.splat_f32s(0.0); SIXTEEN]; VECTORS]; ROWS];
        for first in (0..registers).step_by(SIXTEEN) {
            for part in 0..SIXTEEN {
                let b = b.map(|vector| vector[first + part]);
                for r in 0..ROWS {
                    let a = a[r][first + part];
                    for v in 0..VECTORS {
                        sums[r][v][part] = simd.mul_add_f32s(a, b[v], sums[r][v][part]);
                    }
                }
            }
        }
        for r in 0..ROWS {
            for v in 0..VECTORS {
                let mut lanes = [0.0; LANES];
                S::as_mut_simd_f32s(&mut lanes).0.copy_from_slice(&sums[r][v]);
                let rest = rows[r][whole..].iter().zip(&vectors[v][whole..]);
                lanes.iter_mut().zip(rest).for_each(|(lane, (a, b))| *lane = a.mul_add(*b, *lane));
                self.out[(vector + v) * self.count + row + r] = tree(&lanes);
            }
        }
    }
}

struct WeightedSums<'a> {
    rows: &'a [f32],
    factors: &'a [f32],
    width: usize,
    /// Number of rows.
    count: usize,
    into: &'a mut [f32],
}

impl WithSimd for WeightedSums<'_> {
    type Output = ();

    /// Blocks of vectors times registers, as large as the registers permit.
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match S::F32_LANES {
            16 => self.run::<S, 4, 4>(simd),
            _ => self.run::<S, 2, 4>(simd),
        }
    }
}

impl WeightedSums<'_> {
    #[inline(always)]
    fn run<S: Simd, const VECTORS: usize, const REGISTERS: usize>(mut self, simd: S) {
        let number = self.into.len() / self.width;
        let (step, whole_vectors) = (REGISTERS * S::F32_LANES, number / VECTORS * VECTORS);
        let whole = self.width / step * step;
        for start in (0..whole).step_by(step) {
            for vector in (0..whole_vectors).step_by(VECTORS) {
                self.block::<S, VECTORS, REGISTERS>(simd, vector, start);
            }
            for vector in whole_vectors..number {
                self.block::<S, 1, REGISTERS>(simd, vector, start);
            }
        }
        for vector in 0..number {
            let into = &mut self.into[vector * self.width..][whole..self.width];
            for (row, factor) in self.rows.chunks_exact(self.width).zip(&self.factors[vector * self.count..]) {
                into.iter_mut().zip(&row[whole..]).for_each(|(sum, value)| *sum = factor.mul_add(*value, *sum));
            }
        }
    }

    #[inline(always)]
    fn block<S: Simd, const VECTORS: usize, const REGISTERS: usize>(&mut self, simd: S, vector: usize, start: usize) {
        let (width, length) = (self.width, REGISTERS * S::F32_LANES);
        let mut sums = [[simd.splat_f32s(0.0); REGISTERS]; VECTORS];
        for (v, sums) in sums.iter_mut().enumerate() {
            let into = &self.into[(vector + v) * width + start..][..length];
            sums.copy_from_slice(S::as_simd_f32s(into).0);
        }
        let factors: [&[f32]; VECTORS] =
            std::array::from_fn(|v| &self.factors[(vector + v) * self.count..][..self.count]);
        for (r, row) in self.rows.chunks_exact(width).enumerate().take(self.count) {
            let mut values = [simd.splat_f32s(0.0); REGISTERS];
            values.copy_from_slice(S::as_simd_f32s(&row[start..start + length]).0);
            for v in 0..VECTORS {
                let factor = simd.splat_f32s(factors[v][r]);
                for part in 0..REGISTERS {
                    sums[v][part] = simd.mul_add_f32s(factor, values[part], sums[v][part]);
                }
            }
        }
        for (v, sums) in sums.iter().enumerate() {
            let into = &mut self.into[(vector + v) * width + start..][..length];
            S::as_mut_simd_f32s(into).0.copy_from_slice(sums);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    fn draw(count: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "thin", 0);
        (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect()
    }

    /// The definition: sixteen chains and a tree.
    fn plain_dot(a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            lanes[index % LANES] = a.mul_add(*b, lanes[index % LANES]);
        }
        tree(&lanes)
    }

    #[test]
    fn every_shape_has_the_bits_of_the_definition() {
        for (count, number, width) in
            [(0, 3, 5), (1, 1, 1), (3, 2, 15), (9, 5, 16), (6, 4, 100), (13, 9, 131), (4, 0, 7)]
        {
            let (rows, vectors) = (draw(count * width, 1), draw(number * width, 2));
            let mut out = vec![7.0; count * number];
            dots(&rows, &vectors, width, &mut out);
            for v in 0..number {
                for r in 0..count {
                    let expected = plain_dot(&rows[r * width..][..width], &vectors[v * width..][..width]);
                    assert_eq!(out[v * count + r].to_bits(), expected.to_bits(), "{count} {number} {width}: {v} {r}");
                }
            }
            let (factors, start) = (draw(count * number, 3), draw(number * width, 4));
            let mut into = start.clone();
            add_weighted_sums(&rows, &factors, width, &mut into);
            for v in 0..number {
                for k in 0..width {
                    let chain = |sum: f32, r: usize| factors[v * count + r].mul_add(rows[r * width + k], sum);
                    let expected = (0..count).fold(start[v * width + k], chain);
                    assert_eq!(into[v * width + k].to_bits(), expected.to_bits(), "{count} {number} {width}: {v} {k}");
                }
            }
        }
    }

    #[test]
    fn small_examples_by_hand() {
        // Rows (1, 2) and (3, −1) with the vector (2, 0.5): 3 and 5.5. Weighted by 2 and −1: (−1, 5), added to (1, 1).
        let mut out = [0.0; 2];
        dots(&[1.0, 2.0, 3.0, -1.0], &[2.0, 0.5], 2, &mut out);
        assert_eq!(out, [3.0, 5.5]);
        let mut into = [1.0; 2];
        add_weighted_sums(&[1.0, 2.0, 3.0, -1.0], &[2.0, -1.0], 2, &mut into);
        assert_eq!(into, [0.0, 6.0]);
    }
}
