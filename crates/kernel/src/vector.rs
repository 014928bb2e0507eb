//! Long vectors: weighted sums of gathered rows, dot products, and Adam, with the widest instructions available.
//!
//! Lengths are multiples of [`LANES`]. Sums of products run in sixteen lanes, each one chain of fused multiply-adds in
//! the order of the index, and the lanes are then added in a fixed tree: on every processor the result has the same bits.

use pulp::{Arch, Simd, WithSimd};

/// Lengths are multiples of this; shorter vectors are padded with zeros.
pub const LANES: usize = 16;

/// Rows of a matrix: row `i` starts at `i × pitch + offset`.
#[derive(Clone, Copy, Debug)]
pub struct RowView<'a> {
    /// The matrix.
    pub values: &'a [f32],
    /// From the start of a row to the start of the next.
    pub pitch: usize,
    /// Offset of a row's first value within its stretch of `pitch` values.
    pub offset: usize,
}

impl<'a> RowView<'a> {
    /// Contiguous rows.
    pub fn new(values: &'a [f32], pitch: usize) -> RowView<'a> {
        RowView { values, pitch, offset: 0 }
    }

    /// The first `length` values of a row.
    #[inline(always)]
    pub fn row(&self, index: usize, length: usize) -> &'a [f32] {
        &self.values[index * self.pitch + self.offset..][..length]
    }
}

/// Adds `Σ weights[q] · rows[ids[q]]` to `into`, in the order of `q`.
pub fn gather(rows: RowView<'_>, ids: &[u32], weights: &[f32], into: &mut [f32]) {
    debug_assert!(into.len().is_multiple_of(LANES));
    Arch::new().dispatch(Gather { rows, ids, weights, into });
}

/// Like [`gather`], and writes `dots[q] = rows[ids[q]] · against` while the row is in the cache. `lanes` is scratch space.
pub fn gather_and_dot(
    rows: RowView<'_>,
    ids: &[u32],
    weights: &[f32],
    into: &mut [f32],
    against: &[f32],
    dots: &mut Vec<f32>,
    lanes: &mut Vec<[f32; LANES]>,
) {
    debug_assert!(into.len() == against.len() && into.len().is_multiple_of(LANES));
    lanes.clear();
    lanes.resize(ids.len(), [0.0; LANES]);
    Arch::new().dispatch(GatherAndDot { rows, ids, weights, into, against, lanes });
    dots.clear();
    dots.extend(lanes.iter().map(tree));
}

/// The dot product.
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    debug_assert!(a.len() == b.len() && a.len().is_multiple_of(LANES));
    let mut lanes = [0.0; LANES];
    Arch::new().dispatch(Dot { a, b, lanes: &mut lanes });
    tree(&lanes)
}

/// Adds `weight · from` to `into`.
pub fn add_scaled(weight: f32, from: &[f32], into: &mut [f32]) {
    gather(RowView::new(from, from.len()), &[0], &[weight], into);
}

/// `into = scale · (reconstruction − target)`; returns the squared length of the difference.
pub fn difference(reconstruction: &[f32], target: &[f32], scale: f32, into: &mut [f32]) -> f32 {
    let mut lanes = [0.0; LANES];
    Arch::new().dispatch(Difference { reconstruction, target, scale, into, lanes: &mut lanes });
    tree(&lanes)
}

/// Multiplies every value.
pub fn scale(values: &mut [f32], by: f32) {
    Arch::new().dispatch(Scale { values, by });
}

/// Parameters of one Adam step.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    /// The learning rate divided by the bias correction of the first moment.
    pub rate: f32,
    /// Decay of the first moment.
    pub first: f32,
    /// Decay of the second moment.
    pub second: f32,
    /// One over the square root of the bias correction of the second moment.
    pub correction: f32,
    /// Keeps the division finite.
    pub epsilon: f32,
    /// Multiplies the gradient first (clipping).
    pub scale: f32,
}

impl Adam {
    /// Updates the weights in one step; returns their new squared length.
    pub fn step(&self, weights: &mut [f32], first: &mut [f32], second: &mut [f32], gradient: &[f32]) -> f32 {
        debug_assert!(weights.len().is_multiple_of(LANES) && weights.len() == gradient.len());
        let mut lanes = [0.0; LANES];
        let op = AdamStep { adam: *self, weights, first, second, gradient, lanes: &mut lanes };
        Arch::new().dispatch(op);
        tree(&lanes)
    }
}

