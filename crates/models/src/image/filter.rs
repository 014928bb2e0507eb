//! Filters for resizing and their weights.
//!
//! Pillow and torch (with antialias) use the same filters: the support grows with the ratio when an image shrinks, and
//! the weights of an output pixel sum to 1.

use std::f64::consts::PI;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A filter for resizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filter {
    /// The pixel at the centre.
    Nearest,
    /// The mean of the covered pixels.
    Box,
    /// A triangle.
    Bilinear,
    /// A narrow window.
    Hamming,
    /// A cubic with a = -0.5.
    Bicubic,
    /// A windowed sinc with three lobes.
    Lanczos,
}

impl Filter {
    /// The name, as in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Filter::Nearest => "nearest",
            Filter::Box => "box",
            Filter::Bilinear => "bilinear",
            Filter::Hamming => "hamming",
            Filter::Bicubic => "bicubic",
            Filter::Lanczos => "lanczos",
        }
    }

    /// Half of the width, in pixels.
    fn support(self) -> f64 {
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => 0.5,
            Filter::Bilinear | Filter::Hamming => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    /// The value at a distance from the centre.
    fn value(self, x: f64) -> f64 {
        let distance = x.abs();
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => f64::from(x > -0.5 && x <= 0.5),
            Filter::Bilinear => (1.0 - distance).max(0.0),
            Filter::Hamming if distance >= 1.0 => 0.0,
            // Pillow has these two constants in single precision.
            Filter::Hamming => sinc(x) * (f64::from(0.54f32) + f64::from(0.46f32) * libm::cos(PI * x)),
            Filter::Bicubic if distance < 1.0 => (1.5 * distance - 2.5) * distance * distance + 1.0,
            Filter::Bicubic if distance < 2.0 => -0.5 * (((distance - 5.0) * distance + 8.0) * distance - 4.0),
            Filter::Bicubic => 0.0,
            Filter::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Filter::Lanczos => 0.0,
        }
    }
}

fn sinc(x: f64) -> f64 {
    if x == 0.0 { 1.0 } else { libm::sin(PI * x) / (PI * x) }
}

/// Computes the weights of one axis, from `input` to `output` pixels.
pub(super) struct Weights {
    filter: Filter,
    input: usize,
    output: usize,
}

impl Weights {
    /// The weights of a filter other than [`Filter::Nearest`].
    pub fn new(filter: Filter, input: usize, output: usize) -> Weights {
        Weights { filter, input, output }
    }

    /// Replaces `weights` by those of an output pixel; returns the first input pixel.
    pub fn at(&self, index: usize, weights: &mut Vec<f64>) -> usize {
        let scale = self.input as f64 / self.output as f64;
        let stretch = scale.max(1.0);
        let support = self.filter.support() * stretch;
        let center = (index as f64 + 0.5) * scale;
        // Conversions to integers cut towards zero; negative values become 0.
        let first = (center - support + 0.5) as usize;
        let end = ((center + support + 0.5) as usize).min(self.input);
        weights.clear();
        weights.extend((first..end).map(|pixel| self.filter.value((pixel as f64 - center + 0.5) * (1.0 / stretch))));
        let total: f64 = weights.iter().sum();
        if total != 0.0 {
            weights.iter_mut().for_each(|weight| *weight /= total);
        }
        first
    }

    /// The largest weight of all output pixels.
    pub fn largest(&self) -> f64 {
        let mut weights = Vec::new();
        let mut largest = 0.0;
        for index in 0..self.output {
            self.at(index, &mut weights);
            largest = weights.iter().copied().fold(largest, f64::max);
        }
        largest
    }
}

/// The input pixels of [`Filter::Nearest`] for a part of the output. The position is a running sum, as in Pillow, whose
/// rounding errors decide between neighbours in long rows.
pub(super) fn nearest_running(input: usize, output: usize, kept: Range<usize>) -> Vec<usize> {
    let scale = input as f64 / output as f64;
    let mut position = scale * 0.5;
    let mut pixels = Vec::with_capacity(kept.len());
    for index in 0..kept.end {
        if index >= kept.start {
            pixels.push((position as usize).min(input - 1));
        }
        position += scale;
    }
    pixels
}

/// The same as torch computes it ("nearest-exact"): every position by itself, in single precision.
pub(super) fn nearest_exact(input: usize, output: usize, kept: Range<usize>) -> Vec<usize> {
    let scale = input as f32 / output as f32;
    kept.map(|index| (((index as f32 + 0.5) * scale) as usize).min(input - 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weights(filter: Filter, input: usize, output: usize, index: usize) -> (usize, Vec<f64>) {
        let mut weights = Vec::new();
        (Weights::new(filter, input, output).at(index, &mut weights), weights)
    }

    #[test]
    fn halving_with_a_triangle() {
        // Output pixel 0 of 4 → 2: centre 1, support 2, pixels 0 to 2 at distances 0.25, 0.25 and 0.75 of the support.
        // Triangle 0.75, 0.75, 0.25, sum 1.75.
        let (first, found) = weights(Filter::Bilinear, 4, 2, 0);
        assert_eq!((first, found), (0, vec![0.75 / 1.75, 0.75 / 1.75, 0.25 / 1.75]));
    }

    #[test]
    fn enlarging_keeps_the_support() {
        // Output pixel 1 of 2 → 4: centre 0.75, pixels 0 and 1 at distances 0.25 and 0.75.
        assert_eq!(weights(Filter::Bilinear, 2, 4, 1), (0, vec![0.75, 0.25]));
        assert_eq!(weights(Filter::Bilinear, 2, 4, 0), (0, vec![1.0]));
    }

    #[test]
    fn cubic_at_half_a_pixel() {
        // Distances 1.5, 0.5, 0.5, 1.5: -0.0625, 0.5625, 0.5625, -0.0625.
        let found: Vec<f64> = [-1.5, -0.5, 0.5, 1.5].map(|x| Filter::Bicubic.value(x)).to_vec();
        assert_eq!(found, [-0.0625, 0.5625, 0.5625, -0.0625]);
    }

    #[test]
    fn weights_sum_to_one_and_identity_has_one_weight() {
        for filter in [Filter::Box, Filter::Bilinear, Filter::Hamming, Filter::Bicubic, Filter::Lanczos] {
            for (input, output) in [(1, 1), (1, 9), (7, 3), (3, 7), (100, 1)] {
                for index in 0..output {
                    let total: f64 = weights(filter, input, output, index).1.iter().sum();
                    assert!((total - 1.0).abs() < 1e-12, "{filter:?} {input} {output} {index}: {total}");
                }
            }
            let (first, found) = weights(filter, 9, 9, 4);
            assert!((found[4 - first] - 1.0).abs() < 1e-12);
        }
    }

    #[test]
    fn nearest_takes_the_pixel_at_the_centre() {
        assert_eq!(nearest_running(4, 2, 0..2), [1, 3]);
        assert_eq!(nearest_running(2, 5, 0..5), [0, 0, 1, 1, 1]);
        assert_eq!(nearest_running(2, 5, 3..5), [1, 1]);
        assert_eq!(nearest_exact(2, 5, 0..5), [0, 0, 1, 1, 1]);
    }
}
