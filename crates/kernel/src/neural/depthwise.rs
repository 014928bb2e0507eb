//! Depthwise convolutions of maps whose channels come last: every channel has a filter of its own.
//!
//! Every output is one chain of fused multiply-adds over the taps, in order, on every processor.

use pulp::{Arch, Simd, WithSimd};

use super::finish::Finish;

/// The geometry of a window that slides over a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Lines of the map.
    pub height: usize,
    /// Positions per line of the map.
    pub width: usize,
    /// Lines and columns of the window.
    pub size: usize,
    /// From a window to the next.
    pub stride: usize,
    /// Lines and columns of zeros before the map.
    pub before: usize,
    /// Positions per line of the result.
    pub out_width: usize,
}

impl Window {
    /// The position of a line or column of the map, if it is inside.
    #[inline(always)]
    fn inside(&self, out: usize, tap: usize, length: usize) -> Option<usize> {
        (out * self.stride + tap).checked_sub(self.before).filter(|at| *at < length)
    }

    /// The lines or columns of the map that a window covers.
    pub(super) fn inside_range(&self, out: usize, length: usize) -> std::ops::Range<usize> {
        let start = out * self.stride;
        start.saturating_sub(self.before)..(start + self.size).saturating_sub(self.before).min(length)
    }
}

/// Outputs that are computed together: they share the values that they read.
const TOGETHER: usize = 4;

/// Most lanes of a vector.
const LANES: usize = 16;

/// Values outside of the map.
static ZEROS: [f32; LANES] = [0.0; LANES];

/// Some lines of the result for one sample, on the calling thread. `weights` has the channels of the first tap, then of the
/// second; `out` has the lines from `first` on. The norm and the activation of `finish` are applied.
pub fn depthwise(x: &[f32], window: Window, weights: &[f32], finish: &Finish<'_>, first: usize, out: &mut [f32]) {
    let channels = weights.len() / (window.size * window.size).max(1);
    let line = window.out_width * channels;
    assert!(window.size > 0 && weights.len() == window.size * window.size * channels, "weights of another shape");
    assert!(
        line > 0 && x.len() == window.height * window.width * channels && out.len().is_multiple_of(line),
        "shapes differ"
    );
    assert!(window.stride > 0, "a window that does not move");
    finish.check(channels, out.len() / channels);
    for (index, out) in out.chunks_exact_mut(line).enumerate() {
        let rows = index * window.out_width..(index + 1) * window.out_width;
        let finish = finish.of_rows(rows, channels);
        let line = Line { x, window, weights, channels, finish, row: first + index, out };
        match (window.size, window.stride) {
            (3, 1) => Arch::new().dispatch(Fixed::<3, 1>(line)),
            (3, 2) => Arch::new().dispatch(Fixed::<3, 2>(line)),
            (5, 1) => Arch::new().dispatch(Fixed::<5, 1>(line)),
            (5, 2) => Arch::new().dispatch(Fixed::<5, 2>(line)),
            _ => line.plain(0),
        }
    }
}

/// One line of the result.
struct Line<'a> {
    x: &'a [f32],
    window: Window,
    weights: &'a [f32],
    channels: usize,
    finish: Finish<'a>,
    row: usize,
    out: &'a mut [f32],
}

impl Line<'_> {
    /// The channels from `first` on, one output at a time.
    fn plain(mut self, first: usize) {
        for column in 0..self.window.out_width {
            for channel in first..self.channels {
                self.one(column, channel);
            }
        }
    }

    fn one(&mut self, column: usize, channel: usize) {
        let (window, channels) = (self.window, self.channels);
        let mut sum = 0.0f32;
        for (tap, weights) in self.weights.chunks_exact(channels).enumerate() {
            let line = window.inside(self.row, tap / window.size, window.height);
            let place = window.inside(column, tap % window.size, window.width);
            if let (Some(line), Some(place)) = (line, place) {
                sum = self.x[(line * window.width + place) * channels + channel].mul_add(weights[channel], sum);
            }
        }
        let at = column * channels;
        self.out[at + channel] = self.finish.value(sum, channel, at);
    }
}

/// A line with a size and stride that are known to the compiler: the weights of a channel vector stay in registers.
struct Fixed<'a, const SIZE: usize, const STRIDE: usize>(Line<'a>);