/// The sum of the lanes, halves first.
#[inline(always)]
pub(super) fn tree(lanes: &[f32; LANES]) -> f32 {
    let mut sums = *lanes;
    let mut half = LANES / 2;
    while half > 0 {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
        half /= 2;
    }
    sums[0]
}

/// Calls `run` with the registers that a block may use, and the registers that sixteen lanes take.
macro_rules! by_width {
    ($self:ident, $simd:ident) => {
        match S::F32_LANES {
            16 => $self.run::<S, 8, 1>($simd),
            8 => $self.run::<S, 4, 2>($simd),
            4 => $self.run::<S, 4, 4>($simd),
            _ => $self.run::<S, 16, 16>($simd),
        }
    };
}

struct Gather<'a> {
    rows: RowView<'a>,
    ids: &'a [u32],
    weights: &'a [f32],
    into: &'a mut [f32],
}

impl WithSimd for Gather<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_width!(self, simd);
    }
}

impl Gather<'_> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const SIXTEEN: usize>(mut self, simd: S) {
        let (wide, narrow) = (BLOCK * S::F32_LANES, SIXTEEN * S::F32_LANES);
        let mut start = 0;
        // With enough registers, load long stretches of a row together.
        while S::F32_LANES == 16 && start + 24 * LANES <= self.into.len() {
            self.block::<S, 24>(simd, start);
            start += 24 * LANES;
        }
        while start + wide <= self.into.len() {
            self.block::<S, BLOCK>(simd, start);
            start += wide;
        }
        while start < self.into.len() {
            self.block::<S, SIXTEEN>(simd, start);
            start += narrow;
        }
    }

    #[inline(always)]
    fn block<S: Simd, const COUNT: usize>(&mut self, simd: S, start: usize) {
        let length = COUNT * S::F32_LANES;
        let (into, _) = S::as_mut_simd_f32s(&mut self.into[start..start + length]);
        let mut sums = [simd.splat_f32s(0.0); COUNT];
        sums.copy_from_slice(into);
        for (&id, &weight) in self.ids.iter().zip(self.weights) {
            let first = id as usize * self.rows.pitch + self.rows.offset + start;
            let (row, _) = S::as_simd_f32s(&self.rows.values[first..first + length]);
            let weight = simd.splat_f32s(weight);
            for v in 0..COUNT {
                sums[v] = simd.mul_add_f32s(weight, row[v], sums[v]);
            }
        }
        into.copy_from_slice(&sums);
    }
}

struct GatherAndDot<'a> {
    rows: RowView<'a>,
    ids: &'a [u32],
    weights: &'a [f32],
    into: &'a mut [f32],
    against: &'a [f32],
    lanes: &'a mut [[f32; LANES]],
}

impl WithSimd for GatherAndDot<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_width!(self, simd);
    }
}

impl GatherAndDot<'_> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const SIXTEEN: usize>(mut self, simd: S) {
        let (wide, narrow) = (BLOCK * S::F32_LANES, SIXTEEN * S::F32_LANES);
        let mut start = 0;
        while S::F32_LANES == 16 && start + 12 * LANES <= self.into.len() {
            self.block::<S, 12, SIXTEEN>(simd, start);
            start += 12 * LANES;
        }
        while start + wide <= self.into.len() {
            self.block::<S, BLOCK, SIXTEEN>(simd, start);
            start += wide;
        }
        while start < self.into.len() {
            self.block::<S, SIXTEEN, SIXTEEN>(simd, start);
            start += narrow;
        }
    }

    #[inline(always)]
    fn block<S: Simd, const COUNT: usize, const SIXTEEN: usize>(&mut self, simd: S, start: usize) {
        let length = COUNT * S::F32_LANES;
        let (into, _) = S::as_mut_simd_f32s(&mut self.into[start..start + length]);
        let (against, _) = S::as_simd_f32s(&self.against[start..start + length]);
        let (mut sums, mut other) = ([simd.splat_f32s(0.0); COUNT], [simd.splat_f32s(0.0); COUNT]);
        sums.copy_from_slice(into);
        other.copy_from_slice(against);
        for ((&id, &weight), lanes) in self.ids.iter().zip(self.weights).zip(self.lanes.iter_mut()) {
            let first = id as usize * self.rows.pitch + self.rows.offset + start;
            let (row, _) = S::as_simd_f32s(&self.rows.values[first..first + length]);
            let weight = simd.splat_f32s(weight);
            let (lanes, _) = S::as_mut_simd_f32s(lanes);
            let mut chains = [simd.splat_f32s(0.0); SIXTEEN];
            chains.copy_from_slice(lanes);
            for v in 0..COUNT {
                sums[v] = simd.mul_add_f32s(weight, row[v], sums[v]);
                chains[v % SIXTEEN] = simd.mul_add_f32s(row[v], other[v], chains[v % SIXTEEN]);
            }
            lanes.copy_from_slice(&chains);
        }
        into.copy_from_slice(&sums);
    }
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
    lanes: &'a mut [f32; LANES],
}

