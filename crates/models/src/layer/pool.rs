//! Pooling of maps.

use etalon_kernel::neural::{self, Finish};
use rayon::prelude::*;

use super::conv::{MapShape, Slide};
use super::depthwise::Depthwise;

/// Reduces the size of a map, channel by channel.
#[derive(Clone, Debug)]
pub enum Pool {
    /// The largest value of a window. Positions outside of the map do not count.
    Max(Slide),
    /// `√(Σ w x² + 1e-12)` with the weights of a 3 × 3 Hann window, every second position: the pooling of DISTS.
    Root(Depthwise),
}

/// Lines of the result per task.
const LINES: usize = 4;

impl Pool {
    /// The pooling of DISTS.
    pub fn root(channels: usize) -> Pool {
        // (½, 1, ½) times its transpose, divided by the sum of 4.
        let window = [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0].map(|weight: f32| weight / 16.0);
        Pool::Root(Depthwise::new(Slide::padded(3, 2, 1), channels, &window.repeat(channels)))
    }

    /// The shape of the result; `None` if the window is larger than the map.
    pub fn shape(&self, map: MapShape) -> Option<MapShape> {
        match self {
            Pool::Max(slide) => slide.shape(map, map.channels),
            Pool::Root(weights) => weights.shape(map),
        }
    }

    /// Values that [`Pool::apply`] allocates.
    pub fn scratch(&self, map: MapShape) -> usize {
        match self {
            Pool::Max(_) => 0,
            Pool::Root(_) => map.values(),
        }
    }

    /// Computes the result.
    pub fn apply(&self, x: &[f32], map: MapShape, out: &mut [f32]) {
        match self {
            Pool::Max(slide) => largest(*slide, x, map, out),
            Pool::Root(weights) => {
                let mut squares = vec![0.0; x.len()];
                let size = (map.width * map.channels).max(1);
                squares.par_chunks_mut(size).zip(x.par_chunks(size)).for_each(|(out, x)| neural::squares(x, out));
                weights.apply(&squares, map, Finish::NONE, out);
                out.par_chunks_mut(size).for_each(|out| neural::roots(out, 1e-12));
            }
        }
    }
}

fn largest(slide: Slide, x: &[f32], map: MapShape, out: &mut [f32]) {
    let Some(to) = slide.shape(map, map.channels) else { return };
    let window = slide.window(map, to);
    let (sample, line) = (map.values() / map.samples.max(1), to.width * to.channels);
    out.par_chunks_mut(to.height * line).zip(x.par_chunks(sample)).for_each(|(out, x)| {
        out.par_chunks_mut(LINES * line).enumerate().for_each(|(band, out)| {
            neural::max_pool(x, window, map.channels, band * LINES, out);
        });
    });
}

/// The mean over the positions of every sample.
pub fn mean_positions(x: &[f32], map: MapShape, out: &mut [f32]) {
    let sample = map.values() / map.samples.max(1);
    out.par_chunks_mut(map.channels.max(1))
        .zip(x.par_chunks(sample.max(1)))
        .for_each(|(out, x)| neural::mean_rows(x, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_by_hand() {
        let map = MapShape { samples: 2, height: 2, width: 2, channels: 1 };
        let x = [1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0];
        let mut out = [0.0; 2];
        Pool::Max(Slide::padded(2, 2, 0)).apply(&x, map, &mut out);
        assert_eq!(out, [4.0, -1.0]);
        mean_positions(&x, map, &mut out);
        assert_eq!(out, [2.5, -2.5]);
        // One position: (4 · 1 + 2 · 4 + 2 · 9 + 16) / 16 = 46 / 16.
        Pool::root(1).apply(&x, map, &mut out);
        assert!(out.iter().all(|value| (value - (46.0f32 / 16.0).sqrt()).abs() < 1e-6));
    }
}
