//! Convolutions of maps whose channels come last.

use etalon_kernel::neural::{Filters, Finish, OUTSIDE, Window};
use rayon::prelude::*;

/// The shape of a map: a row of channels for every position of every sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Samples.
    pub samples: usize,
    /// Positions from top to bottom.
    pub height: usize,
    /// Positions from left to right.
    pub width: usize,
    /// Values per position.
    pub channels: usize,
}

impl MapShape {
    /// Positions of all samples.
    pub fn positions(&self) -> usize {
        self.samples * self.height * self.width
    }

    /// Values of all samples.
    pub fn values(&self) -> usize {
        self.positions() * self.channels
    }
}

/// How a window slides over a map, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slide {
    /// Lines and columns of the window.
    pub size: usize,
    /// From a window to the next.
    pub stride: usize,
    /// Lines and columns of zeros before the map.
    pub before: usize,
    /// Lines and columns of zeros after the map.
    pub after: usize,
}

impl Slide {
    /// The same padding before and after the map, as in PyTorch.
    pub const fn padded(size: usize, stride: usize, padding: usize) -> Slide {
        Slide { size, stride, before: padding, after: padding }
    }

    /// The padding `SAME` of TensorFlow for maps of this side: the result has `⌈side / stride⌉` positions, and an odd line
    /// of zeros is after the map.
    pub fn same(size: usize, stride: usize, side: usize) -> Slide {
        let covered = (side.div_ceil(stride).max(1) - 1) * stride + size;
        let padding = covered.saturating_sub(side);
        Slide { size, stride, before: padding / 2, after: padding - padding / 2 }
    }

    /// The shape of the result; `None` if the window is larger than the map.
    pub fn shape(&self, map: MapShape, channels: usize) -> Option<MapShape> {
        let side = |side: usize| {
            let free = (side + self.before + self.after).checked_sub(self.size)?;
            Some(free.checked_div(self.stride)? + 1)
        };
        Some(MapShape { height: side(map.height)?, width: side(map.width)?, channels, ..map })
    }

    /// The window over a map, for the kernels.
    pub(super) fn window(&self, map: MapShape, out: MapShape) -> Window {
        let Slide { size, stride, before, .. } = *self;
        Window { height: map.height, width: map.width, size, stride, before, out_width: out.width }
    }
}

/// The order of stored weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightOrder {
    /// Output, input, line, column: PyTorch.
    OutputFirst,
    /// Line, column, input, output: TensorFlow and JAX.
    OutputLast,
}

/// A convolution.
#[derive(Clone, Debug)]
pub struct Conv {
    slide: Slide,
    filters: Filters,
    bias: Option<Vec<f32>>,
}

/// With fewer channels, a tap is a whole line of the window: the maps are padded first.
const FEW_CHANNELS: usize = 16;

/// Most output positions of a task: their runs and a block of weights fit the second-level cache.
const MOST_POSITIONS: usize = 96;

/// Fewest output positions of a task.
const FEWEST_POSITIONS: usize = 12;

/// The number of tasks is a multiple of this, so that threads have equal parts of a small map.
const TASKS: usize = 8;

impl Conv {
    /// A convolution from `from` to `to` channels.
    pub fn new(
        slide: Slide,
        [from, to]: [usize; 2],
        weight: &[f32],
        order: WeightOrder,
        bias: Option<Vec<f32>>,
    ) -> Conv {
        let area = slide.size * slide.size;
        debug_assert_eq!(weight.len(), area * from * to);
        // The inner index is (line · size + column) · from + input, however it is divided into taps and runs.
        let taps = if from < FEW_CHANNELS { slide.size } else { area };
        let filters = Filters::pack(taps, area / taps.max(1) * from, to, |index, column| match order {
            WeightOrder::OutputFirst => weight[(column * from + index % from) * area + index / from],
            WeightOrder::OutputLast => weight[index * to + column],
        });
        Conv { slide, filters, bias }
    }

    /// The shape of the result; `None` if the window is larger than the map.
    pub fn shape(&self, map: MapShape) -> Option<MapShape> {
        self.slide.shape(map, self.filters.columns())
    }

    /// The bias.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// Values that [`Conv::apply`] allocates: maps with few channels are padded.
    pub fn scratch(&self, map: MapShape) -> usize {
        if self.pads() { self.padded(map).values() } else { 0 }
    }

    fn pads(&self) -> bool {
        self.filters.taps() < self.slide.size * self.slide.size
    }

    fn padded(&self, map: MapShape) -> MapShape {
        let more = self.slide.before + self.slide.after;
        MapShape { height: map.height + more, width: map.width + more, ..map }
    }

    /// Computes the result in tasks of some positions. `finish` is applied, in addition to the bias.
    pub fn apply(&self, x: &[f32], map: MapShape, finish: Finish<'_>, out: &mut [f32]) {
        let Some(to) = self.shape(map) else { return };
        let finish = Finish { bias: self.bias(), ..finish };
        let (copy, source);
        let (x, map, before) = if self.pads() {
            (copy, source) = (self.pad(x, map), self.padded(map));
            (&copy[..], source, 0)
        } else {
            (x, map, self.slide.before)
        };
        let columns = self.filters.columns();
        let tasks = to.positions().div_ceil(TASKS * MOST_POSITIONS) * TASKS;
        let positions = to.positions().div_ceil(tasks.max(1)).max(FEWEST_POSITIONS);
        out.par_chunks_mut(positions * columns).enumerate().for_each_init(Vec::new, |starts, (task, out)| {
            let rows = task * positions..task * positions + out.len() / columns;
            self.starts(map, to, before, rows.clone(), starts);
            self.filters.apply(x, starts, &finish.of_rows(rows, columns), out);
        });
    }