impl<const SIZE: usize, const STRIDE: usize> WithSimd for Fixed<'_, SIZE, STRIDE> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let width = self.0.window.out_width;
        let whole = self.0.channels / S::F32_LANES * S::F32_LANES;
        for channel in (0..whole).step_by(S::F32_LANES) {
            let line = |tap: usize| &self.0.weights[tap * self.0.channels + channel..][..S::F32_LANES];
            let load = |tap: usize| S::as_simd_f32s(line(tap)).0[0];
            let weights: [[S::f32s; SIZE]; SIZE] =
                std::array::from_fn(|line| std::array::from_fn(|at| load(line * SIZE + at)));
            if width < TOGETHER {
                (0..width).for_each(|column| self.tile::<S, 1>(simd, &weights, column, channel));
                continue;
            }
            for column in (0..width - TOGETHER).step_by(TOGETHER) {
                self.tile::<S, TOGETHER>(simd, &weights, column, channel);
            }
            // Overlaps the tile before it, if the width is no multiple.
            self.tile::<S, TOGETHER>(simd, &weights, width - TOGETHER, channel);
        }
        if whole < self.0.channels {
            self.0.plain(whole);
        }
    }
}

impl<const SIZE: usize, const STRIDE: usize> Fixed<'_, SIZE, STRIDE> {
    /// `COUNT` outputs of a channel vector.
    #[inline(always)]
    #[allow(unsafe_code)]
    fn tile<S: Simd, const COUNT: usize>(
        &mut self,
        simd: S,
        weights: &[[S::f32s; SIZE]; SIZE],
        column: usize,
        channel: usize,
    ) {
        let Line { window, channels, .. } = self.0;
        let last = column * STRIDE + (COUNT - 1) * STRIDE + SIZE;
        let inner = column * STRIDE >= window.before && last - window.before <= window.width;
        let mut sums = [simd.splat_f32s(0.0); COUNT];
        for (tap, weights) in weights.iter().enumerate() {
            let Some(line) = window.inside(self.0.row, tap, window.height) else { continue };
            let line = &self.0.x[line * window.width * channels..][..window.width * channels];
            for place in 0..(COUNT - 1) * STRIDE + SIZE {
                let at = (column * STRIDE + place).wrapping_sub(window.before);
                // Places before the map wrap around to large numbers.
                let start = if inner || at < window.width {
                    // SAFETY: `at < window.width`: checked here, or for all places by `inner`.
                    unsafe { line.as_ptr().add(at * channels + channel) }
                } else {
                    ZEROS.as_ptr()
                };
                // SAFETY: a vector of channels is inside of the line: the caller leaves out a last partial vector.
                let value = unsafe { std::ptr::read_unaligned(start.cast::<S::f32s>()) };
                for output in 0..COUNT {
                    if place >= output * STRIDE && place - output * STRIDE < SIZE {
                        sums[output] = simd.mul_add_f32s(value, weights[place - output * STRIDE], sums[output]);
                    }
                }
            }
        }
        for (output, sum) in sums.iter().enumerate() {
            let row = (column + output) * channels;
            let value = self.0.finish.vector(simd, *sum, channel, row);
            S::as_mut_simd_f32s(&mut self.0.out[row + channel..][..S::F32_LANES]).0[0] = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neural::Clip;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 317.0 - 1.5).collect()
    }

    #[test]
    fn a_small_map_by_hand() {
        // A 2 × 2 map with one channel, a 2 × 2 window of weights 1, 10, 100, 1000 and a line of zeros before it.
        let window = Window { height: 2, width: 2, size: 2, stride: 1, before: 1, out_width: 2 };
        let mut out = [0.0; 4];
        depthwise(&[1.0, 2.0, 3.0, 4.0], window, &[1.0, 10.0, 100.0, 1000.0], &Finish::NONE, 0, &mut out);
        assert_eq!(out, [1000.0, 2100.0, 3010.0, 4321.0]);
    }

    #[test]
    fn every_shape_has_the_bits_of_the_definition() {
        for (size, stride) in [(3, 1), (3, 2), (5, 1), (5, 2), (7, 3)] {
            for (height, width, channels, before) in [(9, 11, 32, 1), (7, 7, 16, 2), (2, 3, 35, 0), (6, 20, 5, 1)] {
                let out_width = (width + before + 1) / stride;
                let window = Window { height, width, size, stride, before, out_width };
                let (x, weights) = (numbers(1, height * width * channels), numbers(2, size * size * channels));
                let (rows, scale, shift) = (3, numbers(3, channels), numbers(4, channels));
                let mut out = vec![0.0; rows * out_width * channels];
                let mut plain = out.clone();
                let finish = Finish { norm: Some((&scale, &shift)), clip: Clip::RELU6, ..Finish::NONE };
                depthwise(&x, window, &weights, &finish, 1, &mut out);
                for (index, out) in plain.chunks_exact_mut(out_width * channels).enumerate() {
                    let row = 1 + index;
                    Line { x: &x, window, weights: &weights, channels, finish, row, out }.plain(0);
                }
                assert_eq!(out, plain, "{window:?} {channels}");
            }
        }
    }
}