impl WithSimd for Dot<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_width!(self, simd);
    }
}

impl Dot<'_> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const SIXTEEN: usize>(self, simd: S) {
        let ((a, _), (b, _)) = (S::as_simd_f32s(self.a), S::as_simd_f32s(self.b));
        let mut chains = [simd.splat_f32s(0.0); SIXTEEN];
        for (a, b) in a.chunks_exact(SIXTEEN).zip(b.chunks_exact(SIXTEEN)) {
            for v in 0..SIXTEEN {
                chains[v] = simd.mul_add_f32s(a[v], b[v], chains[v]);
            }
        }
        let (lanes, _) = S::as_mut_simd_f32s(self.lanes);
        lanes.copy_from_slice(&chains);
    }
}

struct Difference<'a> {
    reconstruction: &'a [f32],
    target: &'a [f32],
    scale: f32,
    into: &'a mut [f32],
    lanes: &'a mut [f32; LANES],
}

impl WithSimd for Difference<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_width!(self, simd);
    }
}

impl Difference<'_> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const SIXTEEN: usize>(self, simd: S) {
        let ((a, _), (b, _)) = (S::as_simd_f32s(self.reconstruction), S::as_simd_f32s(self.target));
        let (into, _) = S::as_mut_simd_f32s(self.into);
        let scale = simd.splat_f32s(self.scale);
        let mut chains = [simd.splat_f32s(0.0); SIXTEEN];
        let chunks = a.chunks_exact(SIXTEEN).zip(b.chunks_exact(SIXTEEN)).zip(into.chunks_exact_mut(SIXTEEN));
        for ((a, b), into) in chunks {
            for v in 0..SIXTEEN {
                let error = simd.sub_f32s(a[v], b[v]);
                chains[v] = simd.mul_add_f32s(error, error, chains[v]);
                into[v] = simd.mul_f32s(scale, error);
            }
        }
        let (lanes, _) = S::as_mut_simd_f32s(self.lanes);
        lanes.copy_from_slice(&chains);
    }
}

struct Scale<'a> {
    values: &'a mut [f32],
    by: f32,
}

impl WithSimd for Scale<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let by = simd.splat_f32s(self.by);
        let (vectors, rest) = S::as_mut_simd_f32s(self.values);
        for vector in vectors {
            *vector = simd.mul_f32s(*vector, by);
        }
        for value in rest {
            *value *= self.by;
        }
    }
}

struct AdamStep<'a> {
    adam: Adam,
    weights: &'a mut [f32],
    first: &'a mut [f32],
    second: &'a mut [f32],
    gradient: &'a [f32],
    lanes: &'a mut [f32; LANES],
}

impl WithSimd for AdamStep<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        by_width!(self, simd);
    }
}

