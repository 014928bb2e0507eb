//! Depthwise convolutions: every channel has a filter of its own.

use etalon_kernel::neural::{self, Finish};
use rayon::prelude::*;

use super::conv::{MapShape, Slide};

/// A depthwise convolution.
#[derive(Clone, Debug)]
pub struct Depthwise {
    slide: Slide,
    /// The channels of the first tap, then of the second.
    weights: Vec<f32>,
    channels: usize,
}

/// Lines of the result per task.
const LINES: usize = 4;

impl Depthwise {
    /// From PyTorch's order (channel, line, column).
    pub fn new(slide: Slide, channels: usize, weight: &[f32]) -> Depthwise {
        let area = slide.size * slide.size;
        debug_assert_eq!(weight.len(), area * channels);
        let of_tap = |tap: usize| weight.iter().skip(tap).step_by(area.max(1));
        Depthwise { slide, weights: (0..area).flat_map(of_tap).copied().collect(), channels }
    }

    /// The shape of the result; `None` if the window is larger than the map.
    pub fn shape(&self, map: MapShape) -> Option<MapShape> {
        self.slide.shape(map, self.channels)
    }

    /// Computes the result, some lines per task.
    pub fn apply(&self, x: &[f32], map: MapShape, finish: Finish<'_>, out: &mut [f32]) {
        let Some(to) = self.shape(map) else { return };
        let window = self.slide.window(map, to);
        let (sample, line) = (map.values() / map.samples.max(1), to.width * to.channels);
        let samples = out.par_chunks_mut(to.height * line).zip(x.par_chunks(sample)).enumerate();
        samples.for_each(|(index, (out, x))| {
            out.par_chunks_mut(LINES * line).enumerate().for_each(|(band, out)| {
                let start = (index * to.height + band * LINES) * to.width;
                let finish = finish.of_rows(start..start + out.len() / to.channels, to.channels);
                neural::depthwise(x, window, &self.weights, &finish, band * LINES, out);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_channels_by_hand() {
        // Two samples of a 1 × 3 map with two channels; the middle line of a 3 × 3 window is 1, 2, 3 and −1, 0, 1.
        let weight = [0., 0., 0., 1., 2., 3., 0., 0., 0., 0., 0., 0., -1., 0., 1., 0., 0., 0.];
        let layer = Depthwise::new(Slide::padded(3, 1, 1), 2, &weight);
        let map = MapShape { samples: 2, height: 1, width: 3, channels: 2 };
        let x = [1., 1., 2., 10., 3., 100., 0., 0., 1., 1., 0., 0.];
        let mut out = [0.0; 12];
        layer.apply(&x, map, Finish::NONE, &mut out);
        assert_eq!(out, [8., 10., 14., 99., 8., -10., 3., 1., 2., 0., 1., -1.]);
    }
}