    /// Where the runs of some output positions start.
    fn starts(
        &self,
        map: MapShape,
        to: MapShape,
        before: usize,
        rows: std::ops::Range<usize>,
        starts: &mut Vec<usize>,
    ) {
        let Slide { size, stride, .. } = self.slide;
        let (columns, area) = (self.filters.taps() / size.max(1), to.height * to.width);
        starts.clear();
        for (line, column) in (0..size).flat_map(|line| (0..columns).map(move |column| (line, column))) {
            let starts_of_tap = rows.clone().map(|position| {
                let (sample, place) = (position / area, position % area);
                let y = (place / to.width * stride + line).checked_sub(before).filter(|y| *y < map.height);
                let x = (place % to.width * stride + column).checked_sub(before).filter(|x| *x < map.width);
                match (y, x) {
                    (Some(y), Some(x)) => ((sample * map.height + y) * map.width + x) * map.channels,
                    _ => OUTSIDE,
                }
            });
            starts.extend(starts_of_tap);
        }
    }

    /// The maps with their zeros.
    fn pad(&self, x: &[f32], map: MapShape) -> Vec<f32> {
        let to = self.padded(map);
        let (line, to_line) = (map.width * map.channels, to.width * to.channels);
        let mut out = vec![0.0; to.values()];
        let samples = out.par_chunks_mut(to.height * to_line).zip(x.par_chunks(map.height * line));
        samples.for_each(|(out, x)| {
            let lines = out.chunks_exact_mut(to_line).skip(self.slide.before).zip(x.chunks_exact(line));
            lines.for_each(|(out, x)| out[self.slide.before * map.channels..][..line].copy_from_slice(x));
        });
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 317.0 - 1.5).collect()
    }

    /// The definition, with weights in the order of PyTorch.
    fn plain(slide: Slide, weight: &[f32], x: &[f32], map: MapShape, to: MapShape) -> Vec<f32> {
        let mut out = Vec::new();
        for position in 0..to.positions() {
            let (sample, y, column) =
                (position / (to.height * to.width), position / to.width % to.height, position % to.width);
            for unit in 0..to.channels {
                let mut sum = 0.0f64;
                for (index, weight) in
                    weight.chunks_exact(map.channels * slide.size * slide.size).nth(unit).unwrap().iter().enumerate()
                {
                    let (input, tap) = (index / (slide.size * slide.size), index % (slide.size * slide.size));
                    let line = (y * slide.stride + tap / slide.size).wrapping_sub(slide.before);
                    let place = (column * slide.stride + tap % slide.size).wrapping_sub(slide.before);
                    if line < map.height && place < map.width {
                        let at = ((sample * map.height + line) * map.width + place) * map.channels + input;
                        sum += f64::from(*weight) * f64::from(x[at]);
                    }
                }
                out.push(sum as f32);
            }
        }
        out
    }

    #[test]
    fn shapes_agree_with_the_definition() {
        let cases =
            [(3, 7, 2, 3, 3, 20), (18, 3, 1, 1, 1, 16), (17, 1, 2, 0, 0, 5), (3, 3, 2, 0, 1, 32), (16, 5, 3, 2, 1, 7)];
        for (from, size, stride, before, after, to) in cases {
            let map = MapShape { samples: 3, height: 9, width: 11, channels: from };
            let slide = Slide { size, stride, before, after };
            let (weight, x) = (numbers(1, to * from * size * size), numbers(2, map.values()));
            let conv = Conv::new(slide, [from, to], &weight, WeightOrder::OutputFirst, None);
            let shape = conv.shape(map).unwrap();
            let mut out = vec![0.0; shape.values()];
            conv.apply(&x, map, Finish::NONE, &mut out);
            let expected = plain(slide, &weight, &x, map, shape);
            assert!(out.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 2e-3), "{slide:?} {from} {to}");
            // A sample alone, and the other order of weights, have the same bits.
            let alone = MapShape { samples: 1, ..map };
            let mut second = vec![0.0; shape.values() / 3];
            conv.apply(&x[alone.values()..2 * alone.values()], alone, Finish::NONE, &mut second);
            assert_eq!(second, out[second.len()..2 * second.len()]);
            let area = size * size;
            let last: Vec<f32> =
                (0..area * from * to).map(|i| weight[(i % to * from + i / to % from) * area + i / to / from]).collect();
            let conv = Conv::new(slide, [from, to], &last, WeightOrder::OutputLast, None);
            let mut again = vec![0.0; shape.values()];
            conv.apply(&x, map, Finish::NONE, &mut again);
            assert_eq!(again, out);
        }
    }

    #[test]
    fn paddings() {
        assert_eq!(Slide::same(3, 2, 224), Slide { size: 3, stride: 2, before: 0, after: 1 });
        assert_eq!(Slide::same(5, 2, 15), Slide { size: 5, stride: 2, before: 2, after: 2 });
        assert_eq!(Slide::same(1, 1, 7), Slide::padded(1, 1, 0));
        let map = MapShape { samples: 1, height: 2, width: 9, channels: 1 };
        assert_eq!(Slide::padded(3, 2, 0).shape(map, 4), None);
        assert_eq!(Slide::padded(3, 2, 1).shape(map, 4), Some(MapShape { height: 1, width: 5, channels: 4, ..map }));
    }
}