impl AdamStep<'_> {
    #[inline(always)]
    fn run<S: Simd, const BLOCK: usize, const SIXTEEN: usize>(self, simd: S) {
        let adam = self.adam;
        let (weights, _) = S::as_mut_simd_f32s(self.weights);
        let (firsts, _) = S::as_mut_simd_f32s(self.first);
        let (seconds, _) = S::as_mut_simd_f32s(self.second);
        let (gradients, _) = S::as_simd_f32s(self.gradient);
        let splat = |value: f32| simd.splat_f32s(value);
        let (keep_first, take_first) = (splat(adam.first), splat((1.0 - adam.first) * adam.scale));
        let (keep_second, take_second) = (splat(adam.second), splat((1.0 - adam.second) * adam.scale * adam.scale));
        let (rate, correction, epsilon) = (splat(-adam.rate), splat(adam.correction), splat(adam.epsilon));
        let mut chains = [splat(0.0); SIXTEEN];
        let rows = weights
            .chunks_exact_mut(SIXTEEN)
            .zip(firsts.chunks_exact_mut(SIXTEEN))
            .zip(seconds.chunks_exact_mut(SIXTEEN))
            .zip(gradients.chunks_exact(SIXTEEN));
        for (((weight, first), second), gradient) in rows {
            for v in 0..SIXTEEN {
                let g = gradient[v];
                let m = simd.mul_add_f32s(keep_first, first[v], simd.mul_f32s(take_first, g));
                let s = simd.mul_add_f32s(keep_second, second[v], simd.mul_f32s(simd.mul_f32s(take_second, g), g));
                (first[v], second[v]) = (m, s);
                let root = simd.mul_add_f32s(simd.sqrt_f32s(s), correction, epsilon);
                let w = simd.add_f32s(weight[v], simd.div_f32s(simd.mul_f32s(rate, m), root));
                weight[v] = w;
                chains[v] = simd.mul_add_f32s(w, w, chains[v]);
            }
        }
        let (lanes, _) = S::as_mut_simd_f32s(self.lanes);
        lanes.copy_from_slice(&chains);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(length: usize, seed: usize) -> Vec<f32> {
        (0..length).map(|i| (((i + seed) * 7919 % 1013) as f32 - 500.0) / 317.0).collect()
    }

    /// The definition: sixteen chains, then halves.
    fn plain_dot(a: &[f32], b: &[f32]) -> f32 {
        let mut lanes = [0.0f32; LANES];
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            lanes[i % LANES] = a.mul_add(*b, lanes[i % LANES]);
        }
        for half in [8, 4, 2, 1] {
            (0..half).for_each(|lane| lanes[lane] += lanes[lane + half]);
        }
        lanes[0]
    }

    #[test]
    fn sums_and_dots_have_the_bits_of_their_definition() {
        for width in [16, 48, 128, 272, 768] {
            let (matrix, against) = (numbers(5 * width, 1), numbers(width, 2));
            let (ids, weights) = ([3u32, 0, 3, 4], [0.5f32, -1.25, 2.0, 0.0]);
            let mut plain = numbers(width, 9);
            for (&id, &weight) in ids.iter().zip(&weights) {
                let row = &matrix[id as usize * width..][..width];
                plain.iter_mut().zip(row).for_each(|(into, value)| *into = weight.mul_add(*value, *into));
            }
            let rows = RowView::new(&matrix, width);
            let (mut into, mut again) = (numbers(width, 9), numbers(width, 9));
            let (mut dots, mut lanes) = (Vec::new(), Vec::new());
            gather(rows, &ids, &weights, &mut into);
            gather_and_dot(rows, &ids, &weights, &mut again, &against, &mut dots, &mut lanes);
            assert_eq!((&into, &again), (&plain, &plain));
            for (&id, found) in ids.iter().zip(&dots) {
                let row = rows.row(id as usize, width);
                assert_eq!(found.to_bits(), plain_dot(row, &against).to_bits());
                assert_eq!(found.to_bits(), dot(row, &against).to_bits());
            }
        }
    }

    #[test]
    fn one_step_of_adam() {
        // m = 0.1·2, v = 0.001·4; both corrections undo the decay, so the step is rate · 2 / √4 = rate.
        let (mut w, mut m, mut v) = (vec![1.0; 16], vec![0.0; 16], vec![0.0; 16]);
        let adam = Adam {
            rate: 0.01 / 0.1,
            first: 0.9,
            second: 0.999,
            correction: 1.0 / 0.001f32.sqrt(),
            epsilon: 1e-8,
            scale: 0.5,
        };
        let square = adam.step(&mut w, &mut m, &mut v, &[4.0; 16]);
        assert!(w.iter().all(|w| (w - 0.99).abs() < 1e-6), "{w:?}");
        assert!((square - 16.0 * 0.99 * 0.99).abs() < 1e-4);
    }

    #[test]
    fn differences_and_scales() {
        let (a, b, mut into) = (numbers(32, 0), numbers(32, 5), vec![0.0; 32]);
        let square = difference(&a, &b, 2.0, &mut into);
        let expected: f32 = a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum();
        assert!((square - expected).abs() < 1e-4 * expected);
        assert_eq!(into[7], 2.0 * (a[7] - b[7]));
        scale(&mut into, 0.5);
        assert_eq!(into[7], a[7] - b[7]);
    }
}
